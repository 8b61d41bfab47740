//! Deadlines on the monotonic clock.

use std::time::Duration;

use rustix::time::{ClockId, Timespec};

/// Absolute time on this kernel's monotonic clock at which a wait times out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline(u64);

/// Returns the time on this kernel's monotonic clock, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    // The clock starts at zero with the system.
    nanoseconds(rustix::time::clock_gettime(ClockId::Monotonic))
}

/// Returns the processor time of this thread, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    // The clock starts at zero with the thread.
    nanoseconds(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the processor time of all threads of this process, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    // The clock starts at zero with the process.
    nanoseconds(rustix::time::clock_gettime(ClockId::ProcessCPUTime))
}

/// Converts a reading of a clock that starts at zero, so that neither part is negative.
const fn nanoseconds(reading: Timespec) -> u64 {
    reading.tv_sec as u64 * 1_000_000_000 + reading.tv_nsec as u64
}

impl Deadline {
    /// Creates a deadline `timeout` from now, saturating at the end of the clock.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Deadline(now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Creates a deadline at the time `at_ns` of [`now_ns`].
    #[must_use]
    pub const fn at_ns(at_ns: u64) -> Self {
        Deadline(at_ns)
    }

    /// Returns the deadline in nanoseconds of [`now_ns`].
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the time left; zero if it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now_ns()))
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn passed(self) -> bool {
        now_ns() >= self.0
    }
}

/// A timeout that starts when its deadline is first requested, so that a short wait reads no clock.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(Start);

#[derive(Clone, Copy, Debug)]
enum Start {
    Never(Duration),
    At(Deadline),
}

impl Timeout {
    /// Creates a timeout that has not started.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        Timeout(Start::Never(timeout))
    }

    /// Returns whether the timeout is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Start::Never(Duration::ZERO))
    }

    /// Returns the deadline; the first call starts the timeout.
    pub fn deadline(&mut self) -> Deadline {
        match self.0 {
            Start::At(deadline) => deadline,
            Start::Never(timeout) => {
                let deadline = Deadline::after(timeout);
                self.0 = Start::At(deadline);
                deadline
            }
        }
    }
}

/// Converts a duration for the kernel, saturating.
#[must_use]
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_starts_once_on_first_use() {
        let mut timeout = Timeout::new(Duration::from_secs(60));
        let before = Deadline::after(Duration::from_secs(60));
        let deadline = timeout.deadline();
        assert!(deadline >= before);
        assert_eq!(timeout.deadline(), deadline);
        assert!(Timeout::new(Duration::ZERO).is_zero() && !timeout.is_zero());
    }

    /// Returns the reading of the kernel's clock, computed with std's types.
    fn clock_ns(clock: ClockId) -> u64 {
        let now = rustix::time::clock_gettime(clock);
        let since = Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap());
        since.as_nanos().try_into().unwrap()
    }

    #[test]
    fn each_clock_is_the_kernels() {
        let clocks: [(ClockId, fn() -> u64); 3] = [
            (ClockId::Monotonic, now_ns),
            (ClockId::ThreadCPUTime, thread_cpu_ns),
            (ClockId::ProcessCPUTime, process_cpu_ns),
        ];
        for (clock, ours) in clocks {
            for _ in 0..100 {
                let (before, now, after) = (clock_ns(clock), ours(), clock_ns(clock));
                assert!((before..=after).contains(&now), "{clock:?}: {before} {now} {after}");
            }
        }
    }

    #[test]
    fn a_reading_is_seconds_and_the_nanoseconds_after_them() {
        assert_eq!(nanoseconds(Timespec { tv_sec: 3, tv_nsec: 5 }), 3_000_000_005);
        assert_eq!(nanoseconds(Timespec { tv_sec: 0, tv_nsec: 7 }), 7);
    }

    #[test]
    fn a_deadline_has_passed_when_nothing_remains() {
        let hour = Duration::from_secs(3600);
        let later = Deadline::after(hour);
        assert!(!later.passed());
        assert!((Duration::ZERO..=hour).contains(&later.remaining()) && later.remaining() > hour / 2);
        let past = Deadline::at_ns(now_ns());
        assert!(past.passed());
        assert_eq!(past.remaining(), Duration::ZERO);
        assert!(past < later);
        let (before, now) = (now_ns(), Deadline::after(Duration::ZERO).as_ns());
        assert!((before..=now_ns()).contains(&now));
    }

    #[test]
    fn deadline_saturates_at_the_end_of_the_clock() {
        assert_eq!(Deadline::after(Duration::MAX), Deadline::at_ns(u64::MAX));
        assert_eq!(Deadline::after(Duration::from_nanos(u64::MAX)).as_ns(), u64::MAX);
        assert!(!Deadline::at_ns(u64::MAX).passed());
        let (all, cut) = (timespec(Duration::new(3, 5)), timespec(Duration::MAX));
        assert_eq!((all.tv_sec, all.tv_nsec), (3, 5));
        assert_eq!((cut.tv_sec, cut.tv_nsec), (i64::MAX, 999_999_999));
    }
}
