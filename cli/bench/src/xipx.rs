//! `tombolo bench xipx`

use std::time::Duration;

use clap::Args;
use tombolo_bench::xipx;

use super::progress::{Output, member_arguments, with_progress};
use super::rcce;
use super::report::show;
use crate::context::Context;
use crate::failure::Failure;

/// Measures message devices beside RCCE: ping-pong, ping-ping and two-to-one by length
///
/// Processes of this host are nodes that send to each other. In ping-ping both send at the same time and
/// then receive; in two-to-one one node plays with two others at once. Figures are for programs that have
/// the device themselves (the paper's kernel threads) and for those that use its socket (user threads).
/// RCCE's ping-pong and iRCCE's ping-ping are measured in the same run, between two ranks of this host.
/// With --window the memory lies in that window, too; it is not coherent if the machine file says
/// `coherence = "flush"`, and the caches are emulated.
///
/// The JSON has `rows` with: trial, and figure with message_ns and megabytes (per second), or failed; and
/// `rcce` with bytes, ping_pong_ns and ping_ping_ns.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench xipx                              in memory of this host
  tombolo bench xipx --window arm0                and in the window of arm0
  tombolo bench xipx --sizes 64,4096 --no-rcce
  tombolo bench xipx --json | jq '.rows[] | {pattern: .trial.pattern, ns: .figure.message_ns}'")]
pub(super) struct Options {
    /// The lengths of messages, in bytes
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = "32,512,4096,32768,262144")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4 << 20))]
    sizes: Vec<u32>,

    /// Windows in which the memory lies, beside memory of this host
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    window: Vec<String>,

    /// How often each trial is run; the fastest counts, as of RCCE
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Time of a trial, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    slice_ms: u32,

    /// Do not measure RCCE, which needs a C compiler
    #[arg(long)]
    no_rcce: bool,

    #[command(flatten)]
    output: Output,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    if let Some(status) = options.output.run_if_member(context, xipx::run_member)? {
        return Ok(status);
    }
    let bench = xipx::Options {
        sizes: options.sizes.iter().map(|bytes| *bytes as usize).collect(),
        windows: options.window.clone(),
        rounds: options.rounds,
        slice_ms: options.slice_ms.into(),
        member_arguments: member_arguments(context, "xipx"),
        timeout: Duration::from_secs(120),
    };
    let rcce = if options.no_rcce {
        Vec::new()
    } else {
        rcce::measure_for_report(context, &options.sizes, options.rounds, options.slice_ms)?
    };
    let report = with_progress(context, |progress| xipx::run(&bench, rcce, progress));
    show(&report, options.output.json)
}
