//! Progress display of measurements.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::Args;
use tombolo::Domain;

use crate::context::Context;
use crate::failure::{Failure, eprint_quietly};
use crate::text::one_line;

/// Shows the present measurement in a line that is overwritten, if standard error is a terminal.
pub(super) fn with_progress<T>(context: &Context, measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let shown = io::stderr().is_terminal() && !context.quiet;
    let result = measure(&mut |line| {
        if shown {
            eprint_quietly(&format!("\r\x1b[K{}", one_line(line)));
        }
    });
    if shown {
        eprint_quietly("\r\x1b[K");
    }
    result
}

/// Options of commands that start this program again to take part in a measurement.
#[derive(Args, Debug)]
pub(super) struct Output {
    /// Print JSON, for programs
    #[arg(long)]
    pub(super) json: bool,

    /// Take part in a trial
    #[arg(long, hide = true, value_name = "TRIAL")]
    member: Option<String>,
}

impl Output {
    /// Takes part in a trial and returns the exit status, if this process was started for one. Reports
    /// failures on standard error.
    pub(super) fn run_if_member(
        &self,
        context: &Context,
        run: impl FnOnce(&Domain, &str) -> Result<(), String>,
    ) -> Result<Option<u8>, Failure> {
        let Some(trial) = &self.member else { return Ok(None) };
        Ok(Some(match run(&context.attach()?, trial) {
            Ok(()) => 0,
            Err(why) => {
                eprintln!("{why}");
                1
            }
        }))
    }
}

/// Returns the arguments with which this program takes part in a measurement on the same machine; the trial
/// follows.
pub(super) fn member_arguments(context: &Context, bench: &str) -> Vec<OsString> {
    let machine = context.machine.iter().flat_map(|name| ["--machine", name]);
    machine.chain(["bench", bench, "--member"]).map(Into::into).collect()
}
