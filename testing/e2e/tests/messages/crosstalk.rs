//! Each language on each kind of node serves and calls each other one: every type of the interface language
//! with its limits, capabilities to memory and endpoints, bulk buffers, and old and new versions of an
//! interface.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use tombolo_e2e::c::{AARCH64, ARMV7, HOST, I386, S390X, Toolchain};
use tombolo_e2e::go::Go;
use tombolo_e2e::python::{GuestPython, Python};
use tombolo_e2e::{Machine, MachineFile, Running, actor_image, has_narrow, host_actor, narrow_actor_image};

/// A program that serves and calls.
struct Speaker {
    name: &'static str,
    node: &'static str,
    program: Program,
}

/// Kind of a speaker.
enum Program {
    /// The test program, whose commands have a common prefix.
    Rust(PathBuf),
    C(PathBuf),
    /// An interpreter that is not started by the machine but attaches to it, as is usual.
    Python(Python),
    /// An interpreter that the machine starts, on a node with its own files.
    GuestPython(GuestPython),
    /// A Go program, which passes neither capabilities nor buffers.
    Go(PathBuf),
}

impl Speaker {
    fn is_plain(&self) -> bool {
        matches!(self.program, Program::Go(_))
    }

    fn start(&self, machine: &Machine, verb: &str, words: &[&str]) -> Running {
        let (program, prefix) = match &self.program {
            Program::Rust(program) => (program, "typed-"),
            Program::C(program) | Program::Go(program) => (program, ""),
            Program::Python(python) => {
                return Running::start(python.command(machine).args(["typed.py", verb]).args(words));
            }
            Program::GuestPython(python) => {
                let all = ["typed.py", verb].iter().chain(words).copied().collect::<Vec<_>>();
                return python.start(machine, self.node, &all);
            }
        };
        let verb = format!("{prefix}{verb}");
        let head = ["run", "--on", self.node].map(OsStr::new);
        let head = head.into_iter().chain([program.as_os_str(), OsStr::new(&verb)]);
        machine.start(head.chain(words.iter().map(OsStr::new)))
    }
}

const SOURCES: [&str; 5] = [
    "testing/e2e/c/typed.c",
    "testing/e2e/c/everything.c",
    "testing/e2e/c/growth.c",
    "testing/e2e/c/passing.c",
    "testing/e2e/c/buffers.c",
];

/// Returns all available speakers on these nodes; those that cannot be built were reported as skipped.
fn speakers(machine: &Machine, nodes: &[&str], on_arm: Option<GuestPython>) -> Vec<Speaker> {
    let in_rust = [
        ("rust-host", "host", host_actor as fn() -> PathBuf),
        ("rust-arm", "arm0", actor_image),
        ("rust-s390x", "s390x-user", actor_image),
        ("rust-i386", "i386-user", narrow_actor_image),
        ("rust-armv7", "armv7-user", narrow_actor_image),
    ];
    let in_c = [
        ("c-host", "host", HOST),
        ("c-arm", "arm0", AARCH64),
        ("c-s390x", "s390x-user", S390X),
        ("c-i386", "i386-user", I386),
        ("c-armv7", "armv7-user", ARMV7),
    ];
    let built = |(name, node, toolchain): (&'static str, &'static str, Toolchain)| {
        let library = toolchain.library()?;
        let program = machine.folder().join(name);
        toolchain.build(&SOURCES, &library, &program);
        Some(Speaker { name, node, program: Program::C(program) })
    };
    let here = |node: &str| nodes.contains(&node);
    let in_rust = in_rust.into_iter().filter(|(_, node, _)| here(node));
    let mut all: Vec<Speaker> = in_rust
        .map(|(name, node, program)| Speaker { name, node, program: Program::Rust(program()) })
        .collect();
    all.extend(in_c.into_iter().filter(|(_, node, _)| here(node)).filter_map(built));
    let python = Python::of(machine).map(Program::Python);
    all.extend(python.map(|program| Speaker { name: "python-host", node: "host", program }));
    let on_arm = on_arm.map(Program::GuestPython);
    all.extend(on_arm.map(|program| Speaker { name: "python-arm", node: "arm0", program }));
    let in_go = [
        ("go-host", "host", std::env::consts::ARCH),
        ("go-arm", "arm0", "aarch64"),
        ("go-s390x", "s390x-user", "s390x"),
        // No Go for i386: its run-time crashes during start under `qemu-i386`.
        ("go-armv7", "armv7-user", "armv7"),
    ];
    if let Some(go) = Go::find() {
        // Last, because servers expect clients without capabilities last.
        all.extend(in_go.into_iter().filter(|(_, node, _)| here(node)).map(|(name, node, isa)| {
            let program = machine.folder().join(name);
            go.build("runtime/go", "./internal/speaker", isa, &program);
            Speaker { name, node, program: Program::Go(program) }
        }));
    }
    all
}

