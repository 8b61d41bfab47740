//! How fast a processor is, to compare nodes by.

use std::hint::black_box;

use crate::time::thread_cpu_ns;

/// How long is measured, in nanoseconds of processor time.
const MEASURE_NS: u64 = 2_000_000;

/// Rounds between two looks at the clock: a few microseconds.
const BATCH: u64 = 2_000;

/// Rounds of a short loop of integer arithmetic in a millisecond of one processor: each multiplies, adds and shifts, and
/// needs what the one before made. It takes 2 ms of this thread's processor time, however long others have the processor
/// meanwhile, and the fastest part of it counts, so that interrupts do not.
#[must_use]
pub fn rounds_per_ms() -> u32 {
    let (mut state, mut best_ns) = (black_box(1_u64), u64::MAX);
    let start = thread_cpu_ns();
    let mut before = start;
    while before.saturating_sub(start) < MEASURE_NS {
        for _ in 0..BATCH {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state ^= state >> 29;
        }
        state = black_box(state);
        let now = thread_cpu_ns();
        best_ns = best_ns.min(now.saturating_sub(before).max(1));
        before = now;
    }
    u32::try_from(BATCH * 1_000_000 / best_ns).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_processor_does_something_in_a_millisecond() {
        let rounds = super::rounds_per_ms();
        assert!(rounds > 100, "{rounds}");
    }
}
