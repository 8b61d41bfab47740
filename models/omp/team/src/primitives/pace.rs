//! How to wait for a word in memory that is sent in pages.
//!
//! There a look at a word that no other node has written since costs nothing, and the first look afterwards
//! fetches its page, which takes the writer's next store to the page as long again. So threads that wait look
//! seldom, and less often the longer they wait; and they look for longer before they sleep, because a sleeper
//! is entered in lists, takes itself out of them and is woken by a message, each on pages that others have.

use std::sync::atomic::{AtomicBool, Ordering};

use super::sys;

static ON: AtomicBool = AtomicBool::new(false);

/// Nanoseconds that a wait goes on before the thread sleeps.
const LONGEST_NS: u64 = 50_000_000;
/// Microseconds between two looks, at first and at most.
const FIRST_US: u32 = 20;
const LAST_US: u32 = 2000;

/// Says that the memory of the job is sent in pages. Called before the first region begins.
pub fn turn_on() {
    ON.store(true, Ordering::Release);
}

/// Whether the memory of the job is sent in pages.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The looks of one wait.
pub(super) struct Looks {
    began_ns: u64,
    pause_us: u32,
}

impl Looks {
    /// A wait begins.
    pub(super) fn new() -> Self {
        Self { began_ns: sys::now_ns(), pause_us: FIRST_US }
    }

    /// Waits until the next look; false when there were enough.
    pub(super) fn next(&mut self) -> bool {
        if sys::now_ns() - self.began_ns > LONGEST_NS {
            return false;
        }
        self.pause();
        true
    }

    /// Waits until the next look, however many there were.
    pub(super) fn pause(&mut self) {
        sys::sleep_for(self.pause_us);
        self.pause_us = (self.pause_us * 3 / 2).min(LAST_US);
    }
}
