//! Streams of the C library in an image: one that the program's process has opened is used by its workers
//! too.
//!
//! A stream lies in the arena, as all that `malloc` gave; what it reads and writes by is a descriptor of one
//! process. So what musl does at a stream's end, reading, writing, seeking and closing, is done in the
//! program's process for those that a worker has not opened itself. A lock of a stream sleeps in a way that
//! only its own process can wake; here a thread that has to wait tries again after a while.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use tombolo_omp_domains::request::{self, RequestKind};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{exclusive, sys};

/// Where musl 1.2 has a stream's lock, in bytes.
const LOCK: usize = 140;
/// A bit of the lock: a thread sleeps on it.
const MAYBE_WAITERS: i32 = 0x4000_0000;
/// Descriptors of a worker's own streams begin here, where those of the program's process seldom get to: one
/// that another process has by mistake is an error there, and no other file.
const OWN: c_int = 512;
/// Streams that a worker can have opened itself.
const KEPT: usize = 256;
/// The longest pause between looks at a lock, in microseconds.
const PAUSE_US: u32 = 1000;

static OPENED: [AtomicUsize; KEPT] = [const { AtomicUsize::new(0) }; KEPT];

// SAFETY: as the C library has them; the linker has named them so.
unsafe extern "C" {
    fn __real___lockfile(stream: *mut c_void) -> c_int;
    fn __real___fdopen(descriptor: c_int, mode: *const c_char) -> *mut c_void;
    fn __real___stdio_read(stream: *mut c_void, buffer: *mut u8, length: usize) -> usize;
    fn __real___stdio_write(stream: *mut c_void, buffer: *const u8, length: usize) -> usize;
    fn __real___stdio_seek(stream: *mut c_void, offset: i64, whence: c_int) -> i64;
    fn __real___stdio_close(stream: *mut c_void) -> c_int;
}

/// What is done at a stream's end.
#[derive(Clone, Copy)]
#[repr(u64)]
enum StreamCall {
    Read = 1,
    Write = 2,
    Seek = 3,
    Close = 4,
}

/// Has the program's process do for workers what is done at the ends of its streams.
pub(crate) fn serve() {
    request::serve_calls(do_here);
}

/// Does what is done at a stream's end, in this process.
fn do_here([end, stream, first, second]: [u64; 4]) -> u64 {
    let stream = stream as *mut c_void;
    let length = usize::try_from(first).unwrap_or(0);
    // SAFETY: a worker's thread was called with these, by the C library.
    unsafe {
        match end {
            1 => __real___stdio_read(stream, second as *mut u8, length) as u64,
            2 => __real___stdio_write(stream, second as *const u8, length) as u64,
            3 => __real___stdio_seek(stream, first.cast_signed(), c_int::try_from(second).unwrap_or(-1))
                .cast_unsigned(),
            4 => i64::from(__real___stdio_close(stream)).cast_unsigned(),
            _ => 0,
        }
    }
}

/// Whether a stream was opened by another process.
fn is_foreign(stream: *mut c_void) -> bool {
    let stream = stream as usize;
    exclusive::is_worker()
        && start::root().store.holds(stream)
        && !OPENED.iter().any(|opened| opened.load(Ordering::Relaxed) == stream)
}

/// Has the program's process do what is done at a stream's end; `None` for one of this process.
fn elsewhere(end: StreamCall, stream: *mut c_void, first: u64, second: u64) -> Option<u64> {
    if !is_foreign(stream) {
        return None;
    }
    let me = tombolo_omp_team::job::start::current();
    Some(request::ask(me, RequestKind::Call, [end as u64, stream as u64, first, second]).1)
}

/// Reads from a stream's file.
///
/// # Safety
/// As the C library calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___stdio_read(stream: *mut c_void, buffer: *mut u8, length: usize) -> usize {
    match elsewhere(StreamCall::Read, stream, length as u64, buffer as u64) {
        Some(read) => usize::try_from(read).unwrap_or(0),
        // SAFETY: the caller says so.
        None => unsafe { __real___stdio_read(stream, buffer, length) },
    }
}

