//! Runs the program once on one stack.

use std::process::Command;

use serde::Deserialize;

use super::Options;
use super::stack::Stack;
use crate::launch::figures_of;
use crate::stacks::{Figure, Measurement, Unit};

/// Output line of the program, with one figure.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct OutputLine {
    metric: String,
    bytes: u64,
    p50: f64,
    p99: f64,
}

fn unit(metric: &str) -> Unit {
    match metric {
        "rate" => Unit::PerS,
        metric if metric.ends_with("bandwidth") => Unit::GbPerS,
        _ => Unit::Ns,
    }
}

/// Runs `measure` on a stack and parses its figures.
pub(super) fn once(stack: &Stack, options: &Options) -> Result<Vec<Measurement>, String> {
    let seconds = format!("{:.3}", options.length.as_secs_f64());
    let mut command = Command::new(&stack.program);
    for part in &stack.arguments {
        command.args(part).arg("--seconds").arg(&seconds).args(&options.metrics);
    }
    command.envs(stack.environment.iter().map(|(name, value)| (name, value)));
    let lines: Vec<OutputLine> = figures_of(command, options.timeout)?;
    let found = lines.into_iter().map(|line| Measurement {
        unit: unit(&line.metric),
        figure: Figure { group: stack.place.to_string(), metric: line.metric, size: line.bytes },
        stack: stack.name.clone(),
        p50: line.p50,
        p99: line.p99,
        disturbed: false,
    });
    Ok(found.collect())
}
