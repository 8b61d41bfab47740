//! Nodes that join by themselves: `tombolo join` on this host, with a file that both sides map as the window.
//!
//! Apart from how the memory is mapped, everything is as with a card: no interrupts, no common process tree,
//! and all communication between the two sides is in the window.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;
use tombolo_e2e::{Finished, Machine, MachineFile, Running, WindowFile, eventually, image, leftovers};

fn file(window: &WindowFile, mib: u64, settings: &str) -> MachineFile {
    let source = window.source();
    let isa = std::env::consts::ARCH;
    MachineFile::host().with_setting(&format!(
        "[[node]]\nname = \"card0\"\nkind = \"attached\"\nisa = \"{isa}\"\nwindow = \"{source}\"\nwindow_mib = {mib}\n\
         silence_s = 2\n{settings}"
    ))
}

/// Starts `tombolo join` with these arguments; it knows nothing of the machine but the window.
fn join(machine: &Machine, window: &WindowFile, words: &[&str]) -> Running {
    let mut command: Command = machine.command();
    command.env_remove("TOMBOLO_MACHINE");
    Running::start(command.arg("join").arg(window.source()).args(["--silence", "2"]).args(words))
}

/// Starts the host's build of the test program on these nodes, which have its instruction set.
fn start_actor(machine: &Machine, on: &str, words: &[&str]) -> Running {
    let program = tombolo_e2e::host_actor().display().to_string();
    machine.start(["run", "--on", on, &program].iter().chain(words))
}

fn actor(machine: &Machine, on: &str, words: &[&str]) -> Finished {
    start_actor(machine, on, words).finish()
}

#[track_caller]
fn wait_until_up(machine: &Machine) {
    let up = eventually(|| machine.node("card0")["state"] == "up");
    assert!(up, "{}", machine.node("card0"));
}

#[track_caller]
fn wait_until_down(machine: &Machine, words: &str) {
    let has_words = || machine.node("card0")["cause"].as_str().is_some_and(|cause| cause.contains(words));
    assert!(eventually(has_words), "{}", machine.node("card0"));
}

fn lent_bytes(machine: &Machine) -> u64 {
    machine.node("card0")["window_used_bytes"].as_u64().expect("bytes")
}

#[test]
fn joined_node_dies_and_is_replaced() {
    let window = WindowFile::new(64);
    let mut machine = Machine::new(&file(&window, 64, "key = \"key\""));
    std::fs::write(machine.folder().join("key"), [7; 32]).expect("a key");
    let key = machine.folder().join("key").display().to_string();
    machine.bring_up();
    wait_until_down(&machine, "waiting for `tombolo join`");
    actor(&machine, "card0", &["exit", "0"]).fails_with(1, &["waiting for `tombolo join`"]);

    // The joined node behaves like any other.
    let joined = join(&machine, &window, &["--key", &key]);
    wait_until_up(&machine);
    actor(&machine, "host,card0", &["exchange", "2000"]).ok();
    actor(&machine, "card0,card0", &["exchange", "200"]).ok();
    assert_eq!(actor(&machine, "card0", &["exit", "7"]).status, 7);

    // A second joiner, and one with another key.
    join(&machine, &window, &["--key", &key])
        .finish()
        .fails_with(1, &["another `tombolo join` has this node"]);

    // It dies with a channel open: its peer learns of it and no memory stays lent.
    let peer = start_actor(&machine, "card0", &["hold", "victim"]);
    peer.wait_for("serving");
    let survivor = start_actor(&machine, "host", &["lose-peer", "recv", "victim"]);
    survivor.wait_for("connected");
    peer.wait_for("holding");
    let monitor = joined.pid();
    machine.kill(monitor);
    assert!(survivor.finish().ok().contains("peer died"));
    assert_ne!(peer.finish().status, 0);
    wait_until_down(&machine, "no sign of life");
    assert!(eventually(|| lent_bytes(&machine) == 0), "{}", machine.node("card0"));
    let _ = joined.finish();

    // A joiner with another key is refused on both sides; after it the right one is accepted.
    std::fs::write(machine.folder().join("other"), [8; 32]).expect("a key");
    let other = machine.folder().join("other").display().to_string();
    join(&machine, &window, &["--key", &other]).finish().fails_with(1, &["another key"]);
    wait_until_down(&machine, "the last joiner was refused: the other side has another key");
    let joined = join(&machine, &window, &["--key", &key]);
    wait_until_up(&machine);
    assert_eq!(machine.node("card0")["generation"], 2);
    actor(&machine, "host,card0", &["exchange", "200"]).ok();

    // The host's machine goes down and comes back: the node joins again.
    machine.tombolo(["down"]).ok();
    machine.bring_up();
    wait_until_up(&machine);
    actor(&machine, "host,card0", &["exchange", "200"]).ok();

    // The root is killed; its node waits for the next.
    let root = machine.processes("serve");
    machine.kill(root[0]);
    // The name is free once the root's supervisor has cleaned up.
    assert!(eventually(|| machine.tombolo([Path::new("up"), machine.file()]).status == 0));
    wait_until_up(&machine);
    actor(&machine, "host,card0", &["exchange", "200"]).ok();

    // It leaves on SIGTERM and exits with success.
    joined.signal(Signal::TERM);
    joined.finish().ok();
    wait_until_down(&machine, "it left");
    machine.down();
}

