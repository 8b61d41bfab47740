//! The command `tombolo`: brings machines up, runs jobs on them and shows their state.

mod arguments;
mod command;

use std::process::ExitCode;

use clap::CommandFactory;
use tombolo_cli_common::{context, failure, input, output, programs, signals, text};

use arguments::Arguments;

/// Returns the command-line grammar, for manual pages and completions.
#[must_use]
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments of this process select.
#[must_use]
pub fn main() -> ExitCode {
    // Usage errors end the program here, with status 2.
    let words = command::rccerun::translate_arguments(programs::command_line().into_iter());
    let arguments: Arguments = tombolo_cli_common::arguments::parse_words(&words);
    tombolo_cli_common::run(&arguments.global, |context| command::run(context, arguments.command))
}
