//! Limits are reported with their values and freed again; unlimited resources do not leak.

use tombolo_e2e::{Machine, MachineFile, eventually};

/// Channels that share a doorbell wake like the others.
#[test]
fn channels_can_outnumber_doorbells() {
    let file =
        MachineFile::host().with_vm("arm0", "doorbells = 4").with_limit("window_channels_per_domain", 100);
    let machine = Machine::up(&file);
    for (echoing, waking) in [("host", "arm0"), ("arm0", "host")] {
        let server = machine.start_actor(echoing, &["echo-many", "bells"]);
        server.wait_for("echoing");
        let said = machine.actor(waking, &["wake-many", "bells", "70", "20"]).ok();
        assert!(said.contains("woken on 70 channels"), "{said}");
        drop(server);
        let back = eventually(|| machine.node("arm0")["window_used_bytes"] == 0);
        assert!(back, "{}", machine.node("arm0"));
    }
    machine.down();
}

#[test]
fn channels_are_reusable_after_the_limit() {
    let file = MachineFile::host().with_vm("arm0", "").with_limit("window_channels_per_domain", 2);
    let machine = Machine::up(&file);
    for (keeper, connecting) in [("host", "arm0"), ("arm0", "host")] {
        let server = machine.start_actor(keeper, &["keep", "bells"]);
        server.wait_for("keeping");
        let said = machine.actor(connecting, &["connect-in-turn", "bells", "2"]).ok();
        assert!(said.contains("after 2 channels") && said.contains("window_channels_per_domain"), "{said}");
        assert!(said.contains("opened again"), "{said}");
        let back = eventually(|| machine.node("arm0")["window_used_bytes"] == 0);
        assert!(back, "{}", machine.node("arm0"));
        drop(server);
        assert!(eventually(|| machine.domains_on(keeper).is_empty()));
    }
    machine.down();
}

#[test]
fn window_too_small_is_reported() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "window_mib = 1"));
    let server = machine.start_actor("host", &["serve", "wide", "128", "16", "0"]);
    server.wait_for("serving");
    // A program needs room in the window, and this one does not fit.
    machine.actor("arm0", &["exit", "0"]).fails_with(1, &["the window has no room for a program"]);
    drop(server);
    machine.down();

    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "window_mib = 8"));
    let server = machine.start_actor("host", &["serve", "wide", "128", "16", "0"]);
    server.wait_for("serving");
    let large = machine.actor("arm0", &["connect", "wide", "128", "65536", "0"]);
    large.fails_with(1, &["no room for a channel in window arm0"]);
    machine.actor("arm0", &["connect", "wide", "128", "1024", "0"]).ok();
    drop(server);
    machine.down();
}

#[test]
fn many_successive_domains_leak_nothing() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("riscv-user", "riscv64"));
    let root = machine.pid_of("host");
    let counts = [("host", "host", "300"), ("host", "arm0", "60"), ("host", "riscv-user", "60")];
    let image = tombolo_e2e::actor_image();
    let image = image.to_str().expect("a path of text");
    let in_turn = |from: &str, node: &str, count: &str| {
        let said = machine.tombolo(["run", "--on", from, image, "spawn-in-turn", node, count]).ok();
        assert!(said.contains(&format!("{count} started and ended")), "{said}");
    };
    // Warm-up: the monitor caches programs.
    counts.into_iter().for_each(|(from, node, _)| in_turn(from, node, "2"));
    let settle = || eventually(|| machine.domains_on("host").is_empty());
    assert!(settle());
    let before = machine.open_descriptors(root);
    counts.into_iter().for_each(|(from, node, count)| in_turn(from, node, count));
    assert!(settle());
    let same = eventually(|| machine.open_descriptors(root) <= before);
    assert!(same, "{before} descriptors before, {} after", machine.open_descriptors(root));
    machine.down();
}

#[test]
fn two_hundred_channels_are_open_at_once() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let root = machine.pid_of("host");
    machine.actor("host", &["many-channels", "10"]).ok();
    let before = machine.open_descriptors(root);
    for node in ["host", "arm0"] {
        let said = machine.actor(node, &["many-channels", "200"]).ok();
        assert!(said.contains("200 channels at once"), "{said}");
    }
    let same = eventually(|| machine.open_descriptors(root) <= before);
    assert!(same, "{before} descriptors before, {} after", machine.open_descriptors(root));
    machine.down();
}

#[test]
fn many_domains_at_once() {
    let machine = Machine::up(&MachineFile::host());
    let said = machine.actor("host:300", &["sleep", "0.1"]).ok();
    assert_eq!(said.matches("sleeping").count(), 300);
    machine.down();
}

#[test]
fn opened_and_closed_channels_leak_nothing() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    let root = machine.pid_of("host");
    let round = || {
        for on in ["host,arm0", "arm0,s390x-user", "host,s390x-user"] {
            machine.actor(on, &["exchange", "20"]).ok();
        }
    };
    round();
    let before = machine.open_descriptors(root);
    (0..5).for_each(|_| round());
    let same = eventually(|| machine.open_descriptors(root) <= before);
    assert!(same, "{before} descriptors before, {} after", machine.open_descriptors(root));
    assert_eq!(machine.node("arm0")["window_used_bytes"], 0);
    machine.down();
}
