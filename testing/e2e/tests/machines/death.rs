//! Kills of every component at any moment: all peers learn of it, and nothing is left.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tombolo_e2e::{DEATH_IS_KNOWN, Machine, MachineFile, Running, actor_image, eventually, leftovers};

fn zoo() -> MachineFile {
    MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x")
}

fn duo() -> MachineFile {
    MachineFile::host().with_vm("arm0", "")
}

/// Starts a peer that echoes or holds on `node`, and a domain elsewhere with a channel to it.
fn pair(machine: &Machine, how: &str, node: &str, survivor: &str, name: &str) -> (Running, Running) {
    let peer_words: &[&str] =
        if how == "traffic" { &["serve", name, "64", "256", "0"] } else { &["hold", name] };
    let peer = machine.start_actor(node, peer_words);
    peer.wait_for("serving");
    let survivor = machine.start_actor(survivor, &["lose-peer", how, name]);
    survivor.wait_for("connected");
    if how != "traffic" {
        peer.wait_for("holding");
    }
    wait_until_busy(machine, how);
    (peer, survivor)
}

/// Waits until the surviving end sleeps, has met a full ring, or exchanges messages, as requested from
/// [`pair`].
fn wait_until_busy(machine: &Machine, how: &str) {
    let is_busy = |direction: &Value| {
        let count = |key: &str| direction[key].as_u64().unwrap_or(0);
        match how {
            // The peer that holds the channel sends nothing.
            "recv" => count("sent") == 0 && count("sleeps") > 0,
            "send" => count("stalls") > 0,
            _ => count("received") > 1,
        }
    };
    let channels = || machine.json(&["channels"])["channels"].as_array().expect("channels").clone();
    assert!(eventually(|| channels().iter().any(is_busy)), "{how}: {:?}", channels());
}

fn kill_domains(machine: &Machine, node: &str) {
    for (id, pid) in machine.domains_on(node) {
        if node == "arm0" {
            machine.tombolo(["kill", &id, "--signal", "KILL", "--grace", "0"]).ok();
        } else {
            machine.kill(pid);
        }
    }
}

fn assert_survives(survivor: Running, since: Instant, what: &str) {
    let said = survivor.finish();
    assert!(said.ok().contains("peer died"), "{what}: {said}");
    assert!(since.elapsed() < DEATH_IS_KNOWN, "{what}: known after {:?}", since.elapsed());
}

#[test]
fn death_of_peer_is_noticed_on_every_node() {
    let machine = Machine::up(&zoo());
    let nodes = [
        ("host", "arm0"),
        ("arm0", "host"),
        ("s390x-user", "host"),
        ("host", "s390x-user"),
        ("s390x-user", "arm0"),
    ];
    for (victim, survivor) in nodes {
        for how in ["recv", "send", "traffic"] {
            let what = format!("{how} on {survivor}, peer on {victim}");
            let (peer, survivor) = pair(&machine, how, victim, survivor, "victim");
            let since = Instant::now();
            kill_domains(&machine, victim);
            peer.finish().fails_with(137, &["SIGKILL"]);
            assert_survives(survivor, since, &what);
        }
    }
    assert_eq!(machine.node("arm0")["window_used_bytes"], 0, "what channels took of the window came back");
    machine.down();
}

#[test]
fn a_peer_on_the_same_node_dies_too() {
    let machine = Machine::up(&duo());
    for node in ["host", "arm0"] {
        for how in ["recv", "send", "traffic"] {
            let what = format!("{how} on {node}");
            let peer_words: &[&str] =
                if how == "traffic" { &["serve", "near", "64", "256", "0"] } else { &["hold", "near"] };
            let peer = machine.start_actor(node, peer_words);
            peer.wait_for("serving");
            let (id, _) = machine.domains_on(node).pop().expect("the peer");
            let survivor = machine.start_actor(node, &["lose-peer", how, "near"]);
            survivor.wait_for("connected");
            wait_until_busy(&machine, how);
            let since = Instant::now();
            machine.tombolo(["kill", &id, "--grace", "0"]).ok();
            assert_eq!(peer.finish().status, 137, "{what}");
            assert_survives(survivor, since, &what);
        }
    }
    machine.down();
}

