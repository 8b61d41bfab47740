//! Constructs that share work among a team: which one a thread is at, and what it is.
//!
//! The constructs that a team comes to are a list. Each thread goes along it by itself, so one may be ahead
//! of others by as many constructs without a barrier as it likes. The first thread that comes to the end of
//! the list adds the next. A record stays with the member of the team that added it, which uses it again once
//! all have gone on from it: each says in a line of its own how far it is, and is asked only when a member
//! has `LEAST` records out, or one for each thread, so that going along the list writes nothing that others
//! read.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::doacross::Doacross;
use crate::primitives::cache_line::CacheLine;
use crate::primitives::icv::ScheduleKind;
use crate::primitives::store::Store;
use crate::primitives::{park, sys};

/// Records that a member of a team has out before it looks which of them all have gone on from.
const LEAST: u32 = 8;

/// Beyond this many iterations, or with longer chunks, the next one is not taken by adding.
const MOST_ADDED: u64 = 1 << 62;

/// A construct that shares work. What threads look at for each chunk is in the first line.
#[repr(C, align(64))]
pub struct WorkShare {
    next: AtomicPtr<WorkShare>,
    /// Its iterations.
    pub range: Cell<Range>,
    /// How many of them are a chunk; 0 for static schedules without.
    pub chunk: Cell<u64>,
    /// Whether the first thread that came has prepared it.
    ready: AtomicU32,
    /// What kind of schedule its iterations have, in a byte.
    kind: Cell<u8>,
    /// Whether the next iterations are taken by adding a chunk to `taken`.
    pub by_adding: Cell<bool>,
    /// Whether `cancel` was said of it.
    pub cancelled: AtomicBool,
    /// Whether it has something that goes back to the store when all have gone on from it.
    has_extras: AtomicBool,
    /// The next iteration that no thread has taken.
    pub taken: CacheLine<AtomicU64>,
    /// The iteration whose turn it is, where the order matters. From here on is what few constructs have.
    pub turn: AtomicU64,
    /// What it registered for `reduction(task, …)`.
    pub reductions: Cell<*mut usize>,
    /// Memory for all threads of the construct.
    memory: Cell<*mut u8>,
    /// How far which iterations are, where some wait for others.
    doacross: Cell<Option<&'static Doacross>>,
    /// Threads that went on to the next one, if it has extras.
    passed: AtomicU32,
    /// How many its team came to before, in this region.
    position: Cell<u64>,
    /// The next record of the member that added it.
    newer: Cell<Option<&'static WorkShare>>,
}

/// What a member of a team knows of the constructs that its team comes to.
#[repr(C)]
#[derive(Default)]
pub struct Progress {
    /// The number of the region that it is in.
    region: AtomicU64,
    /// How many constructs it has gone on from in this region.
    passed: AtomicU64,
    /// Records that it added, which others may still look at, and how many.
    oldest: Cell<Option<&'static WorkShare>>,
    newest: Cell<Option<&'static WorkShare>>,
    out: Cell<u32>,
    /// Records that no thread looks at.
    free: Cell<Option<&'static WorkShare>>,
}

// SAFETY: cells are the member's own.
unsafe impl Sync for Progress {}

impl Progress {
    /// The member begins its part of a region, before which all have ended the one that it was in before.
    pub fn begin(&self, region: u64) {
        self.passed.store(0, Ordering::Relaxed);
        // A thread that sees the region's number does not see how far it was in the one before.
        self.region.store(region, Ordering::Release);
        while let Some(share) = self.take_oldest() {
            self.keep(share);
        }
    }

    /// The member has gone on from one more.
    pub(crate) fn go_on(&self) {
        self.passed.store(self.passed.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// How many the member has gone on from in a region.
    fn passed_in(&self, region: u64) -> u64 {
        if self.region.load(Ordering::Acquire) == region { self.passed.load(Ordering::Acquire) } else { 0 }
    }

    fn take_oldest(&self) -> Option<&'static WorkShare> {
        let share = self.oldest.get()?;
        self.oldest.set(share.newer.get());
        self.out.set(self.out.get() - 1);
        Some(share)
    }

    fn keep(&self, share: &'static WorkShare) {
        share.newer.set(self.free.replace(Some(share)));
    }

    /// Adds a record after this one to the list of the team, unless another member has. `describe` describes
    /// one that is added. The next record, and whether it was added here.
    #[inline]
    pub(crate) fn follow<'a>(
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
                    self.put_out(mine);
                    (next, first) = (pointer, true);
                }
                Err(others) => {
                    self.keep(mine);
                    next = others;
                }
            }
        }
        // SAFETY: records live for ever, and this one is not used again before this member has gone on from
        // it.
        (unsafe { &*next }, first)
    }

    /// Puts a record that was added to the team's list behind those that are out.
    fn put_out(&self, share: &'static WorkShare) {
        share.newer.set(None);
        if self.out.get() == 0 {
            self.oldest.set(Some(share));
        } else if let Some(newest) = self.newest.get() {
            newest.newer.set(Some(share));
        }
        self.newest.set(Some(share));
        self.out.set(self.out.get() + 1);
    }

    /// A record that no thread looks at, as good as new. `members` are all of the team, `size` how many they
    /// are.
    #[inline]
    fn obtain<'a>(
        &self,
        store: &Store,
        size: u32,
        members: impl Iterator<Item = &'a Self>,
    ) -> &'static WorkShare {
        if self.free.get().is_none() && self.out.get() >= size.max(LEAST) {
            self.collect(members);
        }
        let Some(share) = self.free.get() else { return store.place(WorkShare::default()) };
        self.free.set(share.newer.get());
        if share.has_extras.load(Ordering::Relaxed) {
            // Not all came here, as the region was cancelled.
            share.give_back(store);
        }
        share.begin_anew();
        share
    }

    /// Finds out which records all members have gone on from.
    fn collect<'a>(&self, members: impl Iterator<Item = &'a Self>) {
        let region = self.region.load(Ordering::Relaxed);
        let all = members.map(|member| member.passed_in(region)).min().unwrap_or(0);
        while let Some(share) = self.oldest.get().filter(|share| share.position.get() < all) {
            self.take_oldest();
            self.keep(share);
        }
    }
}

