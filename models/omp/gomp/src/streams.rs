//! Streams of the C library, where workers are processes: each process has its own copy of what was open when
//! it was started.
//!
//! A stream has a lock that is for one process, and a buffer. Both are kept out of the arena, so that workers
//! do not wait for each other for ever, nor write into each other's buffers.

use std::ffi::{c_char, c_int, c_void};
use std::mem;

use tombolo_omp_team::primitives::{exclusive, sys};

use crate::heap;

const BUFFER: usize = 4096;

/// Opens a stream by the C library's function of this name.
///
/// # Safety
/// `call` calls a function of the type that the one of this name has.
unsafe fn open(name: &std::ffi::CStr, call: impl FnOnce(*mut c_void) -> *mut libc::FILE) -> *mut libc::FILE {
    // SAFETY: the name ends in a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if next.is_null() {
        sys::fatal("the C library cannot open streams");
    }
    if !exclusive::is_on() {
        return call(next);
    }
    heap::apart(|| {
        let stream = call(next);
        if !stream.is_null() {
            // SAFETY: a new stream, and memory that is never given back, as the stream does not do it.
            unsafe { libc::setvbuf(stream, libc::malloc(BUFFER).cast(), libc::_IOFBF, BUFFER) };
            exclusive::stream_opened();
        }
        stream
    })
}

type Open = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
type OpenDescriptor = unsafe extern "C" fn(c_int, *const c_char) -> *mut libc::FILE;

/// `fopen`.
///
/// # Safety
/// Both texts end in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the C library's function has this type; the caller says the rest.
    unsafe { open(c"fopen", |next| mem::transmute::<*mut c_void, Open>(next)(path, mode)) }
}

/// `fopen64`.
///
/// # Safety
/// Both texts end in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the C library's function has this type; the caller says the rest.
    unsafe { open(c"fopen64", |next| mem::transmute::<*mut c_void, Open>(next)(path, mode)) }
}

/// `fdopen`.
///
/// # Safety
/// The text ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(descriptor: c_int, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the C library's function has this type; the caller says the rest.
    unsafe { open(c"fdopen", |next| mem::transmute::<*mut c_void, OpenDescriptor>(next)(descriptor, mode)) }
}
