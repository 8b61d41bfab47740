//! Queues of tasks that are ready to run.
//!
//! Each member of a team has a queue that only it pushes to. It takes the newest task, other threads take the
//! oldest. Tasks with a priority, and those released from outside the team, are in one list of the team.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::task::Task;
use crate::primitives::lock::Spinlock;

/// Queue of a member. All-zero memory is a valid empty queue.
#[repr(C)]
#[derive(Default)]
pub struct Queue {
    length: AtomicU32,
    lock: Spinlock,
    /// Number of tasks ever pushed by the member; accessed only by it.
    pushes: Cell<u64>,
    /// Whether the queue was full enough and has not drained since; accessed only by the member.
    filled: Cell<bool>,
    oldest: Cell<Option<&'static Task>>,
    newest: Cell<Option<&'static Task>>,
}

// SAFETY: cells are touched only while the lock is held, except `pushes` and `filled`, which only the member
// that owns the queue touches.
unsafe impl Sync for Queue {}

/// Links of a task in a queue.
#[derive(Default)]
pub struct Links {
    older: Cell<Option<&'static Task>>,
    newer: Cell<Option<&'static Task>>,
}

impl Links {
    /// Unlinks and returns the next task of a singly linked list other than a queue.
    pub fn take_older(&self) -> Option<&'static Task> {
        self.older.take()
    }

    /// Links the next task of a singly linked list other than a queue.
    pub fn set_older(&self, next: Option<&'static Task>) {
        self.older.set(next);
    }
}

impl Queue {
    /// Whether there are any tasks.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.length.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of tasks.
    #[inline]
    pub fn length(&self) -> u32 {
        self.length.load(Ordering::Relaxed)
    }

    /// Returns how many tasks the member ever pushed, here or with a priority. For that member only.
    #[inline]
    pub fn pushes(&self) -> u64 {
        self.pushes.get()
    }

    /// Whether at least `enough` tasks are queued, or were and more than a quarter of `enough` still are.
    /// Called only by the member that owns the queue.
    ///
    /// Without this hysteresis, a member that walks a tree of tasks, newest first, would queue one task for
    /// each that it takes: of 2^n tasks as many as there are subsets of n elements with at most `enough`
    /// elements, which is most of them.
    #[inline]
    pub fn is_saturated(&self, enough: u32) -> bool {
        let length = self.length();
        if length >= enough {
            self.filled.set(true);
        } else if length <= enough / 4 {
            self.filled.set(false);
        }
        self.filled.get()
    }

    /// Counts a push and returns the number of the task. For the member that owns the queue.
    #[inline]
    pub fn count(&self) -> u64 {
        let number = self.pushes.get() + 1;
        self.pushes.set(number);
        number
    }

    /// Appends a task that already has its number. For the member that owns the queue.
    pub fn push(&self, task: &'static Task) {
        let _held = self.lock.lock();
        let newest = self.newest.replace(Some(task));
        task.links.older.set(newest);
        task.links.newer.set(None);
        match newest {
            Some(newest) => newest.links.newer.set(Some(task)),
            None => self.oldest.set(Some(task)),
        }
        self.length.store(self.length() + 1, Ordering::Relaxed);
    }

    /// Takes the newest task if its number is higher than `since`.
    #[inline]
    pub fn take_newest(&self, since: u64) -> Option<&'static Task> {
        if !self.has_tasks() {
            return None;
        }
        let _held = self.lock.lock();
        let task = self.newest.get().filter(|task| task.number.get() > since)?;
        self.unlink(task);
        Some(task)
    }

    /// Takes the oldest task of the queue.
    #[inline]
    pub fn take_oldest(&self) -> Option<&'static Task> {
        if !self.has_tasks() {
            return None;
        }
        let _held = self.lock.lock();
        let task = self.oldest.get()?;
        self.unlink(task);
        Some(task)
    }

    /// Takes the oldest task if `is_allowed` accepts it, or else the newest. Takes nothing if the lock is
    /// contended.
    pub fn try_take_either_end(&self, is_allowed: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        if !self.has_tasks() {
            return None;
        }
        let _held = self.lock.try_lock()?;
        let task =
            [&self.oldest, &self.newest].into_iter().filter_map(Cell::get).find(|task| is_allowed(task))?;
        self.unlink(task);
        Some(task)
    }

    /// Takes the oldest task that `is_allowed` accepts.
    fn take_first_allowed(&self, is_allowed: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        if !self.has_tasks() {
            return None;
        }
        let _held = self.lock.lock();
        let mut at = self.oldest.get();
        while let Some(task) = at {
            if is_allowed(task) {
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
pub struct PriorityQueue {
    queue: Queue,
}

impl PriorityQueue {
    /// Whether there are any tasks.
    #[inline]
    pub fn has_tasks(&self) -> bool {
        self.queue.has_tasks()
    }

    /// Returns the number of tasks.
    #[inline]
    pub fn length(&self) -> u32 {
        self.queue.length()
    }

    /// Inserts a task behind all that are at least as urgent.
    pub fn push(&self, task: &'static Task) {
        let queue = &self.queue;
        let _held = queue.lock.lock();
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

    /// Takes the most urgent task that `is_allowed` accepts.
    #[inline]
    pub fn take(&self, is_allowed: impl Fn(&'static Task) -> bool) -> Option<&'static Task> {
        self.queue.take_first_allowed(is_allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates two children of a node of a binary tree of tasks: queued, or run at once if enough are queued.
    /// Returns how many were queued.
    fn create(queue: &Queue, depth: u64, enough: u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let one = || {
            if queue.is_saturated(enough) {
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
    fn tree_queues_only_upper_branches() {
        let queue = Queue::default();
        let mut queued = create(&queue, 16, 8);
        while let Some(task) = queue.take_newest(0) {
            queued += create(&queue, task.number.get(), 8);
        }
        assert!(queued < 10_000, "{queued} of {}", (1 << 17) - 2);
    }

    #[test]
    fn queue_is_saturated_until_a_quarter_is_left() {
        let queue = Queue::default();
        let fill = |count: u32| {
            (0..count).for_each(|_| {
                let task: &'static Task = Box::leak(Box::new(Task::empty()));
                queue.push(task);
            });
        };
        fill(7);
        assert!(!queue.is_saturated(8));
        fill(1);
        assert!(queue.is_saturated(8));
        assert_eq!((0..5).filter_map(|_| queue.take_oldest()).count(), 5);
        assert!(queue.is_saturated(8), "3 wait");
        assert!(queue.take_oldest().is_some());
        assert!(!queue.is_saturated(8), "2 wait");
        fill(5);
        assert!(!queue.is_saturated(8), "7 wait, of a new lot");
    }
}
