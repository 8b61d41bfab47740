//! Task groups, and reductions over the tasks of a group.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::thread::Thread;
use crate::{task, tasking};

/// A task group.
pub struct Group {
    outer: Cell<Option<&'static Group>>,
    /// Tasks of the group that are not finished.
    count: AtomicU32,
    cancelled: AtomicBool,
    /// Whether it only stands for a construct that shares work.
    pub workshare: Cell<bool>,
    /// What was registered for reductions, or null. The outermost of a chain.
    pub reductions: Cell<*mut usize>,
    owner: &'static Thread,
}

// SAFETY: cells are written by the thread that has the group, before tasks are of it.
unsafe impl Sync for Group {}

impl Group {
    /// One more task.
    pub fn enter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// One task is finished.
    pub fn leave(&self) {
        // The group may be gone as soon as it is empty.
        let owner = self.owner;
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 && !ptr::eq(owner, task::me_or_null()) {
            owner.dock.tell();
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

    /// A group of a thread, within another.
    pub fn create(me: &'static Thread, outer: Option<&'static Group>) -> &'static Self {
        me.store().place(Self {
            outer: Cell::new(outer),
            count: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            workshare: Cell::new(false),
            reductions: Cell::new(outer.map_or(ptr::null_mut(), |outer| outer.reductions.get())),
            owner: me,
        })
    }
}

/// Begins a group.
pub fn start(me: &'static Thread) -> &'static Group {
    let task = me.task();
    let group = Group::create(me, task.group());
    task.set_group(Some(group));
    group
}

/// Waits for all tasks of the group that was begun last.
pub fn end(me: &'static Thread) {
    let task = me.task();
    let Some(group) = task.group() else { return };
    if group.count.load(Ordering::Acquire) > 0 {
        tasking::help_until(me, || group.count.load(Ordering::Acquire) == 0);
    }
    task.set_group(group.outer.get());
    // SAFETY: it came from the store, and no task is of it any more.
    unsafe { me.store().release(ptr::from_ref(group).cast_mut().cast()) };
}
