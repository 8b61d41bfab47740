//! Text of an [`Exit`] in a sentence, and the exit status for it.

use alloc::string::String;
use core::fmt;

use crate::Exit;

impl Exit {
    /// Returns the exit status that a shell reports for a program that ended like this: 128 plus the signal
    /// number for one killed by a signal, 1 for one that was lost with its node.
    #[must_use]
    pub fn shell_status(&self) -> u8 {
        match self {
            Self::Exited { status } => *status,
            Self::Signalled { signal } => 128_u8.saturating_add(*signal),
            Self::NodeLost { .. } => 1,
            Self::Left => 0,
        }
    }
}

/// Formats the rest of a sentence that begins with the domain: `ended with status 3`, `was killed by
/// SIGKILL`.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { status: 0 } => f.write_str("ended well"),
            Self::Exited { status } => write!(f, "ended with status {status}"),
            Self::Signalled { signal } => write!(f, "was killed by {}", Signal(*signal)),
            Self::NodeLost { cause } if cause.is_empty() => f.write_str("was lost with its node"),
            // A cause may come from another machine and contain escape sequences for the terminal.
            Self::NodeLost { cause } => {
                let shown: String =
                    cause.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
                write!(f, "was lost with its node: {shown}")
            }
            Self::Left => f.write_str("left the machine"),
        }
    }
}

/// Linux signal, displayed by its name, or as `signal 40` if it does not terminate programs by default. The
/// numbers are the same on all instruction sets that Tombolo runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal(pub u8);

impl Signal {
    /// Terminates a program at once; it cannot be handled.
    pub const KILL: Signal = Signal(9);
    /// Asks a program to end.
    pub const TERM: Signal = Signal(15);
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            4 => "SIGILL",
            5 => "SIGTRAP",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            9 => "SIGKILL",
            10 => "SIGUSR1",
            11 => "SIGSEGV",
            12 => "SIGUSR2",
            13 => "SIGPIPE",
            14 => "SIGALRM",
            15 => "SIGTERM",
            24 => "SIGXCPU",
            25 => "SIGXFSZ",
            31 => "SIGSYS",
            number => return write!(f, "signal {number}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn exit_status_matches_the_shell() {
        let (exited, killed) = (Exit::Exited { status: 3 }, Exit::Signalled { signal: 9 });
        assert_eq!((exited.to_string(), exited.shell_status()), ("ended with status 3".into(), 3));
        assert_eq!((killed.to_string(), killed.shell_status()), ("was killed by SIGKILL".into(), 137));
        let odd = Exit::Signalled { signal: 255 };
        assert_eq!((odd.to_string(), odd.shell_status()), ("was killed by signal 255".into(), 255));
        let lost = Exit::NodeLost { cause: "killed\nhard".into() };
        assert_eq!(lost.to_string(), "was lost with its node: killed\u{fffd}hard");
        assert_eq!(Exit::NodeLost { cause: String::new() }.to_string(), "was lost with its node");
        assert_eq!((Exit::Left.shell_status(), Exit::Exited { status: 0 }.shell_status()), (0, 0));
    }
}
