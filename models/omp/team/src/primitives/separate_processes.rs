//! Workers with address spaces of their own.
//!
//! Before `main` begins, the program's variables are moved into shared memory at the same addresses, and an
//! arena is mapped for the heap and all stacks. `main` runs on a stack in the arena, so that its thread-local
//! storage is shared too. The first thread of a process has a private stack; it only starts workers or waits
//! for requests to do so. State internal to libraries is not shared, nor is what the program maps by itself.
//!
//! Worker processes are of two kinds: children of the program, started by `job::forked`, for a program that
//! GCC linked as usual; and domains on nodes of a machine, for an image whose builds agree on addresses.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::store::Store;
use super::sys;

/// Ends the job's workers when its program ends.
static TERMINATE_WORKERS: OnceLock<fn()> = OnceLock::new();
static IS_WORKER_PROCESS: AtomicBool = AtomicBool::new(false);
static IS_BEFORE_MAIN: AtomicBool = AtomicBool::new(false);
/// Addresses of the program's own code, if regions elsewhere have one thread.
static PROGRAM: OnceLock<Range<usize>> = OnceLock::new();
static ARE_REGIONS_LIMITED: AtomicBool = AtomicBool::new(false);

/// Declares that this job's workers have address spaces of their own, and sets the function that ends them.
pub fn enable(terminate: fn()) {
    let _ = TERMINATE_WORKERS.set(terminate);
}

/// Whether this job's workers have address spaces of their own.
pub fn is_enabled() -> bool {
    TERMINATE_WORKERS.get().is_some()
}

/// Sets whether this job exists before `main` has begun: constructors can use OpenMP.
pub fn set_before_main(is_before: bool) {
    IS_BEFORE_MAIN.store(is_before, Ordering::Relaxed);
    ARE_REGIONS_LIMITED.store(is_before || PROGRAM.get().is_some(), Ordering::Relaxed);
}

/// Whether `main` has not begun yet. Workers cannot be started then: the program's variables are not shared,
/// and the process's first thread, which starts workers, executes constructors.
pub fn is_before_main() -> bool {
    IS_BEFORE_MAIN.load(Ordering::Relaxed)
}

/// Limits regions with several threads to those of the program's own code, at these addresses.
pub fn limit_regions_to_program(program: Range<usize>) {
    let _ = PROGRAM.set(program);
    ARE_REGIONS_LIMITED.store(true, Ordering::Relaxed);
}

/// Whether some regions have one thread: those before `main`, or those of libraries.
#[inline]
pub fn are_regions_limited() -> bool {
    ARE_REGIONS_LIMITED.load(Ordering::Relaxed)
}

/// Whether a region of a function at this address has one thread because it is a library's.
pub fn is_of_limited_library(function: usize) -> bool {
    PROGRAM.get().is_some_and(|program| !program.contains(&function))
}

/// Whether the calling thread's stack is inaccessible to workers, so that its regions have one thread. In
/// images, stacks of threads created by the program are in the arena and thus accessible.
pub fn has_private_stack(store: &Store) -> bool {
    let here = 0_u8;
    cfg!(target_env = "gnu") && is_enabled() && !store.contains(ptr::from_ref(&here) as usize)
}

/// Marks this process as a worker's, not that of `main`.
pub fn mark_worker_process() {
    IS_WORKER_PROCESS.store(true, Ordering::Release);
}

/// Whether this is a worker's process.
pub fn is_worker_process() -> bool {
    IS_WORKER_PROCESS.load(Ordering::Acquire)
}

/// Ends all workers. Called in any process when the program ends; takes effect only in that of `main`.
pub fn terminate_workers() {
    if let Some(end) = TERMINATE_WORKERS.get()
        && !is_worker_process()
    {
        end();
    }
}

