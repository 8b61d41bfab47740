//! Common code of the programs behind the command `tombolo`: global options, errors and their display, output
//! of domains.
//!
//! `tombolo` itself has the commands that every machine needs. Commands with heavy dependencies are separate
//! programs beside it, which it runs ([`programs`]).

pub mod arguments;
pub mod child_output;
pub mod compilers;
pub mod context;
pub mod failure;
pub mod findings;
pub mod help;
pub mod images;
pub mod input;
pub mod nodes;
pub mod other_users;
pub mod output;
pub mod programs;
pub mod signals;
pub mod text;

use std::process::ExitCode;

use arguments::Global;
use context::Context;
use failure::Failure;

/// Runs a command and returns its exit status. Shows a failure on standard error.
pub fn run(global: &Global, command: impl FnOnce(&Context) -> Result<u8, Failure>) -> ExitCode {
    let context = Context::new(global);
    match command(&context) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            failure.report(context.colour_errors);
            ExitCode::from(failure.status())
        }
    }
}
