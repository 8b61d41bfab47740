//! Programs started with capabilities to parts of memory, to pools and to services.

use tombolo_e2e::{Machine, MachineFile, actor_image, eventually};

fn assert_nothing_left(machine: &Machine) {
    let regions = || machine.json(&["regions"])["regions"].as_array().is_some_and(Vec::is_empty);
    assert!(eventually(regions), "regions and services are gone");
}

#[test]
fn a_program_is_started_with_capabilities_that_are_taken_back() {
    let machine = Machine::up(&MachineFile::host());
    let said = machine.actor("host", &["given", "host", "memory:host"]).ok();
    assert!(said.contains("given and taken back"), "{said}");
    assert_nothing_left(&machine);
    machine.down();
}

#[test]
fn programs_of_all_kinds_of_nodes_are_started_with_capabilities() {
    // The image for all nodes, even for a starter on the host: its children run on other nodes.
    let image = actor_image().display().to_string();
    let file = MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x");
    let machine = Machine::up(&file);
    for (starter, child, place) in [
        ("host", "s390x-user", "memory:host"),
        ("s390x-user", "host", "memory:s390x-user"),
        ("host", "arm0", "window:arm0"),
        ("arm0", "host", "window:arm0"),
        ("arm0", "s390x-user", "window:arm0"),
        ("arm0", "arm0", "memory:arm0"),
    ] {
        let said = machine.tombolo(["run", "--on", starter, &image, "given", child, place]).ok();
        assert!(said.contains("given and taken back"), "{place} from {starter} to {child}: {said}");
        assert_nothing_left(&machine);
    }
    assert!(eventually(|| machine.node("arm0")["window_used_bytes"] == 0));
    machine.down();
}
