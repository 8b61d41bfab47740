//! C++ exceptions: one that is thrown or handled belongs to its thread of the C library, and could not be
//! thrown again or freed by another.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// What the C++ run-time keeps of a thread (`__cxa_eh_globals` of the Itanium C++ ABI).
#[repr(C)]
struct Globals {
    /// Those that are being handled.
    caught: *const c_void,
    /// Those that are on their way to a handler.
    uncaught: c_uint,
}

// A reference that is 0 in a program without exceptions, which has no such function.
std::arch::global_asm!(
    ".weak __cxa_get_globals",
    ".pushsection .data.rel.ro.tombolo_omp_exceptions, \"aw\"",
    ".balign 8",
    ".globl tombolo_omp_exceptions",
    ".hidden tombolo_omp_exceptions",
    "tombolo_omp_exceptions: .quad __cxa_get_globals",
    ".popsection",
);

// SAFETY: the word above, which nothing writes.
unsafe extern "C" {
    static tombolo_omp_exceptions: AtomicPtr<c_void>;
}

/// Whether this thread handles an exception, or one is on its way through it.
pub(crate) fn is_held() -> bool {
    // SAFETY: the word above.
    let function = unsafe { tombolo_omp_exceptions.load(Ordering::Relaxed) };
    if function.is_null() {
        return false;
    }
    // SAFETY: the C++ run-time's function of this name and type.
    let get: unsafe extern "C" fn() -> *const Globals = unsafe { std::mem::transmute(function) };
    // SAFETY: it has no arguments, and what it returns is this thread's.
    let globals = unsafe { &*get() };
    !globals.caught.is_null() || globals.uncaught > 0
}
