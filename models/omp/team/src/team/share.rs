//! Work-sharing constructs of a team.
//!
//! The constructs that a team reaches form a list, and each thread walks it at its own pace. Without barriers
//! a thread may be any number of constructs ahead of others. The first thread to reach the end of the list
//! appends the next record. The record belongs to the member that appended it, which reuses it once all
//! members have passed it. Members publish their positions in cache lines of their own. These are read only
//! when a member has `OUTSTANDING_MIN` records outstanding, or one per thread, so that walking the list
//! writes nothing that others read.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::doacross::Doacross;
use crate::primitives::cache_line::CacheLine;
use crate::primitives::icv::ScheduleKind;
use crate::primitives::store::Store;
use crate::primitives::{park, sys};

/// Records that a member may have outstanding before it looks for ones that all members have passed.
const OUTSTANDING_MIN: u32 = 8;

/// Limit of the iterations of a loop whose chunks are claimed by fetch-and-add.
const FETCH_ADD_COUNT_MAX: u64 = 1 << 62;

/// Record of a work-sharing construct. The first cache line has what threads read for each chunk.
#[repr(C, align(64))]
pub struct WorkShare {
    next: AtomicPtr<WorkShare>,
    /// Iterations of the loop.
    pub range: Cell<Range>,
    /// Chunk size in iterations; 0 for static schedules without one.
    pub chunk: Cell<u64>,
    /// Whether the first thread to arrive has finished preparing it.
    ready: AtomicU32,
    /// [`ScheduleKind`] as a byte.
    kind: Cell<u8>,
    /// Whether iterations are claimed by adding the chunk size to `next_iteration`.
    pub uses_fetch_add: Cell<bool>,
    /// Whether the construct was cancelled.
    pub cancelled: AtomicBool,
    /// Whether it holds memory to be released after all threads have passed it.
    has_extras: AtomicBool,
    /// First iteration that no thread has claimed.
    pub next_iteration: CacheLine<AtomicU64>,
    /// Iteration whose turn it is in an ordered loop. Only few constructs use the fields from here on.
    pub turn: AtomicU64,
    /// Data registered for `reduction(task, …)`.
    pub reductions: Cell<*mut usize>,
    /// Memory shared by all threads of the construct.
    memory: Cell<*mut u8>,
    /// Progress of a doacross nest.
    doacross: Cell<Option<&'static Doacross>>,
    /// Number of threads that have passed it; counted only if it has extras.
    passed: AtomicU32,
    /// Index of the construct in its region.
    position: Cell<u64>,
    /// Next record of the member that appended it.
    newer: Cell<Option<&'static WorkShare>>,
}

/// Position of a member in the list of constructs, and its own records.
#[repr(C)]
#[derive(Default)]
pub struct Progress {
    /// Number of the region that the member is in.
    region: AtomicU64,
    /// Number of constructs that the member has passed in this region.
    passed: AtomicU64,
    /// Records appended by the member that others may still use, oldest first, and their number.
    oldest: Cell<Option<&'static WorkShare>>,
    newest: Cell<Option<&'static WorkShare>>,
    outstanding: Cell<u32>,
    /// Free list of records.
    free: Cell<Option<&'static WorkShare>>,
}

// SAFETY: cells are accessed by the member only.
unsafe impl Sync for Progress {}

impl Progress {
    /// Begins the member's part of a region. All members have ended the previous one.
    pub fn begin(&self, region: u64) {
        self.passed.store(0, Ordering::Relaxed);
        // Release: a thread that sees the new region number must not see the position in the old region.
        self.region.store(region, Ordering::Release);
        while let Some(share) = self.take_oldest() {
            self.recycle(share);
        }
    }

