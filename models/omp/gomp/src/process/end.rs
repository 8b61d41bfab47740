//! The end of the program: it is that of the program's process, wherever it is asked for.

use std::ffi::c_int;

use crate::thread_objects;

use super::forward::{Own, WORDS, Word, ask, is_elsewhere};

// SAFETY: the C library's functions of these names; the linker has named them so.
unsafe extern "C" {
    fn __real_exit(status: c_int) -> !;
    fn __real__Exit(status: c_int) -> !;
}

/// Ends the program with what it has to do at its end, which is done in the program's process.
#[unsafe(export_name = "__wrap_exit")]
pub extern "C" fn exit(status: c_int) -> ! {
    thread_objects::destroy();
    if is_elsewhere() {
        ask(Own::Exit as usize, &[status.to_word()]);
    }
    // SAFETY: the call does not return.
    unsafe { __real_exit(status) }
}

/// Makes such a call for another process.
///
/// # Safety
/// The words are those of such a call.
pub(super) unsafe fn serve_exit(&[status, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the call does not return.
    unsafe { __real_exit(c_int::from_word(status)) }
}

/// Ends the program at once; the C library's `_exit` calls this as well.
#[unsafe(export_name = "__wrap__Exit")]
pub extern "C" fn exit_at_once(status: c_int) -> ! {
    if is_elsewhere() {
        ask(Own::ExitAtOnce as usize, &[status.to_word()]);
    }
    // SAFETY: the call does not return.
    unsafe { __real__Exit(status) }
}

/// Makes such a call for another process.
///
/// # Safety
/// The words are those of such a call.
pub(super) unsafe fn serve_exit_at_once(&[status, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the call does not return.
    unsafe { __real__Exit(c_int::from_word(status)) }
}
