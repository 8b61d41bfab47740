//! `tombolo bench rpc`

use clap::Args;
use tombolo_bench::BenchReport as _;
use tombolo_bench::rpc;
use tombolo_bench::suite::peers_program::{absent, beside};
use tombolo_bench::suite::{Peer, Results};

use super::progress::with_progress;
use super::report::status;
use super::suite::{Measure, Share, run_program};
use crate::context::{Context, print};
use crate::failure::Failure;

/// Measures typed calls beside bare rings, Cap'n Proto RPC and gRPC
///
/// A call without parameters, and calls that echo 32 B, 1 KiB and 64 KiB, between two processes of this host,
/// each pinned to a processor. The same bytes are also sent as messages over the same channel, and over two
/// rings without a channel: the difference is the cost of the stubs. Cap'n Proto RPC and gRPC use local
/// sockets, if `make bench-peers` has built them. All data is written and checked.
///
/// As in `bench all`, which includes all of this, each measurement is taken between two of the ping-pong of
/// two bare cache lines.
///
/// The JSON has, for each of `rows`: peer, metric, and latency_ns with p50 and p99.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench rpc                  as a table
  tombolo bench rpc --slices 20      more of it
  tombolo bench rpc --json | jq '.rows[] | {peer, metric, p50: .latency_ns.p50}'")]
pub(crate) struct RpcOptions {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    share: Share,
}

/// Runs the command. Returns status 1 if a measurement failed; the report names it and the reason.
pub(crate) fn run(context: &Context, options: &RpcOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let suite = options.share.to_suite(&own);
    let results = match beside(&own) {
        Some(program) => run_program(context, &program, Measure::Calls, suite)?,
        None => {
            let all = rpc::peers();
            let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
            let absent: Vec<_> = rpc::FOREIGN.into_iter().map(absent).collect();
            with_progress(context, |progress| rpc::run(&peers, &absent, &suite, progress))?
        }
    };
    print(if options.json { results.to_json() } else { results.table() + &summary(&results) })?;
    Ok(status(&results, options.json))
}

fn summary(results: &Results) -> String {
    match rpc::null_call_ratio(results) {
        Some((ratio, distance)) => format!(
            "\na call without parameters takes {ratio:.2} of a round trip of the bare rings ({}); the target, \
             in one cache, is {}\n",
            distance.words(),
            rpc::TARGET_RATIO
        ),
        None => "\ntoo disturbed to compare a call without parameters with the bare rings\n".to_owned(),
    }
}
