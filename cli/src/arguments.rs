//! The command line. Each command's own options are beside its code, in `command/`.

use clap::Parser;
use tombolo_cli_common::arguments::{Global, STYLES};

use crate::command::Command;

const ABOUT: &str = "\
Tombolo runs one program across processors with different instruction sets. It brings up a machine of nodes: this \
host, virtual machines and boards behind a window of shared memory, and foreign programs under emulation. It starts \
programs (domains) on the nodes and connects them by channels.";

const EXAMPLES: &str = "\
Examples:
  tombolo up                                   bring up the machine of machines/default.toml
  tombolo build examples/pingpong              build an image for all its nodes
  tombolo run --on host,arm0 pingpong.tbi      run it on two nodes
  tombolo status                               show the nodes
  tombolo down                                 take the machine down

Exit status: 0 for success, 1 for a failure (an unknown node is one), 2 for an invalid command line;
that of `tombolo run` is the status of the program.";

/// The whole command line.
#[derive(Parser, Debug)]
#[command(name = "tombolo", version, about = "One machine out of unlike processors", long_about = ABOUT)]
#[command(after_help = EXAMPLES, styles = STYLES, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use tombolo_cli_common::help;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_help_teaches_by_example() {
        let mut command = Arguments::command();
        command.build();
        // Other programs have their own help, with its own tests.
        let mut own = command.clone();
        for name in Command::OTHERS {
            own = own.mut_subcommand(name, |command| command.hide(true));
        }
        help::assert_examples(&mut own, "tombolo");
    }

    #[test]
    fn examples_in_the_help_are_accepted() {
        let parse = |words: &[&str]| {
            let words = crate::command::rccerun::translate_arguments(words.iter().map(Into::into));
            Arguments::try_parse_from(words).map(drop)
        };
        let tried = help::assert_examples_parse(&mut Arguments::command(), parse);
        assert!(tried > 20, "only {tried} examples were found");
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in ["tombolo --machine duo status", "tombolo status --machine duo"] {
            let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(arguments.global.machine.as_deref(), Some("duo"));
        }
        assert!(Arguments::try_parse_from(["tombolo", "-q", "-v", "status"]).is_err());
    }

    #[test]
    fn invalid_usage_ends_with_status_2() {
        for line in ["tombolo", "tombolo frobnicate", "tombolo kill 1.2", "tombolo run", "tombolo up a b"] {
            let error = Arguments::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
