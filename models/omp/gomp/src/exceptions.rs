//! Exception state of a C++ program, which migrates with its threads.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use tombolo_omp_team::device::exceptions::{self, Exceptions};

// Weak references, 0 in a program without exceptions. The second function comes with the thunks of migrating
// functions (`tombolo ompcc`).
std::arch::global_asm!(
    ".weak __cxa_get_globals",
    ".weak __tombolo_catch",
    ".pushsection .data.rel.ro.tombolo_omp_exceptions, \"aw\"",
    ".balign 8",
    ".globl tombolo_omp_exceptions",
    ".hidden tombolo_omp_exceptions",
    "tombolo_omp_exceptions: .quad __cxa_get_globals, __tombolo_catch",
    ".popsection",
);

// SAFETY: the two words above are constant.
unsafe extern "C" {
    static tombolo_omp_exceptions: [AtomicPtr<c_void>; 2];
}

/// Registers the functions with which exceptions migrate. Called in each process before any exception is
/// thrown.
pub(crate) fn begin() {
    // SAFETY: the two words above are constant.
    let [globals, catch] =
        unsafe { &tombolo_omp_exceptions }.each_ref().map(|word| word.load(Ordering::Relaxed));
    if globals.is_null() {
        return;
    }
    // SAFETY: the functions have these types; a null pointer becomes `None`.
    exceptions::register(unsafe {
        Exceptions {
            globals: std::mem::transmute::<*mut c_void, exceptions::GetGlobals>(globals),
            catch: std::mem::transmute::<*mut c_void, Option<exceptions::CatchCall>>(catch),
        }
    });
}
