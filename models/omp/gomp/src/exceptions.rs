//! What a program in C++ has for its exceptions, which go with threads to other nodes.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use tombolo_omp_team::device::exceptions::{self, Exceptions};

// References that are 0 in a program without exceptions, which has no such functions. The second comes with
// the code in front of marked functions (`tombolo ompcc`).
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

// SAFETY: the words above, which nothing writes.
unsafe extern "C" {
    static tombolo_omp_exceptions: [AtomicPtr<c_void>; 2];
}

/// Has exceptions of the program go with its threads. Called in each process, before it has any.
pub(crate) fn begin() {
    // SAFETY: the words above.
    let [held, catch] =
        unsafe { &tombolo_omp_exceptions }.each_ref().map(|word| word.load(Ordering::Relaxed));
    if held.is_null() {
        return;
    }
    // SAFETY: the functions of these names, which have these types; a null pointer is no function.
    exceptions::are_in_program(unsafe {
        Exceptions {
            held: std::mem::transmute::<*mut c_void, exceptions::Find>(held),
            catch: std::mem::transmute::<*mut c_void, Option<exceptions::Catch>>(catch),
        }
    });
}
