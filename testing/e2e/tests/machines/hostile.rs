//! Malicious peers and clients: they only break what is their own, their resources are limited, and others
//! are still served.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo_control::{
    ClientMessage, FINGERPRINT, Fault, MAX_MESSAGE_BYTES, MonitorMessage, Reply, Request, Wire, socket_name,
};
use tombolo_e2e::{Machine, MachineFile, Random, Running, actor_image, eventually};
use tombolo_link::ChannelConfig;
use tombolo_naming::Scope;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::socket::receive;
use tombolo_platform::{Deadline, Errno, process, socket};

/// Number of channels that an endless client requests; `TOMBOLO_STORM` overrides it.
fn storm_channels() -> u32 {
    std::env::var("TOMBOLO_STORM").ok().and_then(|count| count.parse().ok()).unwrap_or(5000)
}

fn connect(machine: &Machine) -> OwnedFd {
    socket::connect(&socket_name(process::user_id(), machine.name(), None)).expect("the monitor listens")
}

/// Sends a request and receives messages while the socket is full.
fn send(client: &OwnedFd, request: u32, body: Request, heard: &mut Vec<MonitorMessage>) {
    let bytes = ClientMessage { request, body }.to_bytes().unwrap();
    let until = Deadline::after(tombolo_e2e::PATIENCE);
    loop {
        match socket::send(client, &bytes, &[]) {
            Ok(_) => return,
            Err(Errno::AGAIN) => {
                assert!(!until.passed(), "the monitor takes nothing any more");
                poll(&[(client.as_fd(), Interest::ReadWrite)], Some(until)).expect("poll");
                receive_messages(client, heard);
            }
            Err(errno) => panic!("the monitor hung up: {errno}"),
        }
    }
}

fn receive_messages(client: &OwnedFd, heard: &mut Vec<MonitorMessage>) {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    while let Ok(received) = socket::receive(client, &mut buffer) {
        if received.length == 0 {
            return;
        }
        heard.push(MonitorMessage::from_bytes(&buffer[..received.length]).expect("a message"));
    }
}

fn attach(client: &OwnedFd) {
    let answer = answer(client);
    assert!(matches!(answer.body, Reply::Attach { .. }), "{answer:?}");
}

/// Returns the monitor's first answer to an attaching client.
fn answer(client: &OwnedFd) -> MonitorMessage {
    let body = Request::Attach { version: FINGERPRINT, program: "hostile".into() };
    let bytes = ClientMessage { request: 1, body }.to_bytes().unwrap();
    // A rejected client can no longer send but can read the reason.
    let _ = socket::send(client, &bytes, &[]);
    let mut heard = Vec::new();
    assert!(eventually(|| {
        receive_messages(client, &mut heard);
        !heard.is_empty()
    }));
    heard.swap_remove(0)
}

fn is_limit(body: &Reply, key: &str) -> bool {
    matches!(body, Reply::Failed { fault: Fault::Limit { what } } | Reply::TurnedAway { fault: Fault::Limit { what } }
        if what.contains(key))
}

/// Runs honest clients against the server until `others` have ended, then stops the server and returns its
/// output.
fn talk_beside(machine: &Machine, name: &str, server: Running, mut others: Vec<Running>) -> String {
    let mut talks = 0;
    while talks == 0 || others.iter_mut().any(Running::is_running) {
        machine.actor("host", &["honest", name, "200"]).ok();
        talks += 1;
    }
    for other in others {
        let finished = other.finish();
        assert!(!finished.stderr.contains("panicked"), "{finished}");
    }
    machine.actor("host", &["honest-last", name, "200"]).ok();
    server.finish().ok()
}

#[test]
fn scribbling_peer_fails_only_its_channel() {
    let machine = Machine::up(&MachineFile::host());
    let server = machine.start_actor("host", &["steadfast", "rock"]);
    server.wait_for("serving");
    let scribble = |seed: &&str| machine.start_actor("host", &["scribble", "rock", seed, "20"]);
    let said = talk_beside(&machine, "rock", server, ["1", "2"].iter().map(scribble).collect());
    assert!(said.contains("others failed") && !said.contains(" 0 others"), "nothing was scribbled: {said}");
    machine.down();
}

#[test]
fn non_reader_and_flooder_stall_only_themselves() {
    let machine = Machine::up(&MachineFile::host());
    let server = machine.start_actor("host", &["steadfast", "rock"]);
    server.wait_for("serving");
    let mute = machine.start_actor("host", &["mute", "rock"]);
    let flood = machine.start_actor("host", &["flood-channel", "rock", "20000"]);
    machine.actor("host", &["honest", "rock", "200"]).ok();
    let said = mute.finish().ok();
    assert!(said.contains("more refused"), "a ring has an end: {said}");
    assert!(flood.finish().ok().contains("20000 were taken"));
    let said = talk_beside(&machine, "rock", server, Vec::new());
    assert!(said.contains("lost one that began honestly"), "{said}");
    machine.down();
}

