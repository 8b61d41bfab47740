//! Bell on which threads of a team sleep together, and the count of threads that sleep on their own.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
use super::kernel_model::Kernel;

/// Number of threads of a team that sleep on their parkers, or are about to, and are to be woken for tasks,
/// barriers and similar events.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Sleepers(AtomicU32);

impl Sleepers {
    /// Runs `sleep` while counting the thread.
    pub fn while_counted(&self, sleep: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        sleep();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether any thread must be woken for a condition that the caller made true, followed by a full fence.
    /// The parkers may be checked after this.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Futex word for threads of a team that wait for the same event, so that one syscall wakes them. The word
/// counts the rings.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Bell {
    word: AtomicU32,
    sleepers: AtomicU32,
    #[cfg(loom)]
    kernel: Kernel,
}

impl Bell {
    /// Sleeps unless the condition holds. Returns whether or not it holds then.
    pub fn sleep_unless(&self, condition: &mut impl FnMut() -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // A ringing thread has made the condition true before: either that is seen here, or the word has
        // changed.
        let before = self.word.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if !condition() {
            self.park(before);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes up to `count` threads that sleep or are about to. The caller has made their condition true and
    /// then executed a full fence.
    #[inline]
    pub fn ring(&self, count: u32) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.word.fetch_add(1, Ordering::AcqRel);
            self.unpark(count);
        }
    }

    /// Whether any thread sleeps, or is about to.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    #[cfg(not(loom))]
    fn park(&self, expected: u32) {
        super::park::sleep(&self.word, expected);
    }

    #[cfg(not(loom))]
    fn unpark(&self, count: u32) {
        super::park::wake(&self.word, count);
    }

    #[cfg(loom)]
    fn park(&self, expected: u32) {
        self.kernel.wait(&self.word, expected);
    }

    #[cfg(loom)]
    fn unpark(&self, count: u32) {
        self.kernel.wake(count);
    }
}