#[test]
fn mismatch_is_reported_on_both_sides() {
    let window = WindowFile::new(4);
    let machine = Machine::up(&file(&window, 4, ""));
    // Fails before there is a root: the size differs from the file's.
    let words = ["--size-mib", "8", "--timeout", "5"];
    join(&machine, &window, &words).finish().fails_with(1, &["4194304 bytes", "8388608"]);
    join(&machine, &window, &["--node", "card1", "--timeout", "20"])
        .finish()
        .fails_with(1, &["belongs to node 'card0', not to 'card1'"]);
    // The host maps less than this side.
    let longer = std::fs::File::options().write(true).open(window.path()).expect("the window");
    longer.set_len(8 << 20).expect("a size");
    join(&machine, &window, &["--timeout", "20"]).finish().fails_with(1, &["maps 4194304 bytes"]);
    wait_until_down(&machine, "maps 8388608 bytes");
    longer.set_len(4 << 20).expect("a size");
    let joined = join(&machine, &window, &["--once"]);
    wait_until_up(&machine);
    machine.tombolo(["restart", "card0", "--force"]).fails_with(1, &["restart `tombolo join` on it"]);
    machine.tombolo(["console", "card0", "--no-input"]).fails_with(1, &["has no console"]);
    machine.down();
    joined.finish().ok();
}

