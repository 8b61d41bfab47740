//! Cancellation of POSIX threads (`pthread_cancel`) in an image.
//!
//! A request belongs to a thread of the program, wherever it runs. It takes effect at cancellation points:
//! POSIX waits, sleeps, and C library calls that may block. If the thread runs as the one that the C library
//! created, the C library's own request also interrupts such a call. Elsewhere that request would reach a
//! thread of the run-time, so the C library's requests are enabled only around such calls; the call is made
//! by another thread, which can be interrupted ([`crate::process::interrupts`]).
//!
//! In a program that is not a job, all threads and requests are the C library's.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::{local, park, separate_processes, sys};
use tombolo_omp_team::team::cancellation::Cancellation;
use tombolo_omp_team::team::thread::{self, Thread};
use tombolo_omp_team::team::thread_status::Role;

use crate::process::forward::is_in_worker_process;

const ENABLE: c_int = 0;
pub(crate) const DISABLE: c_int = 1;
/// State in which a request makes a call fail with `ECANCELED` instead of ending the thread, and disables
/// further requests.
pub(crate) const MASKED: c_int = 2;
const DEFERRED: c_int = 0;
/// Exit value of a cancelled thread (`PTHREAD_CANCELED`).
const CANCELED: usize = usize::MAX;

// SAFETY: the C library's functions, named by `--wrap`, except that `pthread_exit` is that of
// [`crate::threads`].
unsafe extern "C" {
    fn pthread_exit(value: *mut c_void) -> !;
    fn __real_pthread_testcancel();
    fn __real_pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn __real_pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    /// musl's futex wait at a cancellation point, with an optional deadline.
    fn __timedwait_cp(
        word: *const AtomicU32,
        expected: c_int,
        clock: libc::clockid_t,
        until: *const libc::timespec,
        private: c_int,
    ) -> c_int;
}

/// Returns the cancellation state of the calling thread, if it is a thread of the program that started with
/// [`begin`] in a job.
fn current() -> Option<&'static Cancellation> {
    if !separate_processes::is_enabled() {
        return None;
    }
    let origin = migrate::origin(thread::try_current()?);
    is_program_thread(origin).then_some(&origin.cancellation)
}

thread_local! {
    /// Whether the call that the thread makes at a cancellation point was interrupted; `None` outside such a
    /// call.
    static IS_INTERRUPTED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Returns whether a record belongs to a thread of the program.
pub(crate) fn is_program_thread(record: &Thread) -> bool {
    matches!(record.status.role(), Role::Main | Role::Created)
}

/// Returns whether the calling thread runs on behalf of a thread that another process, or another C library
/// thread, created.
pub(crate) fn is_migrated() -> bool {
    thread::try_current().and_then(migrate::origin_pthread).is_some()
}

/// Sets the C library's cancellation state of the calling thread and returns the previous state.
pub(crate) fn set_cancel_state(state: c_int) -> c_int {
    let mut before = DISABLE;
    // SAFETY: the word is a local variable.
    unsafe { __real_pthread_setcancelstate(state, &raw mut before) };
    before
}

/// Prepares the thread of `main` for cancellation. In a job it can be cancelled wherever it runs.
pub(crate) fn begin() {
    if separate_processes::is_enabled() {
        sys::disable_cancellation();
    }
}

/// Disables cancellation because the calling thread is about to end.
pub(crate) fn end() {
    if let Some(cancellation) = current() {
        set_cancel_state(DISABLE);
        cancellation.disable(true);
    }
}

/// Ends the calling thread if its cancellation is due.
fn exit_if_due(cancellation: &Cancellation) {
    if cancellation.is_due() {
        // SAFETY: the caller is at a cancellation point, where its frames may be left.
        unsafe { pthread_exit(CANCELED as *mut c_void) }
    }
}

/// Makes a C library call that is a cancellation point in the program's process: forwards it with `remote`,
/// or makes it with `local`.
pub(crate) fn cancellation_point<T>(remote: impl FnOnce() -> T, local: impl FnOnce() -> T) -> T {
    // Otherwise a request of the C library would reach a thread of the run-time that makes the call itself.
    if is_in_worker_process() || current().is_some() && is_migrated() {
        return remote_cancellation_point(remote);
    }
    local_cancellation_point(local)
}

/// Makes a C library call that is a cancellation point, through another thread.
pub(crate) fn remote_cancellation_point<T>(remote: impl FnOnce() -> T) -> T {
    let Some(cancellation) = current() else { return remote() };
    exit_if_due(cancellation);
    IS_INTERRUPTED.set(Some(false));
    let result = remote();
    if IS_INTERRUPTED.take() == Some(true) {
        exit_if_due(cancellation);
    }
    result
}

/// Returns the record of the program's thread that the caller runs as, if cancellation may interrupt its
/// current call.
pub(crate) fn interruptible_caller() -> Option<&'static Thread> {
    IS_INTERRUPTED.get().and_then(|_| thread::try_current()).map(migrate::origin)
}

