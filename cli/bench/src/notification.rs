//! `tombolo bench notification`

use std::time::Duration;

use clap::Args;
use tombolo_bench::notification;

use super::progress::{Output, member_arguments, with_progress};
use super::report::show;
use crate::context::Context;
use crate::failure::Failure;

/// Measures how a receiver learns which of many channels has something for it
///
/// By polling a flag of each channel; by a tree of counts, which channels that share a doorbell of a window
/// have; by a ring of channel ids; by a tree of bits; and by messages in the receiver's buffer. Two processes
/// of this host notify each other in turn, of a random channel each time. Counted by emulated caches, with
/// an estimate for the Single-chip Cloud Computer: what an event costs its sender and its receiver in memory
/// that is not coherent, alone and in bursts. Further: memory, and how many events are accepted before the
/// receiver looks.
///
/// The JSON has, for each of `rows`: form, channels, bytes, alone and burst (of sender and receiver:
/// written_back, invalidated, scc_cycles), accepted, merged, and event_ns or failed. `round_trip` has the
/// steps of a round trip between two sides that sleep: note (cycles of Barrelfish's technical note), counted
/// (lines of each step), and timed (send_ns, peer_ns, receive_ns) with wake_up_ns, or failed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench notification
  tombolo bench notification --channels 1,65280 --rounds 5
  tombolo bench notification --json | jq '.rows[] | {form, channels, event_ns}'")]
pub(super) struct Options {
    /// Numbers of channels
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', default_value = "1,16,256,4096,65280")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_280))]
    channels: Vec<u32>,

    /// How often each trial is run; the median counts
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Time of a trial, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    slice_ms: u32,

    #[command(flatten)]
    output: Output,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    if let Some(status) = options.output.run_if_member(context, notification::run_member)? {
        return Ok(status);
    }
    let bench = notification::Options {
        channels: options.channels.iter().map(|count| *count as usize).collect(),
        rounds: options.rounds,
        slice_ms: options.slice_ms.into(),
        member_arguments: member_arguments(context, "notification"),
        timeout: Duration::from_secs(120),
    };
    let report = with_progress(context, |progress| notification::run(&bench, progress));
    let report = report.map_err(|error| Failure::Other(error.into()))?;
    show(&report, options.output.json)
}
