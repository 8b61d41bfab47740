//! Number of shared-memory accesses of an operation: static bounds and measured counts.
//!
//! Code on a hot path has bounds that hold for any behaviour of the peer, as worst-case analysis requires
//! (parMERASA; `docs/book`, "Bounded time"). Bounds are part of every build. Accesses are counted only with
//! `--cfg sim` and `--cfg loom`, where atomics are wrapped, so that counting costs nothing elsewhere.

use core::ops::Add;

/// Accesses to words of shared memory, and fences.
///
/// Every loop iteration in bounded code makes at least one access, so that their sum also bounds the
/// iterations. Hints such as prefetches are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Steps {
    /// Loads of words.
    pub loads: u64,
    /// Stores of words.
    pub stores: u64,
    /// Atomic operations that load and store.
    pub read_modify_writes: u64,
    /// Fences between processors.
    pub fences: u64,
}

impl Steps {
    /// No accesses to shared memory.
    pub const NONE: Steps = Steps { loads: 0, stores: 0, read_modify_writes: 0, fences: 0 };

    /// Creates a count of loads and stores only.
    #[must_use]
    pub const fn of(loads: u64, stores: u64) -> Steps {
        Steps { loads, stores, ..Steps::NONE }
    }

    /// Returns these steps plus `fences` fences.
    #[must_use]
    pub const fn fenced(self, fences: u64) -> Steps {
        Steps { fences: self.fences + fences, ..self }
    }

    /// Adds the steps of a second operation, in constants.
    #[must_use]
    pub const fn and(self, other: Steps) -> Steps {
        Steps {
            loads: self.loads + other.loads,
            stores: self.stores + other.stores,
            read_modify_writes: self.read_modify_writes + other.read_modify_writes,
            fences: self.fences + other.fences,
        }
    }

    /// Multiplies each kind of step by `times`.
    #[must_use]
    pub const fn times(self, times: u64) -> Steps {
        Steps {
            loads: self.loads * times,
            stores: self.stores * times,
            read_modify_writes: self.read_modify_writes * times,
            fences: self.fences * times,
        }
    }

    /// Returns whether each count is at most that of `bound`.
    #[must_use]
    pub const fn within(self, bound: Steps) -> bool {
        self.loads <= bound.loads
            && self.stores <= bound.stores
            && self.read_modify_writes <= bound.read_modify_writes
            && self.fences <= bound.fences
    }

    /// Returns the maximum of each kind of step.
    #[must_use]
    pub fn max(self, other: Steps) -> Steps {
        Steps {
            loads: self.loads.max(other.loads),
            stores: self.stores.max(other.stores),
            read_modify_writes: self.read_modify_writes.max(other.read_modify_writes),
            fences: self.fences.max(other.fences),
        }
    }

    /// Returns the sum over all kinds of steps.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.loads + self.stores + self.read_modify_writes + self.fences
    }
}

impl Add for Steps {
    type Output = Steps;

    fn add(self, other: Steps) -> Steps {
        self.and(other)
    }
}

#[cfg(any(sim, loom))]
pub use counting::{count, counted};

#[cfg(any(sim, loom))]
mod counting {
    use std::cell::RefCell;

    use super::Steps;

    /// Key of a counter: under loom, the threads of a model share one operating system thread.
    #[cfg(not(loom))]
    type Thread = ();
    #[cfg(loom)]
    type Thread = loom::thread::ThreadId;

    std::thread_local! {
        static COUNTS: RefCell<Vec<(Thread, Steps)>> = const { RefCell::new(Vec::new()) };
    }

    #[cfg(not(loom))]
    fn this_thread() -> Thread {}
    #[cfg(loom)]
    fn this_thread() -> Thread {
        loom::thread::current().id()
    }

    /// Calls `operation` and counts the steps of this thread during the call. Calls may not be nested.
    pub fn counted<R>(operation: impl FnOnce() -> R) -> (R, Steps) {
        let thread = this_thread();
        COUNTS.with_borrow_mut(|counts| {
            counts.retain(|(counting, _)| *counting != thread);
            counts.push((thread, Steps::NONE));
        });
        let result = operation();
        let steps = COUNTS.with_borrow_mut(|counts| {
            let own = counts.iter().position(|(counting, _)| *counting == thread);
            own.map_or(Steps::NONE, |own| counts.swap_remove(own).1)
        });
        (result, steps)
    }

    /// Adds one step to the count of this thread, if it is counting. Also used by code that bounds its
    /// accesses to private memory.
    #[inline]
    pub fn count(step: fn(&mut Steps) -> &mut u64) {
        COUNTS.with_borrow_mut(|counts| {
            if counts.is_empty() {
                return;
            }
            let thread = this_thread();
            if let Some((_, steps)) = counts.iter_mut().find(|(counting, _)| *counting == thread) {
                *step(steps) += 1;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_add_up_and_compare_by_kind() {
        let one = Steps::of(2, 1);
        let sum = (one + Steps::of(0, 3).fenced(1)).times(2);
        assert_eq!(sum, Steps { loads: 4, stores: 8, read_modify_writes: 0, fences: 2 });
        assert!(one.within(sum) && !sum.within(one));
        assert!(!Steps::of(0, 9).within(sum), "one kind is over");
        assert_eq!((sum.total(), one.max(Steps::of(1, 5))), (14, Steps::of(2, 5)));
        let all = Steps { loads: 2, stores: 3, read_modify_writes: 5, fences: 7 };
        let more = Steps { loads: 11, stores: 13, read_modify_writes: 17, fences: 19 };
        assert_eq!(all.and(more), Steps { loads: 13, stores: 16, read_modify_writes: 22, fences: 26 });
        assert_eq!(all.times(3), Steps { loads: 6, stores: 9, read_modify_writes: 15, fences: 21 });
        assert_eq!(all.total(), 17);
    }
}
