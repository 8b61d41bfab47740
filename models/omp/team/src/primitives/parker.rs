//! Where a thread sleeps and is woken.
//!
//! A thread sleeps on a word of its own, its *parker*, or with others of its team on a [bell](super::bell),
//! where all wait for the same. Bit 0 of the word says that the thread sleeps or is about to; the rest counts
//! how often it was given something to do.
//!
//! A thread that makes a condition true on which others may wait checks their bits afterwards. The sleeper
//! writes the bit and then checks the condition; the waker makes the condition true and then checks the bit;
//! each has a full fence in between. So one of them sees the other, and no wake-up is lost. `tests/loom.rs`
//! tries every schedule of it.
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

/// Where a thread sleeps, and learns that it was given something to do.
#[cfg_attr(not(loom), repr(C))]
#[derive(Debug, Default)]
pub struct Parker {
    word: AtomicU32,
    /// The wake domain of the thread.
    #[cfg(not(loom))]
    domain: AtomicU32,
    /// Its entry in a list of threads that another process is to wake or start.
    pub(super) entry: wake_domain::Entry,
    #[cfg(loom)]
    kernel: Kernel,
}

impl Parker {
    /// How often the thread was given something to do, modulo 2³¹.
    #[inline]
    pub fn given(&self) -> u32 {
        self.word.load(Ordering::Acquire) >> 1
    }

    /// Tells the thread that it was given something to do, which was written before.
    #[inline]
    pub fn give(&self, number: u32) {
        if self.word.swap(number << 1, Ordering::AcqRel) & ASLEEP != 0 {
            self.futex_wake();
        }
    }

    /// Wakes the thread if it sleeps. The condition that it waits for was made true just before.
    #[inline]
    pub fn tell(&self) {
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the thread if it sleeps. The condition that it waits for was made true before, with a full fence
    /// after it.
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
    pub fn asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// Sleeps unless the condition holds; afterwards it may hold or not.
    pub fn sleep_unless(&self, condition: &mut impl FnMut() -> bool) {
        let before = self.word.fetch_or(ASLEEP, Ordering::SeqCst) | ASLEEP;
        fence(Ordering::SeqCst);
        if !condition() {
            local::asleep(|| self.futex_wait(before));
        }
        self.word.fetch_and(!ASLEEP, Ordering::SeqCst);
    }

    /// Sets the wake domain of its thread. Called before the thread begins.
    #[cfg(not(loom))]
    pub fn set_domain(&self, domain: u32) {
        self.domain.store(domain, Ordering::Relaxed);
    }

    /// A model has one wake domain.
    #[cfg(loom)]
    pub fn set_domain(&self, _domain: u32) {}

    /// The wake domain of its thread.
    #[cfg(not(loom))]
    pub fn domain(&self) -> u32 {
        self.domain.load(Ordering::Relaxed)
    }

    /// Wakes a thread of this process's wake domain, at the request of another domain.
    #[cfg(not(loom))]
    pub fn wake_here(&self) {
        super::sys::futex_wake(&self.word, 1);
    }

    #[cfg(not(loom))]
    fn futex_wait(&self, expected: u32) {
        super::sys::futex_wait(&self.word, expected);
    }

    #[cfg(not(loom))]
    fn futex_wake(&self) {
        if self.domain() == wake_domain::own() {
            self.wake_here();
        } else {
            wake_domain::forward(self);
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
