//! Reports polls that found messages to the `sched_yield` of ranks (`libtombolo-yield.so`), so that it does
//! not yield the processor of a rank that has work.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Symbol of the library's counter of successful polls.
const SYMBOL: &CStr = c"tombolo_yield_found";

// SAFETY: declared as in the C library.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Pointer to the counter; null if the library is not loaded.
static COUNTER: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Looks up the counter in the libraries loaded at process start.
pub(crate) fn look_up_counter() {
    // SAFETY: a null handle is `RTLD_DEFAULT`, and the name ends with a zero.
    let symbol = unsafe { dlsym(ptr::null_mut(), SYMBOL.as_ptr()) };
    COUNTER.store(symbol.cast(), Ordering::Relaxed);
}

/// Counts a poll that found something.
#[inline]
pub(crate) fn count_message_found() {
    // SAFETY: null, or the counter of a library that was loaded at process start and is never unloaded.
    if let Some(counter) = unsafe { COUNTER.load(Ordering::Relaxed).as_ref() } {
        // If several threads count at once a count may be lost. That is harmless: with several threads
        // every `sched_yield` yields anyway.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}
