//! A request to a thread of the program to end (`pthread_cancel`), which it follows where it comes to a
//! cancellation point, on whichever node.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::primitives::{park, sys};

/// The pause between two attempts to wake a thread that is about to sleep, in microseconds.
const AGAIN_US: u32 = 50;

/// What a thread was asked. It is in the record of the thread that the program has.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cancellation {
    asked: AtomicBool,
    is_disabled: AtomicBool,
    /// The word that it sleeps on at a cancellation point, or is about to; 0 is none.
    sleeps_on: AtomicUsize,
    /// The process that makes a call for it which can be interrupted, or is about to: its number plus one; 0
    /// is none.
    calls_in: AtomicU64,
}

impl Cancellation {
    /// Asks the thread to end. Returns once it does not sleep, or is at no cancellation point.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        loop {
            let word = self.sleeps_on.load(Ordering::SeqCst) as *const AtomicU32;
            if word.is_null() || !self.is_due() {
                return;
            }
            // Once may be too early: before it is among those that sleep on the word.
            // SAFETY: the address only is used.
            park::wake(unsafe { &*word }, u32::MAX >> 1);
            sys::sleep_for(AGAIN_US);
        }
    }

    /// Whether the thread is to end at the next cancellation point.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.asked.load(Ordering::SeqCst) && !self.is_disabled()
    }

    /// Whether requests are left for later.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.is_disabled.load(Ordering::Relaxed)
    }

    /// Has requests left for later, or not; whether they were before. The thread does so.
    pub fn disable(&self, is_disabled: bool) -> bool {
        self.is_disabled.swap(is_disabled, Ordering::SeqCst)
    }

    /// Sleeps as [`park::sleep`], until the thread is asked to end at most. The thread does so.
    pub fn sleep(&self, word: &AtomicU32, expected: u32) {
        self.sleeps_on.store(word.as_ptr() as usize, Ordering::SeqCst);
        if !self.is_due() {
            park::sleep(word, expected);
        }
        self.sleeps_on.store(0, Ordering::SeqCst);
    }

    /// Has a process make a call for the thread, by its number, which a request to end interrupts. `None` if
    /// it was asked before. The thread does so; the call is made under way by `call`, which returns once it
    /// is over.
    pub fn call<T>(&self, process: u64, call: impl FnOnce() -> T) -> Option<T> {
        self.calls_in.store(process + 1, Ordering::SeqCst);
        let result = (!self.is_due()).then(call);
        self.calls_in.store(0, Ordering::SeqCst);
        result
    }

    /// The process that makes a call for the thread, or is about to. Who asks the thread to end asks first
    /// and looks for this then, and has that process interrupt the call; the process looks whether the thread
    /// is to end once it can be told.
    #[must_use]
    pub fn calls_in(&self) -> Option<u64> {
        self.calls_in.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Another thread gets the record.
    pub(crate) fn begin_anew(&self) {
        self.asked.store(false, Ordering::SeqCst);
        self.is_disabled.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_sleeps_is_woken_by_a_request_whenever_that_comes() {
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
            shared.0.ask();
            thread.join().expect("no panic");
        }
    }

    /// The thread and who asks it, with the process between them as a thread that waits for either.
    #[test]
    fn a_call_is_told_of_a_request_or_not_made() {
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
            cancellation.ask();
            if cancellation.calls_in() == Some(7) {
                interrupted.store(1, Ordering::SeqCst);
            }
            let _ = thread.join().expect("no panic");
            assert_eq!(cancellation.calls_in(), None);
        }
    }

    #[test]
    fn a_request_waits_until_it_is_wanted() {
        let cancellation = Cancellation::default();
        assert!(!cancellation.disable(true));
        cancellation.ask();
        assert!(!cancellation.is_due());
        assert!(cancellation.disable(false));
        assert!(cancellation.is_due());
        cancellation.begin_anew();
        assert!(!cancellation.is_due());
    }
}