/// Timeout of a client for all servers: an interpreter under emulation is slow, and each server adds to it.
const ALL_SERVERS: Duration = Duration::from_secs(1000);

/// Lets each speaker call each other one. Capabilities are to memory in the window of node `window`, which
/// all of them reach, or in host memory.
fn call_all_pairs(machine: &Machine, speakers: &[Speaker], window: &str) {
    let names: Vec<&str> = speakers.iter().map(|speaker| speaker.name).collect();
    let clients = names.len().to_string();
    let plain = speakers.iter().filter(|speaker| speaker.is_plain()).count().to_string();
    let serve = |speaker: &Speaker| {
        let words = [speaker.name, &clients, &plain];
        let running = speaker.start(machine, "serve", if speaker.is_plain() { &words[..2] } else { &words });
        running.wait_for("serving ");
        running
    };
    let servers: Vec<Running> = speakers.iter().map(serve).collect();
    let called = speakers.iter().map(|speaker| match speaker.is_plain() {
        true => format!("plain:{}", speaker.name),
        false => speaker.name.to_owned(),
    });
    let called: Vec<String> = std::iter::once(window.to_owned()).chain(called).collect();
    let called: Vec<&str> = called.iter().map(String::as_str).collect();
    for speaker in speakers {
        let words = if speaker.is_plain() { &names } else { &called };
        let said = speaker.start(machine, "call", words).finish_within(ALL_SERVERS).ok();
        let understood: Vec<&str> =
            said.lines().filter_map(|line| line.split("understood ").nth(1)).collect();
        assert_eq!(understood, names, "{} said\n{said}", speaker.name);
    }
    for server in servers {
        let said = server.finish().ok();
        assert!(said.contains(&format!("served {clients} clients")), "{said}");
    }
}

#[test]
fn every_language_understands_every_other() {
    let machine = Machine::up(&MachineFile::host());
    call_all_pairs(&machine, &speakers(&machine, &["host"], None), "-");
    machine.down();
}

#[test]
fn every_language_on_every_kind_of_node_understands_every_other() {
    let nodes = ["host", "arm0", "s390x-user"];
    let python = GuestPython::of_arm();
    let file = match &python {
        Some(python) => python.on_vm(MachineFile::host(), "arm0"),
        None => MachineFile::host().with_vm("arm0", ""),
    };
    let mut machine = Machine::new(&file.with_user("s390x-user", "s390x"));
    if let Some(python) = &python {
        python.install(&machine, "arm0");
    }
    let speakers = speakers(&machine, &nodes, python);
    machine.bring_up();
    call_all_pairs(&machine, &speakers, "arm0");
    machine.down();
}

/// 32-bit nodes, if the kit supports them: languages whose native integers have the width of an address.
#[test]
fn every_language_understands_programs_of_32_bits() {
    let narrow = [("i386-user", "i386", "qemu-i386"), ("armv7-user", "armv7", "qemu-arm")];
    let narrow = narrow.into_iter().filter(|(_, isa, emulator)| has_narrow(isa, emulator));
    let (mut file, mut nodes) = (MachineFile::host(), vec!["host"]);
    for (node, isa, _) in narrow {
        file = file.with_user(node, isa);
        nodes.push(node);
    }
    if nodes.len() == 1 {
        return;
    }
    let machine = Machine::up(&file);
    call_all_pairs(&machine, &speakers(&machine, &nodes, None), "-");
    machine.down();
}