    /// Counts one more construct as passed.
    pub(crate) fn advance(&self) {
        self.passed.store(self.passed.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns how many constructs the member has passed in a region.
    fn passed_in(&self, region: u64) -> u64 {
        if self.region.load(Ordering::Acquire) == region { self.passed.load(Ordering::Acquire) } else { 0 }
    }

    fn take_oldest(&self) -> Option<&'static WorkShare> {
        let share = self.oldest.get()?;
        self.oldest.set(share.newer.get());
        self.outstanding.set(self.outstanding.get() - 1);
        Some(share)
    }

    fn recycle(&self, share: &'static WorkShare) {
        share.newer.set(self.free.replace(Some(share)));
    }

    /// Moves on from `last` to the next record of the list. Appends one, initialised by `describe`, unless
    /// another member has done so. Returns the next record and whether it was appended here.
    #[inline]
    pub(crate) fn next_or_append<'a>(
        &self,
        last: &'static WorkShare,
        store: &Store,
        size: u32,
        members: impl Iterator<Item = &'a Self>,
        describe: impl FnOnce(&WorkShare),
    ) -> (&'static WorkShare, bool) {
        let mut next = last.next.load(Ordering::Acquire);
        let mut first = false;
        if next.is_null() {
            let mine = self.obtain(store, size, members);
            mine.position.set(self.passed.load(Ordering::Relaxed) + 1);
            describe(mine);
            let pointer = ptr::from_ref(mine).cast_mut();
            match last.next.compare_exchange(ptr::null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.add_outstanding(mine);
                    (next, first) = (pointer, true);
                }
                Err(others) => {
                    self.recycle(mine);
                    next = others;
                }
            }
        }
        // SAFETY: records are never freed, and this one is not reused before this member has passed it.
        (unsafe { &*next }, first)
    }

    /// Adds an appended record to the outstanding ones.
    fn add_outstanding(&self, share: &'static WorkShare) {
        share.newer.set(None);
        if self.outstanding.get() == 0 {
            self.oldest.set(Some(share));
        } else if let Some(newest) = self.newest.get() {
            newest.newer.set(Some(share));
        }
        self.newest.set(Some(share));
        self.outstanding.set(self.outstanding.get() + 1);
    }

    /// Returns an unused record, reset. `members` are all `size` members of the team.
    #[inline]
    fn obtain<'a>(
        &self,
        store: &Store,
        size: u32,
        members: impl Iterator<Item = &'a Self>,
    ) -> &'static WorkShare {
        if self.free.get().is_none() && self.outstanding.get() >= size.max(OUTSTANDING_MIN) {
            self.reclaim(members);
        }
        let Some(share) = self.free.get() else { return store.place(WorkShare::default()) };
        self.free.set(share.newer.get());
        if share.has_extras.load(Ordering::Relaxed) {
            // The region was cancelled, so not all threads passed this record.
            share.release_extras(store);
        }
        share.reset();
        share
    }

    /// Moves records that all members have passed to the free list.
    fn reclaim<'a>(&self, members: impl Iterator<Item = &'a Self>) {
        let region = self.region.load(Ordering::Relaxed);
        let all = members.map(|member| member.passed_in(region)).min().unwrap_or(0);
        while let Some(share) = self.oldest.get().filter(|share| share.position.get() < all) {
            self.take_oldest();
            self.recycle(share);
        }
    }
}

// SAFETY: the thread that appends the record writes the cells before it appends it, or before it sets the
// record ready.
unsafe impl Sync for WorkShare {}

/// Iterations of a loop, counted from 0. The bounds are the program's, as 64-bit words of either signedness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    start: u64,
    end: u64,
    step: u64,
    /// Number of iterations.
    pub count: u64,
}

impl Range {
    /// Creates the range of a loop over signed numbers.
    pub fn signed(start: i64, end: i64, step: i64) -> Self {
        let distance =
            if step > 0 { i128::from(end) - i128::from(start) } else { i128::from(start) - i128::from(end) };
        let stride = i128::from(step.unsigned_abs().max(1));
        let count = if distance > 0 { (distance - 1) / stride + 1 } else { 0 };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Self { start: start.cast_unsigned(), end: end.cast_unsigned(), step: step.cast_unsigned(), count }
    }

    /// Creates the range of a loop over unsigned numbers; `step` is negative modulo 2⁶⁴ unless `up`.
    pub fn unsigned(up: bool, start: u64, end: u64, step: u64) -> Self {
        let (low, high, stride) = if up { (start, end, step) } else { (end, start, step.wrapping_neg()) };
        let count = if low < high { (high - low - 1) / stride.max(1) + 1 } else { 0 };
        Self { start, end, step, count }
    }

    /// Creates the range `0..count`.
    pub fn counted(count: u64) -> Self {
        Self { start: 0, end: count, step: 1, count }
    }

    /// Returns the program's bounds of the iterations `low..high`.
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
            range: Cell::new(Range::default()),
            chunk: Cell::new(0),
            ready: AtomicU32::new(0),
            kind: Cell::new(ScheduleKind::Static as u8),
            uses_fetch_add: Cell::new(false),
            cancelled: AtomicBool::new(false),
            has_extras: AtomicBool::new(false),
            next_iteration: CacheLine(AtomicU64::new(0)),
            turn: AtomicU64::new(0),
            reductions: Cell::new(ptr::null_mut()),
            memory: Cell::new(ptr::null_mut()),
            doacross: Cell::new(None),
            passed: AtomicU32::new(0),
            position: Cell::new(0),
            newer: Cell::new(None),
        }
    }
}

