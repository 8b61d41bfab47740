//! Channels between every pair of node kinds: traffic, wake-ups, and refusals.

use tombolo_e2e::{Machine, MachineFile, actor_image};

const MESSAGES: &str = "10000";

fn zoo() -> MachineFile {
    MachineFile::host()
        .with_vm("arm0", "")
        .with_user("arm-user", "aarch64")
        .with_user("riscv-user", "riscv64")
        .with_user("s390x-user", "s390x")
        .with_socket("arm-user", "s390x-user")
}

/// Exchanges messages over each pair, in both directions of opening and of sending.
fn exchange(machine: &Machine, pairs: &[(&str, &str)]) {
    for (a, b) in pairs {
        let on = format!("{a},{b}");
        let said = machine.actor(&on, &["exchange", MESSAGES]).ok();
        for rank in [0, 1] {
            let line = format!("rank {rank} exchanged {MESSAGES} messages twice");
            assert!(said.contains(&line), "{on}: no {line:?} in\n{said}");
        }
    }
    assert_eq!(machine.json(&["names"])["names"].as_array().map(Vec::len), Some(0), "names vanish with jobs");
}

#[test]
fn messages_cross_between_the_host_and_every_kind_of_node() {
    let machine = Machine::up(&zoo());
    let pairs = ["host", "arm0", "arm-user", "riscv-user", "s390x-user"].map(|node| ("host", node));
    exchange(&machine, &pairs);
    machine.down();
}

#[test]
fn messages_cross_between_the_arm_machine_and_foreign_programs() {
    let machine = Machine::up(&zoo());
    exchange(
        &machine,
        &[("arm0", "arm0"), ("arm0", "s390x-user"), ("riscv-user", "arm0"), ("arm-user", "arm0")],
    );
    assert_eq!(machine.node("arm0")["window_used_bytes"], 0, "what channels took of the window came back");
    machine.down();
}

#[test]
fn messages_cross_between_foreign_programs() {
    let machine = Machine::up(&zoo());
    exchange(
        &machine,
        &[
            ("s390x-user", "s390x-user"),
            ("s390x-user", "riscv-user"),
            // Linked by a byte stream in the machine file.
            ("arm-user", "s390x-user"),
        ],
    );
    machine.down();
}

#[test]
fn each_link_has_its_transport() {
    let machine = Machine::up(&zoo());
    let carried = [
        ("host", "host", "shm"),
        ("host", "arm0", "window"),
        ("arm0", "host", "window"),
        ("arm0", "arm0", "shm"),
        ("s390x-user", "arm0", "window"),
        ("riscv-user", "s390x-user", "shm"),
        ("arm-user", "s390x-user", "socket"),
    ];
    for (number, (to, from, transport)) in carried.into_iter().enumerate() {
        let name = format!("link/{number}");
        let server = machine.start_actor(to, &["serve", &name, "64", "256", "0"]);
        server.wait_for("serving");
        let said = machine.actor(from, &["connect", &name, "64", "256", "0"]).ok();
        assert!(said.contains(&format!("connected to {to} by {transport}")), "{from} to {to}:\n{said}");
        server.wait_for("served ");
        drop(server);
    }
    machine.down();
}

#[test]
fn mismatched_ends_refuse_with_both_values() {
    let machine = Machine::up(&zoo());
    let nodes =
        [("host", "host"), ("host", "arm0"), ("arm0", "host"), ("arm0", "arm0"), ("arm-user", "s390x-user")];
    for (number, (to, from)) in nodes.into_iter().enumerate() {
        let name = format!("strict/{number}");
        let server = machine.start_actor(to, &["serve", &name, "64", "256", "4660"]);
        server.wait_for("serving");
        let slots = machine.actor(from, &["connect", &name, "128", "256", "4660"]);
        slots.fails_with(1, &["64", "128"]);
        let said = server.wait_for("refused: ");
        assert!(said.contains("64") && said.contains("128"), "{from} to {to}:\n{said}");
        let interface = machine.actor(from, &["connect", &name, "64", "256", "22136"]);
        interface.fails_with(1, &["1234", "5678"]);
        // The connecting side chooses the number of slots. A refused client does not disturb others.
        machine.actor(from, &["connect", &name, "64", "16", "4660"]).ok();
        let said = server.wait_for("served ");
        assert_eq!(said.matches("refused: ").count(), 2, "{from} to {to}:\n{said}");
        assert!(said.contains("1234") && said.contains("5678"), "{from} to {to}:\n{said}");
        drop(server);
    }
    machine.down();
}

