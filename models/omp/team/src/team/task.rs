//! A task: a record in the store with its arguments behind it.
//!
//! It lives until it is finished and all tasks that it created are gone, as these know it as their parent.
//! How tasks are created and run is in [`crate::constructs::tasks`].

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::depend::{Dependents, Table};
use super::group::Group;
use super::queue::Links;
use crate::primitives::icv::Icv;
use crate::primitives::local;
use crate::primitives::parker::Parker;
use crate::primitives::store::{self, Store};

/// An outlined function, with the address of its frame as its argument.
pub type Function = unsafe extern "C" fn(*mut libc::c_void);

/// What `omp_fulfill_event` and the end of the body have done.
pub(crate) const BODY_ENDED: u32 = 1;
pub(crate) const FULFILLED: u32 = 2;

/// In [`Task::counts`]: a task that it created and that is not finished.
pub(crate) const CHILD: u64 = 1;
/// In [`Task::counts`]: a reference to its record; it counts as one itself until it is finished.
pub(crate) const KNOWN: u64 = 1 << 32;

/// When a task was queued, and by which member.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Origin {
    /// The member that queued it.
    pub by: u32,
    /// How many that one had queued, up to this.
    pub number: u64,
    /// The task that member had taken from another's queue before, from which this one descends. The *strand*
    /// is what runs without going over to another thread.
    pub strand: Option<&'static Task>,
}

/// The record of one task.
#[repr(C, align(64))]
pub struct Task {
    /// Its place in a queue.
    pub links: Links,
    /// How many were queued where it is, up to itself.
    pub number: Cell<u64>,
    /// How many tasks the thread that runs it had queued when it began: those with a higher number in that
    /// queue descend from it.
    pub began: Cell<u64>,
    /// How it came to be queued.
    pub origin: Cell<Origin>,
    /// The strand that it runs in, for what it creates.
    pub strand: Cell<Option<&'static Task>>,
    /// Unfinished children (in units of [`CHILD`]) and references to its record (in units of [`KNOWN`]).
    pub(crate) counts: AtomicU64,
    pub(crate) function: Cell<Option<Function>>,
    pub(crate) data: Cell<*mut libc::c_void>,
    pub(crate) parent: Cell<Option<&'static Task>>,
    /// Where the thread sleeps that runs it.
    parker: AtomicPtr<Parker>,
    pub(crate) priority: Cell<i32>,
    pub(crate) explicit: Cell<bool>,
    pub(crate) last: Cell<bool>,
    pub(crate) deferred: Cell<bool>,
    /// Whether its arguments were made by the program, which then has to destroy them by running it.
    pub(crate) constructed: Cell<bool>,
    pub(crate) detachable: Cell<bool>,
    /// Whether others may wait for it by `depend`.
    pub(crate) depends: Cell<bool>,
    pub(crate) event: AtomicU32,
    icv: Cell<Option<Icv>>,
    /// The group it is of.
    pub(crate) group: Cell<Option<&'static Group>>,
    /// How many tasks it waits for before it may run, and itself while it is created.
    pub blockers: AtomicU32,
    /// Which tasks wait for it.
    pub dependents: Dependents,
    /// What its children have said to depend on.
    pub table: Cell<Option<&'static Table>>,
    /// The team that finishes it, if it can be fulfilled: an address, as tasks know nothing of teams.
    pub(crate) team: Cell<*const libc::c_void>,
    pub(crate) finished: AtomicBool,
}

// SAFETY: cells are written by the thread that creates the task before others know it, or by the thread that
// runs it; what others read of it meanwhile are atomics, and what is under the lock of `dependents`.
unsafe impl Sync for Task {}

impl Task {
    pub(crate) fn empty() -> Self {
        Self {
            links: Links::default(),
            number: Cell::new(0),
            began: Cell::new(0),
            origin: Cell::new(Origin::default()),
            strand: Cell::new(None),
            counts: AtomicU64::new(KNOWN),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            parent: Cell::new(None),
            parker: AtomicPtr::new(ptr::null_mut()),
            priority: Cell::new(0),
            explicit: Cell::new(true),
            last: Cell::new(false),
            deferred: Cell::new(false),
            constructed: Cell::new(false),
            detachable: Cell::new(false),
            depends: Cell::new(false),
            event: AtomicU32::new(0),
            icv: Cell::new(None),
            group: Cell::new(None),
            blockers: AtomicU32::new(1),
            dependents: Dependents::default(),
            table: Cell::new(None),
            team: Cell::new(ptr::null()),
            finished: AtomicBool::new(false),
        }
    }

    /// Makes a region's own task ready. Its record is part of the team.
    #[inline]
    pub fn begin_implicit(&self, icv: Icv, group: Option<&'static Group>, parker: &Parker) {
        self.icv.set(Some(icv));
        self.parent.set(None);
        self.explicit.set(false);
        self.last.set(false);
        self.group.set(group);
        self.counts.store(KNOWN, Ordering::Relaxed);
        self.set_parker(parker);
    }

    /// The region has ended.
    #[inline]
    pub fn end_implicit(&self) {
        if let Some(table) = self.table.take() {
            table.release();
        }
    }

