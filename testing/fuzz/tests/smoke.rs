//! Runs every target on its seeds, on the kept inputs, and on mutations of both, deterministically. `cargo
//! xtask fuzz` explores further.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_fuzz::{Mutator, TARGETS, Target, corpus_inputs};

/// Default number of mutations per target; the environment variable `TOMBOLO_FUZZ_RUNS` overrides it.
const RUNS: u64 = 1000;

fn runs() -> u64 {
    std::env::var("TOMBOLO_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

/// Runs a target. On a failure prints the input in hexadecimal and as text.
fn feed(target: &Target, input: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!(
            "target {} fails on {origin}: {hex}\nas text: {:?}",
            target.name,
            String::from_utf8_lossy(input)
        );
    }
}

#[test]
fn every_target_passes_its_seeds() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        seeds.iter().for_each(|seed| feed(target, seed, "a seed"));
    }
}

#[test]
fn kept_failures_pass() {
    for target in TARGETS {
        corpus_inputs(target).iter().for_each(|input| feed(target, input, "a kept input"));
    }
}

#[test]
fn mutations_do_no_harm() {
    for target in TARGETS {
        let seeds = (target.seeds)().into_iter().chain(corpus_inputs(target)).collect();
        let mut mutator = Mutator::new(seeds, 1);
        for number in 0..runs() {
            feed(target, &mutator.next_input(), &format!("mutation {number} of seed 1"));
        }
    }
}

/// Verifies that the driver finds a planted fault.
#[test]
fn a_fault_is_found() {
    fn faulty(input: &[u8]) {
        assert!(!input.starts_with(b"ok") || input.len() < 4 || input[2] < 0x80, "found");
    }
    let mut mutator = Mutator::new(vec![b"ok, fine".to_vec()], 1);
    let hit = |input: &[u8]| input.starts_with(b"ok") && input.len() >= 4 && input[2] >= 0x80;
    let found = (0..3000).map(|_| mutator.next_input()).find(|input| hit(input));
    let input = found.expect("a mutation that reaches the fault");
    assert!(catch_unwind(|| faulty(&input)).is_err());
}
