//! The commands `tombolo mpirun` and `tombolo mpicc`.

mod mpicc;
mod mpirun;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tombolo_cli_common::arguments::{Global, STYLES};
use tombolo_cli_common::{compilers, context, failure, input, output, signals};
use tombolo_mpi::job::clean_after;

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
    Mpirun(mpirun::Options),
    Mpicc(mpicc::Options),
    /// Removes what an mpirun leaves that is killed: it starts this by itself
    #[command(hide = true)]
    MpirunCleaner,
}

/// What can be typed, for manual pages and completions.
#[must_use]
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// Runs the command that this process's arguments say.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse_from(mpirun::habits(std::env::args_os()));
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
    use tombolo_cli_common::help;
    use tombolo_cli_common::programs::about;

    use super::*;

    const ABOUT: &[(&str, &str)] = &[("mpicc", about::MPICC), ("mpirun", about::MPIRUN)];

    #[test]
    fn the_help_teaches_by_examples_that_are_accepted() {
        let mut command = Arguments::command();
        command.build();
        let shown = command.get_subcommands_mut().filter(|command| !command.is_hide_set());
        shown.for_each(|command| help::assert_examples(command, "tombolo"));
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
