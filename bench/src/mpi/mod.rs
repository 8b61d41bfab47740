//! MPI over Tombolo, compared with other transports of MPI: `tombolo bench mpi`.
//!
//! The unmodified program `bench/mpi/measure.c` runs on one [stack](Stack) after another, round by round, so
//! that all see the same conditions. The results are the median of the rounds, and the ratio between stacks.

pub mod network;
mod run;
mod stack;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

pub use stack::{NodePair, Stack, Tools, host_stacks, network_stack, node_stacks};

use crate::host::Host;
use crate::limit::Limit;
use crate::stacks::{Group, Measurement, Report, is_same, rows};
use crate::suite::{Absent, PeerInfo};

/// Options of the measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Number of rounds, in each of which every stack runs.
    pub rounds: u32,
    /// Duration of each figure in each round.
    pub length: Duration,
    /// Timeout of one run of the program, after which it is killed.
    pub timeout: Duration,
    /// Metrics to measure, by their names in `measure`; empty for all.
    pub metrics: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (length, timeout) = (Duration::from_millis(200), Duration::from_secs(120));
        Options { rounds: 5, length, timeout, metrics: Vec::new() }
    }
}

/// Runs every stack in turn, `rounds` times. Failures of a single stack are part of the report; only an error
/// that affects all is returned.
///
/// # Errors
/// The limit of the host cannot be measured, because fewer than two processors are allowed.
pub fn run(
    stacks: Vec<Stack>,
    mut absent: Vec<Absent>,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> std::io::Result<Report> {
    let mut found: Vec<Measurement> = Vec::new();
    let mut failed: Vec<usize> = Vec::new();
    let mut limits = Vec::new();
    for round in 1..=options.rounds {
        for (index, stack) in stacks.iter().enumerate() {
            if failed.contains(&index) {
                continue;
            }
            progress(&format!("round {round} of {}: {}, {}", options.rounds, stack.place, stack.name));
            limits.push(Limit::measure()?);
            match run::once(stack, options) {
                Ok(figures) => found.extend(figures),
                Err(why) => {
                    // Does not retry: a stack that cannot run takes its whole timeout each time.
                    failed.push(index);
                    absent.push(stack.absent(why));
                }
            }
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for place in stacks.iter().map(|stack| stack.place.to_string()) {
        if !groups.iter().any(|group| group.name == place) {
            groups.push(Group { title: place.clone(), name: place });
        }
    }
    let rows = rows(found, is_same);
    let targets = targets::all(&rows, &groups);
    let seconds = options.length.as_secs_f64();
    Ok(Report {
        host: Host::describe(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        how: format!("{} rounds of {seconds} s for each figure", options.rounds),
        limit: Limit::median(&limits),
        stacks: stacks
            .iter()
            .map(|stack| PeerInfo { name: stack.title(), about: stack.about.clone() })
            .collect(),
        groups,
        sizes: targets::SIZES.to_owned(),
        rows,
        targets,
        absent,
        complete: failed.is_empty(),
    })
}

/// Returns the folder into which `make bench-mpi` installs the programs.
#[must_use]
pub fn programs(kit: &std::path::Path) -> PathBuf {
    kit.join("mpi/bench")
}
