//! What threads of a team sleep on together, and the count of those that sleep on their own.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
use super::kernel_model::Kernel;

/// How many threads of a team sleep on their parkers, or are about to, and are to be woken for tasks,
/// barriers and the like.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Sleepers(AtomicU32);

impl Sleepers {
    /// Runs `sleep` while the thread is counted.
    pub fn with(&self, sleep: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        sleep();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether any thread has to be woken for a condition that was made true before, with a full fence after
    /// it. Their parkers may be checked after this.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// What threads of a team sleep on that all wait for the same, so that one call wakes them. Its word counts
/// how often it rang.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Bell {
    word: AtomicU32,
    sleepers: AtomicU32,
    #[cfg(loom)]
    kernel: Kernel,
}

impl Bell {
    /// Sleeps unless the condition holds; afterwards it may hold or not.
    pub fn sleep_unless(&self, condition: &mut impl FnMut() -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // A thread that rings has made the condition true before: it is seen here, or the word has changed.
        let before = self.word.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if !condition() {
            self.park(before);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes up to `count` of those that sleep, or are about to. What they wait for was made true before,
    /// with a full fence after it.
    #[inline]
    pub fn ring(&self, count: u32) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.word.fetch_add(1, Ordering::AcqRel);
            self.unpark(count);
        }
    }

    /// Whether any thread sleeps, or is about to.
    #[inline]
    pub fn any(&self) -> bool {
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