#[test]
fn scribbling_virtual_machine_harms_only_its_window() {
    // Built in advance, so that the scribblers do not delay it.
    let _ = actor_image();
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let root = machine.pid_of("host");
    let server = machine.start_actor("host", &["steadfast", "rock"]);
    server.wait_for("serving");
    // First it scribbles into memory lent to it: its neighbours in the same window must not be affected.
    let scribbler = machine.start_actor("arm0", &["scribble", "rock", "3", "4"]);
    machine.actor("arm0", &["honest", "rock", "20"]).ok();
    let said = talk_beside(&machine, "rock", server, vec![scribbler]);
    assert!(said.contains("others failed") && !said.contains(" 0 others"), "nothing was scribbled: {said}");

    // Then into everything in its reach, while programs on the host talk.
    let before = machine.memory_kib(root);
    let server = machine.start_actor("host", &["steadfast", "hill"]);
    server.wait_for("serving");
    let scribblers = ["4", "5"].map(|seed| machine.start_actor("arm0", &["scribble-window", seed, "200000"]));
    talk_beside(&machine, "hill", server, scribblers.into());
    let more = machine.memory_kib(root).saturating_sub(before);
    assert!(more < 32 * 1024, "the monitor grew by {more} KiB");
    // The node may have lost its monitor. If so, the cause is reported and it comes back.
    let node = machine.node("arm0");
    if node["state"] == "up" {
        machine.kill(machine.pid_of("arm0"));
        assert!(eventually(|| machine.node("arm0")["state"] == "down"));
    }
    machine.tombolo(["restart", "arm0"]).ok();
    assert_eq!(machine.actor("arm0", &["exit", "5"]).status, 5, "it was {node}");
    machine.down();
}

/// Requests a channel to a name and keeps only the memory descriptor that is lent for it: all of the window.
fn lent_window(client: &OwnedFd, name: &str) -> OwnedFd {
    let (timeout, config) = (Duration::from_secs(60), ChannelConfig::default());
    let name = name.to_owned();
    send(
        client,
        2,
        Request::Connect { scope: Scope::Machine, name, timeout, config, by: None },
        &mut Vec::new(),
    );
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let mut window = None;
    let is_window = |fd: &OwnedFd| {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        std::fs::read_link(path).is_ok_and(|file| file.to_string_lossy().contains("tombolo-window"))
    };
    assert!(eventually(|| {
        window =
            receive(client, &mut buffer).ok().and_then(|received| received.fds.into_iter().find(is_window));
        window.is_some()
    }));
    window.expect("it was lent")
}

#[test]
fn scribbling_host_program_harms_only_that_node() {
    // Built first: a server would time out while the programs for other nodes are compiled.
    let _ = actor_image();
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    let root = machine.pid_of("host");
    let server = machine.start_actor("host", &["steadfast", "rock"]);
    server.wait_for("serving");
    let behind = machine.start_actor("arm0", &["steadfast", "hill"]);
    behind.wait_for("serving");
    let client = connect(&machine);
    attach(&client);
    let window = lent_window(&client, "hill");
    let length = rustix::fs::fstat(&window).expect("a file").st_size as usize;
    let memory = tombolo_platform::memory::map(&window, 0, length).expect("it can be mapped");
    let before = machine.memory_kib(root);

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The monitors' area, the memory that is lent first, or the whole window; as long as the machine is
        // up.
        scope.spawn(|| {
            let mut random = Random::new(6);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..1000 {
                    let reach = [1 << 16, 1 << 20, length as u64][random.below(3) as usize];
                    let word =
                        [random.word(), random.below(64), 1 << random.below(64)][random.below(3) as usize];
                    memory
                        .copy_in((random.below(reach) & !7) as usize, &word.to_le_bytes())
                        .expect("in bounds");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let done = catch_unwind(AssertUnwindSafe(|| {
            for node in ["host", "s390x-user"] {
                machine.actor(node, &["honest", "rock", "50"]).ok();
            }
            // The node may have lost its monitor or may be losing it now. It comes back with another window.
            let node = machine.node("arm0");
            if node["state"] == "up" {
                machine.kill_if_there(node["pid"].as_i64().expect("a process id") as i32);
                assert!(eventually(|| machine.node("arm0")["state"] == "down"));
            }
            machine.tombolo(["restart", "arm0"]).ok();
            machine.actor("arm0", &["honest", "rock", "50"]).ok();
            machine.actor("host", &["honest-last", "rock", "50"]).ok();
        }));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic));
    });
    server.finish().ok();
    let more = machine.memory_kib(root).saturating_sub(before);
    assert!(more < 32 * 1024, "the monitor grew by {more} KiB");
    drop((client, window, behind));
    machine.down();
}

