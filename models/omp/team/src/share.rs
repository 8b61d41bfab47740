//! Constructs that share work among a team: which one a thread is at, and what it is.
//!
//! The constructs that a team comes to are a list. Each thread goes along it by itself, so one may be ahead of others by as
//! many constructs without a barrier as it likes. Whoever comes to the end of the list first adds the next; a construct that all
//! have passed goes back to the store.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::doacross::Doacross;
use crate::icv::Kind;
use crate::park;
use crate::sys;
use crate::team::Team;
use crate::thread::Thread;

/// A construct that shares work.
#[repr(C, align(64))]
pub struct WorkShare {
    next: AtomicPtr<WorkShare>,
    /// Threads that went on to the next one.
    passed: AtomicU32,
    /// Whether whoever came first is done with it.
    ready: AtomicU32,
    /// Whether `cancel` was said of it.
    pub cancelled: AtomicBool,
    /// What kind of schedule its iterations have.
    pub kind: Cell<Kind>,
    /// Its iterations.
    pub range: Cell<Range>,
    /// How many of them are a chunk; 0 for static schedules without.
    pub chunk: Cell<u64>,
    /// What it registered for `reduction(task, …)`, and memory that it asked for.
    pub reductions: Cell<*mut usize>,
    /// Memory for all threads of the construct.
    pub memory: Cell<*mut u8>,
    /// How far which iterations are, where some wait for others.
    pub doacross: Cell<Option<&'static Doacross>>,
    /// The next iteration that nobody has.
    pub taken: Line<AtomicU64>,
    /// The iteration whose turn it is, where the order matters.
    pub turn: Line<AtomicU64>,
}

/// A value with a cache line for itself.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Line<T>(pub T);

// SAFETY: cells are written by whoever adds the construct to the list, before it does or before it says that it is ready.
unsafe impl Sync for WorkShare {}

/// The iterations of a loop, counted from 0. The bounds are those of the program, as 64 bits whatever their sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    start: u64,
    end: u64,
    step: u64,
    /// How many there are.
    pub count: u64,
}

impl Range {
    /// Of a loop over signed numbers.
    pub fn signed(start: i64, end: i64, step: i64) -> Self {
        let distance =
            if step > 0 { i128::from(end) - i128::from(start) } else { i128::from(start) - i128::from(end) };
        let stride = i128::from(step.unsigned_abs().max(1));
        let count = if distance > 0 { (distance - 1) / stride + 1 } else { 0 };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Self { start: start.cast_unsigned(), end: end.cast_unsigned(), step: step.cast_unsigned(), count }
    }

    /// Of a loop over unsigned numbers; `step` is negative, modulo 2⁶⁴, if it does not go up.
    pub fn unsigned(up: bool, start: u64, end: u64, step: u64) -> Self {
        let (low, high, stride) = if up { (start, end, step) } else { (end, start, step.wrapping_neg()) };
        let count = if low < high { (high - low - 1) / stride.max(1) + 1 } else { 0 };
        Self { start, end, step, count }
    }

    /// The first `count` numbers.
    pub fn counted(count: u64) -> Self {
        Self { start: 0, end: count, step: 1, count }
    }

    /// The program's bounds of iterations from `low` up to, but without, `high`.
    #[inline]
    pub fn bounds(&self, low: u64, high: u64) -> (u64, u64) {
        let value = |at: u64| self.start.wrapping_add(at.wrapping_mul(self.step));
        (value(low), if high == self.count { self.end } else { value(high) })
    }
}

impl Default for WorkShare {
    fn default() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            passed: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            kind: Cell::new(Kind::Static),
            range: Cell::new(Range::default()),
            chunk: Cell::new(0),
            reductions: Cell::new(ptr::null_mut()),
            memory: Cell::new(ptr::null_mut()),
            doacross: Cell::new(None),
            taken: Line(AtomicU64::new(0)),
            turn: Line(AtomicU64::new(0)),
        }
    }
}

