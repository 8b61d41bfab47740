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
        fence_for_emulators();
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
        fence_for_emulators();
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
        fence_for_emulators();
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

/// Orders the caller's store before its next load of another word. The thread and its canceller each store to
/// one word and then load the other's, which sequential consistency covers; but QEMU executes Arm's `stlr`
/// and `ldar` without that order.
fn fence_for_emulators() {
    sys::full_fence();
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

    /// Of a canceller and a thread that begins a call, at least one must notice the other. Fails under an
    /// emulator without the fences.
    #[test]
    fn canceller_or_caller_notices_the_other() {
        const ROUNDS: u32 = 20_000;
        let (cancellation, arrived) = (Cancellation::default(), AtomicU32::new(0));
        let meet = |total: u32| {
            arrived.fetch_add(1, Ordering::SeqCst);
            let mut polls = 0_u32;
            while arrived.load(Ordering::Acquire) < total {
                polls += 1;
                if polls.is_multiple_of(1000) {
                    std::thread::yield_now();
                }
            }
        };
        let (seen, called) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut missed = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    meet(6 * round + 2);
                    let result = cancellation.call(7, || meet(6 * round + 4));
                    called.store(result.is_some(), Ordering::SeqCst);
                    if result.is_none() {
                        meet(6 * round + 4);
                    }
                    meet(6 * round + 6);
                }
            });
            for round in 0..ROUNDS {
                cancellation.reset();
                meet(6 * round + 2);
                cancellation.request();
                seen.store(cancellation.calling_process() == Some(7), Ordering::SeqCst);
                meet(6 * round + 4);
                meet(6 * round + 6);
                missed += u32::from(!seen.load(Ordering::SeqCst) && called.load(Ordering::SeqCst));
            }
        });
        assert_eq!(missed, 0, "of {ROUNDS} rounds");
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
