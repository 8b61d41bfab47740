//! The commands `tombolo mpirun` and `tombolo mpicc`.

mod mpicc;
mod mpirun;

use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
use tombolo_cli_common::{compilers, context, failure, input, output, programs, signals};
use tombolo_mpi_launch::job::clean_after;

type Arguments = tombolo_cli_common::arguments::Arguments<Command>;

#[derive(Subcommand, Debug)]
enum Command {
    Mpirun(mpirun::Options),
    Mpicc(mpicc::Options),
    /// Removes what an mpirun leaves that is killed: it starts this by itself
    #[command(hide = true)]
    MpirunCleaner,
}

/// Returns the command-line grammar, for manual pages and completions.
#[must_use]
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments of this process select.
#[must_use]
pub fn main() -> ExitCode {
    // Usage errors end the program here, with status 2.
    let words = mpirun::translate_arguments(programs::command_line().into_iter());
    let arguments: Arguments = tombolo_cli_common::arguments::parse_words(&words);
    tombolo_cli_common::run(&arguments.global, |context| match arguments.command {
        Command::Mpirun(options) => mpirun::run(context, &options).map(|()| 0),
        Command::Mpicc(options) => mpicc::run(context, &options).map(|()| 0),
        Command::MpirunCleaner => {
            clean_after(std::io::stdin().lock(), || context.attach_running().ok());
            Ok(0)
        }
    })
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
        help::assert_program(
            Arguments::command(),
            &[("mpicc", about::MPICC), ("mpirun", about::MPIRUN)],
            parse,
        );
    }
}