    /// The internal control variables of the task.
    #[inline]
    pub fn icv(&self) -> Icv {
        self.icv.get().unwrap_or_default()
    }

    /// Changes the internal control variables of the task.
    pub fn set_icv(&self, change: impl FnOnce(&mut Icv)) {
        let mut icv = self.icv();
        change(&mut icv);
        self.icv.set(Some(icv));
    }

    /// Begins with another's variables.
    #[inline]
    pub(crate) fn inherit(&self, parent: &Self) {
        // SAFETY: both are there and not the same, and belong to this thread. A copy by `get` and `set` may
        // be in other pieces.
        unsafe { self.icv.as_ptr().copy_from_nonoverlapping(parent.icv.as_ptr(), 1) };
    }

    /// `priority`.
    pub fn priority(&self) -> i32 {
        self.priority.get()
    }

    /// Whether it was created by `task` or the like.
    pub fn is_explicit(&self) -> bool {
        self.explicit.get()
    }

    /// Whether all that it creates is run at once.
    pub fn is_final(&self) -> bool {
        self.last.get()
    }

    /// The group that its children are of.
    #[inline]
    pub fn group(&self) -> Option<&'static Group> {
        self.group.get()
    }

    /// Puts its children into another group.
    pub fn set_group(&self, group: Option<&'static Group>) {
        self.group.set(group);
    }

    /// Whether it is finished.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// A record that only stands for a thread that waits for tasks.
    #[cold]
    #[inline(never)]
    pub fn stub(store: &Store, parker: &Parker) -> &'static Self {
        let stub = store.place(Self::empty());
        stub.set_parker(parker);
        stub
    }

    /// Says where the thread sleeps that runs it.
    #[inline]
    pub(crate) fn set_parker(&self, parker: &Parker) {
        self.parker.store(ptr::from_ref(parker).cast_mut(), Ordering::Relaxed);
    }

    /// Whether it only stands for a thread that waits.
    pub fn is_stub(&self) -> bool {
        self.function.get().is_none()
    }

    /// The task that created it.
    pub fn parent(&self) -> Option<&'static Task> {
        self.parent.get()
    }

    /// One more knows its record.
    pub fn remember(&self) {
        self.counts.fetch_add(KNOWN, Ordering::Relaxed);
    }

    /// One fewer knows its record; it goes if that was the last.
    pub fn forget(&'static self) {
        if self.counts.fetch_sub(KNOWN, Ordering::AcqRel) >> 32 == 1 && self.explicit.get() {
            self.go(0);
        }
    }

    /// It is finished: its parent has `child` fewer that are not, and its record is released if nothing else
    /// refers to it.
    pub(crate) fn leave(&'static self, child: u64) {
        let alone = self.counts.load(Ordering::Acquire) >> 32 == 1;
        if alone || self.counts.fetch_sub(KNOWN, Ordering::AcqRel) >> 32 == 1 {
            self.go(child);
        } else if child > 0
            && let Some(parent) = self.parent.get()
        {
            parent.lose(child);
        }
    }

    /// Releases its record, and those of ancestors that nothing refers to any more.
    fn go(&'static self, mut child: u64) {
        let mut task = self;
        loop {
            let parent = task.parent.get();
            task.release();
            let Some(above) = parent.filter(|above| above.lose(child + KNOWN)) else { return };
            (task, child) = (above, 0);
        }
    }

    /// Takes that off its counts. Returns whether nothing refers to its record any more.
    fn lose(&'static self, counts: u64) -> bool {
        let explicit = self.explicit.get();
        // It may be gone afterwards.
        let parker = self.parker.load(Ordering::Relaxed);
        let left = self.counts.fetch_sub(counts, Ordering::AcqRel) - counts;
        if counts & CHILD != 0 && left & (KNOWN - 1) == 0 && !ptr::eq(parker, local::parker_or_null()) {
            // SAFETY: parkers live for ever.
            unsafe { parker.as_ref() }.into_iter().for_each(Parker::tell);
        }
        explicit && left >> 32 == 0
    }

    fn release(&'static self) {
        if let Some(store) = store::current() {
            // SAFETY: it came from the store, and nothing refers to it any more.
            unsafe { store.release(ptr::from_ref(self).cast_mut().cast()) };
        }
    }

    /// Whether all that it created is finished.
    pub(crate) fn is_childless(&self) -> bool {
        self.counts.load(Ordering::Acquire) & (KNOWN - 1) == 0
    }

    /// Whether it, being queued, descends from what a member of the team executes. Follows at most `look`
    /// changes of thread.
    #[inline]
    pub fn descends_from(&self, member: u32, current: &Task, look: u32) -> bool {
        let mut origin = self.origin.get();
        for _ in 0..look {
            if origin.by == member {
                return origin.number > current.began.get();
            }
            match origin.strand {
                Some(root) => origin = root.origin.get(),
                None => return false,
            }
        }
        false
    }

    /// Wakes the thread that runs it, if it sleeps.
    pub fn wake(&self) {
        // SAFETY: parkers live for ever.
        if let Some(parker) = unsafe { self.parker.load(Ordering::Relaxed).as_ref() } {
            parker.tell();
        }
    }
}
