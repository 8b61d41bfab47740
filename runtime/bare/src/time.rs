//! Clock of the board.

use core::time::Duration;

use tombolo_platform_bare::program;

/// Point in time since the board was switched on. Clocks of different nodes are unrelated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(u64);

impl Instant {
    /// Returns the current time of the board's clock.
    #[must_use]
    pub fn now() -> Instant {
        Instant(program::clock_ns())
    }

    /// Returns the time that has passed since this instant.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(program::clock_ns().saturating_sub(self.0))
    }
}

/// Sleeps for the whole duration, regardless of doorbells.
pub fn sleep(duration: Duration) {
    let until_ns = after_ns(duration);
    while program::clock_ns() < until_ns {
        sleep_until(until_ns);
    }
}

/// Returns the time on the board's clock at which a timeout that begins now expires.
pub(crate) fn after_ns(timeout: Duration) -> u64 {
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    program::clock_ns().saturating_add(timeout_ns)
}

/// Sleeps until the next doorbell or order, or until the clock reaches `until_ns`.
pub(crate) fn sleep_until(until_ns: u64) {
    // Which doorbell rang does not matter: each wait checks its own condition.
    program::sleep(Some(until_ns).filter(|until_ns| *until_ns != u64::MAX));
}
