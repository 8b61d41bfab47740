//! Machines come up, report their state, go down, and leave nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tombolo_e2e::{DEATH_IS_KNOWN, Machine, MachineFile, Running, eventually, leftovers, unsupported};

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
fn machine_that_is_not_up_cannot_be_taken_down() {
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
        // `down` returns when everything is gone, so the name is free immediately.
    }
    machine.bring_up();
    machine.down();
}

#[test]
fn missing_parts_of_nodes_are_named() {
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
    assert!(said.contains("arm0") && said.contains("TOMBOLO_KIT is /nonexistent"), "{said}");
    assert!(said.contains("or unset it"), "{said}");
    // An existing folder that is not a kit.
    let mut command = machine.command();
    command.arg("up").arg(machine.file()).env("TOMBOLO_KIT", machine.folder());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let named = format!("TOMBOLO_KIT is {}, which is not a kit", machine.folder().display());
    assert!(
        output.status.code() == Some(1) && said.contains(&named) && said.contains("or unset it"),
        "{said}"
    );
    machine.has_ended();
}

/// Starts `up` for a machine with a node that never comes up.
fn starting() -> (Machine, Running) {
    let machine = Machine::new(&MachineFile::host().with_vm("slow", "emulator = \"./slow\""));
    let emulator = machine.folder().join("slow");
    std::fs::write(&emulator, "#!/bin/sh\nexec sleep 1000\n").expect("a file");
    std::fs::set_permissions(&emulator, Permissions::from_mode(0o755)).expect("a file of ours");
    let up = machine.start(["up".as_ref(), machine.file().as_os_str()]);
    let status = || {
        let listed = machine.json(&["status"]);
        listed["machines"][0]["nodes"][1]["state"].as_str().map(str::to_owned)
    };
    let starting =
        || !leftovers::sockets(machine.name()).is_empty() && status().as_deref() == Some("starting");
    assert!(eventually(starting), "{:?}", status());
    (machine, up)
}

#[test]
fn killing_up_ends_the_starting_machine() {
    let (machine, up) = starting();
    up.signal(Signal::KILL);
    let since = Instant::now();
    assert_eq!(up.finish().status, 128 + 9);
    // A timeout for the node's start would end the machine much later.
    machine.has_ended();
    assert!(since.elapsed() < DEATH_IS_KNOWN, "it took {:?}", since.elapsed());
}

#[test]
fn a_node_that_is_up_is_restarted_by_force() {
    let machine = Machine::up(&MachineFile::host().with_user("riscv-user", "riscv64"));
    let (source, image) = (machine.folder().join("sleep.c"), machine.folder().join("sleep.tbi"));
    let text = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                int main(int argc, char **argv) { puts(\"sleeping\"); fflush(stdout); return sleep(atoi(argv[1])) != 0; }\n";
    std::fs::write(&source, text).expect("a file");
    let (source, image) = (source.to_str().expect("a path of text"), image.to_str().expect("a path of text"));
    machine.tombolo(["build", "--isa", "riscv64", source, "-o", image]).ok();
    let sleep = |seconds: &str| machine.start(["run", "--on", "riscv-user", image, seconds]);
    let job = sleep("1000");
    job.wait_for("sleeping");
    let advice = "`tombolo restart riscv-user --force` stops it first";
    machine.tombolo(["restart", "riscv-user"]).fails_with(1, &["node riscv-user is up", advice]);
    let refused = machine.tombolo(["restart", "host", "--force"]);
    refused.fails_with(1, &["node host is the host"]);
    machine.tombolo(["restart", "riscv-user", "--force"]).ok();
    job.finish().fails_with(1, &["was lost with its node", "restarted by force"]);
    assert_eq!(machine.node("riscv-user")["generation"], 2);
    assert!(machine.domains_on("riscv-user").is_empty());
    sleep("0").finish().ok();
    machine.down();
}

#[test]
fn a_machine_of_another_user_is_named_with_its_user() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return unsupported("only root can run a command as another user");
    }
    let machine = Machine::up(&MachineFile::host());
    let as_other = |words: &[&str], named: bool| {
        let mut command = machine.command();
        if !named {
            command.env_remove("TOMBOLO_MACHINE");
        }
        Running::start(command.args(words).uid(NOBODY)).finish()
    };
    let whose = format!("'{}' of user root", machine.name());
    let advice = "`sudo -u root tombolo …` runs a command as that user";
    as_other(&["ps"], true).fails_with(1, &[&whose, advice]);
    as_other(&["run", "/bin/true"], true).fails_with(1, &["is up for user 0 alone"]);
    let status = as_other(&["status"], false);
    assert!(status.stderr.contains("no machine is up for this user"), "{status}");
    // Other machines of this user may be up, more than the message lists.
    assert!(status.stderr.contains(" of user root") && status.stderr.contains(advice), "{status}");
    machine.down();
}

#[test]
fn unknown_node_is_status_1_for_every_command() {
    let machine = Machine::up(&MachineFile::host());
    let image = tombolo_e2e::host_actor();
    let image = image.to_str().expect("a path of text");
    for words in [
        &["run", "--on", "mars", image][..],
        &["run", "--on", "host,mars:2", image],
        &["mpirun", "--on", "mars", "/bin/true"],
        &["restart", "mars"],
        &["restart", "mars", "--force"],
        &["console", "mars"],
        &["litmus", "--on", "mars", "--image", image],
        &["bulk", "explain", "--from", "mars", "--to", "host", "--size", "1"],
        &["bulk", "explain", "--from", "host", "--to", "mars", "--size", "1"],
        &["names", "@mars/*"],
        &["names", "get", "@mars/x"],
        &["names", "set", "@mars/x"],
        &["names", "delete", "@mars/x"],
        &["names", "publish", "@mars/x"],
        &["names", "watch", "@mars/*"],
        &["names", "locks", "--node", "mars"],
        &["names", "lock", "@mars/x", "--", "true"],
        &["bench", "ring", "--on", "mars", "--image", image],
        &["bench", "mpi", "--on", "mars"],
    ] {
        machine.tombolo(words).fails_with(1, &["this machine has no node 'mars'; it has host"]);
    }
    machine.down();
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
    up.fails_with(2, &["machine.toml:", "memroy_mib", "did you mean"]);
    machine.tombolo(["up", "/nonexistent.toml"]).fails_with(2, &["/nonexistent.toml"]);
    machine.has_ended();
}

#[test]
fn ctrl_c_during_startup_takes_machine_down() {
    for pause_ms in [0, 100, 400, 1000] {
        let machine = Machine::new(&duo());
        let up = machine.start(["up".as_ref(), machine.file().as_os_str()]);
        std::thread::sleep(Duration::from_millis(pause_ms));
        up.signal(Signal::INT);
        let finished = up.finish();
        if finished.status == 0 {
            // The machine came up before the signal.
            machine.tombolo(["down"]).ok();
        } else {
            assert_eq!(finished.status, 130, "{finished}");
        }
        machine.has_ended();
    }
}
