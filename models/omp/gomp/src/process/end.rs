//! Exit of the program: it happens in the program's process, whichever process requests it.

use std::ffi::c_int;

use crate::thread_objects;

use super::forward::{OwnCall, WORDS, Word, forward_call, is_in_worker_process};

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real_exit(status: c_int) -> !;
    fn __real__Exit(status: c_int) -> !;
}

/// Ends the program; the program's process runs the exit handlers.
#[unsafe(export_name = "__wrap_exit")]
pub extern "C" fn exit(status: c_int) -> ! {
    thread_objects::destroy();
    if is_in_worker_process() {
        forward_call(OwnCall::Exit as usize, &[status.to_word()]);
    }
    // SAFETY: the call does not return.
    unsafe { __real_exit(status) }
}

/// Serves `exit` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_exit(&[status, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the call does not return.
    unsafe { __real_exit(c_int::from_word(status)) }
}

/// Ends the program without exit handlers; the C library's `_exit` calls this as well.
#[unsafe(export_name = "__wrap__Exit")]
pub extern "C" fn immediate_exit(status: c_int) -> ! {
    if is_in_worker_process() {
        forward_call(OwnCall::ImmediateExit as usize, &[status.to_word()]);
    }
    // SAFETY: the call does not return.
    unsafe { __real__Exit(status) }
}

/// Serves `_Exit` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_immediate_exit(&[status, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the call does not return.
    unsafe { __real__Exit(c_int::from_word(status)) }
}
