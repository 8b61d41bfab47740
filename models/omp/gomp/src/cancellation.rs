//! Cancelling threads of POSIX (`pthread_cancel`) in an image.
//!
//! A request belongs to the thread that the program has, wherever that runs. It is followed at cancellation
//! points: waits of POSIX, sleeps, and calls of the C library that may wait. Where the thread runs as the one
//! that the C library made, such a call is also interrupted, by the C library's own request. Elsewhere that
//! would reach a thread of the run-time, so the C library's requests are let in around such calls only.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::primitives::{exclusive, park, sys};
use tombolo_omp_team::team::cancellation::Cancellation;
use tombolo_omp_team::team::root;
use tombolo_omp_team::team::shown::Role;
use tombolo_omp_team::team::thread::{self, Thread};

use crate::process::forward::{Own, WORDS, is_elsewhere};
use crate::threads::{self, NOT_HERE, status};

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
/// What a thread that was cancelled ends with (`PTHREAD_CANCELED`).
const CANCELED: usize = usize::MAX;

/// How long a thread sleeps on another node before it looks whether it is to end, in nanoseconds.
const SLICE_NS: i64 = 20_000_000;

// SAFETY: the C library's functions of these names; the linker has named them so.
unsafe extern "C" {
    fn __real_pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn __real_pthread_testcancel();
    fn __real_pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn __real_pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    fn __real_clock_nanosleep(
        clock: libc::clockid_t,
        flags: c_int,
        time: *const libc::timespec,
        left: *mut libc::timespec,
    ) -> c_int;
}

/// What the calling thread was asked, if it is one of the program's that has begun with [`begin`].
fn own() -> Option<&'static Cancellation> {
    let origin = migrate::origin(thread::known()?);
    is_of_program(origin).then_some(&origin.cancellation)
}

fn is_of_program(record: &Thread) -> bool {
    matches!(record.shown.role(), Role::Main | Role::Created)
}

/// Whether the calling thread runs for one that another process or another thread of the C library is.
fn is_elsewhere_than_made() -> bool {
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
        unsafe { threads::__wrap_pthread_exit(CANCELED as *mut c_void) }
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

/// `pthread_cancel`. The process that made the thread asks it.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_cancel(thread: libc::pthread_t) -> c_int {
    if threads::is_made_elsewhere(thread) {
        return threads::where_made(Own::Cancel, thread, 0);
    }
    // SAFETY: the caller says so.
    unsafe { cancel(thread) }
}

/// Makes such a call for another process.
///
/// # Safety
/// The words are those of such a call.
pub(crate) unsafe fn serve(&[thread, ..]: &[u64; WORDS]) -> u64 {
    let thread = thread as libc::pthread_t;
    if !threads::is_here(thread) {
        return NOT_HERE;
    }
    // SAFETY: a thread of the job waits for this, and had these words.
    u64::from(unsafe { cancel(thread) }.unsigned_abs())
}

/// Asks a thread of this process to end.
///
/// # Safety
/// As `pthread_cancel`.
unsafe fn cancel(thread: libc::pthread_t) -> c_int {
    // SAFETY: the caller says so.
    let failed = unsafe { __real_pthread_cancel(thread) };
    // A thread that begins has its record before it looks for the C library's request.
    sys::full_fence();
    if let Some(root) = root::current()
        && let Some(record) = root.threads().find(|record| is_of(record, thread))
    {
        record.cancellation.ask();
    }
    failed
}

/// Whether a record is that of a thread of the program, by what the C library calls it.
fn is_of(record: &Thread, thread: libc::pthread_t) -> bool {
    is_of_program(record) && record.shown.handle() == thread as usize
}

/// A time of a clock in nanoseconds; `None` if it is not one.
fn nanoseconds(time: &libc::timespec) -> Option<i64> {
    let is_one = time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    is_one.then(|| time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

fn timespec(nanoseconds: i64) -> libc::timespec {
    libc::timespec { tv_sec: nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 }
}

/// `clock_nanosleep`. A thread that runs elsewhere than where it was made looks now and then whether it is to
/// end.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    let now = || {
        let mut now = timespec(0);
        // SAFETY: the time is ours to write.
        (unsafe { libc::clock_gettime(clock, &raw mut now) } == 0).then(|| nanoseconds(&now)).flatten()
    };
    // SAFETY: the caller says that it can be read.
    let length = nanoseconds(unsafe { &*time });
    let (true, Some(length), Some(began)) = (is_elsewhere_than_made(), length, now()) else {
        // SAFETY: the caller says so.
        return point_here(|| unsafe { __real_clock_nanosleep(clock, flags, time, left) });
    };
    let is_until = flags & libc::TIMER_ABSTIME != 0;
    let end = if is_until { length } else { began.saturating_add(length) };
    loop {
        follow();
        let more = end.saturating_sub(now().unwrap_or(end));
        if more <= 0 {
            return 0;
        }
        let slice = timespec(more.min(SLICE_NS));
        // SAFETY: the time is ours.
        let failed = unsafe { __real_clock_nanosleep(clock, 0, &raw const slice, ptr::null_mut()) };
        if failed != 0 {
            if !is_until && !left.is_null() {
                // SAFETY: the caller says that it can be written.
                unsafe { left.write(timespec(end.saturating_sub(now().unwrap_or(end)).max(0))) };
            }
            return failed;
        }
    }
}

/// `nanosleep`.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int {
    // SAFETY: the caller says so.
    status(unsafe { __wrap_clock_nanosleep(libc::CLOCK_REALTIME, 0, time, left) })
}
