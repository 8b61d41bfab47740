//! Any process with access to a monitor's socket may send anything, or nothing, and disconnect at any time.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tombolo_control::FINGERPRINT;
use tombolo_control::records::MAX_GIVEN_NAME;
use tombolo_control::{
    ClientMessage, MAX_MESSAGE_BYTES, ProgramSpec, Request, SpawnRequest, Wire, socket_name,
};
use tombolo_e2e::{Machine, MachineFile, Random, eventually};
use tombolo_naming::{Comparison, EventMask, Operation, Query, Scope};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, Errno, process, socket};

fn machine() -> Machine {
    Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("riscv-user", "riscv64"))
}

/// Monitors with a socket on this kernel: the root and the agent of a node.
const AGENTS: [Option<&str>; 2] = [None, Some("riscv-user")];

fn connect(machine: &Machine, node: Option<&str>) -> OwnedFd {
    socket::connect(&socket_name(process::user_id(), machine.name(), node)).expect("the monitor listens")
}

/// Sends a message; returns false if the monitor has hung up.
fn send(client: &OwnedFd, bytes: &[u8], fds: &[&OwnedFd]) -> bool {
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    let until = Deadline::after(Duration::from_secs(60));
    loop {
        match socket::send(client, bytes, &fds) {
            Ok(_) => return true,
            Err(Errno::AGAIN) if !until.passed() => {
                poll(&[(client.as_fd(), Interest::Write)], Some(until)).expect("poll");
            }
            Err(Errno::AGAIN) => panic!("the monitor takes nothing any more"),
            Err(_) => return false,
        }
    }
}

/// Sends a message; returns false if the monitor does not accept it within a while.
fn is_accepted_soon(client: &OwnedFd, bytes: &[u8]) -> bool {
    let soon = Deadline::after(Duration::from_secs(2));
    loop {
        match socket::send(client, bytes, &[]) {
            Ok(_) => return true,
            Err(Errno::AGAIN) if !soon.passed() => {
                poll(&[(client.as_fd(), Interest::Write)], Some(soon)).expect("poll");
            }
            Err(Errno::AGAIN) => return false,
            Err(errno) => panic!("the monitor hung up: {errno}"),
        }
    }
}

fn attach(client: &OwnedFd) {
    let body = Request::Attach { version: FINGERPRINT, program: "nobody".into() };
    assert!(send(client, &ClientMessage { request: 1, body }.to_bytes().unwrap(), &[]));
}

/// Asserts that all nodes still work.
#[track_caller]
fn assert_nodes_up(machine: &Machine) {
    for node in ["host", "arm0", "riscv-user"] {
        assert_eq!(machine.node(node)["state"], "up", "{node}");
        machine.actor(node, &["exit", "4"]).fails_with(4, &[]);
    }
    assert_eq!(machine.json(&["names"])["names"].as_array().map(Vec::len), Some(0));
}

#[test]
fn garbage_closes_only_its_own_connection() {
    let machine = machine();
    let mut random = Random::new(1);
    for node in AGENTS {
        for round in 0..200 {
            let client = connect(&machine, node);
            if round % 2 == 0 {
                attach(&client);
            }
            let length = 1 + random.below(if round % 10 == 0 { 65_000 } else { 80 }) as usize;
            let garbage: Vec<u8> = (0..length).map(|_| random.word() as u8).collect();
            // The monitor may hang up at any time from here on.
            while send(&client, &garbage, &[]) && random.below(4) > 0 {}
        }
    }
    assert_nodes_up(&machine);
    machine.down();
}

#[test]
fn requests_with_a_flipped_byte_are_harmless() {
    let machine = machine();
    let mut random = Random::new(2);
    let spawn = SpawnRequest {
        node: "arm0".into(),
        own_image: true,
        program: ProgramSpec {
            arguments: vec!["a".into()],
            environment: vec![("A".into(), "b".into())],
            directory: "/".into(),
            stdin: true,
            ..ProgramSpec::new("none")
        },
        given: Vec::new(),
    };
    let config = tombolo_link::ChannelConfig::default();
    let requests = [
        Request::Export { scope: Scope::Machine, name: "flipped".into() },
        Request::Withdraw { listener: 1 },
        Request::Connect {
            scope: Scope::Machine,
            name: "flipped".into(),
            timeout: Duration::from_secs(1),
            config,
            by: None,
        },
        Request::Spawn { spawn },
        Request::Domains { after: 0 },
        Request::Names {
            scope: Scope::Machine,
            operation: Operation::Watch {
                query: Query::glob("f*").compare("a", Comparison::Less, 7).matching("b", "^x+$"),
                events: EventMask::RECORDS,
                once: false,
                capacity: 4,
            },
        },
        Request::Names {
            scope: Scope::Own,
            operation: Operation::Lock { name: "flipped".into(), timeout: Duration::from_secs(1) },
        },
        Request::Nodes { from: 0 },
        Request::ConsoleOpen { node: "arm0".into() },
        Request::ConsoleTaken { node: "arm0".into(), bytes: 9 },
    ];
    for node in AGENTS {
        for round in 0..300 {
            let client = connect(&machine, node);
            attach(&client);
            for request in &requests {
                let mut bytes = ClientMessage { request: 2, body: request.clone() }.to_bytes().unwrap();
                let at = random.below(bytes.len() as u64) as usize;
                // Do not change the kind of request: an accidental `Down` would be obeyed.
                if round > 0 && at >= 8 {
                    bytes[at] ^= 1 << random.below(8);
                }
                if !send(&client, &bytes, &[]) {
                    break;
                }
            }
        }
    }
    assert_nodes_up(&machine);
    machine.down();
}

