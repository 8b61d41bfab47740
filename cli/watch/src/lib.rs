//! The commands `tombolo top` and `tombolo web`, which show a running machine.

mod top;
mod web;

use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
use tombolo_cli_common::{context, failure, text};

type Arguments = tombolo_cli_common::arguments::Arguments<Command>;

#[derive(Subcommand, Debug)]
enum Command {
    Top(top::Options),
    Web(web::Options),
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
        Command::Top(options) => top::run(context, &options).map(|()| 0),
        Command::Web(options) => web::run(context, &options).map(|()| 0),
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
        help::assert_program(Arguments::command(), &[("top", about::TOP), ("web", about::WEB)], parse);
    }
}