#[test]
fn endless_connections_hit_the_limit() {
    let machine = Machine::up(&MachineFile::host());
    let default = tombolo_limit("connections_per_process");
    let mut open: Vec<OwnedFd> = (0..default).map(|_| connect(&machine)).collect();
    let one_more = connect(&machine);
    let mut heard = Vec::new();
    let told = eventually(|| {
        receive_messages(&one_more, &mut heard);
        !heard.is_empty()
    });
    assert!(told && is_limit(&heard[0].body, "connections_per_process"), "{heard:?}");
    assert_eq!(machine.actor("host", &["exit", "4"]).status, 4, "others are served");
    open.truncate(default / 2);
    let back = eventually(|| {
        let client = connect(&machine);
        matches!(answer(&client).body, Reply::Attach { .. })
    });
    assert!(back, "what was given back can be had again");
    machine.down();
}

/// Returns the default of a limit from the specification of machine files.
fn tombolo_limit(key: &str) -> usize {
    let specification = include_str!("../../../../docs/specs/machine-file.md");
    let row = specification.lines().find(|line| line.starts_with(&format!("| `{key}`"))).expect("a row");
    row.split('|').nth(3).and_then(|cell| cell.trim().parse().ok()).expect("a number")
}

#[test]
fn endless_connects_hit_backlog_and_limits() {
    let machine = Machine::up(&MachineFile::host());
    let root = machine.pid_of("host");
    // A listener that never accepts.
    let victim = machine.start_actor("host", &["export", "slow"]);
    victim.wait_for("exported");
    let client = connect(&machine);
    attach(&client);
    let (before, memory) = (machine.open_descriptors(root), machine.memory_kib(root));
    let mut heard = Vec::new();
    let ask = |heard: &mut Vec<MonitorMessage>| {
        for request in 0..storm_channels() {
            let timeout = Duration::from_secs(600);
            let config = ChannelConfig::default();
            let body =
                Request::Connect { scope: Scope::Machine, name: "slow".into(), timeout, config, by: None };
            send(&client, request + 10, body, heard);
        }
    };
    ask(&mut heard);
    let (backlog, waiting) = (tombolo_limit("backlog"), tombolo_limit("waiting_per_domain"));
    let expected = storm_channels() as usize - waiting;
    let all = eventually(|| {
        receive_messages(&client, &mut heard);
        heard.len() >= expected
    });
    assert!(all, "{} answers of {expected}", heard.len());
    let opened = heard.iter().filter(|message| matches!(message.body, Reply::Connect { .. })).count();
    let refused = heard.iter().filter(|message| is_limit(&message.body, "waiting_per_domain")).count();
    assert_eq!((opened, refused), (backlog, expected - backlog));
    let grown = machine.memory_kib(root).saturating_sub(memory);
    assert!(grown < 32 * 1024, "the monitor grew by {grown} KiB");
    let during = machine.open_descriptors(root);
    assert!(during <= before + backlog + 16, "{before} descriptors before, {during} now");
    assert_eq!(machine.actor("host", &["exit", "4"]).status, 4, "others are served");
    let said = machine.actor("host", &["many-channels", "20"]).ok();
    assert!(said.contains("20 channels at once"), "{said}");
    drop((client, victim));
    let same = eventually(|| machine.open_descriptors(root) <= before);
    assert!(same, "{before} descriptors before, {} after", machine.open_descriptors(root));
    machine.down();
}

#[test]
fn endless_opening_and_dropping_leaks_nothing() {
    let machine = Machine::up(&MachineFile::host());
    let root = machine.pid_of("host");
    let server = machine.start_actor("host", &["keep", "door"]);
    server.wait_for("keeping");
    let count = (storm_channels() / 4).to_string();
    machine.actor("host", &["open-without-end", "door", "20"]).ok();
    let (before, memory) = (machine.open_descriptors(root), machine.memory_kib(root));
    let said = machine.actor("host", &["open-without-end", "door", &count]).ok();
    assert!(said.contains(&format!("{count} opened, 0 refused")), "{said}");
    let same = eventually(|| machine.open_descriptors(root) <= before);
    assert!(same, "{before} descriptors before, {} after", machine.open_descriptors(root));
    let grown = machine.memory_kib(root).saturating_sub(memory);
    assert!(grown < 16 * 1024, "the monitor grew by {grown} KiB");
    drop(server);
    machine.down();
}
