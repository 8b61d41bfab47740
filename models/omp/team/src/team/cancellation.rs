//! Cancellation of the program's threads (`pthread_cancel`). A thread acts on a request at its next
//! cancellation point, on whichever node it is.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::primitives::{park, sys};

/// Pause between attempts to wake a thread that is about to sleep, in microseconds.
const WAKE_RETRY_US: u32 = 50;

/// Cancellation state of a thread, part of the record of a thread of the program.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cancellation {
    requested: AtomicBool,
    is_disabled: AtomicBool,
    /// Address of the futex word that the thread sleeps on at a cancellation point, or is about to; 0 if
    /// none.
    futex_address: AtomicUsize,
    /// Process that makes, or is about to make, an interruptible call for the thread, plus one; 0 if none.
    calling_process: AtomicU64,
}

impl Cancellation {
    /// Requests cancellation. Returns once the thread is no longer asleep at a cancellation point.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        loop {
            let word = self.futex_address.load(Ordering::SeqCst) as *const AtomicU32;
            if word.is_null() || !self.is_due() {
                return;
            }
            // One wake-up may be too early: the thread may not have entered the wait queue yet.
            // SAFETY: the address only is used.
            park::wake(unsafe { &*word }, u32::MAX >> 1);
            sys::sleep_for(WAKE_RETRY_US);
        }
    }

    /// Whether the thread must end at the next cancellation point.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.requested.load(Ordering::SeqCst) && !self.is_disabled()
    }

    /// Whether cancellation is disabled: requests stay pending.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.is_disabled.load(Ordering::Relaxed)
    }

    /// Disables or enables cancellation and returns the previous setting. Called by the thread itself.
    pub fn disable(&self, is_disabled: bool) -> bool {
        self.is_disabled.swap(is_disabled, Ordering::SeqCst)
    }

    /// Sleeps as [`park::sleep`] does, but returns when cancellation is requested. Called by the thread
    /// itself.
    pub fn sleep(&self, word: &AtomicU32, expected: u32) {
        self.futex_address.store(word.as_ptr() as usize, Ordering::SeqCst);
        if !self.is_due() {
            park::sleep(word, expected);
        }
        self.futex_address.store(0, Ordering::SeqCst);
    }

    /// Runs `call`, which has the given process make a call for the thread and returns when that is over. A
    /// cancellation request interrupts it. Returns `None`, without calling, if cancellation is already due.
    /// Called by the thread itself.
    pub fn call<T>(&self, process: u64, call: impl FnOnce() -> T) -> Option<T> {
        self.calling_process.store(process + 1, Ordering::SeqCst);
        let result = (!self.is_due()).then(call);
        self.calling_process.store(0, Ordering::SeqCst);
        result
    }

    /// Returns the process that makes, or is about to make, a call for the thread. A canceller first calls
    /// [`request`](Self::request), then reads this and has that process interrupt the call. The process in
    /// turn checks for a pending request once it can be notified, so the request cannot be missed.
    #[must_use]
    pub fn calling_process(&self) -> Option<u64> {
        self.calling_process.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Resets the state when another thread gets the record.
    pub(crate) fn reset(&self) {
        self.requested.store(false, Ordering::SeqCst);
        self.is_disabled.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn request_wakes_a_sleeping_thread() {
        for round in 0..200 {
            let shared = Arc::new((Cancellation::default(), AtomicU32::new(0)));
            let sleeper = Arc::clone(&shared);
            let thread = std::thread::spawn(move || {
                let (cancellation, word) = &*sleeper;
                while !cancellation.is_due() {
                    cancellation.sleep(word, 0);
                }
            });
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            shared.0.request();
            thread.join().expect("no panic");
        }
    }

    /// Races a thread and its canceller; a flag that the thread polls stands for the process between them.
    #[test]
    fn request_before_a_call_prevents_it() {
        for round in 0..500_u32 {
            let shared = Arc::new((Cancellation::default(), AtomicU32::new(0)));
            let caller = Arc::clone(&shared);
            let thread = std::thread::spawn(move || {
                let (cancellation, interrupted) = &*caller;
                cancellation.call(7, || {
                    while interrupted.load(Ordering::SeqCst) == 0 && !cancellation.is_due() {
                        std::thread::yield_now();
                    }
                })
            });
            for _ in 0..round % 4 {
                std::thread::yield_now();
            }
            let (cancellation, interrupted) = &*shared;
            cancellation.request();
            if cancellation.calling_process() == Some(7) {
                interrupted.store(1, Ordering::SeqCst);
            }
            let _ = thread.join().expect("no panic");
            assert_eq!(cancellation.calling_process(), None);
        }
    }

    #[test]
    fn request_stays_pending_while_disabled() {
        let cancellation = Cancellation::default();
        assert!(!cancellation.disable(true));
        cancellation.request();
        assert!(!cancellation.is_due());
        assert!(cancellation.disable(false));
        assert!(cancellation.is_due());
        cancellation.reset();
        assert!(!cancellation.is_due());
    }
}
