//! `tombolo bench broadcast`

use std::time::Duration;

use clap::Args;
use tombolo_bench::broadcast;

use super::progress::{Output, member_arguments, with_progress};
use super::report::show;
use crate::context::Context;
use crate::failure::Failure;

/// Measures broadcast in a group of processes
///
/// Processes of this host, which attach to the machine as programs do. First one of them broadcasts messages
/// of 1, 32, 64 and 128 lines of 32 bytes, each when all have the one before: the time to the last member.
/// Then sources broadcast messages of 4 KiB as fast as they can, by number of sources and by k, the most
/// members that one forwards to. Synchronous means that members poll, and that a broadcast begins when the
/// one before is complete. Beside them in the same run: a source that sends to each member, and MPI_Bcast
/// where mpicc and mpirun are installed.
///
/// The JSON has `rows` with: trial, and latency_us with p50 and p99, or throughput_mb_s, or failed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench broadcast
  tombolo bench broadcast --members 12 --fan-out 1,2,4,11 --sources 1,5,12
  tombolo bench broadcast --json | jq '.rows[] | {way: .trial.way, us: .latency_us.p50}'")]
pub(super) struct Options {
    /// Number of processes
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    members: u32,

    /// Number of messages of each source and trial
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    messages: u32,

    /// Values of k for the throughput
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "1,2,4,7", value_parser = clap::value_parser!(u16).range(1..=255))]
    fan_out: Vec<u16>,

    /// Numbers of sources for the throughput
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "1,5,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    sources: Vec<u32>,

    #[command(flatten)]
    output: Output,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    if let Some(status) = options.output.run_if_member(context, broadcast::run_member)? {
        return Ok(status);
    }
    let bench = broadcast::Options {
        members: options.members,
        messages: options.messages,
        fan_outs: options.fan_out.clone(),
        sources: options.sources.clone(),
        member_arguments: member_arguments(context, "broadcast"),
        timeout: Duration::from_secs(60),
    };
    let report = with_progress(context, |progress| broadcast::run(&bench, progress));
    show(&report, options.output.json)
}