impl WorkShare {
    /// Makes it the beginning of a list.
    pub fn begin_anew(&self) {
        self.next.store(ptr::null_mut(), Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
        self.reductions.set(ptr::null_mut());
        self.memory.set(ptr::null_mut());
        self.doacross.set(None);
        self.taken.0.store(0, Ordering::Relaxed);
        self.turn.0.store(0, Ordering::Relaxed);
    }

    /// Says what its iterations are.
    pub fn describe(&self, range: Range, kind: Kind, chunk: u64) {
        self.range.set(range);
        self.kind.set(kind);
        self.chunk.set(chunk);
    }

    /// Whoever came first has done what the others wait for.
    pub fn set_ready(&self) {
        self.ready.store(1, Ordering::SeqCst);
        park::wake(&self.ready, u32::MAX >> 1);
    }

    /// Waits for whoever came first.
    pub fn wait_until_ready(&self) {
        let mut spin = sys::Spin::turns(2000);
        while self.ready.load(Ordering::Acquire) == 0 {
            if !spin.turn() {
                park::sleep(&self.ready, 0);
            }
        }
    }
}

/// Comes to the next construct. `describe` is for whoever comes first, which the second value says.
#[inline]
pub fn enter(me: &'static Thread, describe: impl FnOnce(&WorkShare)) -> (&'static WorkShare, bool) {
    let last = me.share();
    let mut next = last.next.load(Ordering::Acquire);
    let mut first = false;
    if next.is_null() {
        let mine = me.store().place(WorkShare::default());
        describe(mine);
        let mine = ptr::from_ref(mine).cast_mut();
        match last.next.compare_exchange(ptr::null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => (next, first) = (mine, true),
            Err(others) => {
                next = others;
                // SAFETY: nobody else has seen it.
                unsafe { me.store().release(mine.cast()) };
            }
        }
    }
    pass(me, me.team(), last);
    // SAFETY: a construct is there until all have passed it, and this thread has not.
    let share: &'static WorkShare = unsafe { &*next };
    me.set_share(share);
    (share, first)
}

/// A thread goes on from a construct, to the next or to the end of the region. The first one is part of the team and has nothing that is
/// given back, so nobody has to know who has passed it.
#[inline]
pub fn pass(me: &'static Thread, team: &'static Team, share: &'static WorkShare) {
    if ptr::eq(share, &raw const team.first) {
        return;
    }
    if team.size() == 1 || share.passed.fetch_add(1, Ordering::AcqRel) + 1 == team.size() {
        forget(me, share);
    }
}

fn forget(me: &'static Thread, share: &'static WorkShare) {
    if let Some(doacross) = share.doacross.take() {
        doacross.release(me.store());
    }
    if !share.memory.get().is_null() {
        // SAFETY: it came from the store, and all threads have left the construct that it was for.
        unsafe { me.store().release(share.memory.replace(ptr::null_mut())) };
    }
    // SAFETY: it came from the store, and all threads have passed it.
    unsafe { me.store().release(ptr::from_ref(share).cast_mut().cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_counted_as_the_program_does() {
        for (start, end, step) in
            [(0, 10, 1), (0, 10, 3), (10, 0, -3), (5, 5, 1), (7, 5, 2), (-7, 8, 5), (3, 4, 9)]
        {
            let mut count = 0;
            let mut at = start;
            while if step > 0 { at < end } else { at > end } {
                count += 1;
                at += step;
            }
            assert_eq!(Range::signed(start, end, step).count, count, "{start}..{end} by {step}");
        }
        assert_eq!(Range::signed(i64::MIN, i64::MAX, 1).count, u64::MAX);
        assert_eq!(Range::unsigned(true, 1, u64::MAX, 2).count, u64::MAX / 2);
        assert_eq!(Range::unsigned(false, 10, 0, 3_u64.wrapping_neg()).count, 4);
    }

    #[test]
    fn the_last_chunk_ends_where_the_loop_does() {
        let range = Range::signed(0, 10, 3);
        assert_eq!(range.bounds(0, 2), (0, 6));
        assert_eq!(range.bounds(2, 4), (6, 10));
        let down = Range::signed(i64::MIN + 2, i64::MIN, -1);
        assert_eq!(down.bounds(0, 2).1, i64::MIN.cast_unsigned());
    }
}
