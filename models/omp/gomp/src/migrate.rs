//! Functions of `tombolo_migrate.h`, and the function that the thunks of `tombolo ompcc` call.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use tombolo_omp_team::device::migrate::{self, CallOutcome};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{handlers, sys};
use tombolo_omp_team::team::task::Function;
use tombolo_omp_team::team::thread::{self, CallExit};

use crate::jumps;
use crate::threads::{__wrap_pthread_exit, errno_status};

/// Error message for a migration in a signal handler: the code that it interrupts may run elsewhere, or be
/// about to migrate.
const IN_HANDLER: &str = "a thread cannot migrate in a signal handler: have the handler set a variable, and call tombolo_migrate and marked functions where the program reads it";

fn number(node: u32) -> c_int {
    c_int::try_from(node).unwrap_or(c_int::MAX)
}

/// Makes marked functions run on this node from now on.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_migrate(node: c_int) -> c_int {
    let nodes = start::root().nodes().count();
    let Some(node) = u32::try_from(node).ok().filter(|node| *node < nodes) else {
        return errno_status(libc::EINVAL);
    };
    match (handlers::is_running(), nodes) {
        // With one node there is nothing to record.
        (true, 1) => 0,
        (true, _) => sys::fatal(IN_HANDLER),
        (false, _) => errno_status(if migrate::set_node(start::current(), node) { 0 } else { libc::EINVAL }),
    }
}

/// Number of the node that the caller runs on.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_node() -> c_int {
    number(start::current().node)
}

/// Number of nodes of the job.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_nodes() -> c_int {
    number(start::root().nodes().count())
}

/// Returns the number of the node with this name, or -1 with `ENOENT`.
///
/// # Safety
/// `name` is null-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_node_named(name: *const c_char) -> c_int {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    start::root().nodes().find(&name).map_or_else(|| errno_status(libc::ENOENT), number)
}

/// Calls a function with a frame on the node that the caller is to migrate to. Returns the frame after the
/// function returned; null, without a call, if the caller is already there; otherwise the exception that the
/// function threw, which the caller throws again. A thread in a signal handler does not migrate, and must not
/// request it.
///
/// # Safety
/// `function` may be called with `frame`, and may be left by `longjmp` and `pthread_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tombolo_migrate_call(function: Function, frame: *mut c_void) -> *mut c_void {
    if handlers::is_running() {
        // A thread without a record has never requested a migration.
        if thread::try_current().is_some_and(migrate::has_pending_request) {
            sys::fatal(IN_HANDLER);
        }
        return ptr::null_mut();
    }
    match migrate::call(start::current(), function, frame) {
        CallOutcome::NotYet => ptr::null_mut(),
        CallOutcome::Returned => frame,
        CallOutcome::Exited(CallExit::Throw(exception)) => exception as *mut c_void,
        // SAFETY: guaranteed by the caller.
        CallOutcome::Exited(CallExit::Jump(place, value)) => unsafe {
            jumps::__wrap_longjmp(place as *const usize, value)
        },
        // SAFETY: as above.
        CallOutcome::Exited(CallExit::Exit(value)) => unsafe { __wrap_pthread_exit(value as *mut c_void) },
    }
}
