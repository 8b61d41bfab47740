//! Tests of the simulator itself, with a few seeds and coherent windows. `cargo xtask sim` runs thousands of
//! seeds, with stores that become visible one by one.

use std::process::{Command, Output};

use tombolo_sim::plan::{MAX_NODES, Options, Scenario};
use tombolo_sim::world::run;

fn simulator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombolo-sim")).args(arguments).output().expect("it starts")
}

#[test]
fn seeds_pass_and_are_the_same_again() {
    for seed in 1..=12 {
        let first = run(seed, Options::default(), false);
        assert_eq!(first.failure, None, "seed {seed}: `cargo xtask sim --seed {seed}` may tell more");
        let again = run(seed, Options::default(), true);
        assert_eq!((first.hash, first.events), (again.hash, again.events), "seed {seed}");
        assert!(!again.trace.is_empty() && first.trace.is_empty());
    }
}

#[test]
fn different_seeds_differ() {
    let hash = |seed| run(seed, Options::default(), false).hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_machine_may_have_64_nodes() {
    let options = Options { nodes: Some(MAX_NODES), scenario: Scenario::Calm };
    let outcome = run(3, options, false);
    assert_eq!((outcome.failure, outcome.nodes, outcome.deaths), (None, MAX_NODES, 0));
    assert!(outcome.messages > 1000, "{} messages", outcome.messages);
}

#[test]
fn every_scenario_runs() {
    for scenario in [Scenario::Names, Scenario::Channels, Scenario::Spawning, Scenario::Restarts] {
        let outcome = run(5, Options { nodes: Some(4), scenario }, false);
        assert_eq!(outcome.failure, None, "{scenario:?}");
    }
}

#[test]
fn invalid_seed_is_wrong_usage() {
    for arguments in [
        &["--seed", "abc"][..],
        &["--seed", ""],
        &["--seed", "-1"],
        &["--seed", "18446744073709551616"],
        &["--seed", "0xg"],
        &["--from", "x"],
        &["--seeds", "many"],
        &["--nodes", "0"],
        &["--nodes", "65"],
        &["--scenario", "none"],
        &["--canary", "of no name"],
        &["--seed", "1", "--endless"],
        &["--unknown"],
    ] {
        let output = simulator(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("error:"), "{arguments:?}: {text}");
    }
    let text = simulator(&["--seed", "abc"]).stderr;
    assert!(String::from_utf8_lossy(&text).contains("a seed is a number from 0 to 18446744073709551615"));
}

#[test]
fn limits_of_seeds_and_nodes_are_accepted() {
    for arguments in [
        &["--seed", "0", "--nodes", "1"][..],
        &["--seed", "18446744073709551615", "--nodes", "2"],
        &["--seed", "0xffffffffffffffff", "--nodes", "2"],
        &["--seeds", "0"],
    ] {
        let output = simulator(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    }
}

#[test]
fn run_prints_a_summary() {
    let output = simulator(&["--seed", "0x2", "--nodes", "2", "--commit", "c0ffee"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("seed 2 passes (commit c0ffee)") && text.contains("hash "), "{text}");
}