/// Maps part of a file at an address, replacing existing mappings.
///
/// # Safety
/// The replaced mappings must be unused or have the same content as the file.
///
/// # Errors
/// The error of the system call.
pub unsafe fn map_over(file: c_int, offset: u64, address: usize, length: usize) -> std::io::Result<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let offset = libc::off_t::try_from(offset).map_err(std::io::Error::other)?;
    // SAFETY: guaranteed by the caller.
    let mapped = unsafe { libc::mmap(address as *mut c_void, length, prot, flags, file, offset) };
    if mapped == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Copies memory into part of a file.
///
/// # Safety
/// The memory must be readable and must not change meanwhile.
///
/// # Errors
/// The error of the system call.
pub unsafe fn copy_to(file: c_int, offset: u64, address: usize, length: usize) -> std::io::Result<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let offset = libc::off_t::try_from(offset).map_err(std::io::Error::other)?;
    // SAFETY: a new mapping that is unmapped before returning; the caller guarantees the rest.
    unsafe {
        let mapped = libc::mmap(ptr::null_mut(), length, prot, libc::MAP_SHARED, file, offset);
        if mapped == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(address as *const u8, mapped.cast::<u8>(), length);
        libc::munmap(mapped, length);
    }
    Ok(())
}

/// Reserves a range of addresses. Returns whether it was free.
pub fn reserve_at(address: usize, length: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces nothing.
    let mapped = unsafe { libc::mmap(address as *mut c_void, length, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    if mapped as usize != address {
        // Kernels and emulators that do not know the flag treat the address as a hint.
        // SAFETY: it was just mapped, and nothing refers to it.
        unsafe { libc::munmap(mapped, length) };
        return false;
    }
    true
}

/// Whether the program has opened streams besides the standard ones.
static HAS_STREAMS: AtomicBool = AtomicBool::new(false);

/// Records that the program has opened a stream.
pub fn record_stream_opened() {
    HAS_STREAMS.store(true, Ordering::Relaxed);
}

/// Flushes this process's stdio buffers, so that later output of other processes follows it: each process has
/// its own copy of each stream, and a worker does not run the program's exit handlers. In an image, streams
/// are shared by all processes, and this does nothing.
#[inline]
pub fn flush() {
    if cfg!(target_env = "gnu") && is_enabled() {
        flush_streams();
    }
}

fn flush_streams() {
    // SAFETY: the C library's own streams.
    unsafe {
        if HAS_STREAMS.load(Ordering::Relaxed) {
            libc::fflush(ptr::null_mut());
        } else if __fpending(stdout) > 0 {
            libc::fflush(stdout);
        }
    }
}

/// Discards output that the parent had buffered at the fork; the parent writes it.
pub fn discard_output() {
    // SAFETY: the C library's own stream, in a process with one thread.
    unsafe { __fpurge(stdout) };
}

/// Number of attempts to lock `stdout`, with pauses, before the lock counts as left by a dead process.
const FLUSH_ATTEMPTS: u32 = 100;
const FLUSH_PAUSE_US: u32 = 1000;

/// Flushes `stdout` after the loss of a process. Returns false if that process left it locked: then nothing
/// may wait for the lock any more.
pub fn flush_after_loss() -> bool {
    (0..FLUSH_ATTEMPTS).any(|attempt| {
        sys::sleep_for(FLUSH_PAUSE_US * u32::from(attempt > 0));
        sys::try_flush_stdout()
    })
}

/// Gives `stdout` a buffer outside the arena, so that each worker has its own.
pub fn set_private_output_buffer() {
    const SIZE: usize = 4096;
    // SAFETY: sets memory that is never freed for the C library's own stream, before its first use.
    unsafe {
        let memory = sys::reserve(SIZE).unwrap_or(ptr::null_mut());
        let mode = if libc::isatty(1) == 1 { libc::_IOLBF } else { libc::_IOFBF };
        libc::setvbuf(stdout, memory.cast(), mode, SIZE);
    }
}

// SAFETY: declared as in the C library.
unsafe extern "C" {
    static stdout: *mut libc::FILE;
    fn __fpurge(stream: *mut libc::FILE);
    fn __fpending(stream: *mut libc::FILE) -> usize;
}
