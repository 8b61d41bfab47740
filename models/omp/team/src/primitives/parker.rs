//! Parkers: how a thread sleeps and is woken.
//!
//! A thread sleeps on a word of its own, its *parker*, or with others of its team on a [bell](super::bell) if
//! all wait for the same event. Bit 0 of the word is set while the thread sleeps or is about to; the other
//! bits count how often it was given work.
//!
//! A sleeper sets the bit and then checks its condition; a waker makes the condition true and then checks the
//! bit. Each has a full fence in between, so at least one of them sees the other's write, and no wake-up is
//! lost. `tests/loom.rs` explores every interleaving.
//!
//! Which process can wake the thread is the subject of [`super::wake_domain`].

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
use super::kernel_model::Kernel;
use super::{local, wake_domain};

const ASLEEP: u32 = 1;

/// Word on which a thread sleeps and through which it is given work.
#[cfg_attr(not(loom), repr(C))]
#[derive(Debug, Default)]
pub struct Parker {
    word: AtomicU32,
    /// Wake domain of the thread.
    #[cfg(not(loom))]
    domain: AtomicU32,
    /// Entry in a list of threads to be woken or started by another process.
    pub(super) entry: wake_domain::Entry,
    #[cfg(loom)]
    kernel: Kernel,
}

impl Parker {
    /// Returns how often the thread was given work, modulo 2³¹.
    #[inline]
    pub fn work_count(&self) -> u32 {
        self.word.load(Ordering::Acquire) >> 1
    }

    /// Publishes work for the thread, written before this call, and wakes it.
    #[inline]
    pub fn publish_work(&self, number: u32) {
        if self.word.swap(number << 1, Ordering::AcqRel) & ASLEEP != 0 {
            self.futex_wake();
        }
    }

    /// Wakes the thread if it sleeps, after a full fence. The caller has just made its condition true.
    #[inline]
    pub fn fence_and_wake(&self) {
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the thread if it sleeps. The caller has made its condition true and then executed a full fence.
    #[inline]
    pub fn wake(&self) {
        if self.word.load(Ordering::Relaxed) & ASLEEP != 0
            && self.word.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP != 0
        {
            self.futex_wake();
        }
    }

    /// Whether the thread sleeps or is about to.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// Sleeps unless the condition holds. May also return while it does not hold.
    pub fn sleep_unless(&self, condition: &mut impl FnMut() -> bool) {
        let before = self.word.fetch_or(ASLEEP, Ordering::SeqCst) | ASLEEP;
        fence(Ordering::SeqCst);
        if !condition() {
            local::mark_asleep_while(|| self.futex_wait(before));
        }
        self.word.fetch_and(!ASLEEP, Ordering::SeqCst);
    }

    /// Sets the thread's wake domain. Called before the thread begins.
    #[cfg(not(loom))]
    pub fn set_domain(&self, domain: u32) {
        self.domain.store(domain, Ordering::Relaxed);
    }

    /// Does nothing: loom models have one wake domain.
    #[cfg(loom)]
    pub fn set_domain(&self, _domain: u32) {}

    /// Returns the thread's wake domain.
    #[cfg(not(loom))]
    pub fn domain(&self) -> u32 {
        self.domain.load(Ordering::Relaxed)
    }

    /// Wakes a thread of this process's wake domain on behalf of another domain.
    #[cfg(not(loom))]
    pub fn wake_local(&self) {
        super::sys::futex_wake(&self.word, 1);
    }

    #[cfg(not(loom))]
    fn futex_wait(&self, expected: u32) {
        super::sys::futex_wait(&self.word, expected);
    }

    #[cfg(not(loom))]
    fn futex_wake(&self) {
        if self.domain() == wake_domain::own() {
            self.wake_local();
        } else {
            wake_domain::forward_wake(self);
        }
    }

    #[cfg(loom)]
    fn futex_wait(&self, expected: u32) {
        self.kernel.wait(&self.word, expected);
    }

    #[cfg(loom)]
    fn futex_wake(&self) {
        self.kernel.wake(1);
    }
}
