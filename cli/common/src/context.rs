//! Context of a command: the selected machine, and the style of output.

use std::io::{self, IsTerminal, Write};

use tombolo::Domain;
use tombolo::find::{MONITOR_VARIABLE, machines_up};

use crate::arguments::{Global, When};
use crate::failure::Failure;

/// The global options, with defaults taken from the environment and the standard streams.
#[derive(Clone, Debug)]
pub struct Context {
    /// Name of the selected machine, if given.
    pub machine: Option<String>,
    /// Whether standard output is coloured.
    pub colour: bool,
    /// Whether standard error is coloured.
    pub colour_errors: bool,
    /// Whether to print only results and errors.
    pub quiet: bool,
    /// Whether to report progress in detail.
    pub verbose: bool,
}

impl Context {
    /// Evaluates the global options for the present streams.
    #[must_use]
    pub fn new(global: &Global) -> Context {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = |terminal: bool| match global.color {
            When::Auto => terminal && !no_color,
            When::Always => true,
            When::Never => false,
        };
        Context {
            machine: global.machine.clone().filter(|name| !name.is_empty()),
            colour: colour(io::stdout().is_terminal()),
            colour_errors: colour(io::stderr().is_terminal()),
            quiet: global.quiet,
            verbose: global.verbose,
        }
    }

    /// Attaches to the selected machine; starts a plain host's monitor if needed.
    ///
    /// # Errors
    /// [`Failure::Other`] with the reason of [`Domain::attach`].
    pub fn attach(&self) -> Result<Domain, Failure> {
        match &self.machine {
            Some(name) => Ok(Domain::attach_to_machine(name)?),
            None => Ok(Domain::attach()?),
        }
    }

    /// Attaches to the selected machine, which must be up: a command that only displays state should not
    /// start a monitor.
    ///
    /// # Errors
    /// [`Failure::NotUp`], [`Failure::NothingUp`], or that of [`Context::attach`].
    pub fn attach_running(&self) -> Result<Domain, Failure> {
        let inside = std::env::var_os(MONITOR_VARIABLE).is_some();
        match &self.machine {
            Some(name) if !machines_up()?.contains(name) => Err(Failure::NotUp(name.clone())),
            None if !inside && machines_up()?.is_empty() => Err(Failure::NothingUp),
            _ => self.attach(),
        }
    }

    /// Reports progress on standard error, unless `quiet`.
    pub fn info(&self, text: impl AsRef<str>) {
        if !self.quiet {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "{}", text.as_ref());
        }
    }
}

/// Writes a command's result to standard output.
///
/// # Errors
/// [`Failure::Output`] if it cannot be written.
pub fn print(text: impl AsRef<str>) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_ref().as_bytes()).and_then(|()| output.flush());
    written.map_err(Failure::Output)
}

/// Writes a command's result as JSON to standard output.
///
/// # Errors
/// [`Failure::Output`] if it cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::Output(error.into()))?;
    print(text + "\n")
}
