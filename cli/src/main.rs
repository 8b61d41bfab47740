//! The command `tombolo`: brings machines up, runs jobs on them and shows what they do.

mod arguments;
mod command;
mod context;
mod failure;
mod input;
mod output;
mod signals;
mod text;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use context::Context;

fn main() -> ExitCode {
    // Usage errors end the program here, with status 2.
    let arguments = Arguments::parse_from(command::mpirun::habits(std::env::args_os()));
    let context = Context::new(&arguments.global);
    match command::run(&context, arguments.command) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            failure.report(context.colour_errors);
            ExitCode::from(failure.status())
        }
    }
}
