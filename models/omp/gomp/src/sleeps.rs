//! Sleep functions of the program, which are cancellation points.

use std::ffi::c_int;
use std::ptr;

use crate::cancellation::{is_migrated, local_cancellation_point, test_cancel};
use crate::threads::errno_status;

/// Interval at which a thread that sleeps on another node checks for cancellation, in nanoseconds.
const POLL_INTERVAL_NS: i64 = 20_000_000;

// SAFETY: the C library's function; `--wrap` gives it this name.
unsafe extern "C" {
    fn __real_clock_nanosleep(
        clock: libc::clockid_t,
        flags: c_int,
        time: *const libc::timespec,
        remaining: *mut libc::timespec,
    ) -> c_int;
}

/// Converts a time to nanoseconds; `None` if it is invalid.
fn nanoseconds(time: &libc::timespec) -> Option<i64> {
    let is_one = time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    is_one.then(|| time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

fn timespec(nanoseconds: i64) -> libc::timespec {
    libc::timespec { tv_sec: nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 }
}

/// `clock_nanosleep`. A thread that runs elsewhere than where it was created polls for cancellation.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    remaining: *mut libc::timespec,
) -> c_int {
    let now = || {
        let mut now = timespec(0);
        // SAFETY: the time is a local variable.
        (unsafe { libc::clock_gettime(clock, &raw mut now) } == 0).then(|| nanoseconds(&now)).flatten()
    };
    // SAFETY: the caller guarantees that `time` can be read.
    let length = nanoseconds(unsafe { &*time });
    let (true, Some(length), Some(began)) = (is_migrated(), length, now()) else {
        // SAFETY: guaranteed by the caller.
        return local_cancellation_point(|| unsafe { __real_clock_nanosleep(clock, flags, time, remaining) });
    };
    let is_until = flags & libc::TIMER_ABSTIME != 0;
    let end = if is_until { length } else { began.saturating_add(length) };
    loop {
        test_cancel();
        let more = end.saturating_sub(now().unwrap_or(end));
        if more <= 0 {
            return 0;
        }
        let slice = timespec(more.min(POLL_INTERVAL_NS));
        // SAFETY: the time is a local variable.
        let failed = unsafe { __real_clock_nanosleep(clock, 0, &raw const slice, ptr::null_mut()) };
        if failed != 0 {
            if !is_until && !remaining.is_null() {
                // SAFETY: the caller guarantees that `remaining` can be written.
                unsafe { remaining.write(timespec(end.saturating_sub(now().unwrap_or(end)).max(0))) };
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
pub unsafe extern "C" fn __wrap_nanosleep(
    time: *const libc::timespec,
    remaining: *mut libc::timespec,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    errno_status(unsafe { __wrap_clock_nanosleep(libc::CLOCK_REALTIME, 0, time, remaining) })
}