// SAFETY: cells are written by the thread that adds the construct to the list, before it does or before it
// says that it is ready.
unsafe impl Sync for WorkShare {}

/// The iterations of a loop, counted from 0. The bounds are those of the program, as 64 bits whatever their
/// sign.
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
            range: Cell::new(Range::default()),
            chunk: Cell::new(0),
            ready: AtomicU32::new(0),
            kind: Cell::new(ScheduleKind::Static as u8),
            by_adding: Cell::new(false),
            cancelled: AtomicBool::new(false),
            has_extras: AtomicBool::new(false),
            taken: CacheLine(AtomicU64::new(0)),
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
    /// Makes it as good as new, but for what is described anyway. Lines that are as they should be stay where
    /// they are.
    pub fn begin_anew(&self) {
        if !self.next.load(Ordering::Relaxed).is_null() {
            self.next.store(ptr::null_mut(), Ordering::Relaxed);
        }
        for said in [&self.cancelled, &self.has_extras] {
            if said.load(Ordering::Relaxed) {
                said.store(false, Ordering::Relaxed);
            }
        }
        if self.ready.load(Ordering::Relaxed) != 0 {
            self.ready.store(0, Ordering::Relaxed);
            self.reductions.set(ptr::null_mut());
            self.passed.store(0, Ordering::Relaxed);
        }
        // Static schedules leave it alone, and to look at it may take longer than to write.
        if self.kind() != ScheduleKind::Static {
            self.taken.0.store(0, Ordering::Relaxed);
        }
        if self.turn.load(Ordering::Relaxed) != 0 {
            self.turn.store(0, Ordering::Relaxed);
        }
    }

    /// Says what its iterations are.
    #[inline]
    pub fn describe(&self, range: Range, kind: ScheduleKind, chunk: u64) {
        self.range.set(range);
        self.kind.set(kind as u8);
        self.chunk.set(chunk);
        self.by_adding.set(kind == ScheduleKind::Dynamic && range.count < MOST_ADDED && chunk < 1 << 32);
    }

    /// What kind of schedule its iterations have.
    #[inline]
    pub fn kind(&self) -> ScheduleKind {
        ScheduleKind::from_number(u32::from(self.kind.get())).unwrap_or_default()
    }

    /// Gives it memory for all threads, before it is said to be ready.
    pub fn set_memory(&self, memory: *mut u8) {
        self.memory.set(memory);
        self.has_extras.store(true, Ordering::Relaxed);
    }

    /// See [`Self::set_memory`].
    pub fn memory(&self) -> *mut u8 {
        self.memory.get()
    }

    /// Has some iterations wait for others, before it is said to be ready.
    pub fn set_doacross(&self, doacross: &'static Doacross) {
        self.doacross.set(Some(doacross));
        self.has_extras.store(true, Ordering::Relaxed);
    }

    /// How far which iterations are, where some wait for others.
    #[inline]
    pub fn doacross(&self) -> Option<&'static Doacross> {
        self.has_extras.load(Ordering::Relaxed).then(|| self.doacross.get()).flatten()
    }

    /// A thread of a team of `size` goes on from it, to the next construct or to the end of the region.
    #[inline]
    pub fn leave(&self, store: &Store, size: u32) {
        if self.has_extras.load(Ordering::Relaxed) && self.passed.fetch_add(1, Ordering::AcqRel) + 1 == size {
            self.give_back(store);
        }
    }

    /// Gives back what it has besides its own record. All threads have gone on from it.
    #[cold]
    fn give_back(&self, store: &Store) {
        if let Some(doacross) = self.doacross.take() {
            doacross.release(store);
        }
        let memory = self.memory.replace(ptr::null_mut());
        if !memory.is_null() {
            // SAFETY: it came from the store, and all threads have left the construct that it was for.
            unsafe { store.release(memory) };
        }
    }

    /// The first thread to come has done what the others wait for.
    pub fn set_ready(&self) {
        self.ready.store(1, Ordering::SeqCst);
        park::wake(&self.ready, u32::MAX >> 1);
    }

    /// Waits for the first thread that came.
    pub fn wait_until_ready(&self) {
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
