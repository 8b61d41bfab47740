//! Memory shared by capabilities and revoked while in use.

use rustix::process::{Pid, Signal, kill_process};
use tombolo::Domain;
use tombolo::region::{RegionOptions, Rights};
use tombolo_e2e::{Machine, MachineFile, Running, eventually};

/// Grace period longer than any test, so that no domain is killed for being slow.
const FOR_EVER_MS: u32 = 1_000_000;

/// Starts a domain that lends a region, and a holder on each of these nodes that maps it.
fn lent(machine: &Machine, lender: &str, place: &str, holders: &[(&str, &str)]) -> (Running, Vec<Running>) {
    let count = holders.len().to_string();
    let lender = machine.start_actor(lender, &["region-take-back", "lender", place, &count]);
    lender.wait_for("serving");
    let hold = |(node, how): &(&str, &str)| machine.start_actor(node, &["region-hold", "lender", how]);
    let holders: Vec<Running> = holders.iter().map(hold).collect();
    lender.wait_for("lent");
    (lender, holders)
}

/// Makes the lender revoke the region.
fn take_back(lender: &mut Running) -> std::process::ChildStdin {
    use std::io::Write;
    let mut stdin = lender.stdin();
    stdin.write_all(b"now\n").expect("it reads");
    stdin
}

fn send_signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("not 0"), signal).expect("it is there");
}

#[test]
fn program_grants_memory_to_another() {
    let machine = Machine::up(&MachineFile::host());
    let serving = machine.start_actor("host", &["region-lend", "lender", "memory:host"]);
    serving.wait_for("serving");
    let said = machine.actor("host", &["region-borrow", "lender"]).ok();
    assert!(said.contains("borrowed from host"), "{said}");
    let said = serving.finish().ok();
    assert!(said.contains("lent and returned"), "{said}");
    machine.down();
}

#[test]
fn regions_are_listed_for_people_and_machines() {
    let machine = Machine::up(&MachineFile::host());
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    let region = domain.create_region(&RegionOptions::new(1 << 20)).expect("a region");
    let mapping = region.map(Rights::READ).expect("mapped");
    let listed = machine.json(&["regions"]);
    let [listed] = listed["regions"].as_array().expect("a list").as_slice() else { panic!("{listed}") };
    assert_eq!(listed["region"], region.region().to_string());
    for (key, value) in [("node", "host"), ("memory", "memory"), ("seal", "open")] {
        assert_eq!(listed[key], value, "{listed}");
    }
    for (key, value) in [("length_bytes", 1 << 20), ("capabilities", 1), ("mappings", 1)] {
        assert_eq!(listed[key], value, "{listed}");
    }
    let shown = machine.tombolo(["regions"]).ok();
    assert!(shown.contains("REGION") && shown.contains("MiB"), "{shown}");
    drop((mapping, region));
    assert!(eventually(|| machine.json(&["regions"])["regions"].as_array().is_some_and(Vec::is_empty)));
    machine.down();
}

#[test]
fn memory_is_revoked_while_it_is_read() {
    let machine = Machine::up(&MachineFile::host().with_limit("revoke_ms", FOR_EVER_MS));
    let how = [("host", "busy"), ("host", "deep"), ("host", "idle")];
    let (mut lending, holding) = lent(&machine, "host", "memory:host", &how);
    let input = take_back(&mut lending);
    for (holding, how) in holding.into_iter().zip(how) {
        let said = holding.finish().ok();
        assert!(said.contains("it was taken back"), "{how:?}: {said}");
    }
    // The number of removed capabilities is not known: an ending holder's vanish by themselves.
    lending.wait_for(", killed 0");
    lending.wait_for("written anew");
    drop(input);
    lending.finish().ok();
    machine.down();
}

#[test]
fn stopped_or_dead_holder_does_not_block_revocation() {
    let machine = Machine::up(&MachineFile::host().with_limit("revoke_ms", 300));
    let (mut lender, mut holders) =
        lent(&machine, "host", "memory:host", &[("host", "idle"), ("host", "idle")]);
    let actors = machine.processes("region-hold lender");
    let actors: Vec<i32> =
        actors.into_iter().filter(|pid| machine.domains_on("host").iter().any(|(_, of)| of == pid)).collect();
    assert_eq!(actors.len(), 2);
    send_signal(actors[0], Signal::STOP);
    machine.kill(actors[1]);
    let input = take_back(&mut lender);
    lender.wait_for(", killed 1");
    for holder in holders.drain(..) {
        holder.finish().fails_with(137, &["SIGKILL"]);
    }
    drop(input);
    lender.finish().ok();
    assert!(eventually(|| machine.domains_on("host").is_empty()));
    machine.down();
}

#[test]
fn seals_hold_and_files_are_regions() {
    let machine = Machine::up(&MachineFile::host());
    let file = machine.folder().join("region");
    let said = machine.actor("host", &["region-seal", file.to_str().expect("text")]).ok();
    assert!(said.contains("sealed"), "{said}");
    machine.down();
}

fn zoo() -> MachineFile {
    MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x")
}

fn assert_nothing_left(machine: &Machine) {
    assert!(
        eventually(|| machine.node("arm0")["window_used_bytes"] == 0),
        "what regions took of the window came back"
    );
}

