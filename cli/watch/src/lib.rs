//! The commands `tombolo top` and `tombolo web`: a machine, live.

mod top;
mod web;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tombolo_cli_common::arguments::{Global, STYLES};
use tombolo_cli_common::{context, failure, text};

/// The whole command line: this program is run by `tombolo` with its own.
#[derive(Parser, Debug)]
#[command(name = "tombolo", bin_name = "tombolo", version, styles = STYLES)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
struct Arguments {
    #[command(flatten)]
    global: Global,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Top(top::Options),
    Web(web::Options),
}

/// What can be typed, for manual pages and completions.
#[must_use]
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs the command that this process's arguments say.
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
    use tombolo_cli_common::help;
    use tombolo_cli_common::programs::about;

    use super::*;

    const ABOUT: &[(&str, &str)] = &[("top", about::TOP), ("web", about::WEB)];

    #[test]
    fn the_help_teaches_by_examples_that_are_accepted() {
        let mut command = Arguments::command();
        command.build();
        command.get_subcommands_mut().for_each(|command| help::assert_examples(command, "tombolo"));
        let tried =
            help::assert_examples_parse(&mut command, |words| Arguments::try_parse_from(words).map(drop));
        assert!(tried > 0, "no example was found");
    }

    #[test]
    fn tombolo_says_of_each_command_what_its_help_says() {
        let command = Arguments::command();
        for (name, about) in ABOUT {
            let found = command
                .find_subcommand(name)
                .and_then(|command| command.get_about())
                .map(ToString::to_string);
            assert_eq!(found.as_deref(), Some(*about), "{name}");
        }
    }
}
