//! `taskloop`: a loop divided into tasks.

use super::loops::equal_part;
use super::tasks::{self, Create};
use super::{group, reduction};
use crate::team::share::Range;
use crate::team::thread::Thread;

/// Division of a loop into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Into this number of tasks; 0 for a number chosen by the run-time.
    Tasks(u64),
    /// Into tasks of at least this many iterations, and less than twice as many.
    Grain(u64),
    /// Into tasks of exactly this many iterations; the last may be shorter.
    Strict(u64),
}

impl Cut {
    /// Returns the number of tasks; `unsaid` is the default.
    fn tasks(self, iterations: u64, unsaid: u64) -> u64 {
        let tasks = match self {
            Self::Tasks(0) => unsaid,
            Self::Tasks(tasks) => tasks,
            Self::Grain(grain) => iterations / grain.max(1),
            Self::Strict(grain) => iterations.div_ceil(grain.max(1)),
        };
        tasks.clamp(1, iterations.max(1))
    }

    /// Returns the iterations of task `index` of `tasks`, as start and end.
    fn part(self, iterations: u64, tasks: u64, index: u64) -> (u64, u64) {
        match self {
            Self::Strict(grain) => {
                let low = index * grain.max(1);
                (low, low.saturating_add(grain.max(1)).min(iterations))
            }
            _ => equal_part(iterations, tasks, index),
        }
    }
}

/// Runs a loop as tasks and waits for them unless `ungrouped`. `reductions` is the array to register for
/// them.
pub fn run(
    me: &'static Thread,
    range: Range,
    cut: Cut,
    ungrouped: bool,
    reductions: Option<*mut usize>,
    task: Create<'_>,
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
    let tasks = cut.tasks(range.count, me.team().tasks());
    for index in 0..tasks {
        let (low, high) = cut.part(range.count, tasks, index);
        tasks::create(me, Create { bounds: Some(range.bounds(low, high)), ..task });
    }
    if !ungrouped {
        group::end(me);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iteration_is_in_one_task() {
        for cut in
            [Cut::Tasks(0), Cut::Tasks(3), Cut::Tasks(100), Cut::Grain(4), Cut::Grain(50), Cut::Strict(4)]
        {
            for iterations in [1_u64, 7, 16, 33] {
                let tasks = cut.tasks(iterations, 4);
                let parts: Vec<_> = (0..tasks).map(|index| cut.part(iterations, tasks, index)).collect();
                assert_eq!(
                    (parts[0].0, parts[parts.len() - 1].1),
                    (0, iterations),
                    "{cut:?} of {iterations}"
                );
                assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0));
                if let Cut::Grain(grain) = cut {
                    let fits = |&(low, high): &(u64, u64)| {
                        high - low >= grain.min(iterations) && high - low < 2 * grain.max(iterations)
                    };
                    assert!(parts.iter().all(fits), "{cut:?} of {iterations}: {parts:?}");
                }
            }
        }
    }
}
