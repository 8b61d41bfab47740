//! `tombolo bench bulk`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tombolo_bench::suite::{self, Failed, Peer, Results, Schedule};
use tombolo_bench::{bulk, report};
use tombolo_machine::Kit;

use super::bench::showing;
use super::bench_suite::{Measure, Share, absent, beside, run_program, with_machine};
use crate::context::{Context, print};
use crate::failure::Failure;

/// Measures bulk data: pools, engines and the kernel, beside what the memory can do
///
/// Between two processes of this host, each kept on a processor: buffers of 64 KiB to 16 MiB that one fills and the other reads,
/// handed over in a pool by each verb, with trust and without, in shared memory by messages (`Tombolo`), copied by the engines
/// `caller`, `attach` and `far`, or sent by a local socket or TCP; and by iceoryx2 where `make bench-peers` has built it; beside
/// the bare memory, which nothing that is filled and read outruns. And what it takes to give the right to a buffer away and have
/// it back, however long the buffer is, beside a message of 8 bytes there and back. Each stands between two looks at the
/// ping-pong of two bare cache lines, as those of `bench all` do.
///
/// Then what a copy of 64 B to 256 MiB takes one program, from asking to knowing that it is done: by each loop and each engine, beside
/// memcpy. Then the same across the links of the machine that is up, or of `--up`: buffers to each node and back, and what the
/// processors of both sides take to copy into the memory between them and out of it.
///
/// The JSON has, for each of `rows`: peer, metric, and rate_per_s or latency_ns with p50 and p99.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench bulk                         as tables
  tombolo bench bulk --up machines/default.toml --parts nodes
  tombolo bench bulk -o plots                and a page with plots in this folder
  tombolo bench bulk --slices 3 --slice-ms 10 --peers Tombolo,iceoryx2
  tombolo bench bulk --json | jq '.rows[] | {peer, metric, gb_s: (.rate_per_s.p50 / 1e9)}'")]
pub(crate) struct BulkOptions {
    /// For machines
    #[arg(long)]
    json: bool,

    /// Bring up the machine of this file for its nodes, and take it down again
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// Write a page and its plots of it into this folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Measure only these parts
    #[arg(long, value_name = "PART,…", value_enum, value_delimiter = ',', conflicts_with = "peers")]
    parts: Vec<Part>,

    #[command(flatten)]
    share: Share,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// From one program of this host to another
    Peers,
    /// Copies by one program
    Copies,
    /// To the nodes of a machine and back
    Nodes,
}

/// Status 1 when something that is there could not be measured; the report says what and why.
pub(crate) fn run(context: &Context, options: &BulkOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let suite = options.share.to_suite(&own);
    let schedule = suite.schedule;
    let mut results = compare(context, &own, options.measures(Part::Peers), suite)?;
    if options.measures(Part::Copies) {
        showing(context, |progress| {
            bulk::add_copies(&mut results, schedule, bulk::LONGEST_BYTES, progress);
        });
    }
    if options.measures(Part::Nodes) {
        add_nodes(context, &own, (options, schedule), &mut results);
    }
    if let Some(folder) = &options.output {
        report::write(std::slice::from_ref(&results), folder)?;
    }
    print(if options.json { results.to_json() } else { report::text(&results) })?;
    Ok(u8::from(!results.failed.is_empty()))
}

impl BulkOptions {
    fn measures(&self, part: Part) -> bool {
        match self.share.names_peers() {
            // Whoever names peers wants to see those.
            true => part == Part::Peers,
            false => self.parts.is_empty() || self.parts.contains(&part),
        }
    }
}

/// Bulk data between two programs; without them, what a report says of the host.
fn compare(
    context: &Context,
    own: &Path,
    with_peers: bool,
    suite: suite::Options,
) -> Result<Results, Failure> {
    match beside(own) {
        Some(program) if with_peers => run_program(context, &program, Measure::Bulk, suite),
        _ => {
            let all = if with_peers { bulk::peers() } else { Vec::new() };
            let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
            let absent: Vec<_> = bulk::FOREIGN.into_iter().filter(|_| with_peers).map(absent).collect();
            Ok(showing(context, |progress| bulk::run(&peers, &absent, &suite, progress))?)
        }
    }
}

/// Bulk data across the links of the machine of the file that was named, or of the one that is up if there is one.
fn add_nodes(
    context: &Context,
    own: &Path,
    (options, schedule): (&BulkOptions, Schedule),
    results: &mut Results,
) {
    let measured = with_machine(context, own, options.up.as_deref(), |domain| {
        let image = Kit::locate()?.root().join("images/bench.tbi");
        showing(context, |progress| bulk::add_nodes(results, (domain, &image), schedule, progress));
        Ok(())
    });
    if let Err(error) = measured {
        results.failed.push(Failed::new("the nodes of a machine", &error));
    }
}
