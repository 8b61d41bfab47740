//! Deadlines on the monotonic clock.

use std::time::Duration;

use rustix::time::{ClockId, Timespec};

/// A point of this kernel's monotonic clock after which a wait gives up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline(u64);

/// Nanoseconds on the monotonic clock of this kernel.
#[must_use]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    // The monotonic clock starts at zero when the system does, so neither part is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time that this thread has had, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let spent = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    // It starts at zero with the thread.
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

/// Processor time that all threads of this process have had, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    let spent = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    // It starts at zero with the process.
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

impl Deadline {
    /// `timeout` from now; a time-out past the end of the clock is the end of the clock.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Deadline(now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// A point of [`now_ns`].
    #[must_use]
    pub const fn at_ns(at_ns: u64) -> Self {
        Deadline(at_ns)
    }

    /// Where on the clock of [`now_ns`] it is.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// How long is left; zero when it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now_ns()))
    }

    /// Whether it has passed.
    #[must_use]
    pub fn passed(self) -> bool {
        now_ns() >= self.0
    }
}

/// A duration as the kernel takes it, cut at what fits.
#[must_use]
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
