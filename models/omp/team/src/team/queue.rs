//! Tasks that wait for a thread to run them.
//!
//! Each member of a team has a queue that only it puts tasks into: it takes what it put there last, others
//! take what is there longest. Tasks with a priority, and those that were set free from outside, are in one
//! list of the team.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::task::Task;
use crate::primitives::lock::Spinlock;

/// A member's queue. All zero is an empty one.
#[repr(C)]
#[derive(Default)]
pub struct Queue {
    length: AtomicU32,
    lock: Spinlock,
    /// How many its member ever queued; only that member looks at it.
    pushed: Cell<u64>,
    /// Whether enough waited, and some still do. As above.
    filled: Cell<bool>,
    oldest: Cell<Option<&'static Task>>,
    newest: Cell<Option<&'static Task>>,
}

// SAFETY: cells are touched only while the lock is held, but `pushed` and `filled`, which only the member has
// whose queue it is.
unsafe impl Sync for Queue {}

/// A task's place in a queue.
#[derive(Default)]
pub struct Links {
    older: Cell<Option<&'static Task>>,
    newer: Cell<Option<&'static Task>>,
}

impl Links {
    /// For a list other than a queue: takes off the next task.
    pub fn take_older(&self) -> Option<&'static Task> {
        self.older.take()
    }

    /// For a list other than a queue: sets the next task.
    pub fn put_before(&self, next: Option<&'static Task>) {
        self.older.set(next);
    }
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

    /// How many its member ever queued, here or with a priority. For that member.
    #[inline]
    pub fn pushed(&self) -> u64 {
        self.pushed.get()
    }

    /// Whether at least `enough` tasks wait, or did and more than a quarter of `enough` still do. Only the
    /// member whose queue it is calls this.
    ///
    /// Without the second condition, a member that walks a tree of tasks, newest first, would queue one for
    /// each that it takes: of 2^n tasks as many as there are subsets of n things with at most `enough` in
    /// them, which is most of them.
    #[inline]
    pub fn is_filled(&self, enough: u32) -> bool {
        let length = self.length();
        if length >= enough {
            self.filled.set(true);
        } else if length <= enough / 4 {
            self.filled.set(false);
        }
        self.filled.get()
    }

    /// The number of the next. For the member whose queue it is.
    #[inline]
    pub fn count(&self) -> u64 {
        let number = self.pushed.get() + 1;
        self.pushed.set(number);
        number
    }

    /// Puts a task behind all others; it has its number. For the member whose queue it is.
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

    /// Takes the newest if its number is higher than this.
    #[inline]
    pub fn take_newest(&self, since: u64) -> Option<&'static Task> {
        if !self.any() {
            return None;
        }
        let _held = self.lock.hold();
        let task = self.newest.get().filter(|task| task.number.get() > since)?;
        self.unlink(task);
        Some(task)
    }

    /// Takes the oldest task of the queue.
    #[inline]
    pub fn take_oldest(&self) -> Option<&'static Task> {
        if !self.any() {
            return None;
        }
        let _held = self.lock.hold();
        let task = self.oldest.get()?;
        self.unlink(task);
        Some(task)
    }

    /// Takes the oldest if it may be taken, or else the newest. Nothing if the queue is in use.
    pub fn take_end(&self, may: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        if !self.any() {
            return None;
        }
        let _held = self.lock.try_hold()?;
        let task = [&self.oldest, &self.newest].into_iter().filter_map(Cell::get).find(|task| may(task))?;
        self.unlink(task);
        Some(task)
    }

    /// Takes the oldest of those that may be taken.
    fn take_first(&self, may: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        if !self.any() {
            return None;
        }
        let _held = self.lock.hold();
        let mut at = self.oldest.get();
        while let Some(task) = at {
            if may(task) {
                self.unlink(task);
                return Some(task);
            }
            at = task.links.newer.get();
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

    /// How many there are.
    #[inline]
    pub fn length(&self) -> u32 {
        self.queue.length()
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
        self.queue.take_first(may)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks of a task of a tree, each of which has two and so on: queued, or run at once if enough are.
    /// How many were queued.
    fn create(queue: &Queue, depth: u64, enough: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let one = || {
            if queue.is_filled(enough) {
                return create(queue, depth - 1, enough);
            }
            let task: &'static Task = Box::leak(Box::new(Task::empty()));
            task.number.set(depth - 1);
            queue.push(task);
            1
        };
        one() + one()
    }

    #[test]
    fn of_a_tree_only_upper_branches_are_queued() {
        let queue = Queue::default();
        let mut queued = create(&queue, 16, 8);
        while let Some(task) = queue.take_newest(0) {
            queued += create(&queue, task.number.get(), 8);
        }
        assert!(queued < 10_000, "{queued} of {}", (1 << 17) - 2);
    }

    #[test]
    fn a_queue_is_filled_until_a_quarter_is_left() {
        let queue = Queue::default();
        let fill = |count: u32| {
            (0..count).for_each(|_| {
                let task: &'static Task = Box::leak(Box::new(Task::empty()));
                queue.push(task);
            });
        };
        fill(7);
        assert!(!queue.is_filled(8));
        fill(1);
        assert!(queue.is_filled(8));
        assert_eq!((0..5).filter_map(|_| queue.take_oldest()).count(), 5);
        assert!(queue.is_filled(8), "3 wait");
        assert!(queue.take_oldest().is_some());
        assert!(!queue.is_filled(8), "2 wait");
        fill(5);
        assert!(!queue.is_filled(8), "7 wait, of a new lot");
    }
}