#[test]
fn names_have_one_owner_and_a_syntax() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let owner = machine.start_actor("arm0", &["export", "service/one"]);
    owner.wait_for("exported");
    let names = machine.tombolo(["names"]).ok();
    assert!(names.contains("service/one") && names.contains("arm0"), "{names}");
    machine.actor("host", &["export", "service/one"]).fails_with(1, &["'service/one' is taken by domain 1."]);
    for bad in ["", "two words", "ümlaut", &"x".repeat(129)] {
        machine.actor("host", &["export", bad]).fails_with(1, &["invalid name"]);
        machine.actor("host", &["connect", bad, "64", "256", "0"]).fails_with(1, &["invalid name"]);
    }
    let longest = "x".repeat(128);
    let long = machine.start_actor("host", &["export", &longest]);
    long.wait_for("exported");
    drop(long);
    let (id, _) = machine.domains_on("arm0").pop().expect("it runs");
    machine.tombolo(["kill", &id, "--grace", "0"]).ok();
    assert_eq!(owner.finish().status, 137);
    // After the death of its owner the name is free.
    let next = machine.start_actor("host", &["export", "service/one"]);
    next.wait_for("exported");
    drop(next);
    machine
        .actor("host", &["connect", "service/none", "64", "256", "0"])
        .fails_with(1, &["no domain exports 'service/none'"]);
    machine.down();
}

#[test]
/// Messages, wake-ups on shared doorbells, a restarted node and a dying peer, between two virtual machines
/// with a window that excludes the host.
fn two_virtual_machines_with_a_window_talk_directly() {
    let file = MachineFile::host().with_vm("arm0", "").with_vm("arm1", "").with_window(
        "arms",
        &["arm1", "arm0"],
        "size_mib = 4\ndoorbells = 2",
    );
    let machine = Machine::up(&file);
    exchange(&machine, &[("arm0", "arm1"), ("host", "arm1")]);
    let echo = machine.start_actor("arm0", &["echo-many", "far"]);
    echo.wait_for("echoing");
    let wake = |machine: &Machine| {
        let said = machine.actor("arm1", &["wake-many", "far", "70", "20"]).ok();
        assert!(said.contains("woken on 70 channels"), "{said}");
        let said = machine.actor("arm1", &["connect", "far", "64", "16", "0"]).ok();
        assert!(said.contains("connected to arm0 by window"), "{said}");
    };
    wake(&machine);
    let said = machine.actor("arm0,arm1", &["bulk-chain", "full", "arm1", "20"]).ok();
    assert!(said.contains("rank 0 is done") && said.contains("rank 1 is done"), "{said}");
    let lender = machine.start_actor("arm0", &["region-lend", "land", "window:arms"]);
    lender.wait_for("serving");
    let said = machine.actor("arm1", &["region-borrow", "land"]).ok();
    assert!(said.contains("borrowed from arm0"), "{said}");
    lender.finish().ok();
    // The restarted node joins the window that the other kept using.
    machine.tombolo(["restart", "arm1", "--force"]).ok();
    wake(&machine);

    let holding = machine.start_actor("arm1", &["hold", "held"]);
    holding.wait_for("serving");
    let losing = machine.start_actor("arm0", &["lose-peer", "recv", "held"]);
    losing.wait_for("connected");
    machine.kill(machine.pid_of("arm1"));
    let said = losing.finish().ok();
    assert!(said.contains("peer died"), "{said}");
    drop((holding, echo));
    machine.tombolo(["restart", "arm1"]).ok();
    machine.down();
}

#[test]
fn connecting_before_the_export_works() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let early = machine.start_actor("arm0", &["connect", "late", "64", "256", "0"]);
    let image = actor_image();
    assert!(image.is_file());
    let waiting = tombolo_e2e::eventually(|| !machine.domains_on("arm0").is_empty());
    assert!(waiting, "it never started");
    let server = machine.start_actor("host", &["serve", "late", "64", "256", "0"]);
    early.finish().ok();
    server.wait_for("served ");
    drop(server);
    machine.down();
}