#[test]
fn killed_virtual_machine_is_noticed_and_restarts() {
    let machine = Machine::up(&duo());
    for generation in 1..=3_u64 {
        for how in ["recv", "send", "traffic"] {
            let (peer, survivor) = pair(&machine, how, "arm0", "host", "inside");
            let since = Instant::now();
            machine.kill(machine.pid_of("arm0"));
            assert_survives(survivor, since, how);
            peer.finish().fails_with(1, &["lost with its node", "signal 9"]);
            if how != "traffic" {
                break;
            }
        }
        let arm0 = machine.node("arm0");
        assert_eq!(arm0["state"], "down", "{arm0}");
        assert!(arm0["cause"].as_str().is_some_and(|cause| cause.contains("signal 9")), "{arm0}");
        machine.actor("arm0", &["exit", "0"]).fails_with(1, &["arm0 is down", "signal 9"]);
        assert_eq!(machine.actor("host", &["exit", "0"]).status, 0, "the rest goes on");

        machine.tombolo(["restart", "arm0"]).ok();
        let arm0 = machine.node("arm0");
        assert_eq!((arm0["state"].as_str(), arm0["generation"].as_u64()), (Some("up"), Some(generation + 1)));
        machine.actor("arm0", &["exit", "5"]).fails_with(5, &[]);
        machine.actor("host,arm0", &["exchange", "100"]).ok();
    }
    machine.tombolo(["restart", "arm0"]).fails_with(1, &["only one that is down"]);
    machine.tombolo(["restart", "mars"]).fails_with(1, &["no node 'mars'"]);
    machine.down();
}

#[test]
fn killed_user_monitor_is_noticed_and_restarts() {
    let machine = Machine::up(&zoo());
    for how in ["recv", "send", "traffic"] {
        let (peer, survivor) = pair(&machine, how, "s390x-user", "arm0", "foreign");
        let since = Instant::now();
        machine.kill(machine.pid_of("s390x-user"));
        assert_survives(survivor, since, how);
        peer.finish().fails_with(1, &["lost with its node"]);
        assert_eq!(machine.node("s390x-user")["state"], "down");
        assert!(eventually(|| machine.processes("actor").is_empty()), "domains go with their monitor");
        machine.tombolo(["restart", "s390x-user"]).ok();
        machine.actor("s390x-user,arm0", &["exchange", "100"]).ok();
    }
    machine.down();
}

#[test]
fn death_of_root_monitor_ends_everything() {
    for on in ["host", "arm0", "host,arm0,s390x-user"] {
        let machine = Machine::up(&zoo());
        let job = machine.start_actor(on, &["sleep", "1000"]);
        for node in on.split(',') {
            assert!(eventually(|| !machine.domains_on(node).is_empty()), "{node}");
        }
        machine.kill(machine.pid_of("host"));
        job.finish().fails_with(1, &["monitor of machine", "is gone"]);
        machine.tombolo(["status"]).fails_with(1, &["is not up"]);
        machine.has_ended();
    }
}

#[test]
fn death_of_tombolo_run_ends_its_domains() {
    let machine = Machine::up(&zoo());
    for _ in 0..3 {
        let job = machine.start_actor("host:2,arm0,s390x-user", &["sleep", "1000"]);
        for (rank, node) in ["host", "host", "arm0", "s390x-user"].into_iter().enumerate() {
            job.wait_for(&format!("[{rank}@{node}] sleeping"));
        }
        job.signal(Signal::KILL);
        assert_eq!(job.finish().status, 137);
        for node in ["host", "arm0", "s390x-user"] {
            assert!(eventually(|| machine.domains_on(node).is_empty()), "{node}");
        }
        assert!(eventually(|| machine.processes("sleep 1000").is_empty()));
    }
    machine.down();
}

#[test]
fn children_end_with_their_parent() {
    let machine = Machine::up(&duo());
    let image = actor_image();
    let image = image.to_str().expect("a path of text");
    let job = machine.start(["run", "--on", "host", image, "parent", "arm0", "sleep", "1000"]);
    job.wait_for("sleeping");
    kill_domains(&machine, "host");
    job.finish().fails_with(137, &["SIGKILL"]);
    assert!(eventually(|| machine.domains_on("arm0").is_empty()), "its child on arm0 goes on");
    machine.down();
}

