//! Patterns for programs with deadlines, and bounds of the time that they take.
//!
//! A program that must react in time is built from parts with a known worst case: a [`Periodic`] task, whose
//! loop body is a sum of bounded operations; a [pipeline](bound::pipeline) of such tasks; or a step that is
//! [distributed](share) over workers, which meet at a [`Barrier`]. The bound of each operation on shared
//! memory is a number of [`Steps`]; [`Costs`](bound::Costs) convert these to time, and [`bound`] adds them
//! up. The patterns are those of parMERASA (Ungerer et al., "parMERASA: Multi-Core Execution of Parallelised
//! Hard Real-Time Applications Supporting Analysability", DSD 2013).
//!
//! `no_std`, without an allocator and without I/O: the caller provides the memory and the clock, so the same
//! code runs on Linux and on boards.
//!
//! ```
//! use tombolo_realtime::{Finish, Overload, Periodic, Start};
//!
//! // Every millisecond, done within 400 µs.
//! let mut task = Periodic::new(0, 1_000_000, 400_000, Overload::Skip)?;
//! assert_eq!(task.start(20_000), Start::Run { release_ns: 0, late_ns: 20_000 });
//! assert_eq!(task.finish(350_000), Finish::InTime { left_ns: 50_000 });
//! assert_eq!(task.start(360_000), Start::Wait { until_ns: 1_000_000 });
//! # Ok::<(), tombolo_realtime::BadPeriod>(())
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod barrier;
pub mod bound;
mod periodic;

use core::ops::Range;

pub use barrier::{Barrier, BarrierError};
pub use periodic::{BadPeriod, Finish, Overload, Periodic, Start, Statistics};
pub use tombolo_base::{SharedMemory, Steps};

/// Returns the range of items that `worker` of `workers` computes. Shares are as equal as possible, with one
/// more item for the first ones. Empty for a worker beyond the last.
///
/// The longest share is `items.div_ceil(workers)`, which [`bound::data_parallel`] uses.
#[must_use]
pub const fn share(items: usize, worker: usize, workers: usize) -> Range<usize> {
    if worker >= workers {
        return items..items;
    }
    let (each, more) = (items / workers, items % workers);
    let start = worker * each + if worker < more { worker } else { more };
    start..start + each + if worker < more { 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_each_other_and_differ_by_one_at_most() {
        for items in 0..20 {
            for workers in 1..6 {
                let mut next = 0;
                for worker in 0..workers {
                    let share = share(items, worker, workers);
                    assert_eq!(share.start, next);
                    assert!(share.len() <= items.div_ceil(workers) && share.len() >= items / workers);
                    next = share.end;
                }
                assert_eq!(next, items);
                assert!(share(items, workers, workers).is_empty());
            }
        }
    }
}
