//! Cancelling threads of POSIX (`pthread_cancel`) in an image.
//!
//! A request belongs to the thread that the program has, wherever that runs. It is followed at cancellation
//! points: waits of POSIX, sleeps, and calls of the C library that may wait. Where the thread runs as the one
//! that the C library made, such a call is also interrupted, by the C library's own request. Elsewhere that
//! would reach a thread of the run-time, so the C library's requests are let in around such calls only.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU32;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::{exclusive, park, sys};
use tombolo_omp_team::team::cancellation::Cancellation;
use tombolo_omp_team::team::shown::Role;
use tombolo_omp_team::team::thread::{self, Thread};

use crate::process::forward::is_elsewhere;

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
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
}

/// What the calling thread was asked, if it is one of the program's that has begun with [`begin`].
fn own() -> Option<&'static Cancellation> {
    let origin = migrate::origin(thread::known()?);
    is_of_program(origin).then_some(&origin.cancellation)
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
fn let_in(state: c_int) -> c_int {
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

/// Makes a call of the C library that is a cancellation point, in the program's process.
pub(crate) fn point<T>(call: impl FnOnce() -> T) -> T {
    if is_elsewhere() {
        follow();
        return call();
    }
    point_here(call)
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

/// Sleeps on a word at a cancellation point. Whether the thread is to end.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) -> bool {
    match own() {
        Some(cancellation) => {
            cancellation.sleep(word, expected);
            cancellation.is_due()
        }
        None => {
            park::sleep(word, expected);
            false
        }
    }
}

/// Whether the calling thread is to end at the next cancellation point.
pub(crate) fn is_due() -> bool {
    own().is_some_and(Cancellation::is_due)
}

/// A cancellation point.
pub(crate) fn follow() {
    if let Some(cancellation) = own() {
        test(cancellation);
    }
}

/// `pthread_testcancel`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_testcancel() {
    match own() {
        Some(cancellation) => test(cancellation),
        // SAFETY: the call has no arguments.
        None => unsafe { __real_pthread_testcancel() },
    }
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
