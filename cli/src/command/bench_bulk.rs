//! `tombolo bench bulk`

use std::path::PathBuf;

use clap::Args;
use tombolo_bench::suite::Peer;
use tombolo_bench::{bulk, report};

use super::bench::showing;
use super::bench_suite::{Measure, Share, absent, beside, run_program};
use crate::context::{Context, print};
use crate::failure::Failure;

/// Measures bulk data: pools, engines and the kernel, beside what the memory can do
///
/// Between two processes of this host, each kept on a processor: buffers of 64 KiB to 16 MiB that one fills and the other reads,
/// handed over in shared memory (`Tombolo`), copied by the engines `caller`, `attach` and `far`, or sent by a local socket or TCP;
/// and by iceoryx2 where `make bench-peers` has built it; beside the bare memory, which nothing that is filled and read outruns. Each
/// stands between two looks at the ping-pong of two bare cache lines, as those of `bench all` do.
///
/// Then what a copy of 64 B to 256 MiB takes one program, from asking to knowing that it is done: by each loop and each engine, beside
/// memcpy.
///
/// The JSON has, for each of `rows`: peer, metric, and rate_per_s or latency_ns with p50 and p99.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench bulk                         as tables
  tombolo bench bulk -o plots                and a page with plots in this folder
  tombolo bench bulk --slices 3 --slice-ms 10
  tombolo bench bulk --json | jq '.rows[] | {peer, metric, gb_s: (.rate_per_s.p50 / 1e9)}'")]
pub(crate) struct BulkOptions {
    /// For machines
    #[arg(long)]
    json: bool,

    /// Write a page and its plots of it into this folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    #[command(flatten)]
    share: Share,
}

/// Status 1 when something that is there could not be measured; the report says what and why.
pub(crate) fn run(context: &Context, options: &BulkOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let suite = options.share.to_suite(&own);
    let results = match beside(&own) {
        Some(program) => run_program(context, &program, Measure::Bulk, suite)?,
        None => {
            let all = bulk::peers();
            let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
            let absent: Vec<_> = bulk::FOREIGN.into_iter().map(absent).collect();
            showing(context, |progress| bulk::run(&peers, &absent, &suite, bulk::LONGEST_BYTES, progress))?
        }
    };
    if let Some(folder) = &options.output {
        report::write(std::slice::from_ref(&results), folder)?;
    }
    print(if options.json { results.to_json() } else { report::text(&results) })?;
    Ok(u8::from(!results.failed.is_empty()))
}