/// Shell commands whose processes outlive their parent.
const ESCAPES: [&str; 4] = [
    "sleep 1001 &",
    "setsid sleep 1001 &",
    "(setsid sh -c 'sleep 1001 & setsid sleep 1001 & wait' &)",
    "trap '' TERM; setsid nohup sh -c 'sleep 1001; sleep 1001' &",
];

#[test]
fn orphans_of_an_ended_domain_are_killed() {
    let machine = Machine::up(&zoo());
    for node in ["host", "s390x-user"] {
        for escape in ESCAPES {
            machine.actor(node, &["leave-behind", escape, "0.3"]).ok();
            let gone = eventually(|| machine.processes("sleep 1001").is_empty());
            assert!(gone, "on {node}, {escape:?} leaves {:?}", machine.processes("sleep 1001"));
        }
    }
    // In a virtual machine, check the guest's process table.
    for escape in ESCAPES {
        machine.actor("arm0", &["leave-behind", escape, "0.3"]).ok();
        let left = || {
            let mut console = machine.start(["console", "arm0", "--for", "2"]);
            console.feed(b"echo left: $(ps | grep -c '[s]leep 1001')\n".to_vec());
            console.finish().text()
        };
        assert!(eventually(|| left().contains("left: 0")), "{escape:?} leaves something in arm0");
    }
    machine.down();
}

#[test]
fn processes_of_a_live_domain_are_kept() {
    let machine = Machine::up(&duo());
    // Orphans of a running domain belong to it and end with it; the end of another domain does not affect
    // them.
    let job = machine.start_actor("host", &["leave-behind", "(setsid sleep 1002 &)", "1000"]);
    job.wait_for("left behind");
    machine.actor("host", &["leave-behind", "(setsid sleep 1001 &)", "0.3"]).ok();
    assert!(eventually(|| machine.processes("sleep 1001").is_empty()), "the other's is gone");
    let orphan =
        || leftovers::processes(machine.name()).iter().any(|found| found.command_line == "sleep 1002");
    assert!(orphan(), "this one's goes on");
    kill_domains(&machine, "host");
    assert_eq!(job.finish().status, 137);
    assert!(eventually(|| !orphan()), "it outlives its domain");
    machine.down();
}

#[test]
fn orphans_end_with_the_machine() {
    let escape = "setsid sh -c 'sleep 1001 & setsid sleep 1001 & wait' &";
    for how in ["down", "root", "node"] {
        let machine = Machine::up(&MachineFile::host().with_user("s390x-user", "s390x"));
        let job = machine.start_actor("host,s390x-user", &["leave-behind", escape, "1000"]);
        job.wait_for("[0@host] left behind");
        job.wait_for("[1@s390x-user] left behind");
        match how {
            "down" => machine.down(),
            "root" => {
                machine.kill(machine.pid_of("host"));
                machine.has_ended();
            }
            _ => {
                machine.kill(machine.pid_of("s390x-user"));
                job.finish().fails_with(1, &["lost with its node"]);
                assert!(eventually(|| machine.processes("sleep 1001").is_empty()));
                machine.down();
            }
        }
    }
}

#[test]
fn machine_killed_during_startup_leaves_nothing() {
    let mut random = tombolo_e2e::Random::new(7);
    for round in 0..8 {
        let mut machine = Machine::new(&zoo());
        let up = machine.start(["up".as_ref(), machine.file().as_os_str()]);
        std::thread::sleep(Duration::from_millis(random.below(1500)));
        if round % 2 == 0 {
            up.signal(Signal::KILL);
            let finished = up.finish();
            if finished.status == 0 {
                machine.tombolo(["down"]).ok();
            }
        } else {
            let monitors = machine.processes("tombolod up");
            monitors.first().into_iter().for_each(|pid| machine.kill(*pid));
            let finished = up.finish();
            assert!(finished.status <= 1, "{finished}");
            // The machine is ending, has ended, or was not hit: `down` succeeds in the first and the last
            // case.
            if finished.status == 0 && !leftovers::sockets(machine.name()).is_empty() {
                let down = machine.tombolo(["down"]);
                assert!(down.status == 0 || down.stderr.contains("is not up"), "{down}");
            }
        }
        machine.assert_gone();
        // Leftovers of the killed machine must not prevent the next start.
        if round >= 6 {
            machine.bring_up();
            machine.down();
        } else {
            machine.has_ended();
        }
    }
}
