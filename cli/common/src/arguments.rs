//! Global options, and the appearance of help.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, Error, Parser, Subcommand, ValueEnum};
use tombolo_machine::suggest;

use crate::failure::Failure;
use crate::programs;

/// Colours of help texts and usage errors.
pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Options common to all commands.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The machine to use; not needed while only one is up
    #[arg(long, global = true, value_name = "NAME", env = "TOMBOLO_MACHINE", hide_env_values = true)]
    pub machine: Option<String>,

    /// When to use colours: auto (on a terminal), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: When,

    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Report progress in detail
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// Command line of a program that `tombolo` runs with its own arguments: the global options and one of the
/// program's commands.
#[derive(Parser, Debug)]
#[command(name = "tombolo", bin_name = "tombolo", version, styles = STYLES)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments<C: Subcommand> {
    /// Options common to all commands.
    #[command(flatten)]
    pub global: Global,

    /// Command with its options.
    #[command(subcommand)]
    pub command: C,
}

/// Condition for using colours.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Even into a file
    Always,
    /// Not even on a terminal
    Never,
}

/// Parses a time in seconds, with fractions: from 0 to 10^9. Longer ones would overflow deadlines.
///
/// # Errors
/// What to write instead.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    match seconds.filter(|seconds| (0.0..=1e9).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs_f64(seconds)),
        None => Err("give a number of seconds from 0 to 1e9, such as 2 or 0.5".to_owned()),
    }
}

/// Parses the command line of this process. A usage error ends the process with status 2 and suggests the
/// nearest command.
#[must_use]
pub fn parse<P: Parser>() -> P {
    parse_words(&programs::command_line())
}

/// Parses a modified command line like [`parse`].
#[must_use]
pub fn parse_words<P: Parser>(words: &[OsString]) -> P {
    try_parse(words).unwrap_or_else(|error| exit_with(&error))
}

/// Prints clap's message (a usage error, or the help or version that was asked for) and ends the process:
/// with status 2 after a usage error, and with an error if the help cannot be written.
pub fn exit_with(message: &Error) -> ! {
    let written = message.print().and_then(|()| io::stdout().flush());
    let status = match written {
        Err(error) if !message.use_stderr() => {
            let failure = Failure::Output(error);
            failure.report(false);
            failure.status().into()
        }
        _ => message.exit_code(),
    };
    process::exit(status)
}

/// Parses a command line. Returns a usage error with the nearest command as a suggestion.
pub fn try_parse<P: Parser>(words: &[OsString]) -> Result<P, Error> {
    P::try_parse_from(words).map_err(|error| {
        let error = without_environment(error, P::command(), words);
        with_suggestion(error, &P::command(), words)
    })
}

/// Returns the usage error that the words alone give. Clap adds every option that is set to the usage line,
/// also one that the environment sets, as if it had to be given.
fn without_environment(error: Error, mut program: Command, words: &[OsString]) -> Error {
    if !error.use_stderr() {
        return error;
    }
    let set: Vec<_> = program.get_arguments().filter(|option| option.get_env().is_some()).collect();
    let set: Vec<_> = set.into_iter().map(|option| option.get_id().clone()).collect();
    for option in set {
        program = program.mut_arg(option, |option| option.env(None::<&str>));
    }
    // Without an error, the mistake is in the environment.
    program.try_get_matches_from(words).err().unwrap_or(error)
}

/// Adds a suggestion for a misspelt command. Clap itself does not recognize `rnu` as `run`.
fn with_suggestion(mut error: Error, program: &Command, words: &[OsString]) -> Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let wrong = wrong.clone();
    let known = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => !names.is_empty(),
        other => other.is_some(),
    };
    if known || error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let before = words.iter().skip(1).take_while(|word| word.to_str() != Some(&wrong));
    let parent = before.fold(program, |command, word| command.find_subcommand(word).unwrap_or(command));
    let names: Vec<&str> = parent.get_subcommands().map(Command::get_name).collect();
    if let Some(meant) = suggest::nearest(&wrong, names) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant.to_owned()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        _global: Global,
        #[command(subcommand)]
        _command: Verb,
    }

    #[derive(Subcommand, Debug)]
    enum Verb {
        Run,
        Status,
        #[command(subcommand)]
        Names(NamesVerb),
    }

    #[derive(Subcommand, Debug)]
    enum NamesVerb {
        Run,
        Set,
    }

    fn output(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = try_parse::<Line>(&words).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        error.to_string()
    }

    #[test]
    fn seconds_are_finite_and_may_have_fractions() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(seconds("-0"), Ok(Duration::ZERO));
        for text in ["-1", "x", "", "1e10", "1e300", "NaN", "nan", "inf", "-inf"] {
            let refused = seconds(text).unwrap_err();
            assert_eq!(refused, "give a number of seconds from 0 to 1e9, such as 2 or 0.5", "{text}");
        }
    }

    #[test]
    fn usage_shows_no_option_that_the_environment_sets() {
        // `PATH` is set in every test, and tests must not change the environment.
        let program = || {
            let option = clap::Arg::new("machine").long("machine").global(true).env("PATH");
            let kill = Command::new("kill").arg(clap::Arg::new("id").required(true));
            Command::new("x").arg(option).subcommand(kill)
        };
        let words = ["x", "kill"].map(OsString::from);
        let of_clap = program().try_get_matches_from(&words).unwrap_err();
        assert!(of_clap.to_string().contains("--machine"), "there is nothing to mend: {of_clap}");
        let error = without_environment(of_clap, program(), &words);
        assert!(error.to_string().contains("Usage: x kill <id>\n"), "{error}");
    }

    #[test]
    fn misspelt_command_gets_a_suggestion() {
        for (line, meant) in [
            ("x rnu", "run"),
            ("x --machine rnu rnu", "run"),
            ("x stauts", "status"),
            ("x sta", "status"),
            ("x names ste", "set"),
            ("x names rnu", "run"),
        ] {
            let output = output(line);
            assert!(output.contains(&format!("a similar subcommand exists: '{meant}'")), "{line}: {output}");
        }
        assert!(!output("x frobnicate").contains("similar"));
        assert!(!output("x names status").contains("similar"), "it is no command of `names`");
    }
}
