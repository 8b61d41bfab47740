//! The board's clock.

use core::time::Duration;

use tombolo_platform_bare::program;

/// A point in time since the board was switched on. Clocks of different nodes have nothing to do with each
/// other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(u64);

impl Instant {
    /// The time now, on the board's clock.
    #[must_use]
    pub fn now() -> Instant {
        Instant(program::clock_ns())
    }

    /// The time that has passed since this instant.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(program::clock_ns().saturating_sub(self.0))
    }
}

/// Waits for that long, whatever happens meanwhile.
pub fn sleep(duration: Duration) {
    let until_ns = after_ns(duration);
    while program::clock_ns() < until_ns {
        sleep_until(until_ns);
    }
}

/// When a time-out that begins now has passed, on the board's clock.
pub(crate) fn after_ns(timeout: Duration) -> u64 {
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    program::clock_ns().saturating_add(timeout_ns)
}

/// Sleeps until something happens, or the clock shows `until_ns`.
pub(crate) fn sleep_until(until_ns: u64) {
    // Which doorbell rang does not matter: each wait looks at what it waits for.
    program::sleep(Some(until_ns).filter(|until_ns| *until_ns != u64::MAX));
}
