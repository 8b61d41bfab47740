//! Bulk data between domains: moved, shared, passed on without a copy, and recovered after a death.

use tombolo_e2e::{Machine, MachineFile, image};

/// Passes buffers along a chain of domains and back; all domains mark them.
fn chain(machine: &Machine, on: &str, trust: &str, window: &str) {
    let said = machine.actor(on, &["bulk-chain", trust, window, "20"]).ok();
    for rank in 0..on.split(',').count() {
        assert!(said.contains(&format!("rank {rank} is done")), "{on}, {trust}:\n{said}");
    }
}

#[test]
fn buffers_go_along_a_chain_on_one_kernel() {
    let machine = Machine::up(&MachineFile::host());
    for trust in ["full", "half", "none"] {
        chain(&machine, "host,host", trust, "-");
        chain(&machine, "host,host,host", trust, "-");
    }
    machine.down();
}

#[test]
fn frames_of_a_camera_go_through_three_domains() {
    let machine = Machine::up(&MachineFile::host_board_and_user().with_vm("arm0", ""));
    let image = image("frames").display().to_string();
    for (on, node) in
        [("host,arm0,host", "arm0"), ("arm0,host,arm0", "host"), ("host,s390x-user,host", "s390x-user")]
    {
        let said = machine.tombolo(["run", "--on", on, &image]).ok();
        assert!(
            said.contains("200 frames of 640x480 in 4 buffers") && said.contains(&format!("by {node}")),
            "{said}"
        );
    }
    machine.tombolo(["run", "--on", "host", &image]).fails_with(1, &["start three of me"]);
    machine.down();
}

#[test]
fn sender_cannot_access_moved_buffers() {
    let machine = Machine::up(&MachineFile::host());
    let honest = machine.start_actor("host", &["bulk-trusting", "honest"]);
    honest.wait_for("exported");
    let said = machine.actor("host", &["bulk-cheat", "honest"]).ok();
    assert!(said.contains("move: ") && said.contains("share: "), "{said}");
    honest.wait_for("not cheated");
    honest.finish().ok();
    machine.down();
}

#[test]
fn buffers_of_dead_domain_are_reclaimed() {
    let machine = Machine::up(&MachineFile::host());
    for (trust, forwarded) in
        [("full", "here-only"), ("full", "forwarded"), ("half", "forwarded"), ("none", "forwarded")]
    {
        let name = format!("holder-{trust}-{forwarded}");
        let holder = machine.start_actor("host", &["bulk-hold", &name, trust, "-"]);
        holder.wait_for("exported");
        let (_, pid) = machine.domains_on("host").pop().expect("the holder");
        let giver = machine.start_actor("host", &["bulk-outlive", &name, trust, "-", forwarded]);
        holder.wait_for("holding");
        giver.wait_for("given");
        machine.kill(pid);
        let said = giver.finish().ok();
        assert!(said.contains("died"), "{said}");
        assert_eq!(holder.finish().status, 137);
    }
    machine.down();
}

#[test]
fn buffers_forwarded_by_dead_domain_are_reclaimed() {
    let machine = Machine::up(&MachineFile::host());
    let last = machine.start_actor("host", &["bulk-hold", "last", "full", "-"]);
    last.wait_for("exported");
    let middle = machine.start_actor("host", &["bulk-hold", "middle", "full", "last"]);
    middle.wait_for("exported");
    let started = machine.domains_on("host");
    let (_, pid) = started.iter().max_by_key(|(id, _)| index(id)).expect("the one in the middle");
    let giver = machine.start_actor("host", &["bulk-outlive", "middle", "full", "-", "forwarded"]);
    last.wait_for("holding");
    giver.wait_for("given");
    machine.kill(*pid);
    let said = giver.finish().ok();
    assert!(said.contains("died"), "{said}");
    assert_eq!(middle.finish().status, 137);
    // The domain that got the buffer from the dead one loses it and gets an error.
    let said = last.finish().ok();
    assert!(said.contains("lost its buffers"), "{said}");
    machine.down();
}

/// Returns the number of a domain on its node.
fn index(id: &str) -> u32 {
    id.rsplit('.').next().and_then(|index| index.parse().ok()).expect("an id")
}

fn zoo() -> MachineFile {
    MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x")
}

#[test]
fn buffers_go_through_three_domains_on_two_nodes() {
    let machine = Machine::up(&zoo());
    chain(&machine, "host,host,arm0", "full", "arm0");
    chain(&machine, "arm0,host,s390x-user", "full", "arm0");
    chain(&machine, "arm0,arm0", "half", "-");
    chain(&machine, "arm0,arm0", "none", "-");
    machine
        .actor("host,arm0", &["bulk-chain", "none", "-", "1"])
        .fails_with(1, &["buffers travel as files of one kernel"]);
    machine.down();
}

#[test]
fn a_pool_larger_than_the_window_is_refused() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "window_mib = 8"));
    let sink = machine.start_actor("arm0", &["bulk-hold", "sink", "full", "-"]);
    sink.wait_for("exported");
    machine.actor("host", &["bulk-too-large", "arm0"]).fails_with(1, &["window"]);
    // The contents of a pool out of the other side's reach are copied.
    let giver = machine.start_actor("host", &["bulk-outlive", "sink", "full", "-", "forwarded"]);
    sink.wait_for("holding");
    giver.wait_for("given");
    let (id, _) = machine.domains_on("arm0").pop().expect("the sink");
    machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
    assert!(giver.finish().ok().contains("died"));
    assert_eq!(sink.finish().status, 137);
    machine.down();
}

/// Several channels of one domain and one of another, each with bulk buffers: no channel gets another's
/// buffers.
#[test]
fn buffers_are_passed_in_messages() {
    let machine = Machine::up(&MachineFile::host());
    for how in ["-", "none"] {
        let serving = machine.start_actor("host", &["buffers-serve", "adder", how, "4"]);
        serving.wait_for("serving");
        let other = machine.start_actor("host", &["buffers-call", "adder", how, "1"]);
        let said = machine.actor("host", &["buffers-call", "adder", how, "3"]).ok();
        assert!(said.contains("understood adder"), "{how}: {said}");
        assert!(other.finish().ok().contains("understood adder"), "{how}");
        let said = serving.finish().ok();
        assert!(said.contains("served 4 clients"), "{how}: {said}");
    }
    machine.down();
}
