//! Interruption of blocking C library calls that are made for threads of other nodes.
//!
//! The thread that makes such a call does so at a cancellation point, with the C library's cancellation
//! requests masked: a request makes the call fail with `ECANCELED`, whether it arrives before the thread
//! blocks in its kernel or later. A request cannot be withdrawn, so that thread ends after the call.

use std::cell::Cell;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tombolo_omp_domains::calls;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::thread::Thread;

use super::forward::WORDS;
use crate::cancellation::{self, DISABLE, MASKED};

/// Errno value of a call that a signal interrupted.
const EINTR: usize = libc::EINTR as usize;

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real_pthread_self() -> libc::pthread_t;
    fn __real_pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
    fn __real_pthread_kill(thread: libc::pthread_t, signal: libc::c_int) -> libc::c_int;
}

/// Call in flight in this process.
struct Call {
    /// Thread of the program that requested the call.
    caller: &'static Thread,
    /// C library handle of the thread of this process that makes the call.
    made_by: usize,
    is_cancelled: bool,
}

static CALLS: Mutex<Vec<Call>> = Mutex::new(Vec::new());

thread_local! {
    /// Thread of the program for which the calling thread makes a call.
    static CALLER: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    static IS_INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    /// Whether a signal handler of the program ran during the call.
    static HAS_RUN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Accesses the calls in flight with all signals blocked, because a signal handler may access them too.
fn with_calls<T>(run: impl FnOnce(&mut Vec<Call>) -> T) -> T {
    sys::with_signals_blocked(|| {
        let mut calls: MutexGuard<'_, _> = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        run(&mut calls)
    })
}

/// Makes a call for a thread of the program, whose cancellation interrupts it. Returns the result and whether
/// it was interrupted.
pub(super) fn execute_interruptible(caller: &'static Thread, call: impl Fn() -> u64) -> (u64, bool) {
    // SAFETY: the call has no arguments.
    let made_by = unsafe { __real_pthread_self() } as usize;
    cancellation::set_cancel_state(MASKED);
    CALLER.set(Some(caller));
    with_calls(|calls| calls.push(Call { caller, made_by, is_cancelled: false }));
    // A cancellation from here on finds the call in the list.
    let is_due = caller.cancellation.is_due();
    let result = if is_due { 0 } else { retry_until_done(caller, call) };
    let errno = sys::errno();
    let is_cancelled = with_calls(|calls| {
        let index = calls.iter().position(|call| call.made_by == made_by);
        index.is_some_and(|index| calls.swap_remove(index).is_cancelled)
    });
    CALLER.set(None);
    // A request that interrupted a call has disabled further ones. A call that is not restarted after a
    // signal fails because of the signal of the request.
    let by_request = cancellation::set_cancel_state(DISABLE) == DISABLE || is_cancelled && errno == EINTR;
    let is_interrupted = by_request || IS_INTERRUPTED.take() || is_due;
    if is_cancelled {
        calls::end_thread_after_call();
    }
    sys::set_errno(errno);
    (result, is_interrupted)
}

/// Makes the call and repeats it if a signal interrupted it without a handler of the program: the C library's
/// request was for a thread that has ended or that disables cancellation.
fn retry_until_done(caller: &Thread, call: impl Fn() -> u64) -> u64 {
    loop {
        HAS_RUN_HANDLER.set(false);
        sys::set_errno(0);
        let result = call();
        if sys::errno() != EINTR || HAS_RUN_HANDLER.get() || caller.cancellation.is_due() {
            return result;
        }
    }
}

/// Returns the thread of the program for which the calling thread makes an interruptible call.
pub(crate) fn caller() -> Option<&'static Thread> {
    CALLER.get()
}

/// Records that the current call was interrupted by other means than the C library's request.
pub(crate) fn record_interruption() {
    IS_INTERRUPTED.set(true);
}

/// Runs a signal handler. In a thread that makes an interruptible call, no request interrupts the calls of
/// the handler; a request that arrives meanwhile interrupts the outer call afterwards.
pub(super) fn run_handler(handler: impl FnOnce()) {
    if CALLER.get().is_none() {
        return handler();
    }
    // SAFETY: the call has no arguments.
    let me = unsafe { __real_pthread_self() };
    let before = cancellation::set_cancel_state(DISABLE);
    handler();
    HAS_RUN_HANDLER.set(true);
    let is_cancelled =
        with_calls(|calls| calls.iter().any(|call| call.made_by == me as usize && call.is_cancelled));
    cancellation::set_cancel_state(before);
    if is_cancelled && before == MASKED {
        // SAFETY: it is the calling thread.
        unsafe { __real_pthread_cancel(me) };
    }
}

/// Interrupts the call that this process makes for a thread, or delivers a signal to it. Returns whether
/// there is such a call.
///
/// # Safety
/// The words are the address of the thread's record, and the signal or 0 for a cancellation.
pub(super) unsafe fn serve_interrupt(&[caller, signal, ..]: &[u64; WORDS]) -> u64 {
    let caller = caller as *const Thread;
    with_calls(|calls| {
        let Some(call) = calls.iter_mut().find(|call| ptr::eq(call.caller, caller)) else { return 0 };
        let made_by = call.made_by as libc::pthread_t;
        // SAFETY: that thread removes the call from the list before it ends.
        let failed = unsafe {
            if signal == 0 {
                call.is_cancelled = true;
                __real_pthread_cancel(made_by)
            } else {
                __real_pthread_kill(made_by, libc::c_int::try_from(signal).unwrap_or(-1))
            }
        };
        u64::from(failed == 0)
    })
}
