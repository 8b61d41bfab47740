//! `tombolo trace`

mod export;
mod file;
mod names;
mod record;
mod show;
mod stats;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;

/// Records what happens on a machine, and shows it
///
/// While a machine traces, each domain records every message that it sends or receives, every sleep, and the
/// events that the program marks. Nodes have no common clock: the events of all nodes are put in causal order
/// by matching each receive with its send. A trace includes what domains recorded up to the instant that they
/// were killed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace record -o job.tbt -- tombolo run --on host,arm0 pingpong.tbi
  tombolo trace record -o now.tbt --for 5s
  tombolo trace stats job.tbt
  tombolo trace export job.tbt --perfetto job.pftrace   to open at ui.perfetto.dev")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand, Debug)]
enum TraceCommand {
    Record(record::Options),
    Start(record::StartOptions),
    Stop(record::StopOptions),
    Dump(record::DumpOptions),
    Show(show::Options),
    Stats(stats::Options),
    Export(export::Options),
    /// The former name of `tombolo bench tracing`
    #[command(hide = true)]
    Cost,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    match &options.command {
        TraceCommand::Record(options) => return record::run(context, options),
        TraceCommand::Start(options) => record::start(context, options)?,
        TraceCommand::Stop(_) => record::stop(context)?,
        TraceCommand::Dump(options) => record::dump(context, options)?,
        TraceCommand::Show(options) => show::run(context, options)?,
        TraceCommand::Stats(options) => stats::run(context, options)?,
        TraceCommand::Export(options) => export::run(context, options)?,
        TraceCommand::Cost => {
            let message = "`tombolo trace cost` is `tombolo bench tracing` now".to_owned();
            return Err(Failure::Usage { message, hint: None });
        }
    }
    Ok(0)
}
