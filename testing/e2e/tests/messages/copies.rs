//! Copy services: concurrent clients on unlike nodes, a client killed while it copies, and no leftovers.

use rustix::process::Signal;
use tombolo_e2e::{Machine, MachineFile, eventually};

fn regions(machine: &Machine) -> usize {
    machine.json(&["regions"])["regions"].as_array().map_or(0, Vec::len)
}

#[test]
fn concurrent_clients_copy_and_killed_one_leaks_nothing() {
    let machine = Machine::up(&MachineFile::host().with_user("big", "s390x").with_user("arm", "aarch64"));
    let service = machine.start(["copies", "--on", "host,big"]);
    service.wait_for("ready: copies/host");
    service.wait_for("ready: copies/big");
    let again = machine.tombolo(["copies", "--on", "host"]);
    again.fails_with(1, &["copies/host"]);
    // Three concurrent clients of three instruction sets, one of which dies with copies in flight.
    let held = machine.start_actor("arm", &["copies-hold", "host", "memory:host"]);
    held.wait_for("holding");
    let (node, place) = ("host", "memory:host");
    let others: Vec<_> =
        ["host", "big"].map(|on| machine.start_actor(on, &["copies", node, place])).into_iter().collect();
    let [(_, victim)] = machine.domains_on("arm")[..] else { panic!("one program runs on arm") };
    machine.kill(victim);
    held.finish().fails_with(137, &["SIGKILL"]);
    for other in others {
        assert!(other.finish().ok().contains("copied"));
    }
    // A service of the other byte order, with a client of this one.
    assert!(machine.actor("host", &["copies", "big", "memory:host"]).ok().contains("copied"));
    assert!(eventually(|| regions(&machine) == 0), "what clients had registered is gone");
    let twice = machine.tombolo(["copies", "--on", "host,host"]);
    twice.fails_with(2, &["'host' is named twice"]);
    service.signal(Signal::INT);
    service.finish().fails_with(130, &[]);
    machine.down();
}

#[test]
fn a_service_copies_across_a_window_for_clients_on_both_sides() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let service = machine.start(["copies", "--on", "host,arm0"]);
    service.wait_for("ready: copies/host");
    service.wait_for("ready: copies/arm0");
    let jobs: Vec<_> = [("host", "arm0"), ("arm0", "host")]
        .map(|(on, node)| machine.start_actor(on, &["copies", node, "window:arm0"]))
        .into_iter()
        .collect();
    for job in jobs {
        assert!(job.finish().ok().contains("copied"));
    }
    let held = machine.start_actor("arm0", &["copies-hold", "host", "window:arm0"]);
    held.wait_for("holding");
    drop(service);
    held.finish().fails_with(1, &["host"]);
    assert!(eventually(|| machine.node("arm0")["window_used_bytes"] == 0), "the window is free");
    machine.down();
}
