//! Raw mode of the terminal.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;

/// Guard that forwards every key; restores the terminal when dropped.
pub(super) struct RawMode {
    before: Termios,
}

impl RawMode {
    pub(super) fn enter() -> Result<RawMode, Failure> {
        let terminal = io::stdin();
        let failed = |errno: rustix::io::Errno| Failure::system("set up the terminal")(errno.into());
        let before = tcgetattr(&terminal).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Flush, &raw).map_err(failed)?;
        Ok(RawMode { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
