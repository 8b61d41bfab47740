//! Running the program once, on one stack.

use std::process::Command;

use serde::Deserialize;

use super::Options;
use super::stack::{NodePair, Stack};
use crate::launch::figures_of;

/// A figure, as the program writes it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Figure {
    metric: String,
    bytes: u64,
    p50: f64,
    p99: f64,
}

/// A figure, and whose it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub(super) place: NodePair,
    pub(super) stack: String,
    pub(super) metric: String,
    pub(super) bytes: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Found {
    /// Whether it is the same figure, of another round.
    pub(super) fn is_of(&self, other: &Found) -> bool {
        self.place == other.place
            && self.stack == other.stack
            && self.metric == other.metric
            && self.bytes == other.bytes
    }
}

/// Runs `measure` on a stack and reads what it found.
pub(super) fn once(stack: &Stack, options: &Options) -> Result<Vec<Found>, String> {
    let seconds = format!("{:.3}", options.length.as_secs_f64());
    let mut command = Command::new(&stack.program);
    for part in &stack.arguments {
        command.args(part).arg("--seconds").arg(&seconds).args(&options.metrics);
    }
    command.envs(stack.environment.iter().map(|(name, value)| (name, value)));
    let figures: Vec<Figure> = figures_of(command, options.patience)?;
    let found = figures.into_iter().map(|figure| Found {
        place: stack.place.clone(),
        stack: stack.name.clone(),
        metric: figure.metric,
        bytes: figure.bytes,
        p50: figure.p50,
        p99: figure.p99,
    });
    Ok(found.collect())
}
