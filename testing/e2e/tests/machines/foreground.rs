//! `tombolo up --foreground`: a machine as seen by a supervisor.

use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;
use tombolo_e2e::{Machine, MachineFile, PATIENCE, Running, eventually};

/// Starts a machine in the foreground and waits until it reports that it is up.
fn start_foreground(file: &MachineFile) -> (Machine, Running) {
    start_foreground_with(file, &[])
}

fn start_foreground_with(file: &MachineFile, options: &[&str]) -> (Machine, Running) {
    let machine = Machine::new(file);
    let socket = machine.folder().join("notify");
    let supervisor = UnixDatagram::bind(&socket).expect("a socket");
    supervisor.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let mut up = machine.command();
    up.args(["up", "--foreground"]).args(options).arg(machine.file()).env("NOTIFY_SOCKET", &socket);
    let running = Running::start(&mut up);
    let mut state = [0; 64];
    let length = supervisor.recv(&mut state).expect("it says that the machine is up");
    assert_eq!(&state[..length], b"READY=1");
    machine.tombolo(["status"]).ok();
    (machine, running)
}

#[test]
fn signal_shuts_machine_down_without_failure() {
    for signal in [Signal::TERM, Signal::INT] {
        let (machine, running) = start_foreground(&MachineFile::host());
        running.signal(signal);
        running.finish().ok();
        machine.has_ended();
    }
}

#[test]
fn the_end_of_its_input_takes_the_machine_down() {
    let (machine, mut running) =
        start_foreground_with(&MachineFile::host().with_user("arm", "aarch64"), &["--until-eof"]);
    machine.tombolo(["up", "--until-eof"]).fails_with(2, &["--foreground"]);
    drop(running.stdin());
    running.finish().ok();
    machine.has_ended();
}

/// Killed while it brings the machine up and while it measures.
#[test]
fn killed_benchmark_takes_its_machine_down() {
    for measures in [false, true] {
        let machine = Machine::new(&MachineFile::host().with_vm("arm0", ""));
        let mut command = machine.command();
        let words = ["bench", "compute", "--slice-ms=60000", "--up"];
        let running = Running::start(command.args(words).arg(machine.file()));
        let wanted = if measures { "figures" } else { "tombolod up" };
        assert!(eventually(|| !machine.processes(wanted).is_empty()), "{}", running.stdout_so_far());
        running.signal(Signal::KILL);
        let _ = running.finish();
        machine.has_ended();
    }
}

#[test]
fn foreground_up_succeeds_after_down() {
    let (machine, running) = start_foreground(&MachineFile::host().with_user("arm", "aarch64"));
    machine.tombolo(["down"]).ok();
    running.finish().ok();
    machine.has_ended();
}

#[test]
fn a_machine_whose_monitor_dies_is_a_failure() {
    let (machine, running) = start_foreground(&MachineFile::host());
    let root = machine.processes("serve");
    assert_eq!(root.len(), 1, "{root:?}");
    machine.kill(root[0]);
    running.finish().fails_with(1, &[machine.name(), "its monitor failed"]);
    machine.has_ended();
}
