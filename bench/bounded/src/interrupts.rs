//! From an interrupt of the timer to the program that sleeps until it.

use core::fmt;
use core::time::Duration;

#[cfg(not(target_os = "none"))]
use std::{thread::sleep, time::Instant};
#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;
#[cfg(target_os = "none")]
use tombolo_bare::time::{Instant, sleep};

use crate::measure::Clock;

/// Interrupts that are measured.
const COUNT: u64 = 1000;
/// Each sleep is so much longer than the one before, so that the interrupt comes at all points of the way
/// into the sleep, and while the processor sleeps.
const STEP_NS: u64 = 20;

/// How late programs were, in instructions if the clock counts them, else in nanoseconds.
pub(crate) struct Latencies {
    sorted: Vec<u64>,
}

impl Latencies {
    /// Sleeps again and again.
    pub(crate) fn measure(clock: &Clock) -> Latencies {
        let mut sorted = vec![u64::MAX; COUNT as usize];
        // The passes of one sleep are far apart, so that one disturbance is in one of them.
        for _ in 0..clock.passes() {
            for (number, shortest) in (0..).zip(&mut sorted) {
                let asleep = Duration::from_nanos(number * STEP_NS);
                let begun = Instant::now();
                sleep(asleep);
                let late = clock.units(begun.elapsed().saturating_sub(asleep));
                *shortest = late.min(*shortest);
            }
        }
        sorted.sort_unstable();
        Latencies { sorted }
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(0);
        let mean = self.sorted.iter().sum::<u64>() / self.sorted.len().max(1) as u64;
        let (median, longest) = (at(self.sorted.len() / 2), at(self.sorted.len() - 1));
        writeln!(
            f,
            "{:<28} {:>6} {:>9} {:>9} {:>9} {:>9}",
            "interrupt", "count", "shortest", "median", "mean", "longest"
        )?;
        write!(f, "{:<28} {COUNT:>6} {:>9} {median:>9} {mean:>9} {longest:>9}", "timer to program", at(0))
    }
}
