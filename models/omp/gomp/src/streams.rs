//! C library streams in programs whose workers are processes: each process has a copy of the streams that
//! were open when it was started.
//!
//! A stream has a lock for one process, and a buffer. Both are kept out of the arena, so that workers neither
//! deadlock on each other's locks nor write into each other's buffers.

use std::ffi::{c_char, c_int, c_void};
use std::mem;

use tombolo_omp_team::primitives::{separate_processes, sys};

use crate::heap;

const BUFFER: usize = 4096;

/// Opens a stream with the C library's function of this name.
///
/// # Safety
/// `call` calls its argument with the type of the function of this name.
unsafe fn open(name: &std::ffi::CStr, call: impl FnOnce(*mut c_void) -> *mut libc::FILE) -> *mut libc::FILE {
    // SAFETY: the name is null-terminated.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() {
        sys::fatal("the C library cannot open streams");
    }
    if !separate_processes::is_enabled() {
        return call(next);
    }
    heap::with_private_heap(|| {
        let stream = call(next);
        if !stream.is_null() {
            // SAFETY: the stream is new, and its buffer is never freed, as the stream does not free it.
            unsafe { libc::setvbuf(stream, libc::malloc(BUFFER).cast(), libc::_IOFBF, BUFFER) };
            separate_processes::record_stream_opened();
        }
        stream
    })
}

type Open = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
type OpenDescriptor = unsafe extern "C" fn(c_int, *const c_char) -> *mut libc::FILE;

/// `fopen`.
///
/// # Safety
/// Both strings are null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the C library's function has this type; the caller guarantees the rest.
    unsafe { open(c"fopen", |next| mem::transmute::<*mut c_void, Open>(next)(path, mode)) }
}

/// `fopen64`.
///
/// # Safety
/// Both strings are null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the C library's function has this type; the caller guarantees the rest.
    unsafe { open(c"fopen64", |next| mem::transmute::<*mut c_void, Open>(next)(path, mode)) }
}

/// `fdopen`.
///
/// # Safety
/// `mode` is null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(descriptor: c_int, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the C library's function has this type; the caller guarantees the rest.
    unsafe { open(c"fdopen", |next| mem::transmute::<*mut c_void, OpenDescriptor>(next)(descriptor, mode)) }
}
