//! Waiting for words in memory that is transferred in pages.
//!
//! Reading a word that no other node has written since costs nothing. The first read after a write fetches
//! the page, and so does the writer's next store to it. So waiting threads poll rarely, and less often the
//! longer they wait. They also poll for longer before they sleep, because a sleeper is entered into lists,
//! removed from them and woken by a message, each on pages held by others.

use std::sync::atomic::{AtomicBool, Ordering};

use super::sys;

static ON: AtomicBool = AtomicBool::new(false);

/// Polling time before the thread sleeps, in nanoseconds.
const LONGEST_NS: u64 = 50_000_000;
/// Polling interval in microseconds: initial and maximum.
const FIRST_US: u32 = 20;
const LAST_US: u32 = 2000;

/// Declares that the job's memory is transferred in pages. Called before the first region begins.
pub fn turn_on() {
    ON.store(true, Ordering::Release);
}

/// Whether the job's memory is transferred in pages.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Polling of one wait.
pub(super) struct Looks {
    began_ns: u64,
    pause_us: u32,
}

impl Looks {
    /// Starts polling.
    pub(super) fn new() -> Self {
        Self { began_ns: sys::now_ns(), pause_us: FIRST_US }
    }

    /// Pauses until the next poll; returns false once the polling time is over.
    pub(super) fn next(&mut self) -> bool {
        if sys::now_ns() - self.began_ns > LONGEST_NS {
            return false;
        }
        self.pause();
        true
    }

    /// Pauses until the next poll, regardless of the polling time.
    pub(super) fn pause(&mut self) {
        sys::sleep_for(self.pause_us);
        self.pause_us = (self.pause_us * 3 / 2).min(LAST_US);
    }
}