/// Records that the current call was interrupted, or was not made because the thread is to end.
pub(crate) fn set_interrupted() {
    IS_INTERRUPTED.set(Some(true));
}

/// Makes a C library call that is a cancellation point in this process.
pub(crate) fn local_cancellation_point<T>(call: impl FnOnce() -> T) -> T {
    let Some(cancellation) = current() else { return call() };
    exit_if_due(cancellation);
    if is_migrated() || cancellation.is_disabled() {
        return call();
    }
    let before = set_cancel_state(ENABLE);
    let result = call();
    set_cancel_state(before);
    result
}

/// Sleeps on a word at a cancellation point. Returns `ECANCELED` if the thread is to end, `EINTR` if it ran a
/// signal handler, and otherwise 0, which may be spurious.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) -> c_int {
    match current() {
        Some(cancellation) => {
            cancellation.sleep(word, expected);
            if cancellation.is_due() { libc::ECANCELED } else { 0 }
        }
        None if separate_processes::is_enabled() => {
            park::sleep(word, expected);
            0
        }
        // SAFETY: the deadline is null.
        None => unsafe { sleep_until(word, expected, libc::CLOCK_REALTIME, ptr::null()) },
    }
}

/// As [`sleep`] in a program that is not a job, until an optional deadline, at which it returns `ETIMEDOUT`.
/// The caller checks for cancellation after it has released its resources.
///
/// # Safety
/// `until` can be read, or is null.
pub(crate) unsafe fn sleep_until(
    word: &AtomicU32,
    expected: u32,
    clock: libc::clockid_t,
    until: *const libc::timespec,
) -> c_int {
    let before = set_cancel_state(MASKED);
    if before == DISABLE {
        set_cancel_state(DISABLE);
    }
    let mut ended = 0;
    local::mark_asleep_while(|| {
        // SAFETY: the word is alive; the caller guarantees the rest.
        ended = unsafe { __timedwait_cp(word, expected.cast_signed(), clock, until, sys::futex_flags()) };
    });
    set_cancel_state(before);
    ended
}

/// Returns whether the calling thread is to end at the next cancellation point.
pub(crate) fn is_due() -> bool {
    current().is_some_and(Cancellation::is_due)
}

/// Acts as a cancellation point.
pub(crate) fn test_cancel() {
    match current() {
        Some(cancellation) => exit_if_due(cancellation),
        None if separate_processes::is_enabled() => {}
        // SAFETY: the call has no arguments.
        None => unsafe { __real_pthread_testcancel() },
    }
}

/// `pthread_testcancel`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_testcancel() {
    test_cancel();
}

/// `pthread_setcancelstate`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int {
    let Some(cancellation) = current() else {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_pthread_setcancelstate(state, before) };
    };
    if state != ENABLE && state != DISABLE {
        return libc::EINVAL;
    }
    let was_disabled = cancellation.disable(state == DISABLE);
    if !before.is_null() {
        // SAFETY: the caller guarantees that `before` can be written.
        unsafe { before.write(c_int::from(was_disabled)) };
    }
    0
}

/// `pthread_setcanceltype`. Asynchronous cancellation is not supported for a thread that may run on any node.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
    if current().is_some() && kind != DEFERRED {
        return libc::ENOTSUP;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_pthread_setcanceltype(kind, before) }
}
