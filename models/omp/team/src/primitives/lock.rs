//! Locks: those of the runtime, and those that programs have.
//!
//! All are words of 32 bits that lie where the workers share memory, and all wait the same way: for as long
//! as it is worth while by spinning, then [asleep](super::park).

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{local, pace, park};

const OPEN: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep on it.
const AWAITED: u32 = 2;

/// Turns between two looks at a lock, at most.
const LONGEST_PAUSE: u32 = 8;

/// A lock in one word, zero when it is free.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Lock(AtomicU32);

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Self(AtomicU32::new(OPEN))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.0.compare_exchange(OPEN, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, and waits until it can.
    #[inline]
    pub fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_slowly();
        }
    }

    #[cold]
    fn acquire_slowly(&self) {
        if pace::is_on() && self.acquire_at_a_look() {
            return;
        }
        let mut spin = local::budget_for_locks();
        // The holder writes to the line again soon, and each load delays it.
        let mut pause = 1;
        'spinning: loop {
            if self.0.load(Ordering::Relaxed) == OPEN && self.try_acquire() {
                return;
            }
            for _ in 0..pause {
                if !spin.turn() {
                    break 'spinning;
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != OPEN {
            park::sleep(&self.0, AWAITED);
        }
    }

    /// Takes the lock if it is found free within the time for which threads look.
    fn acquire_at_a_look(&self) -> bool {
        let mut looks = pace::Looks::new();
        while looks.next() {
            if self.0.load(Ordering::Relaxed) == OPEN && self.try_acquire() {
                return true;
            }
        }
        false
    }

    /// Gives the lock back.
    #[inline]
    pub fn release(&self) {
        if self.0.swap(OPEN, Ordering::Release) == AWAITED {
            park::wake(&self.0, 1);
        }
    }

    /// Makes it a free lock, whatever it was before.
    pub fn reset(&self) {
        self.0.store(OPEN, Ordering::Release);
    }
}

/// A lock of the runtime itself, for a few instructions at a time.
#[derive(Debug, Default)]
pub struct Spinlock(Lock);

/// Gives the lock back when it goes.
#[derive(Debug)]
pub struct Held<'a>(&'a Lock);

impl Spinlock {
    /// A free lock.
    pub const fn new() -> Self {
        Self(Lock::new())
    }

    /// Takes the lock for as long as the value lives, if it is free.
    #[inline]
    pub fn try_hold(&self) -> Option<Held<'_>> {
        self.0.try_acquire().then(|| Held(&self.0))
    }

    /// Takes the lock for as long as the value lives.
    #[inline]
    pub fn hold(&self) -> Held<'_> {
        self.0.acquire();
        Held(&self.0)
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A lock that its holder may take again. The holder is a task, identified by its address.
#[repr(C)]
#[derive(Debug)]
pub struct NestLock {
    owner: Cell<usize>,
    lock: Lock,
    count: Cell<i32>,
}

impl NestLock {
    /// Makes it a free lock, whatever it was before.
    pub fn reset(&self) {
        self.owner.set(0);
        self.count.set(0);
        self.lock.reset();
    }

    /// Takes the lock for this task, once more if it has it; how often it now has it. Waits only if told to.
    pub fn acquire(&self, task: usize, waits: bool) -> i32 {
        // No other task writes this task's address here, so a load tells.
        if self.owner.get() != task {
            if waits {
                self.lock.acquire();
            } else if !self.lock.try_acquire() {
                return 0;
            }
            self.owner.set(task);
        }
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// Gives it back once.
    pub fn release(&self) {
        self.count.set(self.count.get() - 1);
        if self.count.get() == 0 {
            self.owner.set(0);
            self.lock.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Counter(Lock, Cell<u64>);
    // SAFETY: the cell is touched only while the lock is held.
    unsafe impl Sync for Counter {}

    #[test]
    fn only_one_has_it() {
        let counter = Arc::new(Counter(Lock::new(), Cell::new(0)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || {
                    for _ in 0..2000 {
                        counter.0.acquire();
                        counter.1.set(counter.1.get() + 1);
                        counter.0.release();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(counter.1.get(), 8000);
    }

    #[test]
    fn trying_does_not_take_it_from_who_has_it() {
        let lock = Spinlock::new();
        let held = lock.hold();
        assert!(lock.try_hold().is_none());
        assert!(lock.try_hold().is_none(), "the first attempt gave it back");
        drop(held);
        assert!(lock.try_hold().is_some());
    }

    #[test]
    fn whoever_has_a_nest_lock_takes_it_again() {
        let lock = NestLock { owner: Cell::new(7), lock: Lock::new(), count: Cell::new(3) };
        lock.reset();
        assert_eq!((lock.acquire(1, true), lock.acquire(1, false), lock.acquire(2, false)), (1, 2, 0));
        lock.release();
        assert_eq!(lock.acquire(2, false), 0);
        lock.release();
        assert_eq!(lock.acquire(2, false), 1);
    }
}
