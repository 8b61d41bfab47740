//! How many threads are awake: how many threads of a node run or spin, which decides for how long a thread
//! that waits spins.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{pace, sys};

/// What all threads on the processors of a node know of each other's waiting. It lies in the store. Where
/// that is sent in pages, threads [wait otherwise](super::pace), and nothing is counted.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Awake {
    /// Threads that run or spin.
    count: AtomicU32,
    /// Threads of regions that go on, asleep or not.
    engaged: AtomicU32,
    /// Processors of the node.
    processors: AtomicU32,
    /// The most turns to spin.
    turns: AtomicU64,
}

/// What threads use before they have a record.
pub(super) static UNKNOWN: Awake = Awake {
    count: AtomicU32::new(0),
    engaged: AtomicU32::new(0),
    processors: AtomicU32::new(1),
    turns: AtomicU64::new(0),
};

/// Turns when there are more threads than processors.
pub(super) const CROWDED: u64 = 16;

/// Turns after which a thread asks the kernel whether another thread wants its processor: at first, and at
/// most, while none does.
const ASKS_FIRST: u64 = 1024;
const ASKS_LAST: u64 = 1 << 16;
/// Nanoseconds from one move to another processor to the next.
const STAYS: u64 = 1_000_000;

/// When a thread that spins asks whether another thread wants its processor. Used by that thread only.
#[repr(C)]
#[derive(Debug)]
pub struct Asking {
    after: Cell<u64>,
    moved: Cell<u64>,
}

impl Default for Asking {
    fn default() -> Self {
        Self { after: Cell::new(ASKS_FIRST), moved: Cell::new(0) }
    }
}

impl Asking {
    /// Lets others run on this processor. Returns whether to go on spinning.
    ///
    /// The kernel may have put the thread that this one waits for onto the same processor, and leaves both
    /// there as long as the other processors are busy: then this thread moves to another. If an unrelated
    /// thread ran, this one stops spinning, so as not to compete with it.
    #[cold]
    pub(super) fn ask(&self, condition: &mut impl FnMut() -> bool) -> bool {
        let before = sys::times_preempted();
        sys::yield_now();
        if sys::times_preempted() == before {
            self.after.set((self.after.get() * 2).min(ASKS_LAST));
            return true;
        }
        self.after.set(ASKS_FIRST);
        if !condition() {
            return false;
        }
        let now = sys::now_ns();
        if now - self.moved.get() > STAYS {
            self.moved.set(now);
            sys::leave_processor();
        }
        true
    }
}

impl Asking {
    /// The turn after which it asks next.
    #[inline]
    pub(super) fn after(&self) -> u64 {
        self.after.get()
    }
}

impl Awake {
    /// Sets the number of processors, and the most turns to spin.
    pub fn configure(&self, processors: u32, turns: u64) {
        self.processors.store(processors, Ordering::Relaxed);
        self.turns.store(turns, Ordering::Relaxed);
    }

    /// One more thread runs.
    pub fn came(&self) {
        if pace::is_on() {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// One thread fewer runs.
    pub fn went(&self) {
        if pace::is_on() {
            return;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most turns to spin.
    #[inline]
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// This many threads have begun a region.
    pub fn engage(&self, threads: u32) {
        if pace::is_on() {
            return;
        }
        self.engaged.fetch_add(threads, Ordering::Relaxed);
    }

    /// This many threads have ended a region.
    pub fn disengage(&self, threads: u32) {
        if pace::is_on() {
            return;
        }
        self.engaged.fetch_sub(threads, Ordering::Relaxed);
    }

    /// Whether a thread that spins keeps another from running. Threads that sleep in a region count: they are
    /// about to be woken.
    #[inline]
    pub(super) fn crowded(&self) -> bool {
        let processors = self.processors.load(Ordering::Relaxed);
        self.count.load(Ordering::Relaxed) > processors || self.engaged.load(Ordering::Relaxed) > processors
    }
}
