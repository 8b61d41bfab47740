//! Copies of the program's arguments and environment that all workers can read.
//!
//! The kernel puts both on the initial stack of the first thread, which is private to its process.

use std::ffi::c_char;
use std::ptr;

use crate::primitives::store::Store;

// The C library's internal name: the public one is the run-time's in an image.
// SAFETY: declared as in the C library.
unsafe extern "C" {
    static mut __environ: *mut *mut c_char;
}

/// Copies a null-terminated list of C strings into the store.
///
/// # Safety
/// The list must be valid and must not change meanwhile.
#[must_use]
pub unsafe fn copy(store: &Store, list: *mut *mut c_char) -> *mut *mut c_char {
    if list.is_null() {
        return list;
    }
    let allocate = |bytes: usize, align: usize| match store.allocate(bytes, align) {
        Some(memory) => memory,
        None => store.exhausted(),
    };
    // SAFETY: the caller guarantees the list; the memory written to was allocated with that length.
    unsafe {
        let count = (0..).take_while(|&index| !(*list.add(index)).is_null()).count();
        let copy: *mut *mut c_char =
            allocate((count + 1) * size_of::<*mut c_char>(), align_of::<*mut c_char>()).cast();
        for index in 0..count {
            let text = *list.add(index);
            let bytes = libc::strlen(text) + 1;
            let own: *mut c_char = allocate(bytes, 1).cast();
            ptr::copy_nonoverlapping(text, own, bytes);
            copy.add(index).write(own);
        }
        copy.add(count).write(ptr::null_mut());
        copy
    }
}

/// Returns the environment of this process.
#[must_use]
pub fn environment() -> *mut *mut c_char {
    // SAFETY: reads one word.
    unsafe { __environ }
}

/// Replaces the environment of this process.
///
/// # Safety
/// The list must be a null-terminated list of C strings that is never freed, and no other thread may access
/// the environment meanwhile.
pub unsafe fn use_environment(list: *mut *mut c_char) {
    // SAFETY: guaranteed by the caller.
    unsafe { __environ = list };
}
