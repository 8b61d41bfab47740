//! The guide's frame service: if either side is killed, the other gets its buffers back and continues.

use rustix::process::{Pid, Signal, kill_process};
use tombolo_e2e::{Machine, MachineFile, Running, built};

/// Returns the process id of the domain on the host that started last.
fn youngest(machine: &Machine) -> i32 {
    let number = |id: &str| id.rsplit('.').next().and_then(|it| it.parse::<u32>().ok()).expect("an id");
    let started = machine.domains_on("host");
    started.iter().max_by_key(|(id, _)| number(id)).expect("a domain").1
}

fn start(machine: &Machine, words: &[&str]) -> Running {
    let program = built("edges").display().to_string();
    machine.start(["run", "--on", "host", &program].iter().chain(words))
}

#[test]
fn frames_in_flight_outlive_the_server() {
    let machine = Machine::up(&MachineFile::host());
    let server = start(&machine, &["serve"]);
    server.wait_for("serving on host");
    let pid = youngest(&machine);
    let client = start(&machine, &["send", "2000"]);
    client.wait_for("100 frames answered");
    // A stopped server does not answer, so the maximum number of frames is in flight.
    kill_process(Pid::from_raw(pid).expect("not 0"), Signal::STOP).expect("a server to stop");
    client.wait_for("3 frames in flight");
    machine.kill(pid);
    assert_eq!(server.finish().status, 137);
    client.wait_for("open a new channel once it is back");
    let next = start(&machine, &["serve"]);
    let said = client.finish().ok();
    assert!(said.contains("; 3 frames in flight are recovered"), "{said}");
    assert!(said.contains("2000 frames answered, 3 of them sent again"), "{said}");
    // The client closes its channel, which does not count as a death.
    next.wait_for("4 of 4 buffers are free after client");
    next.signal(Signal::TERM);
    assert_ne!(next.finish().status, 0);
    machine.down();
}

#[test]
fn server_reclaims_buffers_of_dead_client() {
    let machine = Machine::up(&MachineFile::host());
    let server = start(&machine, &["serve"]);
    server.wait_for("serving on host");
    let client = start(&machine, &["send", "1000000"]);
    client.wait_for("100 frames answered");
    let pid = youngest(&machine);
    machine.kill(pid);
    assert_eq!(client.finish().status, 137);
    server.wait_for("4 of 4 buffers are free after client");
    // The next client is served from the same pool.
    let said = start(&machine, &["send", "300"]).finish().ok();
    assert!(said.contains("300 frames answered, 0 of them sent again"), "{said}");
    server.signal(Signal::TERM);
    assert_ne!(server.finish().status, 0);
    machine.down();
}
