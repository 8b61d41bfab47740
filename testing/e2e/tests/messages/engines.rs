//! Engines on a real machine: which one is chosen and why, and the cache of measurements in the machine.

use std::time::Duration;

use serde_json::Value;
use tombolo::Domain;
use tombolo_copies::engines::{
    Access, CopyServer, Deadline, Engines, Location, Manager, Offers, Request, SharedMemory, far_engine,
};
use tombolo_e2e::{Machine, MachineFile, eventually};

fn explain(machine: &Machine, size: &str) -> Value {
    machine.json(&["bulk", "explain", "--from", "host", "--to", "host", "--size", size])
}

#[test]
fn measured_costs_live_as_long_as_the_machine() {
    let machine = Machine::up(&MachineFile::host());
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    let kept = || domain.names().find("copy.costs/*").expect("names");
    assert!(kept().is_empty(), "nobody asked yet");
    let first = explain(&machine, "1MiB");
    let records = kept();
    assert!(records.iter().any(|record| record.name == "copy.costs/host/caller"), "{records:?}");
    assert!(records.iter().all(|record| record.owner.is_none()), "they outlive who measured");
    // Other domains do not measure again.
    assert_eq!(explain(&machine, "1MiB"), first);
    machine.down();
}

#[test]
fn the_choice_is_explained_for_people_and_machines() {
    let machine = Machine::up(&MachineFile::host());
    let said = explain(&machine, "64");
    let ways = said["ways"].as_array().expect("a list");
    let time = |way: &Value| way["time_ns"].as_u64();
    assert!(time(&ways[0]).is_some(), "{said}");
    assert!(ways.iter().filter_map(time).collect::<Vec<_>>().is_sorted(), "{said}");
    let engine = ways[0]["engine"].as_str().expect("a name");
    assert!(engine.starts_with("caller"), "waking anybody takes longer than 64 bytes: {said}");
    assert!(ways.iter().any(|way| way["engine"] == "attach" && way["refused"].is_string()), "{said}");
    let text = machine.tombolo(["bulk", "explain", "--from", "host", "--to", "host", "--size", "64"]).ok();
    assert!(text.contains("chosen: caller") && text.contains("measured"), "{text}");
    let nowhere = ["bulk", "explain", "--from", "host", "--to", "moon", "--size", "64"];
    machine.tombolo(nowhere).fails_with(1, &["this machine has no node 'moon'; it has host"]);
    machine
        .tombolo(["bulk", "explain", "--from", "host", "--to", "host", "--size", "1.5K"])
        .fails_with(2, &["64KiB"]);
    machine.down();
}

#[test]
fn invalid_cost_record_is_ignored() {
    let machine = Machine::up(&MachineFile::host());
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    for text in ["rubbish", "", "64:1 64"] {
        let record =
            tombolo::names::NewRecord::new("copy.costs/host/caller").with("mapped-mapped", text).persistent();
        domain.names().set(&record).expect("any program may");
        let mut engines = Engines::new(&domain).expect("engines");
        let (source, target) = (SharedMemory::zeroed(8192), SharedMemory::zeroed(8192));
        source.copy_in(0, &[7; 8192]).expect("room");
        engines
            .submit(&Request::copy(Location::mapped(&source), Location::mapped(&target), 8192))
            .expect("an engine");
        assert!(eventually(|| engines.take().is_some_and(|(_, completion)| completion.result == Ok(()))));
        let mut bytes = [0; 8192];
        target.copy_out(0, &mut bytes).expect("room");
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
    machine.down();
}

#[test]
fn peer_of_a_channel_can_copy() {
    let machine = Machine::up(&MachineFile::host());
    let attach = || Domain::attach_to_machine(machine.name()).expect("the machine is up");
    let (source, target) = (SharedMemory::zeroed(100_000), SharedMemory::zeroed(100_000));
    source.copy_in(0, &[7; 100_000]).expect("room");
    let mut offers = Offers::new();
    let memory = offers.offer(target.clone(), Access::Both).expect("room for one");
    let listener = attach().export("copies").expect("the name is free");
    let server = std::thread::spawn(move || {
        let mut server = CopyServer::new(listener.accept().expect("it connects"), offers);
        server.serve(Deadline::after(Duration::from_secs(60))).expect("it closes its end in order")
    });
    let channel = attach().connect("copies").expect("it is exported");
    let mut manager = Manager::new();
    manager.add(Box::new(far_engine(channel, 4).expect("a thread"))).expect("an engine");
    let far = Location::Far { memory, offset_bytes: 0 };
    let ticket = manager.submit(&Request::copy(Location::mapped(&source), far, 100_000)).expect("accepted");
    let mut done = None;
    assert!(eventually(|| {
        done = manager.take();
        done.is_some()
    }));
    let (ended, completion) = done.expect("it ended");
    assert_eq!((ended, completion.result), (ticket, Ok(())));
    let mut bytes = vec![0; 100_000];
    target.copy_out(0, &mut bytes).expect("room");
    assert!(bytes.iter().all(|byte| *byte == 7));
    drop(manager);
    assert!(server.join().expect("no panic") > 0);
    machine.down();
}
