//! Detects whether other programs used the processors during a run.

use std::fs;
use std::time::Instant;

/// Maximum share of all processors that other programs may use; beyond it, a run is repeated.
const DISTURBED_SHARE: f64 = 0.05;

/// Inaccuracy of the kernel's counters, in ticks: they have a resolution of 10 ms, and are not all updated at
/// the same time.
const INEXACT_TICKS: f64 = 2.0;

/// Ticks per second of the kernel's counters (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Usage of the processors so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessorUsage {
    /// Ticks in which the processors were not idle.
    busy: f64,
    /// Part of `busy` used by this program and its reaped children.
    own: f64,
    processors: f64,
    at: Instant,
}

impl ProcessorUsage {
    /// Reads the kernel's counters; `None` if they are not available.
    pub(super) fn now() -> Option<ProcessorUsage> {
        let all = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        ProcessorUsage::read(&all, &own)
    }

    fn read(all: &str, own: &str) -> Option<ProcessorUsage> {
        let first: Vec<f64> = numbers(all.lines().next()?.strip_prefix("cpu ")?);
        // Counts user, nice, system, irq, softirq and steal; skips idle and iowait.
        let busy = [0, 1, 2, 5, 6, 7].into_iter().map(|index| first.get(index).copied().unwrap_or(0.0)).sum();
        let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        let processors = all.lines().filter(is_one).count() as f64;
        // The name may contain spaces and ends at the last parenthesis. The fields from the 12th on are user
        // and system time, then those of children.
        let own: Vec<f64> = numbers(own.rsplit_once(") ")?.1.split_once(' ')?.1);
        let own = own.get(10..14)?.iter().sum();
        Some(ProcessorUsage { busy, own, processors, at: Instant::now() })
    }

    /// Returns whether other programs used the processors since `before`.
    pub(super) fn disturbed_since(&self, before: &ProcessorUsage) -> bool {
        let others = (self.busy - before.busy) - (self.own - before.own);
        let all = self.at.duration_since(before.at).as_secs_f64() * TICKS_PER_SECOND * self.processors;
        others > DISTURBED_SHARE * all + INEXACT_TICKS
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn load_of_other_programs_is_separated() {
        let all = |user: u32| format!("cpu  {user} 10 20 1000 5 1 2 3 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n");
        let own =
            |user: u32| format!("7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 {user} 2 30 4 20 0 1 0 5 6\n");
        let before = ProcessorUsage::read(&all(100), &own(10)).expect("read");
        assert_eq!((before.busy, before.own, before.processors), (136.0, 46.0, 2.0));
        let after = |busy, used| {
            let load = ProcessorUsage::read(&all(busy), &own(used)).expect("read");
            ProcessorUsage { at: before.at + Duration::from_secs(1), ..load }
        };
        // Two processors for a second: 200 ticks.
        assert!(!after(300, 200).disturbed_since(&before));
        assert!(after(300, 190).disturbed_since(&before));
        assert!(ProcessorUsage::read("nothing", "7 (a) S 1").is_none());
        assert!(ProcessorUsage::now().is_some());
    }
}
