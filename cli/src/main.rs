//! The command `tombolo`: brings machines up, runs jobs on them and shows what they do.

mod arguments;
mod command;

use std::process::ExitCode;

use tombolo_cli_common::{context, failure, input, output, signals, text};

use arguments::Arguments;

fn main() -> ExitCode {
    // Usage errors end the program here, with status 2.
    let arguments: Arguments = tombolo_cli_common::arguments::parse();
    tombolo_cli_common::run(&arguments.global, |context| command::run(context, arguments.command))
}
