//! Process id: that of the program's process.

use std::sync::atomic::{AtomicI32, Ordering};

use super::forward::{OwnCall, WORDS, Word, forward_call, is_in_worker_process};

// SAFETY: the C library's function; `--wrap` gives it this name.
unsafe extern "C" {
    fn __real_getpid() -> libc::pid_t;
}

/// Cached id of the program's process; 0 until the first call.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// `getpid`, which returns the id of the program's process.
#[unsafe(export_name = "__wrap_getpid")]
pub extern "C" fn getpid() -> libc::pid_t {
    if !is_in_worker_process() {
        // SAFETY: the call has no arguments.
        return unsafe { __real_getpid() };
    }
    let known = PROCESS.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let asked = libc::pid_t::from_word(forward_call(OwnCall::Getpid as usize, &[]));
    PROCESS.store(asked, Ordering::Relaxed);
    asked
}

/// Serves `getpid` for another process.
pub(super) fn serve_getpid(_: &[u64; WORDS]) -> u64 {
    // SAFETY: the call has no arguments.
    unsafe { __real_getpid() }.to_word()
}
