//! Task records, in the store, followed by the task's arguments.
//!
//! A record lives until the task is finished and the records of all its children are gone, as they refer to
//! it as their parent. The creation and execution of tasks is in [`crate::constructs::tasks`].

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

/// Outlined function, called with the address of its frame.
pub type Function = unsafe extern "C" fn(*mut libc::c_void);

/// Bits of [`Task::event`]: the body has ended, `omp_fulfill_event` was called.
pub(crate) const BODY_ENDED: u32 = 1;
pub(crate) const FULFILLED: u32 = 2;

/// Unit of [`Task::counts`] for an unfinished child.
pub(crate) const CHILD: u64 = 1;
/// Unit of [`Task::counts`] for a reference to the record. The unfinished task itself holds one.
pub(crate) const REFERENCE: u64 = 1 << 32;

/// Member that queued a task, and when.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Origin {
    /// Member that queued the task.
    pub member: u32,
    /// Value of that member's push counter at this task.
    pub number: u64,
    /// Root of the subtree that the member executed: the ancestor that it had last stolen.
    pub steal_root: Option<&'static Task>,
}

/// Record of one task.
#[repr(C, align(64))]
pub struct Task {
    /// Links of the queue that it is in.
    pub links: Links,
    /// Number in its queue: the value of the push counter at its push.
    pub number: Cell<u64>,
    /// Push counter of the executing thread at the start of the task: tasks with higher numbers in its queue
    /// are descendants.
    pub pushes_at_start: Cell<u64>,
    /// Member that queued it, and when.
    pub origin: Cell<Origin>,
    /// Root of the stolen subtree that it belongs to, inherited by its children.
    pub steal_root: Cell<Option<&'static Task>>,
    /// Unfinished children (units of [`CHILD`]) and references to the record (units of [`REFERENCE`]).
    pub(crate) counts: AtomicU64,
    pub(crate) function: Cell<Option<Function>>,
    pub(crate) data: Cell<*mut libc::c_void>,
    pub(crate) parent: Cell<Option<&'static Task>>,
    /// Parker of the thread that runs it.
    parker: AtomicPtr<Parker>,
    pub(crate) priority: Cell<i32>,
    pub(crate) explicit: Cell<bool>,
    pub(crate) is_final: Cell<bool>,
    pub(crate) deferred: Cell<bool>,
    /// Whether the program constructed the arguments. Only running the task destroys them, so it is run even
    /// if cancelled.
    pub(crate) constructed: Cell<bool>,
    pub(crate) detachable: Cell<bool>,
    /// Whether siblings can depend on it (`depend`).
    pub(crate) depends: Cell<bool>,
    pub(crate) event: AtomicU32,
    icv: Cell<Option<Icv>>,
    /// Innermost group of the task.
    pub(crate) group: Cell<Option<&'static Group>>,
    /// Number of tasks that it waits for before it may run, plus one during its creation.
    pub blockers: AtomicU32,
    /// Tasks that wait for it.
    pub dependents: Dependents,
    /// Dependences declared by its children.
    pub table: Cell<Option<&'static Table>>,
    /// Team that finishes a detachable task; untyped, as tasks know nothing of teams.
    pub(crate) team: Cell<*const libc::c_void>,
    pub(crate) finished: AtomicBool,
}

// SAFETY: cells are written by the thread that creates the task before the task is published, or by the
// thread that runs it. Others meanwhile read only atomics, and `dependents` with its lock.
unsafe impl Sync for Task {}

impl Task {
    pub(crate) fn empty() -> Self {
        Self {
            links: Links::default(),
            number: Cell::new(0),
            pushes_at_start: Cell::new(0),
            origin: Cell::new(Origin::default()),
            steal_root: Cell::new(None),
            counts: AtomicU64::new(REFERENCE),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            parent: Cell::new(None),
            parker: AtomicPtr::new(ptr::null_mut()),
            priority: Cell::new(0),
            explicit: Cell::new(true),
            is_final: Cell::new(false),
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

    /// Initialises the implicit task of a member, in the member's record.
    #[inline]
    pub fn begin_implicit(&self, icv: Icv, group: Option<&'static Group>, parker: &Parker) {
        self.icv.set(Some(icv));
        self.parent.set(None);
        self.explicit.set(false);
        self.is_final.set(false);
        self.group.set(group);
        self.counts.store(REFERENCE, Ordering::Relaxed);
        self.set_parker(parker);
    }

    /// Ends the implicit task: releases its table of dependences.
    #[inline]
    pub fn end_implicit(&self) {
        if let Some(table) = self.table.take() {
            table.release();
        }
    }

    /// Returns the ICVs (internal control variables) of the task.
    #[inline]
    pub fn icv(&self) -> Icv {
        self.icv.get().unwrap_or_default()
    }

    /// Changes the ICVs of the task.
    pub fn set_icv(&self, change: impl FnOnce(&mut Icv)) {
        let mut icv = self.icv();
        change(&mut icv);
        self.icv.set(Some(icv));
    }

    /// Copies the ICVs of the parent.
    #[inline]
    pub(crate) fn inherit(&self, parent: &Self) {
        // SAFETY: both exist, are distinct and belong to this thread. A copy by `get` and `set` may be
        // compiled into accesses of other widths, which defeats store-to-load forwarding.
        unsafe { self.icv.as_ptr().copy_from_nonoverlapping(parent.icv.as_ptr(), 1) };
    }

    /// Returns the task's `priority`.
    pub fn priority(&self) -> i32 {
        self.priority.get()
    }

    /// Whether it is an explicit task.
    pub fn is_explicit(&self) -> bool {
        self.explicit.get()
    }

    /// Whether its children are run at once (`final`).
    pub fn is_final(&self) -> bool {
        self.is_final.get()
    }

    /// Returns the group that its children join.
    #[inline]
    pub fn group(&self) -> Option<&'static Group> {
        self.group.get()
    }

    /// Sets the group that its children join.
    pub fn set_group(&self, group: Option<&'static Group>) {
        self.group.set(group);
    }

    /// Whether the task is finished.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Creates a stub, which stands for a thread that waits for tasks.
    #[cold]
    #[inline(never)]
    pub fn stub(store: &Store, parker: &Parker) -> &'static Self {
        let stub = store.place(Self::empty());
        stub.set_parker(parker);
        stub
    }

