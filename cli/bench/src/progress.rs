//! What is being measured, for people who wait.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use crate::context::Context;
use crate::failure::eprint_quietly;
use crate::text::one_line;

/// Shows what is being measured in a line that is overwritten, if standard error is a terminal.
pub(super) fn showing<T>(context: &Context, measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
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

/// The arguments with which this program takes part in a measurement on the same machine; the trial follows.
pub(super) fn member_arguments(context: &Context, bench: &str) -> Vec<OsString> {
    let machine = context.machine.iter().flat_map(|name| ["--machine", name]);
    machine.chain(["bench", bench, "--member"]).map(Into::into).collect()
}

/// The exit status of a process that took part in a measurement, which says why if it failed.
pub(super) fn member_status(ended: Result<(), String>) -> u8 {
    match ended {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why}");
            1
        }
    }
}
