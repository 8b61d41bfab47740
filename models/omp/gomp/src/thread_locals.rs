//! Thread-local variables of the program: each thread that the C library makes begins with its own.

use std::ffi::c_void;

use tombolo_omp_team::primitives::thread_block;

// SAFETY: the C library's functions of these names, as the linker has named them.
unsafe extern "C" {
    fn __real___copy_tls(memory: *mut u8) -> *mut c_void;
    fn __real_pthread_self() -> libc::pthread_t;
}

/// Makes the thread-local variables of a thread that is to begin. What it returns is what the thread will be
/// called.
///
/// # Safety
/// As the C library calls it, by the thread that creates the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___copy_tls(memory: *mut u8) -> *mut c_void {
    // SAFETY: the caller says so; both threads' blocks are made by this function, or as by it.
    unsafe {
        let thread = __real___copy_tls(memory);
        thread_block::begin_of(thread as usize, __real_pthread_self() as usize);
        thread
    }
}
