//! Machines come up, say how they are, go down, and leave nothing.

use std::time::Duration;

use rustix::process::Signal;
use tombolo_e2e::{Machine, MachineFile, leftovers};

fn duo() -> MachineFile {
    MachineFile::host().with_vm("arm0", "")
}

fn users() -> MachineFile {
    MachineFile::host()
        .with_user("arm-user", "aarch64")
        .with_user("riscv-user", "riscv64")
        .with_user("s390x-user", "s390x")
}

#[test]
fn a_host_with_an_arm_machine_comes_up_and_goes_down() {
    let machine = Machine::up(&duo());
    let status = machine.tombolo(["status"]).ok();
    for word in ["host", "arm0", "vm", "aarch64", "window", "up"] {
        assert!(status.contains(word), "no {word} in\n{status}");
    }
    let arm0 = machine.node("arm0");
    assert_eq!(arm0["state"], "up", "{arm0}");
    assert_eq!(arm0["generation"], 1, "{arm0}");
    assert!(arm0["cores"].as_u64() >= Some(1), "{arm0}");

    let again = machine.tombolo(["up".as_ref(), machine.file().as_os_str()]);
    again.fails_with(1, &["is up already", "tombolo down"]);
    assert_eq!(machine.node("arm0")["state"], "up", "a second `up` disturbs nothing");

    let name = machine.name().to_owned();
    assert!(!leftovers::sockets(&name).is_empty(), "the socket that `down` must remove is there");
    assert!(!machine.processes("qemu-system").is_empty(), "processes of the machine are found");
    machine.down();
}

#[test]
fn a_machine_of_foreign_programs_comes_up_and_goes_down() {
    let machine = Machine::up(&users());
    for (node, isa) in [("arm-user", "aarch64"), ("riscv-user", "riscv64"), ("s390x-user", "s390x")] {
        let found = machine.node(node);
        assert_eq!((found["state"].as_str(), found["isa"].as_str()), (Some("up"), Some(isa)), "{found}");
    }
    machine.down();
}

#[test]
fn two_machines_are_up_at_once() {
    let (first, second) = (Machine::up(&duo()), Machine::up(&duo()));
    let all = first.json(&["status"]);
    assert_eq!(all["machines"].as_array().map(Vec::len), Some(1), "one was asked for: {all}");
    let mut everything = first.command();
    everything.env_remove("TOMBOLO_MACHINE").args(["status", "--json"]);
    let listed = String::from_utf8(everything.output().expect("it runs").stdout).expect("text");
    assert!(listed.contains(first.name()) && listed.contains(second.name()), "{listed}");
    let mut unclear = first.command();
    let unclear = unclear.env_remove("TOMBOLO_MACHINE").arg("ps").output().expect("it runs");
    let said = String::from_utf8_lossy(&unclear.stderr).into_owned();
    assert!(!unclear.status.success() && said.contains("several machines are up"), "{said}");
    first.down();
    assert_eq!(second.node("arm0")["state"], "up");
    second.down();
}

#[test]
fn what_is_not_up_cannot_be_taken_down() {
    let machine = Machine::new(&MachineFile::host());
    for command in ["down", "status", "ps", "names"] {
        machine.tombolo([command]).fails_with(1, &[machine.name(), "is not up"]);
    }
    machine.tombolo(["run", "/bin/true"]).fails_with(1, &[machine.name(), "is not up"]);
}

#[test]
fn a_machine_comes_up_again_under_its_name() {
    let mut machine = Machine::new(&users());
    for _ in 0..3 {
        machine.bring_up();
        machine.tombolo(["down"]).ok();
        // `down` returns when all is gone: the name is free at once.
    }
    machine.bring_up();
    machine.down();
}

#[test]
fn what_nodes_are_made_of_is_missed_by_name() {
    let machine = Machine::new(&MachineFile::host().with_vm("arm0", "emulator = \"/nonexistent/qemu\""));
    let up = |machine: &Machine| machine.tombolo(["up".as_ref(), machine.file().as_os_str()]);
    up(&machine).fails_with(1, &["arm0", "/nonexistent/qemu"]);
    machine.has_ended();

    let machine = Machine::new(&duo());
    let mut command = machine.command();
    command.arg("up").arg(machine.file()).env("TOMBOLO_KIT", "/nonexistent");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("arm0") && said.contains("kit"), "{said}");
    machine.has_ended();
}

#[test]
fn a_node_that_does_not_start_takes_the_machine_down() {
    let machine = Machine::new(&users().with_vm("arm0", "emulator = \"/bin/false\""));
    let up = machine.tombolo(["up".as_ref(), machine.file().as_os_str()]);
    up.fails_with(1, &["node arm0 did not come up", "exited with status 1"]);
    machine.has_ended();
}

#[test]
fn mistakes_in_a_machine_file_are_shown_at_their_lines() {
    let machine = Machine::new(&MachineFile::host().with_vm("arm0", "memroy_mib = 3"));
    let up = machine.tombolo(["up".as_ref(), machine.file().as_os_str()]);
    up.fails_with(1, &["machine.toml:", "memroy_mib", "did you mean"]);
    machine.tombolo(["up", "/nonexistent.toml"]).fails_with(1, &["/nonexistent.toml"]);
    machine.has_ended();
}

#[test]
fn ctrl_c_while_it_comes_up_takes_it_down_again() {
    for pause_ms in [0, 100, 400, 1000] {
        let machine = Machine::new(&duo());
        let up = machine.start(["up".as_ref(), machine.file().as_os_str()]);
        std::thread::sleep(Duration::from_millis(pause_ms));
        up.signal(Signal::INT);
        let finished = up.finish();
        if finished.status == 0 {
            // It was up before the signal came.
            machine.tombolo(["down"]).ok();
        } else {
            assert_eq!(finished.status, 130, "{finished}");
        }
        machine.has_ended();
    }
}
