//! Clock for time stamps: the processor's counter if it is steady, otherwise the monotonic clock.

use std::sync::OnceLock;

use crate::time::now_ns;

/// Number of attempts to read both clocks simultaneously.
const ANCHOR_TRIES: u32 = 5;

/// The source of time stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// A counter of the processor with a constant rate, the same on all processors.
    Counter {
        /// The rate, 0 if unknown.
        ticks_per_s: u64,
    },
    /// The kernel's monotonic clock, in nanoseconds.
    Monotonic,
}

/// A clock for time stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampClock {
    source: Source,
}

impl TimestampClock {
    /// Selects the best clock of this machine.
    #[must_use]
    pub fn detect() -> TimestampClock {
        static DETECTED: OnceLock<TimestampClock> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            let source = counter::ticks_per_s().map(|ticks_per_s| Source::Counter { ticks_per_s });
            TimestampClock { source: source.unwrap_or(Source::Monotonic) }
        })
    }

    /// Returns the current time, in ticks since an arbitrary epoch.
    #[inline]
    #[must_use]
    pub fn ticks(self) -> u64 {
        match self.source {
            Source::Counter { .. } => counter::read(),
            Source::Monotonic => now_ns(),
        }
    }

    /// Ticks per second; 0 if unknown.
    #[must_use]
    pub fn ticks_per_s(self) -> u64 {
        match self.source {
            Source::Counter { ticks_per_s } => ticks_per_s,
            Source::Monotonic => 1_000_000_000,
        }
    }

    /// Returns one moment in ticks and in nanoseconds of the monotonic clock, as closely paired as possible.
    #[must_use]
    pub fn anchor(self) -> (u64, u64) {
        let sample = |_| {
            let before = self.ticks();
            let ns = now_ns();
            let width = self.ticks().wrapping_sub(before);
            (width, before.wrapping_add(width / 2), ns)
        };
        if self.source == Source::Monotonic {
            let ns = now_ns();
            return (ns, ns);
        }
        // The shortest attempt was not interrupted.
        let (_, ticks, ns) = (0..ANCHOR_TRIES).map(sample).min().unwrap_or((0, self.ticks(), now_ns()));
        (ticks, ns)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use core::arch::x86_64::{__cpuid, _rdtsc};

    /// CPUID leaf that reports whether the time stamp counter has a constant rate.
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;

    /// Returns `Some(0)` if the counter is steady: its rate cannot be read.
    pub(super) fn ticks_per_s() -> Option<u64> {
        let leaves = __cpuid(0x8000_0000).eax;
        let steady = leaves >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT_TSC != 0;
        steady.then_some(0)
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory. If the program
        // itself had Linux forbid it, it raises a signal.
        unsafe { _rdtsc() }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod counter {
    use core::arch::asm;

    /// Returns the rate of the virtual counter, which is steady by architecture and readable under Linux.
    pub(super) fn ticks_per_s() -> Option<u64> {
        let rate: u64;
        // SAFETY: reads a register that Linux makes readable to programs; touches nothing else.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) rate, options(nomem, nostack, preserves_flags)) };
        (rate > 0).then_some(rate)
    }

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod counter {
    pub(super) fn ticks_per_s() -> Option<u64> {
        None
    }

    pub(super) fn read() -> u64 {
        crate::time::now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_one_thread_ascend_and_anchors_lie_among_them() {
        let clock = TimestampClock::detect();
        let before = (clock.ticks(), now_ns());
        let (ticks, ns) = clock.anchor();
        let after = (clock.ticks(), now_ns());
        assert!(before.0 <= ticks && ticks <= after.0);
        assert!(before.1 <= ns && ns <= after.1);
    }

    #[test]
    fn the_monotonic_clock_is_its_own_anchor() {
        let clock = TimestampClock { source: Source::Monotonic };
        let (ticks, ns) = clock.anchor();
        assert_eq!((ticks, clock.ticks_per_s()), (ns, 1_000_000_000));
    }
}
