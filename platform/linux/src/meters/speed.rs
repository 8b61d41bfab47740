//! A measure of processor speed, for comparing nodes.

use std::hint::black_box;

use crate::time::thread_cpu_ns;

/// Duration of the measurement, in nanoseconds of processor time.
const MEASURE_NS: u64 = 2_000_000;

/// Rounds between two readings of the clock: a few microseconds.
const BATCH: u64 = 2_000;

/// Measures rounds per millisecond of a short loop of integer arithmetic on one processor: each round
/// multiplies, adds and shifts, and depends on the previous one. Takes 2 ms of this thread's processor time,
/// regardless of preemption, and uses the fastest batch, so that interrupts do not matter.
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
    fn rounds_per_ms_is_plausible() {
        let rounds = super::rounds_per_ms();
        assert!(rounds > 100, "{rounds}");
    }
}
