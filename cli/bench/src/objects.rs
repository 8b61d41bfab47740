//! `tombolo bench objects`

use std::time::Duration;

use clap::Args;
use tombolo_bench::objects;

use super::progress::{Output, member_arguments, with_progress};
use super::report::show;
use crate::context::Context;
use crate::failure::Failure;

/// Measures shared objects: the clustering of a graph by the ranks of a job
///
/// Processes of this host share a graph. In each step every rank finds the best move among its vertices, and
/// rank 0 applies the best of all, as in TACO-MESH's paper. The figures are the speed-up by number of ranks
/// for the controllers BC, OV and TS, and for ways to reach the mappings, and the terms of the paper's cost
/// formula. With --window the memory lies in that window, too; it is not coherent if the machine file says
/// `coherence = "flush"`, and the caches are emulated.
///
/// The JSON has `rows` with: trial, and figure with steps, time_ns, writing_ns and acquiring_ns, or failed;
/// and `terms` with the cost formula for each way.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench objects                              in memory of this host
  tombolo bench objects --window arm0                and in the window of arm0
  tombolo bench objects --graph sparse:2000 --steps 200 --ranks 1,2,4
  tombolo bench objects --json | jq '.terms[] | {maps, alpha: .fit.per_rank}'")]
pub(super) struct Options {
    /// Numbers of ranks
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', default_value = "1,2,3,4,6,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Vec<u32>,

    /// The graph: dense:N, sparse:N or a file with an edge list
    #[arg(long, default_value = "dense:66")]
    graph: String,

    /// The most steps of a search
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,

    /// Windows in which the memory lies, beside memory of this host
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    window: Vec<String>,

    /// How often each trial is run; the shortest time counts
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,

    #[command(flatten)]
    output: Output,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    if let Some(status) = options.output.run_if_member(context, objects::run_member)? {
        return Ok(status);
    }
    let bench = objects::Options {
        ranks: options.ranks.clone(),
        graph: options.graph.clone(),
        max_steps: options.steps,
        windows: options.window.clone(),
        repeats: options.repeats,
        member_arguments: member_arguments(context, "objects"),
        timeout: Duration::from_secs(120),
    };
    let report = with_progress(context, |progress| objects::run(&bench, progress));
    show(&report, options.output.json)
}
