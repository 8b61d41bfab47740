//! What can be typed. Each command's own options are beside its code, in `command/`.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, ValueEnum};

use crate::command::Command;

const ABOUT: &str = "\
Tombolo runs one program across unlike processors: it brings up a machine of nodes (this host, an Arm virtual \
machine behind a shared-memory window, foreign programs under emulation), starts domains on them, and lets \
these talk over channels.";

const EXAMPLES: &str = "\
Examples:
  tombolo up                                   bring up the machine of machines/default.toml
  tombolo build examples/pingpong              build an image for every node of it
  tombolo run --on host,arm0 pingpong.tbi      run it on two nodes
  tombolo status                               see how the machine is
  tombolo down                                 take it down

Exit status: 0 when all went well, 1 when it did not, 2 when the command line makes no sense;
`tombolo run` ends with the status of the program.";

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

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

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The machine to use; not needed while only one is up
    #[arg(long, global = true, value_name = "NAME", env = "TOMBOLO_MACHINE", hide_env_values = true)]
    pub(crate) machine: Option<String>,

    /// When to use colours: auto (on a terminal), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: When,

    /// Say only what was asked for, and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more about what happens
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// When to use colours.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Even into a file
    Always,
    /// Not even on a terminal
    Never,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    fn check_help(command: &mut clap::Command, path: &str) {
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example"), "{path} --help shows no example:\n{help}");
        // What is hidden is started by other commands, not by people.
        for subcommand in command.get_subcommands_mut().filter(|subcommand| !subcommand.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name());
            check_help(subcommand, &path);
        }
    }

    #[test]
    fn every_help_teaches_by_example() {
        let mut command = Arguments::command();
        command.build();
        check_help(&mut command, "tombolo");
    }

    #[test]
    fn examples_in_the_help_are_accepted() {
        let mut texts = Vec::new();
        collect_help(&mut Arguments::command(), &mut texts);
        let mut tried = 0;
        for line in texts.iter().flat_map(|text| text.lines()) {
            let Some(words) = example(line) else { continue };
            let result = Arguments::try_parse_from(&words);
            assert!(result.is_ok(), "{line}\n{}", result.unwrap_err());
            tried += 1;
        }
        assert!(tried > 20, "only {tried} examples were found");
    }

    fn collect_help(command: &mut clap::Command, texts: &mut Vec<String>) {
        texts.extend(command.get_after_help().map(ToString::to_string));
        command.get_subcommands_mut().for_each(|subcommand| collect_help(subcommand, texts));
    }

    /// The words of an example: a line that starts with the command, up to two blanks before its explanation
    /// or what a shell would take for itself.
    fn example(line: &str) -> Option<Vec<&str>> {
        let text = line.strip_prefix("  ")?;
        let start = text.find("tombolo ")?;
        let piped = text[..start].is_empty() || text[..start].ends_with("| ");
        let text = text[start..].split("  ").next()?;
        let text = text.split(" | ").next()?.split(" >").next()?.split(" <").next()?;
        piped.then(|| text.split_whitespace().collect())
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
    fn what_makes_no_sense_ends_with_status_2() {
        for line in ["tombolo", "tombolo frobnicate", "tombolo kill 1.2", "tombolo run", "tombolo up a b"] {
            let error = Arguments::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
