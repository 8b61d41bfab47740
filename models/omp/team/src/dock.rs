//! Where threads sleep and are woken.
//!
//! A thread sleeps on a word of its own, its *dock*, or with others of its team on a *bell*, where all wait for the same. Bit 0 says that it sleeps or is about to; the rest counts what it was
//! given to do. Whoever makes something true that others wait for looks for their bit afterwards. One side writes the bit and then
//! looks at the condition, the other makes the condition true and then looks at the bit, each with a full fence between: so one
//! of them sees the other, and no wake-up is lost. `tests/loom.rs` tries every schedule of it.
//!
//! Whose thread it is that sleeps, and who can wake it, is in [`crate::home`].

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::home;
use crate::wait;

const ASLEEP: u32 = 1;

/// Where a thread is told things, and sleeps.
#[cfg_attr(not(loom), repr(C))]
#[derive(Debug, Default)]
pub struct Dock {
    word: AtomicU32,
    /// The home of the thread.
    #[cfg(not(loom))]
    home: AtomicU32,
    /// Its place in a list of those that a process is to tell something.
    pub(crate) told: home::Link,
    #[cfg(loom)]
    kernel: model::Kernel,
}

impl Dock {
    /// How often something was given to this thread, modulo 2³¹.
    #[inline]
    pub fn given(&self) -> u32 {
        self.word.load(Ordering::Acquire) >> 1
    }

    /// Gives something to the thread; what it is was written before.
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

    /// Wakes the thread if it sleeps. The condition that it waits for was made true before, with a full fence after it.
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
            wait::asleep(|| self.futex_wait(before));
        }
        self.word.fetch_and(!ASLEEP, Ordering::SeqCst);
    }

    /// Says which home its thread is of. Called before the thread begins.
    #[cfg(not(loom))]
    pub fn settle(&self, home: u32) {
        self.home.store(home, Ordering::Relaxed);
    }

    /// A model has one home.
    #[cfg(loom)]
    pub fn settle(&self, _home: u32) {}

    /// The home of its thread.
    #[cfg(not(loom))]
    pub fn home(&self) -> u32 {
        self.home.load(Ordering::Relaxed)
    }

    /// Wakes a thread of this home, as another home asked to.
    #[cfg(not(loom))]
    pub fn wake_here(&self) {
        crate::sys::futex_wake(&self.word, 1);
    }

    #[cfg(not(loom))]
    fn futex_wait(&self, expected: u32) {
        crate::sys::futex_wait(&self.word, expected);
    }

    #[cfg(not(loom))]
    fn futex_wake(&self) {
        if self.home() == home::here() {
            self.wake_here();
        } else {
            home::tell(self);
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

/// How many of a team sleep, or are about to, and want to hear of tasks, barriers and the like.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Sleepers(AtomicU32);

impl Sleepers {
    /// Sleeps, being counted.
    pub fn with(&self, sleep: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        sleep();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there are any whom that concerns which was made true before, with a full fence after it. Their docks may be looked at
    /// after this.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// What those of a team sleep on who all wait for the same, so that one call wakes them. Its word counts how often it rang.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Bell {
    word: AtomicU32,
    sleepers: AtomicU32,
    #[cfg(loom)]
    kernel: model::Kernel,
}

impl Bell {
    /// Sleeps unless the condition holds; afterwards it may hold or not.
    pub fn sleep_unless(&self, condition: &mut impl FnMut() -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // Whoever rings has made the condition true before: then it is seen here, or the word is not what it was.
        let before = self.word.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if !condition() {
            self.park(before);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes so many of those who sleep, or are about to. What they wait for was made true before, with a full fence after it.
    #[inline]
    pub fn ring(&self, count: u32) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.word.fetch_add(1, Ordering::AcqRel);
            self.unpark(count);
        }
    }

    /// Whether there are any who sleep, or are about to.
    #[inline]
    pub fn any(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    #[cfg(not(loom))]
    fn park(&self, expected: u32) {
        crate::park::sleep(&self.word, expected);
    }

    #[cfg(not(loom))]
    fn unpark(&self, count: u32) {
        crate::park::wake(&self.word, count);
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

#[cfg(loom)]
mod model {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// What the kernel does for a word: who waits compares it and goes to sleep in one step.
    #[derive(Debug, Default)]
    pub(super) struct Kernel {
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl Kernel {
        pub(super) fn wait(&self, word: &AtomicU32, expected: u32) {
            let queue = self.queue.lock().unwrap();
            if word.load(Ordering::Relaxed) == expected {
                drop(self.woken.wait(queue).unwrap());
            }
        }

        pub(super) fn wake(&self, count: u32) {
            let _queue = self.queue.lock().unwrap();
            if count == 1 { self.woken.notify_one() } else { self.woken.notify_all() }
        }
    }
}