impl WorkShare {
    /// Resets the record, except for what `describe` sets. Avoids writing fields that already have their
    /// value, so that other threads keep the cache lines.
    pub fn reset(&self) {
        if !self.next.load(Ordering::Relaxed).is_null() {
            self.next.store(ptr::null_mut(), Ordering::Relaxed);
        }
        for flag in [&self.cancelled, &self.has_extras] {
            if flag.load(Ordering::Relaxed) {
                flag.store(false, Ordering::Relaxed);
            }
        }
        if self.ready.load(Ordering::Relaxed) != 0 {
            self.ready.store(0, Ordering::Relaxed);
            self.reductions.set(ptr::null_mut());
            self.passed.store(0, Ordering::Relaxed);
        }
        // Static schedules do not use it, and reading it may cost more than writing it.
        if self.kind() != ScheduleKind::Static {
            self.next_iteration.0.store(0, Ordering::Relaxed);
        }
        if self.turn.load(Ordering::Relaxed) != 0 {
            self.turn.store(0, Ordering::Relaxed);
        }
    }

    /// Sets the iterations and their schedule.
    #[inline]
    pub fn describe(&self, range: Range, kind: ScheduleKind, chunk: u64) {
        self.range.set(range);
        self.kind.set(kind as u8);
        self.chunk.set(chunk);
        self.uses_fetch_add
            .set(kind == ScheduleKind::Dynamic && range.count < FETCH_ADD_COUNT_MAX && chunk < 1 << 32);
    }

    /// Returns the kind of the schedule.
    #[inline]
    pub fn kind(&self) -> ScheduleKind {
        ScheduleKind::from_number(u32::from(self.kind.get())).unwrap_or_default()
    }

    /// Sets the memory shared by all threads, before the record is ready.
    pub fn set_memory(&self, memory: *mut u8) {
        self.memory.set(memory);
        self.has_extras.store(true, Ordering::Relaxed);
    }

    /// Returns the shared memory, see [`Self::set_memory`].
    pub fn memory(&self) -> *mut u8 {
        self.memory.get()
    }

    /// Sets the state of a doacross nest, before the record is ready.
    pub fn set_doacross(&self, doacross: &'static Doacross) {
        self.doacross.set(Some(doacross));
        self.has_extras.store(true, Ordering::Relaxed);
    }

    /// Returns the state of the doacross nest, if it is one.
    #[inline]
    pub fn doacross(&self) -> Option<&'static Doacross> {
        self.has_extras.load(Ordering::Relaxed).then(|| self.doacross.get()).flatten()
    }

    /// Counts a thread of a team of `size` as past this construct, at the next one or the end of the region.
    #[inline]
    pub fn leave(&self, store: &Store, size: u32) {
        if self.has_extras.load(Ordering::Relaxed) && self.passed.fetch_add(1, Ordering::AcqRel) + 1 == size {
            self.release_extras(store);
        }
    }

    /// Releases memory that it holds besides its own record. All threads have passed it.
    #[cold]
    fn release_extras(&self, store: &Store) {
        if let Some(doacross) = self.doacross.take() {
            doacross.release(store);
        }
        let memory = self.memory.replace(ptr::null_mut());
        if !memory.is_null() {
            // SAFETY: it came from the store, and all threads have left the construct that it was for.
            unsafe { store.release(memory) };
        }
    }

    /// Ends the cancellation of the construct, once all threads have left it.
    #[inline]
    pub fn end_cancellation(&self) {
        if self.cancelled.load(Ordering::Relaxed) {
            self.cancelled.store(false, Ordering::Relaxed);
        }
    }

    /// Has the first thread to arrive prepare what the construct needs besides its description; the others
    /// wait for that.
    pub fn prepare(&self, is_first: bool, prepare: impl FnOnce()) {
        if is_first {
            prepare();
            self.set_ready();
        } else {
            self.wait_until_ready();
        }
    }

    /// Marks the construct as prepared and wakes the threads that wait for that.
    fn set_ready(&self) {
        self.ready.store(1, Ordering::SeqCst);
        park::wake(&self.ready, u32::MAX >> 1);
    }

    /// Waits until the first thread to arrive has prepared the construct.
    fn wait_until_ready(&self) {
        let mut spin = sys::Spin::turns(2000);
        while self.ready.load(Ordering::Acquire) == 0 {
            if !spin.turn() {
                park::sleep(&self.ready, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_counts_match_the_loop() {
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
    fn last_chunk_ends_at_the_loop_end() {
        let range = Range::signed(0, 10, 3);
        assert_eq!(range.bounds(0, 2), (0, 6));
        assert_eq!(range.bounds(2, 4), (6, 10));
        let down = Range::signed(i64::MIN + 2, i64::MIN, -1);
        assert_eq!(down.bounds(0, 2).1, i64::MIN.cast_unsigned());
    }
}