/// A word of a window that loses every write: a thread keeps setting it to 0.
struct LostWord(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl LostWord {
    fn new(window: &WindowFile, word: u64) -> LostWord {
        let file = std::fs::File::options().write(true).open(window.path()).expect("the window");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let lose = move || {
            while !stopped.load(Ordering::Relaxed) {
                file.write_all_at(&[0; 8], word * 8).expect("it can be written");
            }
        };
        LostWord(stop, Some(std::thread::spawn(lose)))
    }
}

impl Drop for LostWord {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// Runs joiners until one is refused because of the lost writes, and returns its result. A joiner that joins
/// because nothing happened to be lost leaves again.
fn refused(machine: &Machine, window: &WindowFile) -> Finished {
    for _ in 0..50 {
        let mut joiner = join(machine, window, &["--once", "--timeout", "20"]);
        assert!(eventually(|| !joiner.is_running() || machine.node("card0")["state"] == "up"));
        if !joiner.is_running() {
            return joiner.finish();
        }
        joiner.signal(Signal::TERM);
        joiner.finish().ok();
        wait_until_down(machine, "it left");
    }
    panic!("it joined 50 times");
}

/// Both sides of the rendezvous write a test pattern (`docs/specs/rendezvous.md`): the root from word 328 on,
/// the joiner from word 456 on.
#[test]
fn lossy_window_is_refused_unless_forced() {
    for word in [330, 460] {
        let window = WindowFile::new(64);
        let lost = LostWord::new(&window, word);
        let machine = Machine::up(&file(&window, 64, ""));
        refused(&machine, &window).fails_with(
            1,
            &["the window is unsound", "1 of 48 words", "`tombolo litmus`", "`tombolo join --force`"],
        );
        wait_until_down(&machine, "the window is unsound: 1 of 48 words");
        let joined = join(&machine, &window, &["--once", "--force"]);
        wait_until_up(&machine);
        drop(lost);
        actor(&machine, "host,card0", &["exchange", "200"]).ok();
        machine.down();
        joined.finish().ok();
    }
}

/// In any order of their stores, one joiner gets the node and each other learns that it is taken. None is
/// told that its key is wrong or that the window is unsound.
#[test]
fn one_of_several_concurrent_joiners_wins() {
    let window = WindowFile::new(4);
    let mut machine = Machine::new(&file(&window, 4, "key = \"key\""));
    std::fs::write(machine.folder().join("key"), [7; 32]).expect("a key");
    let key = machine.folder().join("key").display().to_string();
    machine.bring_up();
    for round in 1..=6 {
        let joiners =
            [(); 4].map(|()| join(&machine, &window, &["--once", "--timeout", "60", "--key", &key]));
        let pids = joiners.each_ref().map(Running::pid);
        let ends = joiners.map(|joiner| std::thread::spawn(move || joiner.finish()));
        assert!(eventually(|| ends.iter().filter(|end| end.is_finished()).count() == 3), "round {round}");
        wait_until_up(&machine);
        assert_eq!(machine.node("card0")["generation"], round);
        let one = ends.iter().position(|end| !end.is_finished()).expect("one is the node");
        let pid = rustix::process::Pid::from_raw(pids[one]).expect("a process");
        rustix::process::kill_process(pid, Signal::TERM).expect("it lives");
        for (index, end) in ends.into_iter().enumerate() {
            let finished = end.join().expect("it ends");
            if index == one {
                finished.ok();
            } else {
                finished.fails_with(1, &["another `tombolo join` has this node"]);
            }
        }
        wait_until_down(&machine, "it left");
    }
    machine.down();
}

/// Each side sees only what the other has written back, from the rendezvous on.
#[test]
fn a_node_joins_through_memory_that_is_not_coherent() {
    for (seed, one_in) in [(1, 0), (2, 2)] {
        let window = WindowFile::new(64);
        let (seed, one_in) = (seed.to_string(), one_in.to_string());
        let settings = format!("coherence = \"flush\"\ncache_seed = {seed}\nevict_one_in = {one_in}\n");
        let machine = Machine::up(&file(&window, 64, &settings));
        let as_said = ["--coherence", "flush", "--cache-seed", &seed, "--evict-one-in", &one_in];

        // Both sides must declare the same coherence.
        join(&machine, &window, &["--timeout", "20"])
            .finish()
            .fails_with(1, &["different things about coherence", "coherent here, flush, emulated"]);
        wait_until_down(&machine, "different things about coherence");

        let joined = join(&machine, &window, &as_said);
        wait_until_up(&machine);
        actor(&machine, "host,card0", &["exchange", "2000"]).ok();
        actor(&machine, "card0,card0", &["exchange", "200"]).ok();
        let report = machine.json(&["litmus", "--on", "card0", "--rounds", "4000", "--seconds", "60"]);
        let found = &report["nodes"][0];
        assert_eq!((&found["verdict"], &found["coherence"]), (&"sound".into(), &"flush".into()), "{report}");
        assert_eq!((&found["additions"], &found["atomics"]), (&0.into(), &false.into()), "{report}");
        let said = actor(&machine, "host,card0,host", &["bulk-chain", "full", "card0", "20"]).ok();
        assert!((0..3).all(|rank| said.contains(&format!("rank {rank} is done"))), "{said}");
        let frames = image("frames").display().to_string();
        let said = machine.tombolo(["run", "--on", "host,card0,host", &frames]).ok();
        assert!(said.contains("200 frames of 640x480 in 4 buffers") && said.contains("by card0"), "{said}");

        // A peer learns of the other's death, and the node comes back by itself.
        let peer = start_actor(&machine, "card0", &["hold", "victim"]);
        peer.wait_for("serving");
        let survivor = start_actor(&machine, "host", &["lose-peer", "recv", "victim"]);
        survivor.wait_for("connected");
        peer.wait_for("holding");
        machine.kill(joined.pid());
        assert!(survivor.finish().ok().contains("peer died"));
        assert_ne!(peer.finish().status, 0);
        let _ = joined.finish();
        wait_until_down(&machine, "no sign of life");
        assert!(eventually(|| lent_bytes(&machine) == 0), "{}", machine.node("card0"));
        let joined = join(&machine, &window, &as_said);
        wait_until_up(&machine);
        actor(&machine, "host,card0", &["exchange", "200"]).ok();
        joined.signal(Signal::TERM);
        joined.finish().ok();
        machine.down();
    }
}

#[test]
fn joiner_without_machine_times_out() {
    let window = WindowFile::new(1);
    let machine = Machine::new(&MachineFile::host());
    join(&machine, &window, &["--timeout", "1"])
        .finish()
        .fails_with(1, &["no machine offered the window", "within 1 s", "tombolo up"]);
    let small = WindowFile::new(0);
    std::fs::write(small.path(), [0; 4096]).expect("a file");
    join(&machine, &small, &[]).finish().fails_with(1, &["has 4096 bytes", "1048576 or more"]);
    std::fs::write(small.path(), vec![7; 1 << 20]).expect("a file");
    join(&machine, &small, &[]).finish().fails_with(1, &["not a window of a Tombolo machine"]);
    machine.tombolo(["join", "nfs:/x"]).fails_with(2, &["invalid window 'nfs:/x'"]);
    machine.tombolo(["join"]).fails_with(2, &["WINDOW"]);
    assert!(leftovers::processes(machine.name()).is_empty());
}

#[test]
fn missing_or_wrong_sized_window_prevents_startup() {
    let window = WindowFile::new(2);
    let machine = Machine::new(&file(&window, 4, ""));
    let up = || machine.tombolo([Path::new("up"), machine.file()]);
    up().fails_with(1, &["card0", "2097152 bytes", "4194304"]);
    drop(window);
    up().fails_with(1, &["card0", "No such file"]);
}
