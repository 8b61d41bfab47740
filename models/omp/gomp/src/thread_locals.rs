//! Thread-local variables of the program: each thread that the C library creates starts with its own.

use std::ffi::c_void;

use tombolo_omp_team::primitives::thread_block;

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real___copy_tls(memory: *mut u8) -> *mut c_void;
    fn __real_pthread_self() -> libc::pthread_t;
}

/// Initializes the thread-local variables of a new thread and returns its handle.
///
/// # Safety
/// As for the C library's `__copy_tls`; called by the creating thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___copy_tls(memory: *mut u8) -> *mut c_void {
    // SAFETY: guaranteed by the caller; both threads' blocks are initialized by this function or in the same
    // way.
    unsafe {
        let thread = __real___copy_tls(memory);
        thread_block::init_for_thread(thread as usize, __real_pthread_self() as usize);
        thread
    }
}