#[test]
fn silent_clients_do_not_stop_the_monitor() {
    let machine = machine();
    let mut silent: Vec<OwnedFd> = Vec::new();
    for node in AGENTS {
        silent.extend((0..100).map(|_| connect(&machine, node)));
    }
    silent.iter().step_by(2).for_each(attach);
    assert_nodes_up(&machine);
    drop(silent);
    assert_nodes_up(&machine);
    machine.down();
}

#[test]
fn client_that_never_reads_is_no_longer_served() {
    let machine = machine();
    let root = machine.pid_of("host");
    for node in AGENTS {
        let client = connect(&machine, node);
        attach(&client);
        let question = ClientMessage { request: 7, body: Request::Nodes { from: 0 } }.to_bytes().unwrap();
        let before = machine.memory_kib(root);
        let mut asked = 0;
        while asked < 400_000 && is_accepted_soon(&client, &question) {
            asked += 1;
        }
        assert!(asked < 400_000, "the monitor keeps all answers for whoever does not listen");
        // A quarter of a MiB of queued answers, plus allocator overhead.
        assert!(
            machine.memory_kib(root) < before + (16 << 10),
            "{before} KiB before, {} after",
            machine.memory_kib(root)
        );
        assert_nodes_up(&machine);
        // A client that starts to read is served again.
        let mut answers = 0;
        let all = eventually(|| {
            while socket::receive(&client, &mut [0; MAX_MESSAGE_BYTES]).is_ok_and(|answer| answer.length > 0)
            {
                answers += 1;
            }
            answers > asked
        });
        assert!(all, "{answers} answers to {asked} questions and an attachment");
    }
    assert_nodes_up(&machine);
    machine.down();
}

#[test]
fn long_messages_and_many_descriptors_are_harmless() {
    let machine = machine();
    let root = machine.pid_of("host");
    // The monitor caches programs after their first run.
    assert_nodes_up(&machine);
    let before = machine.open_descriptors(root);
    let null: OwnedFd = std::fs::File::open("/dev/null").expect("it is there").into();
    for node in AGENTS {
        // Lengths around the monitor's limit and around 64 KiB.
        for length in
            [MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 1, 64 << 10, (64 << 10) + 1]
        {
            let client = connect(&machine, node);
            attach(&client);
            send(&client, &vec![0; length], &[]);
            // Requests whose answers repeat as much of their input as possible.
            for name_bytes in [100, MAX_GIVEN_NAME as usize - 1, MAX_GIVEN_NAME as usize] {
                let client = connect(&machine, node);
                attach(&client);
                let name = "x".repeat(name_bytes);
                let spawn = SpawnRequest {
                    node: name.clone(),
                    own_image: false,
                    program: ProgramSpec::new("y".repeat(length.min(MAX_MESSAGE_BYTES) - 2048)),
                    given: Vec::new(),
                };
                for body in [
                    Request::Restart { node: name.clone(), force: false },
                    Request::ConsoleOpen { node: name.clone() },
                    Request::Export { scope: Scope::Machine, name: name.clone() },
                    Request::Spawn { spawn },
                ] {
                    send(&client, &ClientMessage { request: 3, body }.to_bytes().unwrap(), &[]);
                }
            }
        }
        // Unsolicited descriptors, valid and invalid.
        let client = connect(&machine, node);
        attach(&client);
        for count in 1..=8 {
            let message = ClientMessage { request: 4, body: Request::Nodes { from: 0 } }.to_bytes().unwrap();
            assert!(send(&client, &message, &vec![&null; count]));
        }
        let message = ClientMessage { request: 5, body: Request::Nodes { from: 0 } }.to_bytes().unwrap();
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        assert!(send(&client, &message, &[&pipe.into()]));
    }
    assert_nodes_up(&machine);
    let same = eventually(|| machine.open_descriptors(root) <= before);
    assert!(same, "{before} descriptors before, {} after", machine.open_descriptors(root));
    machine.down();
}
