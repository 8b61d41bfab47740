//! Tasks that wait for somebody to run them.
//!
//! Each member of a team has a queue: it takes what it put there last, others take what is there longest. Tasks with a
//! priority are in one list of the team.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lock::Spinlock;
use crate::task::Task;

/// A member's queue. All zero is an empty one.
#[repr(C)]
#[derive(Default)]
pub struct Queue {
    length: AtomicU32,
    lock: Spinlock,
    oldest: Cell<Option<&'static Task>>,
    newest: Cell<Option<&'static Task>>,
}

// SAFETY: cells are touched only while the lock is held.
unsafe impl Sync for Queue {}

/// A task's place in a queue.
#[derive(Default)]
pub struct Links {
    older: Cell<Option<&'static Task>>,
    newer: Cell<Option<&'static Task>>,
}

impl Queue {
    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        self.length.load(Ordering::Relaxed) > 0
    }

    /// How many there are.
    #[inline]
    pub fn length(&self) -> u32 {
        self.length.load(Ordering::Relaxed)
    }

    /// Puts a task behind all others.
    pub fn push(&self, task: &'static Task) {
        let _held = self.lock.hold();
        let newest = self.newest.replace(Some(task));
        task.links.older.set(newest);
        task.links.newer.set(None);
        match newest {
            Some(newest) => newest.links.newer.set(Some(task)),
            None => self.oldest.set(Some(task)),
        }
        self.length.store(self.length() + 1, Ordering::Relaxed);
    }

    /// Takes the newest that may be taken.
    #[inline]
    pub fn take_newest(&self, may: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        self.take(self.newest_of(), |task| task.links.older.get(), may)
    }

    /// Takes the oldest that may be taken.
    #[inline]
    pub fn take_oldest(&self, may: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        self.take(self.oldest_of(), |task| task.links.newer.get(), may)
    }

    fn newest_of(&self) -> &Cell<Option<&'static Task>> {
        &self.newest
    }

    fn oldest_of(&self) -> &Cell<Option<&'static Task>> {
        &self.oldest
    }

    #[inline]
    fn take(
        &self,
        from: &Cell<Option<&'static Task>>,
        next: impl Fn(&'static Task) -> Option<&'static Task>,
        may: impl Fn(&'static Task) -> bool,
    ) -> Option<&'static Task> {
        if !self.any() {
            return None;
        }
        let _held = self.lock.hold();
        let mut at = from.get();
        while let Some(task) = at {
            if may(task) {
                self.unlink(task);
                return Some(task);
            }
            at = next(task);
        }
        None
    }

    fn unlink(&self, task: &'static Task) {
        let (older, newer) = (task.links.older.get(), task.links.newer.get());
        match older {
            Some(older) => older.links.newer.set(newer),
            None => self.oldest.set(newer),
        }
        match newer {
            Some(newer) => newer.links.older.set(older),
            None => self.newest.set(older),
        }
        self.length.store(self.length() - 1, Ordering::Relaxed);
    }
}

/// Tasks with a priority, the most urgent first.
#[repr(C)]
#[derive(Default)]
pub struct Urgent {
    queue: Queue,
}

impl Urgent {
    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        self.queue.any()
    }

    /// Puts a task behind all that are at least as urgent.
    pub fn push(&self, task: &'static Task) {
        let queue = &self.queue;
        let _held = queue.lock.hold();
        let mut before = queue.newest.get();
        while let Some(other) = before.filter(|other| other.priority() < task.priority()) {
            before = other.links.older.get();
        }
        let after = match before {
            Some(before) => before.links.newer.replace(Some(task)),
            None => queue.oldest.replace(Some(task)),
        };
        match after {
            Some(after) => after.links.older.set(Some(task)),
            None => queue.newest.set(Some(task)),
        }
        task.links.older.set(before);
        task.links.newer.set(after);
        queue.length.store(queue.length() + 1, Ordering::Relaxed);
    }

    /// Takes the most urgent that may be taken.
    #[inline]
    pub fn take(&self, may: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        self.queue.take_oldest(may)
    }
}
