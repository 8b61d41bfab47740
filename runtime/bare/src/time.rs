//! The board's clock.

use core::time::Duration;

use tombolo_platform_bare::program;

/// A point in time since the board was switched on. Clocks of different nodes have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(u64);

impl Instant {
    /// Now.
    #[must_use]
    pub fn now() -> Instant {
        Instant(program::clock_ns())
    }

    /// Time since then.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(program::clock_ns().saturating_sub(self.0))
    }
}

/// When to stop waiting, on the board's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at_ns: u64,
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Deadline {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Deadline { at_ns: program::clock_ns().saturating_add(timeout_ns) }
    }

    pub(crate) fn passed(self) -> bool {
        program::clock_ns() >= self.at_ns
    }

    pub(crate) fn remaining(self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(program::clock_ns()))
    }

    /// Sleeps until something happens, or the deadline.
    pub(crate) fn sleep(self) {
        // Which doorbell rang does not matter: whoever waits looks at what it waits for.
        program::sleep(Some(self.at_ns).filter(|at_ns| *at_ns != u64::MAX));
    }
}
