//! `tombolo bench rpc`

use clap::Args;
use tombolo_bench::suite::{Peer, Results};
use tombolo_bench::{report, rpc};

use super::command::showing;
use super::suite::{Measure, Share, absent, beside, run_program};
use crate::context::{Context, print};
use crate::failure::Failure;

/// Measures typed calls beside bare rings, Cap'n Proto RPC and gRPC
///
/// A call without parameters, and calls that echo 32 B, 1 KiB and 64 KiB; between two processes of this host, each kept
/// on a processor. The same bytes go as messages over the same channel, and over two rings without a channel around them:
/// what a call costs more is what its stubs cost. Cap'n Proto RPC and gRPC call over local sockets, where `make
/// bench-peers` has built them. What travels is written and checked.
///
/// Each measurement stands between two looks at the ping-pong of two bare cache lines, as those of `bench all` do, which
/// measures all of this too.
///
/// The JSON has, for each of `rows`: peer, metric, and latency_ns with p50 and p99.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench rpc                  as a table
  tombolo bench rpc --slices 20      more of it
  tombolo bench rpc --json | jq '.rows[] | {peer, metric, p50: .latency_ns.p50}'")]
pub(crate) struct RpcOptions {
    /// For machines
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    share: Share,
}

/// Status 1 when something that is there could not be measured; the report says what and why.
pub(crate) fn run(context: &Context, options: &RpcOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let suite = options.share.to_suite(&own);
    let results = match beside(&own) {
        Some(program) => run_program(context, &program, Measure::Calls, suite)?,
        None => {
            let all = rpc::peers();
            let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
            let absent: Vec<_> = rpc::FOREIGN.into_iter().map(absent).collect();
            showing(context, |progress| rpc::run(&peers, &absent, &suite, progress))?
        }
    };
    print(if options.json { results.to_json() } else { report::text(&results) + &summary(&results) })?;
    Ok(u8::from(!results.failed.is_empty()))
}

fn summary(results: &Results) -> String {
    match rpc::null_call_ratio(results) {
        Some(ratio) => format!(
            "\na call without parameters takes {ratio:.2} of a round trip of the bare rings; the target is {}\n",
            rpc::TARGET_RATIO
        ),
        None => "\ntoo disturbed to compare a call without parameters with the bare rings\n".to_owned(),
    }
}
