//! Environment as the run-time sees it: the one that the process was started with.
//!
//! The program has one environment on all nodes, which `setenv` changes for all: the C library's variable
//! that points to it is in shared memory. The run-time looks up variables before that memory is mapped, and
//! in threads that serve its pages. So its archive has `environ` and `getenv` renamed to these symbols
//! (`cargo xtask kit`).

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

// SAFETY: declared as in the C library.
unsafe extern "C" {
    static __environ: *mut *mut c_char;
}

/// Environment of this process; null until [`capture`] is called.
#[unsafe(no_mangle)]
pub static __tombolo_omp_environ: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());

/// Saves the environment that the process was started with, before anything changes it.
pub(crate) fn capture() {
    // SAFETY: reads an aligned word.
    __tombolo_omp_environ.store(unsafe { __environ }, Ordering::Relaxed);
}

/// Returns the value of a variable, or null.
///
/// # Safety
/// `name` is null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tombolo_omp_getenv(name: *const c_char) -> *mut c_char {
    let list = __tombolo_omp_environ.load(Ordering::Relaxed);
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if list.is_null() || name.is_empty() {
        return ptr::null_mut();
    }
    for index in 0.. {
        // SAFETY: the list is terminated by a null pointer, and its entries are null-terminated strings.
        let entry = unsafe { *list.add(index) };
        if entry.is_null() {
            break;
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if text.starts_with(name) && text.get(name.len()) == Some(&b'=') {
            // SAFETY: the string is longer than that, by its terminator at least.
            return unsafe { entry.add(name.len() + 1) };
        }
    }
    ptr::null_mut()
}
