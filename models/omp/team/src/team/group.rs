//! Task groups, and reductions over the tasks of a group.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::primitives::local;
use crate::primitives::parker::Parker;
use crate::primitives::store::Store;

/// Task group, waited for or cancelled as a whole.
pub struct Group {
    outer: Cell<Option<&'static Group>>,
    /// Number of unfinished tasks.
    count: AtomicU32,
    cancelled: AtomicBool,
    /// Whether the group belongs to a work-sharing construct rather than to a `taskgroup`.
    pub workshare: Cell<bool>,
    /// Data of the task reductions, or null. Head of a chain that includes those of outer groups.
    pub reductions: Cell<*mut usize>,
    /// Parker of the thread that waits for the group.
    owner: &'static Parker,
}

// SAFETY: the owner writes the cells before any task joins the group.
unsafe impl Sync for Group {}

impl Group {
    /// Counts a new unfinished task.
    pub fn add_task(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a task as finished and wakes the owner after the last one.
    pub fn finish_task(&self) {
        // The group may be freed as soon as its count is zero.
        let owner = self.owner;
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 && !ptr::eq(owner, local::parker_or_null()) {
            owner.fence_and_wake();
        }
    }

    /// Whether tasks of the group that have not begun are skipped.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
            || self.workshare.get()
                && self.outer.get().is_some_and(|outer| outer.cancelled.load(Ordering::Relaxed))
    }

    /// Cancels the group: tasks that have not begun will be skipped.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Returns the group that `cancel taskgroup` applies to: the outer one if this belongs to a work-sharing
    /// construct.
    pub fn cancel_target(&'static self) -> &'static Group {
        if self.workshare.get() { self.outer.get().unwrap_or(self) } else { self }
    }

    /// Returns the enclosing task group, if any.
    pub fn outer(&self) -> Option<&'static Group> {
        self.outer.get()
    }

    /// Whether all tasks are finished.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Creates a group nested in `outer`, owned by the thread that sleeps on this parker.
    pub fn create(store: &Store, owner: &'static Parker, outer: Option<&'static Group>) -> &'static Self {
        store.place(Self {
            outer: Cell::new(outer),
            count: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            workshare: Cell::new(false),
            reductions: Cell::new(outer.map_or(ptr::null_mut(), |outer| outer.reductions.get())),
            owner,
        })
    }
}