    /// Sets the parker of the thread that runs it.
    #[inline]
    pub(crate) fn set_parker(&self, parker: &Parker) {
        self.parker.store(ptr::from_ref(parker).cast_mut(), Ordering::Relaxed);
    }

    /// Whether it is a stub for a waiting thread.
    pub fn is_stub(&self) -> bool {
        self.function.get().is_none()
    }

    /// Returns the task that created it.
    pub fn parent(&self) -> Option<&'static Task> {
        self.parent.get()
    }

    /// Takes a reference to the record.
    pub fn add_reference(&self) {
        self.counts.fetch_add(REFERENCE, Ordering::Relaxed);
    }

    /// Drops a reference to the record and releases it if that was the last.
    pub fn drop_reference(&'static self) {
        if self.counts.fetch_sub(REFERENCE, Ordering::AcqRel) >> 32 == 1 && self.explicit.get() {
            self.release_chain(0);
        }
    }

    /// Drops the finished task's own reference, and `child` from its parent's counts. Releases the record if
    /// nothing else refers to it.
    pub(crate) fn release_finished(&'static self, child: u64) {
        let alone = self.counts.load(Ordering::Acquire) >> 32 == 1;
        if alone || self.counts.fetch_sub(REFERENCE, Ordering::AcqRel) >> 32 == 1 {
            self.release_chain(child);
        } else if child > 0
            && let Some(parent) = self.parent.get()
        {
            parent.subtract_counts(child);
        }
    }

    /// Releases the record, and those of ancestors that lose their last reference.
    fn release_chain(&'static self, mut child: u64) {
        let mut task = self;
        loop {
            let parent = task.parent.get();
            task.release();
            let Some(above) = parent.filter(|above| above.subtract_counts(child + REFERENCE)) else { return };
            (task, child) = (above, 0);
        }
    }

    /// Subtracts from the counts. Returns whether the record has no references left.
    fn subtract_counts(&'static self, counts: u64) -> bool {
        let explicit = self.explicit.get();
        // The record may be freed once the counts are subtracted.
        let parker = self.parker.load(Ordering::Relaxed);
        let left = self.counts.fetch_sub(counts, Ordering::AcqRel) - counts;
        if counts & CHILD != 0 && left & (REFERENCE - 1) == 0 && !ptr::eq(parker, local::parker_or_null()) {
            // SAFETY: parkers are never freed.
            unsafe { parker.as_ref() }.into_iter().for_each(Parker::fence_and_wake);
        }
        explicit && left >> 32 == 0
    }

    fn release(&'static self) {
        if let Some(store) = store::current() {
            // SAFETY: it came from the store, and nothing refers to it any more.
            unsafe { store.release(ptr::from_ref(self).cast_mut().cast()) };
        }
    }

    /// Whether all its children are finished.
    pub(crate) fn is_childless(&self) -> bool {
        self.counts.load(Ordering::Acquire) & (REFERENCE - 1) == 0
    }

    /// Whether this queued task descends from the task `current` that a member executes. Follows at most
    /// `max_steals` steals.
    #[inline]
    pub fn descends_from(&self, member: u32, current: &Task, max_steals: u32) -> bool {
        let mut origin = self.origin.get();
        for _ in 0..max_steals {
            if origin.member == member {
                return origin.number > current.pushes_at_start.get();
            }
            match origin.steal_root {
                Some(root) => origin = root.origin.get(),
                None => return false,
            }
        }
        false
    }

    /// Wakes the thread that runs it.
    pub fn wake(&self) {
        // SAFETY: parkers are never freed.
        if let Some(parker) = unsafe { self.parker.load(Ordering::Relaxed).as_ref() } {
            parker.fence_and_wake();
        }
    }
}
