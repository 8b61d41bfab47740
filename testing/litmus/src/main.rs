//! Litmus tests between two nodes: `tombolo run --on host,bare0 litmus.tbi`. Exits with status 1 if the
//! memory between them violates the assumptions of the protocols, or if an emulator is misconfigured.
//! `tombolo litmus` runs it between its own node and each other one, and parses the output, with
//! `TOMBOLO_LITMUS_REPORT` set. `TOMBOLO_LITMUS_ROUNDS` sets the number of rounds, and
//! `TOMBOLO_LITMUS_SECONDS` the time limit of each of the first three tests.
#![cfg_attr(target_os = "none", no_std, no_main)]

use core::error::Error;
use core::time::Duration;
#[cfg(not(target_os = "none"))]
use std::{env, process::ExitCode, time::Instant};

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, env, prelude::*, time::Instant};

#[cfg(target_os = "none")]
use tombolo::Either;
#[cfg(not(target_os = "none"))]
use tombolo::channel::Either;
use tombolo::{Domain, Isa};
use tombolo_base::{CacheMaintenance, SharedMemory};
use tombolo_litmus::{Amount, Findings, Litmus, Part, TestClock};

/// Time to wait for the other side, in addition to the time of the tests themselves.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// Default time limit of each test, in seconds; reached on hosts without a spare processor.
const SECONDS: u64 = 4;

/// Offset of the slots in a channel's memory, after the header.
const HEADER_BYTES: usize = 1024;

#[cfg(target_os = "none")]
tombolo_bare::main!(exit_status);

#[cfg(not(target_os = "none"))]
fn main() -> ExitCode {
    exit_status().into()
}

struct TimeLimit {
    start: Instant,
    test_start: Instant,
    /// Time limit of each test.
    time: Duration,
}

impl TestClock for TimeLimit {
    fn may_keep_waiting(&mut self) -> bool {
        // The other side may need this processor.
        #[cfg(not(target_os = "none"))]
        std::thread::yield_now();
        self.start.elapsed() < PEER_TIMEOUT + 4 * self.time
    }

    fn begin_test(&mut self) {
        self.test_start = Instant::now();
    }

    fn is_time_up(&mut self) -> bool {
        self.test_start.elapsed() > self.time
    }
}

fn exit_status() -> u8 {
    match run() {
        Ok(sound) => u8::from(!sound),
        Err(error) => {
            eprintln!("litmus: {error}");
            2
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let domain = Domain::attach()?.with_timeout(PEER_TIMEOUT);
    let job = domain.job()?;
    let (part, channel) = match (job.rank(), job.size()) {
        (0, 2) => (Part::First, job.channel_to(1)?),
        (1, 2) => (Part::Second, job.channel_to(0)?),
        _ => return Err("start two of me: tombolo run --on host,bare0 litmus.tbi".into()),
    };
    let peer_node = channel.peer_node().to_owned();
    let report = env::var("TOMBOLO_LITMUS_REPORT").is_ok();
    let amount = match env::var("TOMBOLO_LITMUS_ROUNDS") {
        Ok(rounds) => Amount::of_rounds(rounds.parse().map_err(|_| "TOMBOLO_LITMUS_ROUNDS is no number")?),
        Err(_) => Amount::default(),
    };
    let seconds = match env::var("TOMBOLO_LITMUS_SECONDS") {
        Ok(seconds) => seconds.parse().map_err(|_| "TOMBOLO_LITMUS_SECONDS is no number")?,
        Err(_) => SECONDS,
    };
    let Some(raw) = channel.into_raw_memory() else {
        if report {
            println!("unshared");
        } else {
            println!("litmus: no memory is shared with {peer_node}: nothing to test");
        }
        return Ok(true);
    };
    let findings = match &raw {
        Either::Coherent(raw) => run_litmus(&raw.memory, part, amount, seconds)?,
        Either::Flushed(raw) => run_litmus(&raw.memory, part, amount, seconds)?,
    };
    if report {
        if part == Part::First {
            let Findings { buffering_rounds, both_old, messages, torn, additions, lost, .. } = findings;
            let coherence = if findings.coherent { "coherent" } else { "flush" };
            println!(
                "found {buffering_rounds} {both_old} {messages} {torn} {additions} {lost} {} {coherence}",
                findings.widest_store_bytes()
            );
        }
        return Ok(findings.are_sound());
    }
    if part == Part::First {
        println!("litmus: {} on {} with {peer_node}: {findings}", Isa::current(), domain.node_name());
    }
    if !findings.covers(amount) && part == Part::First {
        eprintln!("litmus: cut short after {seconds} s each: of what was not tested nothing is known");
    }
    if !findings.are_sound() {
        eprintln!(
            "litmus: the memory between {} and {peer_node} cannot be trusted: an emulator with `-smp 1` drops \
             barriers, `-smp 1,maxcpus=2` does not",
            domain.node_name()
        );
    }
    Ok(findings.are_sound())
}

/// Runs the tests in a channel's memory, after the header.
fn run_litmus<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    part: Part,
    amount: Amount,
    seconds: u64,
) -> Result<Findings, Box<dyn Error>> {
    let memory = memory.slice(HEADER_BYTES, tombolo_litmus::MEMORY_BYTES)?;
    let start = Instant::now();
    let mut clock = TimeLimit { start, test_start: start, time: Duration::from_secs(seconds) };
    Ok(Litmus::new(&memory, part, &mut clock)?.run(amount)?)
}
