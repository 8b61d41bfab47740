//! Task groups, and reductions over the tasks of a group.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::primitives::local;
use crate::primitives::parker::Parker;
use crate::primitives::store::Store;

/// A task group, which is waited for or cancelled as a whole.
pub struct Group {
    outer: Cell<Option<&'static Group>>,
    /// Tasks of the group that are not finished.
    count: AtomicU32,
    cancelled: AtomicBool,
    /// Whether it only stands for a construct that shares work.
    pub workshare: Cell<bool>,
    /// What was registered for reductions, or null. The outermost of a chain.
    pub reductions: Cell<*mut usize>,
    /// Where the thread sleeps that waits for the group.
    owner: &'static Parker,
}

// SAFETY: cells are written by the thread that has the group, before tasks are of it.
unsafe impl Sync for Group {}

impl Group {
    /// Counts one more task that is not finished.
    pub fn enter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a task as finished, and wakes the owner after the last one.
    pub fn leave(&self) {
        // The group may be gone as soon as it is empty.
        let owner = self.owner;
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 && !ptr::eq(owner, local::parker_or_null()) {
            owner.tell();
        }
    }

    /// Whether tasks of it need not begin.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
            || self.workshare.get()
                && self.outer.get().is_some_and(|outer| outer.cancelled.load(Ordering::Relaxed))
    }

    /// Tasks of it need not begin any more.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// The group around it, if this one stands for a construct only.
    pub fn cancellable(&'static self) -> &'static Group {
        if self.workshare.get() { self.outer.get().unwrap_or(self) } else { self }
    }

    /// The group around it.
    pub fn outer(&self) -> Option<&'static Group> {
        self.outer.get()
    }

    /// Whether all its tasks are finished.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A group within another, of the thread that sleeps on this parker.
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
