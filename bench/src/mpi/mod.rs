//! MPI over Tombolo beside what else carries MPI: `tombolo bench mpi`.
//!
//! One program, `bench/mpi/measure.c`, unmodified, is run on one [stack](Stack) after the other, round by
//! round, so that all see the same conditions. What counts is the median of the rounds, and the
//! ratio between stacks.

pub mod network;
mod run;
mod stack;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

pub use stack::{NodePair, Stack, Tools, host_stacks, network_stack, node_stacks};

use crate::host::Host;
use crate::limit::Limit;
use crate::stacks::{Found, Group, Report, is_same, rows};
use crate::suite::{Absent, PeerInfo};

/// How it is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// How often each stack has its turn.
    pub rounds: u32,
    /// How long each figure takes in each round.
    pub length: Duration,
    /// How long one run of the program may take before it is killed.
    pub patience: Duration,
    /// Only these metrics, as `measure` names them; all if none.
    pub metrics: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let (length, patience) = (Duration::from_millis(200), Duration::from_secs(120));
        Options { rounds: 5, length, patience, metrics: Vec::new() }
    }
}

/// Runs every stack in turn, `rounds` times. What a stack could not do is in the report; only what concerns
/// all is an error.
///
/// # Errors
/// The limit of the host cannot be measured: fewer than two processors.
pub fn run(
    stacks: Vec<Stack>,
    mut absent: Vec<Absent>,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> std::io::Result<Report> {
    let mut found: Vec<Found> = Vec::new();
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
                    // Once is enough: what cannot be run takes its whole patience each time.
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

/// Where `make bench-mpi` puts the programs.
#[must_use]
pub fn programs(kit: &std::path::Path) -> PathBuf {
    kit.join("mpi/bench")
}
