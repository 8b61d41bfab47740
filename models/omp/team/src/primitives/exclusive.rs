//! Workers with address spaces of their own.
//!
//! Before `main` begins, the program's variables are put into memory that all share, where they lie, and an
//! arena is mapped that the heap and all stacks are in. `main` runs on a stack of the arena, so that its
//! thread-local storage is shared as well. The thread that a process began with has a stack of its own; it
//! starts workers, or waits to be told to, and does nothing else. What is not shared is what the libraries
//! keep for themselves, and what the program maps by itself.
//!
//! Worker processes are of two kinds: children of the program, started by `job::forked`, for a program that
//! GCC linked as any other; and domains on nodes of a machine, for an image with builds that agree on
//! addresses.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sys;

/// What ends the workers of the job, when its program ends.
static AT_END: OnceLock<fn()> = OnceLock::new();
static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// Says that this job's workers have address spaces of their own, and what ends them.
pub fn turn_on(at_end: fn()) {
    let _ = AT_END.set(at_end);
}

/// Whether this job's workers have address spaces of their own.
pub fn is_on() -> bool {
    AT_END.get().is_some()
}

/// Says that this is a worker's process, not that of `main`.
pub fn become_worker() {
    IS_WORKER.store(true, Ordering::Release);
}

/// Whether this is a worker's process.
pub fn is_worker() -> bool {
    IS_WORKER.load(Ordering::Acquire)
}

/// Ends all workers. Called as the program ends, in any of its processes; what counts is that of `main`.
pub fn end() {
    if let Some(end) = AT_END.get()
        && !is_worker()
    {
        end();
    }
}

/// Maps part of a file at an address, in place of whatever was there.
///
/// # Safety
/// What was there is not in use, or is what the file has.
///
/// # Errors
/// The system's.
pub unsafe fn map_over(file: c_int, offset: u64, address: usize, length: usize) -> std::io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let offset = libc::off_t::try_from(offset).map_err(std::io::Error::other)?;
    // SAFETY: the caller says so.
    let mapped = unsafe { libc::mmap(address as *mut c_void, length, rights, flags, file, offset) };
    if mapped == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Copies memory into part of a file.
///
/// # Safety
/// There are that many bytes, and they do not change meanwhile.
///
/// # Errors
/// The system's.
pub unsafe fn copy_to(file: c_int, offset: u64, address: usize, length: usize) -> std::io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let offset = libc::off_t::try_from(offset).map_err(std::io::Error::other)?;
    // SAFETY: a new mapping anywhere, which is gone when this returns; the caller says the rest.
    unsafe {
        let mapped = libc::mmap(ptr::null_mut(), length, rights, libc::MAP_SHARED, file, offset);
        if mapped == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(address as *const u8, mapped.cast::<u8>(), length);
        libc::munmap(mapped, length);
    }
    Ok(())
}

/// Whether nothing lies in a range of addresses, which is reserved from then on.
pub fn reserve_at(address: usize, length: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces nothing.
    let mapped = unsafe { libc::mmap(address as *mut c_void, length, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    if mapped as usize != address {
        // A kernel, or an emulator, that does not know the flag takes the address for a wish.
        // SAFETY: it was just mapped, and nothing refers to it.
        unsafe { libc::munmap(mapped, length) };
        return false;
    }
    true
}

/// Whether the program has streams besides those that it began with.
static STREAMS: AtomicBool = AtomicBool::new(false);

/// The program has opened a stream.
pub fn stream_opened() {
    STREAMS.store(true, Ordering::Relaxed);
}

/// Writes what this process has buffered in streams, so that others' output comes behind it: each process has
/// its own copy of each stream, and a worker does not end as the program does. In an image streams are those
/// of all processes, and nothing is to be done.
#[inline]
pub fn flush() {
    if cfg!(target_env = "gnu") && is_on() {
        flush_streams();
    }
}

fn flush_streams() {
    // SAFETY: the C library's own streams.
    unsafe {
        if STREAMS.load(Ordering::Relaxed) {
            libc::fflush(ptr::null_mut());
        } else if __fpending(stdout) > 0 {
            libc::fflush(stdout);
        }
    }
}

/// Discards what the parent had buffered for the output when this process was forked: the parent writes it.
pub fn forget_output() {
    // SAFETY: the C library's own stream, of a process with one thread.
    unsafe { __fpurge(stdout) };
}

/// Looks at the lock of the stream of output, with pauses, before it is taken for one of a process that is
/// gone.
const LOOKS: u32 = 100;
const PAUSE_US: u32 = 1000;

/// Writes what the stream of output has buffered, if a process that is gone has not left it locked. Whether
/// it has not: otherwise nothing may wait for the lock any more.
pub fn flush_after_loss() -> bool {
    (0..LOOKS).any(|look| {
        sys::sleep_for(PAUSE_US * u32::from(look > 0));
        sys::write_output()
    })
}

/// Gives the stream of output a buffer that is not in the arena: each worker is to have its own.
pub fn keep_output_apart() {
    const SIZE: usize = 4096;
    // SAFETY: memory that is never given back, for the C library's own stream, before it is used.
    unsafe {
        let memory = sys::reserve(SIZE).unwrap_or(ptr::null_mut());
        let mode = if libc::isatty(1) == 1 { libc::_IOLBF } else { libc::_IOFBF };
        libc::setvbuf(stdout, memory.cast(), mode, SIZE);
    }
}

// SAFETY: as the C library has them.
unsafe extern "C" {
    static stdout: *mut libc::FILE;
    fn __fpurge(stream: *mut libc::FILE);
    fn __fpending(stream: *mut libc::FILE) -> usize;
}
