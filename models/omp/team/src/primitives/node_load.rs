//! Counts of the threads of a node that run or spin, which determine how long a waiting thread spins.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{paged_wait, sys};

/// Wait state shared by all threads on the processors of a node, in the store. If the store is transferred in
/// pages, threads [wait differently](super::paged_wait), and nothing is counted.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct NodeLoad {
    /// Number of threads that run or spin.
    count: AtomicU32,
    /// Number of threads in unfinished regions, asleep or not.
    engaged: AtomicU32,
    /// Number of processors of the node.
    processors: AtomicU32,
    /// Maximum number of spin turns.
    turns: AtomicU64,
}

/// State used by threads that have no record yet.
pub(super) static UNREGISTERED: NodeLoad = NodeLoad {
    count: AtomicU32::new(0),
    engaged: AtomicU32::new(0),
    processors: AtomicU32::new(1),
    turns: AtomicU64::new(0),
};

/// Maximum spin turns if there are more threads than processors.
pub(super) const OVERSUBSCRIBED_TURNS: u64 = 16;

/// Number of turns after which a thread checks whether another thread wants its processor: initially, and the
/// maximum reached while none does.
const YIELD_AFTER_MIN: u64 = 1024;
const YIELD_AFTER_MAX: u64 = 1 << 16;
/// Minimum time between moves to another processor, in nanoseconds.
const MOVE_INTERVAL_NS: u64 = 1_000_000;

/// Interval at which a spinning thread checks for competitors for its processor. Accessed by that thread
/// only.
#[repr(C)]
#[derive(Debug)]
pub struct SpinYield {
    threshold: Cell<u64>,
    last_move_ns: Cell<u64>,
}

impl Default for SpinYield {
    fn default() -> Self {
        Self { threshold: Cell::new(YIELD_AFTER_MIN), last_move_ns: Cell::new(0) }
    }
}

impl SpinYield {
    /// Yields the processor. Returns whether to continue spinning.
    ///
    /// The kernel may have put the thread that this one waits for on the same processor, and leaves both
    /// there while the other processors are busy. In that case this thread moves to another one. If an
    /// unrelated thread ran, this one stops spinning so as not to compete with it.
    #[cold]
    pub(super) fn yield_processor(&self, condition: &mut impl FnMut() -> bool) -> bool {
        let before = sys::preemption_count();
        sys::yield_now();
        if sys::preemption_count() == before {
            self.threshold.set((self.threshold.get() * 2).min(YIELD_AFTER_MAX));
            return true;
        }
        self.threshold.set(YIELD_AFTER_MIN);
        if !condition() {
            return false;
        }
        let now = sys::now_ns();
        if now - self.last_move_ns.get() > MOVE_INTERVAL_NS {
            self.last_move_ns.set(now);
            sys::move_to_other_processor();
        }
        true
    }
}

impl SpinYield {
    /// Returns the number of turns until the next check.
    #[inline]
    pub(super) fn turns_until_yield(&self) -> u64 {
        self.threshold.get()
    }
}

impl NodeLoad {
    /// Sets the number of processors and the maximum number of spin turns.
    pub fn configure(&self, processors: u32, turns: u64) {
        self.processors.store(processors, Ordering::Relaxed);
        self.turns.store(turns, Ordering::Relaxed);
    }

    /// Counts a thread that starts running.
    pub fn add_running(&self) {
        if paged_wait::is_memory_paged() {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a thread that stops running.
    pub fn remove_running(&self) {
        if paged_wait::is_memory_paged() {
            return;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the maximum number of spin turns.
    #[inline]
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Counts threads that have begun a region.
    pub fn engage(&self, threads: u32) {
        if paged_wait::is_memory_paged() {
            return;
        }
        self.engaged.fetch_add(threads, Ordering::Relaxed);
    }

    /// Counts threads that have ended a region.
    pub fn disengage(&self, threads: u32) {
        if paged_wait::is_memory_paged() {
            return;
        }
        self.engaged.fetch_sub(threads, Ordering::Relaxed);
    }

    /// Whether a spinning thread would keep another from running. Threads that sleep in a region count, as
    /// they are about to be woken.
    #[inline]
    pub(super) fn is_oversubscribed(&self) -> bool {
        let processors = self.processors.load(Ordering::Relaxed);
        self.count.load(Ordering::Relaxed) > processors || self.engaged.load(Ordering::Relaxed) > processors
    }
}
