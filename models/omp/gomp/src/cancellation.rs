//! Cancelling threads of POSIX (`pthread_cancel`) in an image.
//!
//! A request belongs to the thread that the program has, wherever that runs. It is followed at cancellation
//! points: waits of POSIX, sleeps, and calls of the C library that may wait. Where the thread runs as the one
//! that the C library made, such a call is also interrupted, by the C library's own request. Elsewhere that
//! would reach a thread of the run-time, so the C library's requests are let in around such calls only; the
//! call is made by another thread, which can be interrupted ([`crate::process::interrupts`]).
//!
//! In a program that is no job all threads are the C library's, and so are their requests.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::{exclusive, local, park, sys};
use tombolo_omp_team::team::cancellation::Cancellation;
use tombolo_omp_team::team::shown::Role;
use tombolo_omp_team::team::thread::{self, Thread};

use crate::process::forward::is_elsewhere;

const ENABLE: c_int = 0;
pub(crate) const DISABLE: c_int = 1;
/// A request has a call fail with `ECANCELED`, in place of ending the thread, and is disabled from then on.
pub(crate) const MASKED: c_int = 2;
const DEFERRED: c_int = 0;
/// What a thread that was cancelled ends with (`PTHREAD_CANCELED`).
const CANCELED: usize = usize::MAX;

// SAFETY: the C library's functions of these names, but for the end of a thread, which is that of
// [`crate::threads`]; the linker has named them so.
unsafe extern "C" {
    fn pthread_exit(value: *mut c_void) -> !;
    fn __real_pthread_testcancel();
    fn __real_pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn __real_pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    /// How musl itself sleeps on a word at a cancellation point, until a time of a clock if there is one.
    fn __timedwait_cp(
        word: *const AtomicU32,
        expected: c_int,
        clock: libc::clockid_t,
        until: *const libc::timespec,
        private: c_int,
    ) -> c_int;
}

/// What the calling thread was asked, if it is one of the program's that has begun with [`begin`] in a job.
fn own() -> Option<&'static Cancellation> {
    if !exclusive::is_on() {
        return None;
    }
    let origin = migrate::origin(thread::known()?);
    is_of_program(origin).then_some(&origin.cancellation)
}

thread_local! {
    /// Whether the call was interrupted that the calling thread has made at a cancellation point.
    static POINT: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether a record is that of a thread that the program has.
pub(crate) fn is_of_program(record: &Thread) -> bool {
    matches!(record.shown.role(), Role::Main | Role::Created)
}

/// Whether the calling thread runs for one that another process or another thread of the C library is.
pub(crate) fn is_elsewhere_than_made() -> bool {
    thread::known().and_then(migrate::name).is_some()
}

/// Lets the C library's requests in, or not. What was so before.
pub(crate) fn let_in(state: c_int) -> c_int {
    let mut before = DISABLE;
    // SAFETY: the word is ours.
    unsafe { __real_pthread_setcancelstate(state, &raw mut before) };
    before
}

/// The thread of `main` begins. In a job it can be cancelled wherever it is.
pub(crate) fn begin() {
    if exclusive::is_on() {
        sys::leave_cancellation_for_later();
    }
}

/// The calling thread is about to end: it is not asked to any more.
pub(crate) fn end() {
    if let Some(cancellation) = own() {
        let_in(DISABLE);
        cancellation.disable(true);
    }
}

/// Ends the calling thread if it is to end.
fn test(cancellation: &Cancellation) {
    if cancellation.is_due() {
        // SAFETY: the caller is at a cancellation point, which its functions expect.
        unsafe { pthread_exit(CANCELED as *mut c_void) }
    }
}

/// Makes a call of the C library that is a cancellation point, in the program's process: asks for it, or
/// makes it here.
pub(crate) fn point<T>(ask: impl FnOnce() -> T, here: impl FnOnce() -> T) -> T {
    // A request of the C library would reach a thread of the run-time, where that makes the call itself.
    if is_elsewhere() || own().is_some() && is_elsewhere_than_made() {
        return point_elsewhere(ask);
    }
    point_here(here)
}

/// Has another thread make a call of the C library that is a cancellation point.
pub(crate) fn point_elsewhere<T>(ask: impl FnOnce() -> T) -> T {
    let Some(cancellation) = own() else { return ask() };
    test(cancellation);
    POINT.set(Some(false));
    let result = ask();
    if POINT.take() == Some(true) {
        test(cancellation);
    }
    result
}

/// The record of the calling thread of the program, if it has a call made that its cancellation interrupts.
pub(crate) fn interruptible() -> Option<&'static Thread> {
    POINT.get().and_then(|_| thread::known()).map(migrate::origin)
}

