//! `taskloop`: a loop divided into tasks.

use super::loops::block_range;
use super::tasks::{self, NewTask};
use super::{group, reduction};
use crate::team::share::Range;
use crate::team::thread::Thread;

/// Division of a loop into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// Into this number of tasks; 0 for a number chosen by the run-time.
    Tasks(u64),
    /// Into tasks of at least this many iterations, and less than twice as many.
    Grain(u64),
    /// Into tasks of exactly this many iterations; the last may be shorter.
    Strict(u64),
}

impl Granularity {
    /// Returns the number of tasks; `default_count` is the default.
    fn task_count(self, iterations: u64, default_count: u64) -> u64 {
        let task_count = match self {
            Self::Tasks(0) => default_count,
            Self::Tasks(count) => count,
            Self::Grain(grain) => iterations / grain.max(1),
            Self::Strict(grain) => iterations.div_ceil(grain.max(1)),
        };
        task_count.clamp(1, iterations.max(1))
    }

    /// Returns the iterations of task `index` of `task_count`, as start and end.
    fn iteration_range(self, iterations: u64, task_count: u64, index: u64) -> (u64, u64) {
        match self {
            Self::Strict(grain) => {
                let low = index * grain.max(1);
                (low, low.saturating_add(grain.max(1)).min(iterations))
            }
            _ => block_range(iterations, task_count, index),
        }
    }
}

/// Runs a loop as tasks and waits for them unless `ungrouped`. `reductions` is the array to register for
/// them.
pub fn run(
    me: &'static Thread,
    range: Range,
    granularity: Granularity,
    ungrouped: bool,
    reductions: Option<*mut usize>,
    task: NewTask<'_>,
) {
    let cancelled = me.team().cancelled.load(std::sync::atomic::Ordering::Relaxed);
    if range.count == 0 || cancelled {
        if let Some(data) = reductions.filter(|_| !ungrouped) {
            // Marks the array as not registered.
            // SAFETY: the array is the program's and has at least seven words.
            unsafe { *data.add(2) = 0 };
        }
        return;
    }
    if !ungrouped {
        group::start(me);
        if let Some(data) = reductions {
            reduction::register_in_group(me, data, std::ptr::null_mut());
        }
    }
    let task_count = granularity.task_count(range.count, me.team().default_task_count());
    for index in 0..task_count {
        let (low, high) = granularity.iteration_range(range.count, task_count, index);
        tasks::create(me, NewTask { bounds: Some(range.bounds(low, high)), ..task });
    }
    if !ungrouped {
        group::end(me);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_iteration_is_in_one_task() {
        for granularity in [
            Granularity::Tasks(0),
            Granularity::Tasks(3),
            Granularity::Tasks(100),
            Granularity::Grain(4),
            Granularity::Grain(50),
            Granularity::Strict(4),
        ] {
            for iterations in [1_u64, 7, 16, 33] {
                let task_count = granularity.task_count(iterations, 4);
                let parts: Vec<_> = (0..task_count)
                    .map(|index| granularity.iteration_range(iterations, task_count, index))
                    .collect();
                assert_eq!(
                    (parts[0].0, parts[parts.len() - 1].1),
                    (0, iterations),
                    "{granularity:?} of {iterations}"
                );
                assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0));
                if let Granularity::Grain(grain) = granularity {
                    let fits = |&(low, high): &(u64, u64)| {
                        high - low >= grain.min(iterations) && high - low < 2 * grain.max(iterations)
                    };
                    assert!(parts.iter().all(fits), "{granularity:?} of {iterations}: {parts:?}");
                }
            }
        }
    }
}