/// Writes to a stream's file.
///
/// # Safety
/// As the C library calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___stdio_write(
    stream: *mut c_void,
    buffer: *const u8,
    length: usize,
) -> usize {
    match elsewhere(StreamCall::Write, stream, length as u64, buffer as u64) {
        Some(written) => usize::try_from(written).unwrap_or(0),
        // SAFETY: the caller says so.
        None => unsafe { __real___stdio_write(stream, buffer, length) },
    }
}

/// Moves to another place in a stream's file.
///
/// # Safety
/// As the C library calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___stdio_seek(stream: *mut c_void, offset: i64, whence: c_int) -> i64 {
    match elsewhere(StreamCall::Seek, stream, offset.cast_unsigned(), i64::from(whence).cast_unsigned()) {
        Some(place) => place.cast_signed(),
        // SAFETY: the caller says so.
        None => unsafe { __real___stdio_seek(stream, offset, whence) },
    }
}

/// Closes a stream's file.
///
/// # Safety
/// As the C library calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___stdio_close(stream: *mut c_void) -> c_int {
    match elsewhere(StreamCall::Close, stream, 0, 0) {
        Some(result) => c_int::try_from(result.cast_signed()).unwrap_or(-1),
        None => {
            for opened in &OPENED {
                let _ = opened.compare_exchange(stream as usize, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            // SAFETY: the caller says so.
            unsafe { __real___stdio_close(stream) }
        }
    }
}

/// Makes a stream of a descriptor.
///
/// # Safety
/// As `fdopen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___fdopen(descriptor: c_int, mode: *const c_char) -> *mut c_void {
    if !exclusive::is_worker() {
        // SAFETY: the caller says so.
        return unsafe { __real___fdopen(descriptor, mode) };
    }
    let place = OPENED
        .iter()
        .find(|place| place.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    let Some(place) = place else {
        // SAFETY: the place of errors is this thread's own.
        unsafe { *libc::__errno_location() = libc::EMFILE };
        return std::ptr::null_mut();
    };
    // SAFETY: the caller's descriptor becomes the stream's, under another number if there is one.
    let stream = unsafe {
        let higher = libc::fcntl(descriptor, libc::F_DUPFD, OWN);
        let stream = __real___fdopen(if higher < 0 { descriptor } else { higher }, mode);
        match (stream.is_null(), higher) {
            (_, ..0) => {}
            (false, _) => {
                libc::close(descriptor);
            }
            (true, higher) => {
                libc::close(higher);
            }
        }
        stream
    };
    place.store(stream as usize, Ordering::Relaxed);
    stream
}

/// `fdopen`.
///
/// # Safety
/// As `fdopen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fdopen(descriptor: c_int, mode: *const c_char) -> *mut c_void {
    // SAFETY: the caller says so.
    unsafe { __wrap___fdopen(descriptor, mode) }
}

/// Takes a stream's lock; 0 if the thread has it already.
///
/// # Safety
/// As the C library calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___lockfile(stream: *mut c_void) -> c_int {
    if !exclusive::is_on() || !start::root().store.holds(stream as usize) {
        // SAFETY: the caller says so.
        return unsafe { __real___lockfile(stream) };
    }
    // SAFETY: the stream has its lock there.
    let lock = unsafe { &*stream.cast::<u8>().add(LOCK).cast::<AtomicI32>() };
    let me = i32::try_from(sys::thread_number()).unwrap_or(1);
    if lock.load(Ordering::Relaxed) & !MAYBE_WAITERS == me {
        return 0;
    }
    let mut pause_us = 1;
    while lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        sys::sleep_for(pause_us);
        pause_us = (pause_us * 2).min(PAUSE_US);
    }
    1
}
