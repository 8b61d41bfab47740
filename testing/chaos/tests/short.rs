//! Short runs: each target is killed at least once, nothing hangs, and nothing is left over. Latencies are
//! shown but not asserted, unlike in `cargo xtask chaos`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use tombolo_chaos::{Arguments, Chaos};

fn chaos(seed: u64, words: &str) {
    let words = std::iter::once("chaos").chain(words.split_whitespace());
    let arguments =
        Arguments::try_parse_from(words.chain(["--latency-ms", "0"])).expect("words that are right");
    eprintln!("seed {seed}: {}", arguments.replay(seed));
    let summary = Chaos::start(arguments, seed, Arc::default()).expect("a machine").run(seed);
    eprintln!("{}", summary.table());
    assert!(summary.failures.is_empty(), "{:#?}\nagain with: {}", summary.failures, summary.replay);
}

#[test]
fn domains_die_in_a_population_over_three_instruction_sets() {
    chaos(5, "--kills 60 --only processes");
}

#[test]
fn monitors_of_nodes_the_root_and_its_keeper_die() {
    chaos(6, "--kills 6 --only monitors --nodes riscv-user,s390x-user");
}

#[test]
fn a_virtual_machine_dies_and_comes_back() {
    chaos(7, "--kills 2 --only vms --nodes arm0");
}

#[test]
fn boards_their_programs_and_the_other_ends_die() {
    chaos(12, "--kills 14 --only boards --nodes bare0,bare1,s390x-user --members 3");
}

#[test]
fn relays_between_virtual_machines_die_and_so_do_the_ends() {
    chaos(11, "--kills 30 --only relays --nodes arm0,arm1 --members 3");
}

/// Two windows that are not coherent, one with a cache that never evicts and one that evicts often, and a
/// relay between them.
#[test]
fn everything_dies_beside_windows_that_are_not_coherent() {
    chaos(12, "--kills 20 --nodes arm0,arm1 --members 3 --evict-one-in 0,4");
}

#[test]
fn channels_that_are_closed_in_order_are_no_deaths() {
    chaos(8, "--kills 60 --only channels --host-only");
}

#[test]
fn processes_that_are_stopped_for_a_moment_are_no_deaths() {
    chaos(9, "--kills 12 --only pauses --nodes riscv-user");
}

#[test]
fn a_run_that_is_interrupted_takes_its_machine_down() {
    let interrupted = Arc::new(AtomicBool::new(false));
    let words = ["chaos", "--kills", "1000000", "--only", "processes", "--host-only", "--latency-ms", "0"];
    let chaos = Chaos::start(Arguments::parse_from(words), 10, Arc::clone(&interrupted)).expect("a machine");
    let summary = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            interrupted.store(true, Ordering::Relaxed);
        });
        // Anything left over after the machine came down fails the test.
        chaos.run(10)
    });
    assert!(summary.interrupted && summary.failures.is_empty(), "{:?}", summary.failures);
}

#[test]
fn absent_targets_cannot_be_killed() {
    let words = ["chaos", "--kills", "1", "--only", "vms", "--host-only"];
    let Err(failure) = Chaos::start(Arguments::parse_from(words), 1, Arc::default()) else {
        panic!("it starts")
    };
    assert!(failure.contains("--only"), "{failure}");
}

#[test]
fn invalid_arguments_are_refused() {
    for words in ["--kills x", "--minutes 0", "--only everything", "--members 2", "--kills 3 --minutes 3"] {
        let all = std::iter::once("chaos").chain(words.split_whitespace());
        let error = Arguments::try_parse_from(all).expect_err(words);
        assert_eq!(error.exit_code(), 2, "{words}");
    }
    let arguments = Arguments::parse_from(["chaos", "--kills", "7", "--only", "vms", "--nodes", "arm0"]);
    let expected = "cargo xtask chaos --seed 3 --kills 7 --only vms --nodes arm0 --members 8 --pause-us 2000";
    assert_eq!(arguments.replay(3), expected);
    let words = ["chaos", "--kills", "7", "--nodes", "arm0,arm1", "--evict-one-in", "64,2"];
    let replay = Arguments::parse_from(words).replay(4);
    assert!(replay.contains(" --nodes arm0,arm1 --evict-one-in 64,2 --members"), "{replay}");
}
