//! Tells the `sched_yield` of ranks (`libtombolo-yield.so`) which looks for messages found some, so that it
//! does not give away the processor of a rank that has something to do.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What that library counts such looks in.
const NAME: &CStr = c"tombolo_yield_found";

// SAFETY: as the C library declares it.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Null where the process is without that library.
static FOUND: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Looks for the library among those that the process began with.
pub(crate) fn find() {
    // SAFETY: a null handle is `RTLD_DEFAULT`, and the name ends with a zero.
    let found = unsafe { dlsym(ptr::null_mut(), NAME.as_ptr()) };
    FOUND.store(found.cast(), Ordering::Relaxed);
}

/// A look has found something.
#[inline]
pub(crate) fn found() {
    // SAFETY: null, or the counter of a library that was loaded before the process began, and stays.
    if let Some(counter) = unsafe { FOUND.load(Ordering::Relaxed).as_ref() } {
        // Where several threads count at once one count is lost, which does no harm: then every call of all
        // of them yields.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}
