//! The environment as the run-time sees it: that with which the process was started.
//!
//! The program has one environment on all nodes, which `setenv` changes for all: the variable of the C
//! library that says where it is lies in memory that processes share. The run-time looks things up before
//! that memory is there, and in threads that provide it. So in its archive `environ` and `getenv` have these
//! names (`cargo xtask kit`).

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

// SAFETY: as the C library has it.
unsafe extern "C" {
    static __environ: *mut *mut c_char;
}

/// Where the environment of this process is; null before it is kept.
#[unsafe(no_mangle)]
pub static __tombolo_omp_environ: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());

/// Keeps what the process was started with, before anything changes it.
pub(crate) fn keep() {
    // SAFETY: a word that is read whole.
    __tombolo_omp_environ.store(unsafe { __environ }, Ordering::Relaxed);
}

/// The value of a variable, or null.
///
/// # Safety
/// The name ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tombolo_omp_getenv(name: *const c_char) -> *mut c_char {
    let list = __tombolo_omp_environ.load(Ordering::Relaxed);
    // SAFETY: the caller says so.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if list.is_null() || name.is_empty() {
        return ptr::null_mut();
    }
    for index in 0.. {
        // SAFETY: the list ends in a null, and has texts until then, which end in a zero.
        let entry = unsafe { *list.add(index) };
        if entry.is_null() {
            break;
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if text.starts_with(name) && text.get(name.len()) == Some(&b'=') {
            // SAFETY: the text is longer than that, by its zero at least.
            return unsafe { entry.add(name.len() + 1) };
        }
    }
    ptr::null_mut()
}
