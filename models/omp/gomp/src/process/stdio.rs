//! C library streams in an image: each is one stream on all nodes.
//!
//! A stream is in memory that all processes share: in the arena, like everything from `malloc`, or among the
//! program's variables, where `tombolo ompcc` places the standard streams. So threads of all nodes use one
//! buffer, and their output stays in order. The functions that a stream reads and writes with are called in
//! the program's process (`calls`). The C library's stream lock can wake sleepers of its own process only,
//! and identifies its owner by a thread id of one kernel. Here a thread that has to wait polls with
//! increasing pauses, and the owner's id includes the node.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{separate_processes, sys};
use tombolo_omp_team::team::thread;

use super::forward::{OwnCall, WORDS, Word, forward_call, is_in_worker_process};
use crate::variables;

/// Offset of a stream's lock in musl 1.2, in bytes.
const LOCK_OFFSET: usize = 140;
/// Bit of the lock: a thread sleeps on it.
const MAYBE_WAITERS: i32 = 0x4000_0000;
/// Number of bits of a kernel's thread id, below those of the node.
const THREAD_BITS: u32 = 22;
/// Longest pause between attempts to take a lock, in microseconds.
const PAUSE_MAX_US: u32 = 1000;

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real___lockfile(stream: *mut c_void) -> c_int;
    fn __real_fflush(stream: *mut c_void) -> c_int;
}

/// Acquires a stream's lock. Returns 0 if the thread holds it already.
///
/// # Safety
/// As for the C library's `__lockfile`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___lockfile(stream: *mut c_void) -> c_int {
    let address = stream as usize;
    if !separate_processes::is_enabled()
        || !(start::root().store.contains(address) || variables::contains(address))
    {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real___lockfile(stream) };
    }
    // SAFETY: the stream's lock is at this offset.
    let lock = unsafe { &*stream.cast::<u8>().add(LOCK_OFFSET).cast::<AtomicI32>() };
    let kernel = i32::try_from(sys::thread_id()).unwrap_or(1);
    let node = thread::try_current().map_or(0, |me| me.node).cast_signed();
    let me = (kernel & ((1 << THREAD_BITS) - 1)) | (node << THREAD_BITS);
    let owner = lock.load(Ordering::Relaxed) & !MAYBE_WAITERS;
    // `flockfile` stores the kernel's thread id.
    if owner == me || owner == kernel {
        return 0;
    }
    let mut pause_us = 1;
    while lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        sys::sleep_for(pause_us);
        pause_us = (pause_us * 2).min(PAUSE_MAX_US);
    }
    1
}

/// `fflush`. Without a stream it is forwarded, because the list of all streams is that of the program's
/// process.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_fflush")]
pub unsafe extern "C" fn fflush(stream: *mut c_void) -> c_int {
    if stream.is_null() && is_in_worker_process() {
        return c_int::from_word(forward_call(OwnCall::Fflush as usize, &[0]));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_fflush(stream) }
}

/// Serves `fflush` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_fflush(&[stream, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the caller guarantees that the word is an argument of `fflush`.
    unsafe { __real_fflush(Word::from_word(stream)) }.to_word()
}
