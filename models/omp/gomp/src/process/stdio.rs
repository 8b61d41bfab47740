//! Streams of the C library in an image: each is one stream on all nodes.
//!
//! A stream lies in memory that all processes share: in the arena, as all that `malloc` gave, or among the
//! program's variables, where `tombolo ompcc` puts the standard ones. So threads of all nodes have one
//! buffer, and what one writes before another is before it. What a stream reads and writes by is called in
//! the program's process (`calls`). A lock of a stream sleeps in a way that only its own process can wake,
//! and knows its owner by a number of one kernel; here a thread that has to wait tries again after a while,
//! and the number has the node in it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{exclusive, sys};
use tombolo_omp_team::team::thread;

use super::forward::{Own, WORDS, Word, ask, is_elsewhere};
use crate::variables;

/// Where musl 1.2 has a stream's lock, in bytes.
const LOCK: usize = 140;
/// A bit of the lock: a thread sleeps on it.
const MAYBE_WAITERS: i32 = 0x4000_0000;
/// Bits of the kernel's numbers of threads, below those of the node.
const THREAD_BITS: u32 = 22;
/// The longest pause between looks at a lock, in microseconds.
const PAUSE_US: u32 = 1000;

// SAFETY: as the C library has them; the linker has named them so.
unsafe extern "C" {
    fn __real___lockfile(stream: *mut c_void) -> c_int;
    fn __real_fflush(stream: *mut c_void) -> c_int;
}

/// Takes a stream's lock; 0 if the thread has it already.
///
/// # Safety
/// As the C library calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___lockfile(stream: *mut c_void) -> c_int {
    let address = stream as usize;
    if !exclusive::is_on() || !(start::root().store.holds(address) || variables::holds(address)) {
        // SAFETY: the caller says so.
        return unsafe { __real___lockfile(stream) };
    }
    // SAFETY: the stream has its lock there.
    let lock = unsafe { &*stream.cast::<u8>().add(LOCK).cast::<AtomicI32>() };
    let kernel = i32::try_from(sys::thread_number()).unwrap_or(1);
    let node = thread::known().map_or(0, |me| me.node).cast_signed();
    let me = (kernel & ((1 << THREAD_BITS) - 1)) | (node << THREAD_BITS);
    let owner = lock.load(Ordering::Relaxed) & !MAYBE_WAITERS;
    // `flockfile` has the kernel's number there.
    if owner == me || owner == kernel {
        return 0;
    }
    let mut pause_us = 1;
    while lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        sys::sleep_for(pause_us);
        pause_us = (pause_us * 2).min(PAUSE_US);
    }
    1
}

/// Writes what a stream has buffered; the list of all streams is that of the program's process.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_fflush")]
pub unsafe extern "C" fn fflush(stream: *mut c_void) -> c_int {
    if stream.is_null() && is_elsewhere() {
        return c_int::from_word(ask(Own::Fflush as usize, &[0]));
    }
    // SAFETY: the caller says so.
    unsafe { __real_fflush(stream) }
}

/// Makes such a call for another process.
///
/// # Safety
/// The words are those of such a call.
pub(super) unsafe fn serve_fflush(&[stream, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the caller says that it is the word of such a call.
    unsafe { __real_fflush(Word::from_word(stream)) }.to_word()
}
