//! `tombolo bench layers`

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tombolo_bench::layers;
use tombolo_bench::suite::{Failed, Schedule};

use super::command::far_program;
use super::progress::with_progress;
use super::report::show;
use super::suite::{default_slice_ms, failed_link, measure_links};
use super::temporary_machine::with_machine;
use crate::context::Context;
use crate::failure::Failure;

/// Shows what each layer of a channel adds to a message
///
/// Measures two bare cache lines, a ring in C, Tombolo's ring by itself, the end of a channel, a channel of
/// the façade, and a typed call: round trips of 48 and 64 bytes, messages per second one by one and in
/// batches of 32, and a call without parameters, each relative to the bare lines of the same moment. There
/// are several runs with processes of their own; the medians are shown beside the targets. The C ring needs a
/// C compiler, cc or the one that CC names. Windows are those of the machine that is up.
///
/// The JSON has, for each of `rows`: layer, metric, distance, latency_ns with p50, p99 and p999, rate_per_s
/// and ratio with median, least and most; and for each of `targets`: what, at_most or at_least, found and
/// verdict.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench layers                                 ten runs, in three minutes
  tombolo bench layers --up machines/default.toml      and the window of this machine
  tombolo bench layers --runs 1 --slice-ms 5           quickly
  tombolo bench layers --json | jq '.targets[] | {what, found, verdict}'")]
pub(crate) struct LayersOptions {
    /// Number of runs
    #[arg(long, value_name = "COUNT", default_value = "10")]
    runs: NonZeroU32,

    /// Number of times that each figure is measured in a run
    #[arg(long, value_name = "COUNT", default_value = "2")]
    slices: NonZeroU32,

    /// Time per measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = default_slice_ms(), value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,

    /// Bring up the machine of this file for its windows, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Returns status 1 if a measurement failed; the report names it and the reason.
pub(crate) fn run(context: &Context, options: &LayersOptions) -> Result<u8, Failure> {
    let schedule = Schedule {
        slices: options.slices.get(),
        slice: Duration::from_millis(options.slice_ms),
        ..Schedule::default()
    };
    let layers = layers::Options { runs: options.runs.get(), schedule, far: far_program()? };
    let mut report = with_progress(context, |progress| layers::run(&layers, progress))?;
    let measured = with_machine(context, options.up.as_deref(), |domain| {
        let links = measure_links(context, false, domain)?;
        report.failed.extend(links.failed.iter().map(failed_link));
        report.add_links(links.links);
        Ok(())
    });
    if let Err(error) = measured {
        report.failed.push(Failed::new("the links of a machine", &error));
    }
    show(&report, options.json)
}