#[test]
fn memory_is_granted_between_all_kinds_of_nodes() {
    let machine = Machine::up(&zoo());
    let pairs = [
        ("host", "host", "memory:host"),
        ("host", "s390x-user", "memory:host"),
        ("s390x-user", "host", "memory:s390x-user"),
        ("host", "arm0", "window:arm0"),
        ("arm0", "host", "window:arm0"),
        ("s390x-user", "arm0", "window:arm0"),
        ("host", "host", "window:arm0"),
        ("arm0", "arm0", "memory:arm0"),
    ];
    for (lender, borrower, place) in pairs {
        let what = format!("{place} from {lender} to {borrower}");
        let serving = machine.start_actor(lender, &["region-lend", "lender", place]);
        serving.wait_for("serving");
        let said = machine.actor(borrower, &["region-borrow", "lender"]).ok();
        assert!(said.contains(&format!("borrowed from {lender}")), "{what}: {said}");
        let said = serving.finish().ok();
        assert!(said.contains("lent and returned"), "{what}: {said}");
    }
    assert_nothing_left(&machine);
    machine.down();
}

#[test]
fn unreachable_memory_is_refused_with_advice_to_copy() {
    let machine = Machine::up(&zoo());
    for (lender, borrower, place) in [("host", "arm0", "memory:host"), ("arm0", "host", "memory:arm0")] {
        let serving = machine.start_actor(lender, &["region-lend", "lender", place]);
        serving.wait_for("serving");
        let said = machine.actor(borrower, &["region-borrow", "lender"]).ok();
        assert!(said.contains("not reachable"), "{said}");
        assert!(serving.finish().ok().contains("not reachable"));
    }
    assert_nothing_left(&machine);
    machine.down();
}

#[test]
fn memory_is_revoked_from_all_nodes_while_read() {
    let machine = Machine::up(&zoo().with_limit("revoke_ms", FOR_EVER_MS));
    let everywhere: &[_] =
        &[("host", "busy"), ("host", "idle"), ("s390x-user", "busy"), ("arm0", "busy"), ("arm0", "deep")];
    let on_host: &[_] = &[("host", "busy"), ("host", "deep"), ("s390x-user", "idle")];
    for (lender, place, holders) in [
        ("host", "window:arm0", everywhere),
        ("arm0", "window:arm0", everywhere),
        ("host", "memory:host", on_host),
    ] {
        let (mut lending, holding) = lent(&machine, lender, place, holders);
        let input = take_back(&mut lending);
        for (holding, how) in holding.into_iter().zip(holders) {
            let said = holding.finish().ok();
            assert!(said.contains("it was taken back"), "{how:?} of {place}: {said}");
        }
        lending.wait_for(", killed 0");
        lending.wait_for("written anew");
        drop(input);
        lending.finish().ok();
    }
    assert_nothing_left(&machine);
    machine.down();
}

#[test]
fn killed_node_ends_pending_revocation() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_limit("revoke_ms", FOR_EVER_MS));
    let (mut lender, holders) = lent(&machine, "host", "window:arm0", &[("arm0", "busy"), ("host", "idle")]);
    let emulator = machine.pid_of("arm0");
    send_signal(emulator, Signal::STOP);
    let input = take_back(&mut lender);
    // The holder on the host unmaps. The node does not answer and then is dead, which proves that nothing is
    // mapped.
    let mut holders = holders.into_iter();
    let inside = holders.next().expect("two");
    holders.next().expect("two").finish().ok();
    machine.kill(emulator);
    lender.wait_for("took back");
    inside.finish().fails_with(1, &["lost with its node"]);
    lender.wait_for("written anew");
    drop(input);
    lender.finish().ok();
    machine.tombolo(["restart", "arm0"]).ok();
    assert_nothing_left(&machine);
    machine.down();
}

#[test]
fn memory_reachable_by_silent_node_is_not_reused() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_limit("revoke_ms", 300));
    let (mut lender, holders) = lent(&machine, "host", "window:arm0", &[("arm0", "idle")]);
    let emulator = machine.pid_of("arm0");
    send_signal(emulator, Signal::STOP);
    let input = take_back(&mut lender);
    lender.wait_for("still held by 1");
    lender.wait_for("written anew");
    drop(input);
    lender.finish().ok();
    let used = || machine.node("arm0")["window_used_bytes"].as_u64().expect("a number");
    assert!(used() > 0, "the lender is gone, and its memory is not free");
    send_signal(emulator, Signal::CONT);
    assert_nothing_left(&machine);
    for holder in holders {
        // It unmapped, or was killed before it could.
        let status = holder.finish().status;
        assert!(status == 0 || status == 137, "{status}");
    }
    machine.down();
}

/// Passes capabilities between two domains, to memory in the window of a node or in host memory.
fn pass_rights(machine: &Machine, (server, client, window): (&str, &str, &str)) {
    let serving = machine.start_actor(server, &["rights-serve", "adder"]);
    serving.wait_for("serving");
    let said = machine.actor(client, &["rights-call", "adder", window]).ok();
    assert!(said.contains("understood adder"), "{client} to {server}: {said}");
    let said = serving.finish().ok();
    assert!(said.contains("served"), "{client} to {server}: {said}");
}

#[test]
fn capabilities_are_passed_in_messages() {
    let machine = Machine::up(&MachineFile::host());
    pass_rights(&machine, ("host", "host", "-"));
    machine.down();
}

#[test]
fn capabilities_are_passed_between_all_kinds_of_nodes() {
    // Built first, so that no domain waits for it.
    let _ = tombolo_e2e::actor_image();
    let machine = Machine::up(&zoo());
    for pair in [
        ("host", "s390x-user", "-"),
        ("s390x-user", "host", "-"),
        ("host", "arm0", "arm0"),
        ("arm0", "host", "arm0"),
        ("arm0", "arm0", "-"),
    ] {
        pass_rights(&machine, pair);
    }
    assert_nothing_left(&machine);
    machine.down();
}
