//! Signals that a thread raises on a node other than that of the program's process.
//!
//! Handlers belong to the program's process, which also receives signals to the process. A handler has the
//! same address in every build, so a thread that raises a signal calls it locally.

use std::ffi::c_int;
use std::ptr;

use super::forward::is_in_worker_process;
use super::{calls, handlers, identity};

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real_raise(signal: c_int) -> c_int;
}

/// `raise`.
#[unsafe(export_name = "__wrap_raise")]
pub extern "C" fn raise(signal: c_int) -> c_int {
    if !is_in_worker_process() {
        // SAFETY: the call takes no pointers.
        return unsafe { __real_raise(signal) };
    }
    // SAFETY: `sigaction` is plain data, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call only writes to the local variable.
    let known = unsafe { handlers::sigaction(signal, ptr::null(), &raw mut action) };
    match action.sa_sigaction {
        _ if known != 0 => -1,
        libc::SIG_IGN => 0,
        // SAFETY: the call takes no pointers.
        libc::SIG_DFL => unsafe { calls::kill(identity::getpid(), signal) },
        _ => {
            call_handler(signal, &action);
            0
        }
    }
}

/// Calls the handler of a signal as the kernel would.
fn call_handler(signal: c_int, action: &libc::sigaction) {
    // SAFETY: plain data, for which zeros are valid.
    let (mut info, mut masked): (libc::siginfo_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    info.si_signo = signal;
    info.si_code = libc::SI_TKILL;
    // SAFETY: the handler is the program's and takes the arguments that the kernel passes; the sets are local
    // variables.
    unsafe {
        if action.sa_flags & libc::SA_RESETHAND != 0 {
            let default: libc::sigaction = std::mem::zeroed();
            handlers::sigaction(signal, &raw const default, ptr::null_mut());
        }
        let mut blocked = action.sa_mask;
        if action.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut masked);
        let interrupted_sp = (&raw const info) as usize;
        handlers::call_program_handler(
            action.sa_sigaction,
            interrupted_sp,
            (signal, &raw mut info, ptr::null_mut()),
        );
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const masked, ptr::null_mut());
    }
}
