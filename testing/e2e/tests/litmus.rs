//! Shared memory between the host and nodes of every kind satisfies the protocols' assumptions, and `tombolo
//! litmus` detects memory that does not.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use tombolo_e2e::{Finished, Machine, MachineFile, eventually, image};

fn run(machine: &Machine, node: &str) -> Finished {
    let image = image("litmus").display().to_string();
    machine.tombolo(["run", "--on", &format!("host,{node}"), &image])
}

fn assert_sound(machine: &Machine, node: &str) {
    let said = run(machine, node).ok();
    assert!(said.contains("0 of 400000 lost") && said.contains(&format!("with {node}")), "{said}");
}

#[test]
fn boards_are_sound() {
    let file = MachineFile::host().with_board("arm", "aarch64", "").with_board("riscv", "riscv64", "");
    let machine = Machine::up(&file);
    assert_sound(&machine, "arm");
    assert_sound(&machine, "riscv");
    machine.down();
}

#[test]
fn foreign_programs_on_this_kernel_are_sound() {
    let nodes = ["aarch64", "riscv64", "s390x"];
    let file =
        nodes.iter().fold(MachineFile::host(), |file, isa| file.with_user(&format!("{isa}-user"), isa));
    let machine = Machine::up(&file);
    nodes.iter().for_each(|isa| assert_sound(&machine, &format!("{isa}-user")));
    machine.down();
}

#[test]
fn a_virtual_machine_is_sound() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    assert_sound(&machine, "arm0");
    machine.down();
}

#[test]
fn one_command_tests_every_node() {
    let machine = Machine::up(&MachineFile::host_board_and_user());
    let said = machine.tombolo(["litmus", "--rounds", "4000", "--seconds", "60"]).ok();
    for node in ["host", "bare0", "s390x-user"] {
        assert!(said.lines().any(|line| line.starts_with(node) && line.contains("sound")), "{said}");
    }
    let report = machine.json(&["litmus", "--rounds", "4000", "--seconds", "60", "--on", "bare0"]);
    let nodes = report["nodes"].as_array().expect("nodes");
    assert_eq!((nodes.len(), &nodes[0]["verdict"]), (1, &"sound".into()), "{report}");
    assert_eq!((&nodes[0]["additions"], &nodes[0]["lost"]), (&8000.into(), &0.into()), "{report}");
    let machine_domains = machine.domains_on("host");
    assert!(machine_domains.is_empty(), "{machine_domains:?} are left");
    machine.tombolo(["litmus", "--on", "mars"]).fails_with(1, &["no node 'mars'"]);
    machine.tombolo(["litmus", "--rounds", "3"]).fails_with(2, &["3"]);
    machine.tombolo(["litmus", "--image", "/nonexistent.tbi"]).fails_with(2, &["/nonexistent.tbi"]);
    machine.down();
}

/// A node without shared memory has nothing to test, and one that is down is reported, not hidden.
#[test]
fn litmus_reports_what_it_cannot_test() {
    let file = MachineFile::host().with_user("far", "s390x").with_socket("host", "far");
    let machine = Machine::up(&file);
    let report = machine.json(&["litmus", "--on", "far"]);
    assert_eq!(report["nodes"][0]["verdict"], "unshared", "{report}");
    machine.kill(machine.pid_of("far"));
    let down = eventually(|| machine.node("far")["state"] != "up");
    assert!(down, "the node is noticed to be gone");
    machine.tombolo(["litmus", "--rounds", "4000"]).fails_with(1, &["far could not be tested"]);
    machine.down();
}

/// An incomplete run is never reported as sound, and the missing tests are named.
#[test]
fn interrupted_litmus_test_is_reported() {
    let machine = Machine::up(&MachineFile::host().with_user("far", "riscv64"));
    // No two processors pass a cache line back and forth that often in a second.
    let words = ["litmus", "--rounds", "30000000", "--seconds", "1", "--on", "far"];
    let short = machine.tombolo(words.into_iter().chain(["--json"]));
    short.fails_with(3, &["far was not tested to the end", "of 30000000 rounds", "--seconds"]);
    let report: serde_json::Value = serde_json::from_slice(&short.stdout).expect("JSON");
    assert_eq!(report["nodes"][0]["verdict"], "partial", "{report}");

    let long = ["litmus", "--rounds", "100000000", "--seconds", "3600"];
    let runs_on = |node: &str| eventually(|| !machine.domains_on(node).is_empty());
    let interrupted = machine.start(long.into_iter().chain(["--on", "host,far"]));
    assert!(runs_on("host"), "it runs");
    interrupted.signal(Signal::INT);
    let said = interrupted.finish();
    said.fails_with(130, &["far could not be tested: this was told to stop", "host could not be tested"]);
    let table = String::from_utf8_lossy(&said.stdout);
    assert_eq!(table.lines().filter(|line| line.contains("not tested")).count(), 2, "{said}");
    assert!(eventually(|| machine.domains_on("host").is_empty()), "its programs are gone with it");

    let killed = machine.start(long.into_iter().chain(["--on", "far"]));
    assert!(runs_on("far"), "it runs");
    machine.kill(machine.pid_of("far"));
    killed.finish().fails_with(1, &["far could not be tested"]);
    machine.down();
}

/// Deliberately wrong emulator settings: a board that can only ever have one processor.
#[test]
fn wrong_emulator_setting_is_detected() {
    let script = std::env::temp_dir().join(format!("tombolo-one-processor-{}", std::process::id()));
    let text = "#!/bin/sh\nfor word; do shift; [ \"$word\" = 1,maxcpus=2 ] && word=1; set -- \"$@\" \"$word\"; done\n\
                exec qemu-system-aarch64 \"$@\"\n";
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    let emulator = format!("emulator = \"{}\"", script.display());
    let machine = Machine::up(&MachineFile::host().with_board("wrong", "aarch64", &emulator));
    // On a busy host the two may rarely run at the same time, and then no reordering can occur between them.
    let seen = |test: &dyn Fn() -> Finished| {
        let tries = (0..20).map(|_| test());
        tries.into_iter().find(|finished| finished.status == 1).expect("one of twenty runs sees it")
    };
    seen(&|| run(&machine, "wrong")).fails_with(1, &["cannot be trusted", "maxcpus=2"]);
    let found = seen(&|| machine.tombolo(["litmus", "--on", "wrong", "--json"]));
    found.fails_with(1, &["between host and wrong cannot be trusted", "maxcpus=2"]);
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!(report["nodes"][0]["verdict"], "unsound", "{report}");
    machine.down();
    std::fs::remove_file(&script).expect("it is ours");
}
