//! Channels between nodes without a link: relayed by the host, with the contract of direct channels.

use std::time::Instant;

use rustix::process::Signal;
use tombolo_e2e::{DEATH_IS_KNOWN, Finished, Machine, MachineFile, Running, eventually, image};

/// Describes two virtual machines, each with a window to the host and none to the other.
fn two_arms() -> MachineFile {
    MachineFile::host().with_vm("arm0", "").with_vm("arm1", "")
}

/// Returns domain id and process id of the host's relay.
fn relay(machine: &Machine) -> (String, i32) {
    let domains = machine.json(&["ps"])["domains"].as_array().expect("domains").clone();
    let relay = domains.iter().find(|domain| domain["program"] == "relay").expect("a relay");
    assert_eq!(relay["node"], "host");
    let pid = relay["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a process");
    (relay["id"].as_str().expect("an id").to_owned(), pid)
}

/// Starts a peer on arm0 that echoes or holds, and a domain on arm1 with a channel to it.
fn pair(machine: &Machine, how: &str) -> (Running, Running) {
    let peer_words: &[&str] =
        if how == "traffic" { &["serve", "far", "64", "256", "0"] } else { &["hold", "far"] };
    let peer = machine.start_actor("arm0", peer_words);
    peer.wait_for("serving");
    let survivor = machine.start_actor("arm1", &["lose-peer", how, "far"]);
    survivor.wait_for("connected");
    (peer, survivor)
}

fn works(machine: &Machine) {
    let said = machine.actor("arm0,arm1", &["exchange", "3000"]).ok();
    for rank in [0, 1] {
        let line = format!("rank {rank} exchanged 3000 messages twice");
        assert!(said.contains(&line), "no {line:?} in\n{said}");
    }
}

fn assert_windows_unused(machine: &Machine) {
    let lent = |node: &str| machine.node(node)["window_used_bytes"].clone();
    let back = eventually(|| lent("arm0") == 0 && lent("arm1") == 0);
    assert!(back, "what channels took of the windows did not come back: {} {}", lent("arm0"), lent("arm1"));
}

/// Buffers between two machines without common memory are copied.
fn check_copied_buffers(machine: &Machine) {
    let frames = image("frames").display().to_string();
    let said = machine.tombolo(["run", "--on", "arm0,arm1,arm0", &frames]).ok();
    assert!(said.contains("200 frames of 640x480 in 4 buffers came by arm1"), "{said}");
    let said = machine.actor("arm1,host,arm0", &["bulk-chain", "full", "-", "20"]).ok();
    assert!((0..3).all(|rank| said.contains(&format!("rank {rank} is done"))), "{said}");

    // The buffers of a dead domain are free immediately, because it had copies.
    let holder = machine.start_actor("arm1", &["bulk-hold", "held", "full", "-"]);
    holder.wait_for("exported");
    let giver = machine.start_actor("arm0", &["bulk-outlive", "held", "full", "-", "forwarded"]);
    holder.wait_for("holding");
    giver.wait_for("given");
    let (id, _) = machine.domains_on("arm1").pop().expect("the holder");
    machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
    assert!(giver.finish().ok().contains("died"));
    assert_eq!(holder.finish().status, 137);
}

#[test]
fn two_virtual_machines_reach_each_other_through_the_host() {
    let machine = Machine::up(&two_arms());
    works(&machine);
    check_copied_buffers(&machine);

    // `channels` shows both ends and the relay.
    let (peer, client) = pair(&machine, "recv");
    let shown = || machine.json(&["channels"])["channels"].as_array().expect("channels").clone();
    let via_host = eventually(|| shown().iter().any(|direction| direction["via"][0] == "host"));
    assert!(via_host, "{:?}", shown());
    let channel = shown().into_iter().find(|direction| direction["via"][0] == "host").expect("it is there");
    let nodes = (channel["from_node"].as_str(), channel["to_node"].as_str());
    assert!(nodes == (Some("arm0"), Some("arm1")) || nodes == (Some("arm1"), Some("arm0")), "{channel}");
    assert!(machine.tombolo(["channels"]).ok().contains("window by host"));
    let (id, _) = machine.domains_on("arm0").pop().expect("the peer");
    machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
    assert_eq!(peer.finish().status, 137);
    assert!(client.finish().ok().contains("peer died"));

    // Mismatched options are refused at both ends, with both values.
    let server = machine.start_actor("arm0", &["serve", "strict", "64", "256", "4660"]);
    server.wait_for("serving");
    machine.actor("arm1", &["connect", "strict", "128", "256", "4660"]).fails_with(1, &["64", "128"]);
    machine.actor("arm1", &["connect", "strict", "64", "256", "22136"]).fails_with(1, &["1234", "5678"]);
    let said = machine.actor("arm1", &["connect", "strict", "64", "16", "4660"]).ok();
    assert!(said.contains("connected to arm0 by window"), "{said}");
    let said = server.wait_for("served ");
    assert!(said.contains("on arm1") && said.matches("refused: ").count() == 2, "{said}");
    drop(server);

    // Death of an end, for every way in which its peer waits.
    for how in ["send", "traffic"] {
        let (peer, survivor) = pair(&machine, how);
        let (id, _) = machine.domains_on("arm0").pop().expect("the peer");
        let since = Instant::now();
        machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
        assert_eq!(peer.finish().status, 137);
        let said = survivor.finish();
        assert!(said.ok().contains("peer died: domain"), "{how}: {said}");
        assert!(since.elapsed() < DEATH_IS_KNOWN, "{how}: known after {:?}", since.elapsed());
    }
    assert_windows_unused(&machine);

    // Death of the relay is reported as such, not as a death of the peer. The next channel gets a new relay.
    for how in ["traffic", "recv", "send"] {
        let (peer, survivor) = pair(&machine, how);
        let (id, pid) = relay(&machine);
        if how == "recv" {
            machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
        } else {
            machine.kill(pid);
        }
        let said = survivor.finish();
        assert!(said.ok().contains("relay died: the relay on host died"), "{how}: {said}");
        if how == "traffic" {
            peer.wait_for("lost: the relay on host died");
        }
        drop(peer);
        assert_windows_unused(&machine);
        works(&machine);
        assert_ne!(relay(&machine).0, id);
    }

    // Loss of a node counts as death of the peer on it.
    let (peer, survivor) = pair(&machine, "recv");
    machine.kill(machine.pid_of("arm0"));
    assert!(survivor.finish().ok().contains("peer died: domain"), "with its node");
    drop(peer);
    assert!(eventually(|| machine.node("arm0")["state"] == "down"));
    machine.tombolo(["restart", "arm0"]).ok();
    works(&machine);
    assert_windows_unused(&machine);
    machine.down();
}

