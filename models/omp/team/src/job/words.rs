//! The program's words and its environment, where all workers can read them.
//!
//! The kernel puts both on the stack that the first thread begins with, which no other process has.

use std::ffi::c_char;
use std::ptr;

use crate::primitives::store::Store;

// The name that is the C library's own: the other is the run-time's in an image.
// SAFETY: as the C library has it.
unsafe extern "C" {
    static mut __environ: *mut *mut c_char;
}

/// Copies a list of texts, which a null ends, into the store.
///
/// # Safety
/// It is such a list, and it does not change meanwhile.
#[must_use]
pub unsafe fn copy(store: &Store, list: *mut *mut c_char) -> *mut *mut c_char {
    if list.is_null() {
        return list;
    }
    let allocate = |bytes: usize, align: usize| match store.allocate(bytes, align) {
        Some(memory) => memory,
        None => store.exhausted(),
    };
    // SAFETY: the caller says so; what is written to was just allocated, so long.
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

/// The environment that this process has.
#[must_use]
pub fn environment() -> *mut *mut c_char {
    // SAFETY: a word that is read whole.
    unsafe { __environ }
}

/// Has this process use another list as its environment.
///
/// # Safety
/// It is a list of texts that stays, and no other thread looks at the environment meanwhile.
pub unsafe fn use_environment(list: *mut *mut c_char) {
    // SAFETY: the caller says so.
    unsafe { __environ = list };
}