/// The call that the calling thread has made was interrupted, or not made because it is to end.
pub(crate) fn was_interrupted() {
    POINT.set(Some(true));
}

/// Makes a call of the C library of this process that is a cancellation point.
pub(crate) fn point_here<T>(call: impl FnOnce() -> T) -> T {
    let Some(cancellation) = own() else { return call() };
    test(cancellation);
    if is_elsewhere_than_made() || cancellation.is_disabled() {
        return call();
    }
    let before = let_in(ENABLE);
    let result = call();
    let_in(before);
    result
}

/// Sleeps on a word at a cancellation point. The number of an error says why it ended: `ECANCELED`, that the
/// thread is to end; `EINTR`, that it has executed a handler of a signal. 0 says nothing.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) -> c_int {
    match own() {
        Some(cancellation) => {
            cancellation.sleep(word, expected);
            if cancellation.is_due() { libc::ECANCELED } else { 0 }
        }
        None if exclusive::is_on() => {
            park::sleep(word, expected);
            0
        }
        // SAFETY: there is no time.
        None => unsafe { sleep_until(word, expected, libc::CLOCK_REALTIME, ptr::null()) },
    }
}

/// As [`sleep`] in a program that is no job, until a time of a clock if there is one, which it says by
/// `ETIMEDOUT`. The caller looks for a request to end once it has given back what it has.
///
/// # Safety
/// The time can be read, or is null.
pub(crate) unsafe fn sleep_until(
    word: &AtomicU32,
    expected: u32,
    clock: libc::clockid_t,
    until: *const libc::timespec,
) -> c_int {
    let before = let_in(MASKED);
    if before == DISABLE {
        let_in(DISABLE);
    }
    let mut ended = 0;
    local::asleep(|| {
        // SAFETY: the word is alive; the caller says the rest.
        ended = unsafe { __timedwait_cp(word, expected.cast_signed(), clock, until, sys::kind_of_futexes()) };
    });
    let_in(before);
    ended
}

/// Whether the calling thread is to end at the next cancellation point.
pub(crate) fn is_due() -> bool {
    own().is_some_and(Cancellation::is_due)
}

/// A cancellation point.
pub(crate) fn follow() {
    match own() {
        Some(cancellation) => test(cancellation),
        None if exclusive::is_on() => {}
        // SAFETY: the call has no arguments.
        None => unsafe { __real_pthread_testcancel() },
    }
}

/// `pthread_testcancel`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_testcancel() {
    follow();
}

/// `pthread_setcancelstate`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int {
    let Some(cancellation) = own() else {
        // SAFETY: the caller says so.
        return unsafe { __real_pthread_setcancelstate(state, before) };
    };
    if state != ENABLE && state != DISABLE {
        return libc::EINVAL;
    }
    let was_disabled = cancellation.disable(state == DISABLE);
    if !before.is_null() {
        // SAFETY: the caller says that it can be written.
        unsafe { before.write(c_int::from(was_disabled)) };
    }
    0
}

/// `pthread_setcanceltype`. A thread that may be on any node cannot be ended at any instruction.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
    if own().is_some() && kind != DEFERRED {
        return libc::ENOTSUP;
    }
    // SAFETY: the caller says so.
    unsafe { __real_pthread_setcanceltype(kind, before) }
}