/// Opens a relayed channel between a board and a program on arm0 that waits as `how` says.
fn board_and_machine(machine: &Machine, role: &str, how: &str) -> (Running, Running) {
    let program = image("remote-peer").display().to_string();
    let words = ["run", "--on", "bare0", &program, "play", "far", role, "64", "256", "false", "0"];
    let board = machine.start(words);
    assert!(eventually(|| machine.tombolo(["names"]).ok().contains("far")), "the board exports nothing");
    let survivor = machine.start_actor("arm0", &["lose-peer", how, "far"]);
    survivor.wait_for("connected");
    (board, survivor)
}

/// A board runs only one program, so it cannot have a relay: the host does the relaying for it.
#[test]
fn a_board_reaches_virtual_machines_and_other_boards_through_the_host() {
    let file = MachineFile::host().with_vm("arm0", "");
    let file = file.with_board("bare0", "aarch64", "").with_board("bare1", "aarch64", "");
    let machine = Machine::up(&file);
    let program = image("bare-pingpong").display().to_string();
    let pingpong = |on: &str| -> Finished { machine.tombolo(["run", "--on", on, &program]) };
    for (from, to) in [("bare0", "arm0"), ("arm0", "bare0"), ("bare0", "bare1")] {
        let said = pingpong(&format!("{from},{to}")).ok();
        let measured = format!("aarch64 on {from} -> aarch64 on {to}: 10000 round trips");
        assert!(said.contains(&measured), "{said}");
    }

    // Each end learns whether the relay or the other end died, and the window memory of each hop is freed.
    let lent = |node: &str| machine.node(node)["window_used_bytes"].clone();
    let comes_back = || assert!(eventually(|| lent("bare0") == 0 && lent("arm0") == 0));
    for (role, how) in [("sends", "recv"), ("receives", "send"), ("idles", "recv")] {
        let (board, survivor) = board_and_machine(&machine, role, how);
        let (_, pid) = relay(&machine);
        machine.kill(pid);
        assert!(survivor.finish().ok().contains("relay died: the relay on host died"), "{role}");
        if role == "idles" {
            board.signal(Signal::TERM);
            let _ = board.finish();
        } else {
            board.finish().fails_with(1, &["the relay on node host died"]);
        }
        comes_back();

        let (board, survivor) = board_and_machine(&machine, role, how);
        let (id, _) = machine.domains_on("arm0").pop().expect("the program there");
        machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
        assert_eq!(survivor.finish().status, 137);
        if role == "idles" {
            board.signal(Signal::TERM);
            let _ = board.finish();
        } else {
            board.finish().ok();
        }
        comes_back();
    }

    // Loss of the board counts as death of its program.
    for (role, how) in [("sends", "recv"), ("receives", "send"), ("idles", "recv")] {
        let (board, survivor) = board_and_machine(&machine, role, how);
        machine.kill(machine.pid_of("bare0"));
        assert!(survivor.finish().ok().contains("peer died: domain"), "{role}");
        board.finish().fails_with(1, &["on bare0"]);
        assert!(eventually(|| machine.node("bare0")["state"] == "down"));
        machine.tombolo(["restart", "bare0"]).ok();
    }
    let said = pingpong("arm0,bare0").ok();
    assert!(said.contains("10000 round trips"), "{said}");
    assert!(eventually(|| lent("arm0") == 0), "{}", lent("arm0"));
    machine.down();
}
