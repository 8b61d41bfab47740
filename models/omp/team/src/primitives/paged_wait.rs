//! Waiting for words in memory that is transferred in pages.
//!
//! Reading a word that no other node has written since costs nothing. The first read after a write fetches
//! the page, and so does the writer's next store to it. So waiting threads poll rarely, and less often the
//! longer they wait. They also poll for longer before they sleep, because a sleeper is entered into lists,
//! removed from them and woken by a message, each on pages held by others.

use std::sync::atomic::{AtomicBool, Ordering};

use super::sys;

static IS_MEMORY_PAGED: AtomicBool = AtomicBool::new(false);

/// Polling time before the thread sleeps, in nanoseconds.
const POLL_TIME_NS: u64 = 50_000_000;
/// Polling interval in microseconds: initial and maximum.
const POLL_INTERVAL_MIN_US: u32 = 20;
const POLL_INTERVAL_MAX_US: u32 = 2000;

/// Declares that the job's memory is transferred in pages. Called before the first region begins.
pub fn set_memory_paged() {
    IS_MEMORY_PAGED.store(true, Ordering::Release);
}

/// Whether the job's memory is transferred in pages.
#[inline]
pub fn is_memory_paged() -> bool {
    IS_MEMORY_PAGED.load(Ordering::Relaxed)
}

/// Polling of one wait.
pub(super) struct Poller {
    began_ns: u64,
    pause_us: u32,
}

impl Poller {
    /// Starts polling.
    pub(super) fn new() -> Self {
        Self { began_ns: sys::now_ns(), pause_us: POLL_INTERVAL_MIN_US }
    }

    /// Pauses until the next poll; returns false once the polling time is over.
    pub(super) fn try_pause(&mut self) -> bool {
        if sys::now_ns() - self.began_ns > POLL_TIME_NS {
            return false;
        }
        self.pause();
        true
    }

    /// Pauses until the next poll, regardless of the polling time.
    pub(super) fn pause(&mut self) {
        sys::sleep_for(self.pause_us);
        self.pause_us = (self.pause_us * 3 / 2).min(POLL_INTERVAL_MAX_US);
    }
}
