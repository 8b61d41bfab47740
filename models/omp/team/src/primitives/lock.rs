//! Locks of the run-time and of programs.
//!
//! All are 32-bit words in memory shared by the workers. All wait in the same way: by spinning while that is
//! worthwhile, then [asleep](super::park).

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{local, paged_wait, park};

const FREE: u32 = 0;
const LOCKED: u32 = 1;
/// Held, and threads may sleep on it.
const CONTENDED: u32 = 2;

/// Maximum number of turns between two reads of a lock.
const PAUSE_TURNS_MAX: u32 = 8;

/// Lock in one word, which is zero when free.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Lock(AtomicU32);

impl Lock {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.0.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Acquires the lock, waiting for it if needed.
    #[inline]
    pub fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_slow();
        }
    }

    #[cold]
    fn acquire_slow(&self) {
        if paged_wait::is_memory_paged() && self.acquire_by_polling() {
            return;
        }
        let mut spin = local::lock_spin_budget();
        // The holder will soon write to the cache line, and each load delays it.
        let mut pause = 1;
        'spinning: loop {
            if self.0.load(Ordering::Relaxed) == FREE && self.try_acquire() {
                return;
            }
            for _ in 0..pause {
                if !spin.turn() {
                    break 'spinning;
                }
            }
            pause = (pause * 2).min(PAUSE_TURNS_MAX);
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            park::sleep(&self.0, CONTENDED);
        }
    }

    /// Acquires the lock if it becomes free within the polling time.
    fn acquire_by_polling(&self) -> bool {
        let mut poller = paged_wait::Poller::new();
        while poller.try_pause() {
            if self.0.load(Ordering::Relaxed) == FREE && self.try_acquire() {
                return true;
            }
        }
        false
    }

    /// Releases the lock and wakes a waiter.
    #[inline]
    pub fn release(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            park::wake(&self.0, 1);
        }
    }

    /// Resets it to a free lock from any state.
    pub fn reset(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// Lock of the run-time itself, held for a few instructions at a time.
#[derive(Debug, Default)]
pub struct Spinlock(Lock);

/// Guard that releases the lock when dropped.
#[derive(Debug)]
pub struct SpinlockGuard<'a>(&'a Lock);

impl Spinlock {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self(Lock::new())
    }

    /// Acquires the lock if it is free, until the guard is dropped.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinlockGuard<'_>> {
        self.0.try_acquire().then(|| SpinlockGuard(&self.0))
    }

    /// Acquires the lock until the guard is dropped.
    #[inline]
    pub fn lock(&self) -> SpinlockGuard<'_> {
        self.0.acquire();
        SpinlockGuard(&self.0)
    }
}

impl Drop for SpinlockGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Recursive lock. Its owner is a task, identified by its address.
#[repr(C)]
#[derive(Debug)]
pub struct NestLock {
    owner: Cell<usize>,
    lock: Lock,
    count: Cell<i32>,
}

impl NestLock {
    /// Resets it to a free lock from any state.
    pub fn reset(&self) {
        self.owner.set(0);
        self.count.set(0);
        self.lock.reset();
    }

    /// Acquires the lock for this task, recursively if it is the owner. Returns the nesting count, or 0 if
    /// the lock is held and `waits` is false.
    pub fn acquire(&self, task: usize, waits: bool) -> i32 {
        // No other task writes this task's address here, so an unsynchronized load suffices.
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

    /// Undoes one acquisition of the lock.
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
    fn lock_is_exclusive() {
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
    fn try_lock_fails_while_held() {
        let lock = Spinlock::new();
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none(), "the first attempt gave it back");
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn nest_lock_is_reacquired_by_its_owner() {
        let lock = NestLock { owner: Cell::new(7), lock: Lock::new(), count: Cell::new(3) };
        lock.reset();
        assert_eq!((lock.acquire(1, true), lock.acquire(1, false), lock.acquire(2, false)), (1, 2, 0));
        lock.release();
        assert_eq!(lock.acquire(2, false), 0);
        lock.release();
        assert_eq!(lock.acquire(2, false), 1);
    }
}
