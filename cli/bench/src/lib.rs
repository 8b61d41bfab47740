//! The command `tombolo bench`: measures operations, beside their physical limit and beside other systems.

mod broadcast;
mod bulk;
mod command;
mod devices;
mod figures;
mod hub;
mod layers;
mod mpi;
mod mpi_network;
mod notification;
mod objects;
mod omp;
mod placement;
mod progress;
mod rcce;
mod realtime;
mod report;
mod rpc;
mod suite;
mod temporary_machine;
mod tracing;
mod xipx;

use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
use tombolo_bench::suite::Error;
use tombolo_cli_common::failure::Failure;
use tombolo_cli_common::{context, failure, text};

type Arguments = tombolo_cli_common::arguments::Arguments<Command>;

#[derive(Subcommand, Debug)]
enum Command {
    Bench(command::Options),
}

/// Returns the command-line grammar, for manual pages and completions.
#[must_use]
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments of this process select.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Arguments = tombolo_cli_common::arguments::parse();
    tombolo_cli_common::run(&arguments.global, |context| match arguments.command {
        Command::Bench(options) => command::run(context, &options).map_err(as_usage),
    })
}

/// Converts the failure of a measurement; an unknown peer is a usage error.
fn as_usage(failure: Failure) -> Failure {
    match failure.cause() {
        Some(Error::UnknownPeer { .. }) => Failure::Usage { message: failure.to_string(), hint: None },
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tombolo_cli_common::help;
    use tombolo_cli_common::programs::about;

    use super::*;

    #[test]
    fn help_has_examples_that_parse_and_the_summaries_that_tombolo_shows() {
        let parse = |words: &[&str]| Arguments::try_parse_from(words).map(drop);
        help::assert_program(Arguments::command(), &[("bench", about::BENCH)], parse);
    }
}
