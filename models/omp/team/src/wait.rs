//! Waiting: spinning while there are free processors, sleeping otherwise.
//!
//! What threads sleep on, and why no wake-up is lost, is in [`crate::dock`].

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::dock::{Bell, Sleepers};
use crate::sys::{self, Spin};
use crate::tally;
use crate::thread::Thread;

/// Turns between looks at what others write often, and at how many are awake.
const SELDOM: u64 = 16;

/// What all threads of the job know of each other's waiting. One lies in the store.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Awake {
    /// Threads that run or spin.
    count: AtomicU32,
    /// Threads of regions that go on, asleep or not.
    engaged: AtomicU32,
    /// Processors that they have.
    processors: AtomicU32,
    /// How many turns to spin at most.
    turns: AtomicU64,
}

static PATIENCE: Awake = Awake {
    count: AtomicU32::new(0),
    engaged: AtomicU32::new(0),
    processors: AtomicU32::new(1),
    turns: AtomicU64::new(0),
};

/// Turns when there are more threads than processors.
const CROWDED: u64 = 16;

/// Turns before a thread asks whether somebody wants its processor: at first, and at most, where nobody did.
const ASKS_FIRST: u64 = 1024;
const ASKS_LAST: u64 = 1 << 16;
/// Nanoseconds from one move to another processor to the next.
const STAYS: u64 = 1_000_000;

/// When a thread that spins asks whether somebody wants its processor. The thread's own.
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
    /// Lets others run on this processor, if there are any, and whether to go on spinning on it. The kernel may have put whom this thread waits for
    /// onto the same processor, and leaves both there as long as others are busy too: then this one goes to another. If it was
    /// somebody else who ran, that one is not to be kept from it.
    #[cold]
    fn ask(&self, condition: &mut impl FnMut() -> bool) -> bool {
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

impl Awake {
    /// Says how many processors there are, and how long to spin.
    pub fn configure(&self, processors: u32, turns: u64) {
        self.processors.store(processors, Ordering::Relaxed);
        self.turns.store(turns, Ordering::Relaxed);
    }

    /// One more thread runs.
    pub fn came(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// One thread fewer runs.
    pub fn went(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// So many threads have begun a region.
    pub fn engage(&self, threads: u32) {
        self.engaged.fetch_add(threads, Ordering::Relaxed);
    }

    /// So many threads have ended a region.
    pub fn disengage(&self, threads: u32) {
        self.engaged.fetch_sub(threads, Ordering::Relaxed);
    }

    /// Whether whoever spins keeps one from running that could. Who sleeps in a region is about to be woken.
    #[inline]
    fn crowded(&self) -> bool {
        let processors = self.processors.load(Ordering::Relaxed);
        self.count.load(Ordering::Relaxed) > processors || self.engaged.load(Ordering::Relaxed) > processors
    }
}

/// What the process knows of its threads' waiting.
#[inline]
fn awake() -> &'static Awake {
    match sys::me() {
        Some(thread) => thread.awake(),
        None => &PATIENCE,
    }
}

/// What threads use that are unknown yet.
pub fn patience() -> &'static Awake {
    &PATIENCE
}

/// How long to spin on a lock.
pub fn budget_for_locks() -> Spin {
    let awake = awake();
    let turns = awake.turns.load(Ordering::Relaxed);
    Spin::turns(if awake.crowded() { turns.min(CROWDED) } else { turns.min(20_000) })
}

/// Runs something during which the thread sleeps.
pub fn asleep(sleep: impl FnOnce()) {
    let awake = awake();
    awake.count.fetch_sub(1, Ordering::Relaxed);
    sleep();
    awake.count.fetch_add(1, Ordering::Relaxed);
}

/// Where a thread sleeps that has to wait long.
#[derive(Clone, Copy)]
pub enum Sleep<'a> {
    /// At its dock, which whoever makes the condition true wakes in any case.
    Alone,
    /// At its dock, counted among those who may need to be woken.
    Counted(&'a Sleepers),
    /// With others who wait for the same.
    Together(&'a Bell),
}

/// Waits until one of the conditions holds, or something else wakes this thread. Returns whether the first condition holds: the wait may end
/// without it. The second condition is of lines that others write often, so it is looked at less often.
#[inline]
#[must_use = "the wait may end before the condition holds"]
pub fn until(
    me: &Thread,
    sleep: Sleep<'_>,
    mut condition: impl FnMut() -> bool,
    mut seldom: impl FnMut() -> bool,
) -> bool {
    if condition() {
        return true;
    }
    if seldom() {
        return false;
    }
    match tally::of(me) {
        Some(tally) => tally.wait(|| until_slowly(me, sleep, &mut condition, &mut seldom)),
        None => until_slowly(me, sleep, &mut condition, &mut seldom),
    }
}

/// Waits until the condition holds, however often something else wakes this thread. Making it true includes waking the thread's dock.
pub fn until_surely(me: &Thread, mut condition: impl FnMut() -> bool) {
    while !until(me, Sleep::Alone, &mut condition, || false) {}
}

/// As [`until`], between regions, where the time is not counted.
#[inline]
#[must_use = "the wait may end before the condition holds"]
pub fn at_dock(
    me: &Thread,
    sleep: Sleep<'_>,
    mut condition: impl FnMut() -> bool,
    mut seldom: impl FnMut() -> bool,
) -> bool {
    condition() || (!seldom() && until_slowly(me, sleep, &mut condition, &mut seldom))
}

fn until_slowly(
    me: &Thread,
    sleep: Sleep<'_>,
    condition: &mut impl FnMut() -> bool,
    seldom: &mut impl FnMut() -> bool,
) -> bool {
    let awake = me.awake();
    let turns = awake.turns.load(Ordering::Relaxed);
    let mut spun = 0_u64;
    let mut asks_at = me.asking.after.get();
    while spun < turns {
        if condition() {
            return true;
        }
        std::hint::spin_loop();
        spun += 1;
        if spun.is_multiple_of(SELDOM) {
            if seldom() {
                return false;
            }
            if spun >= CROWDED && awake.crowded() {
                break;
            }
            if spun >= asks_at {
                if !me.asking.ask(condition) {
                    break;
                }
                asks_at = spun * 2;
            }
        }
    }
    let mut either = || condition() || seldom();
    match sleep {
        Sleep::Alone => me.dock.sleep_unless(&mut either),
        Sleep::Counted(sleepers) => sleepers.with(|| me.dock.sleep_unless(&mut either)),
        Sleep::Together(bell) => bell.sleep_unless(&mut either),
    }
    condition()
}
