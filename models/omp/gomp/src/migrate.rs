//! What `tombolo_migrate.h` has, and what the code calls that `tombolo ompcc` puts in front of marked
//! functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use tombolo_omp_team::device::migrate::{self, Called};
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::{handlers, sys};
use tombolo_omp_team::team::task::Function;
use tombolo_omp_team::team::thread::{self, Left};

use crate::jumps;
use crate::threads::{__wrap_pthread_exit, status};

/// Why a handler of a signal cannot migrate: what it interrupts may be elsewhere, or about to go there.
const IN_HANDLER: &str = "a thread cannot migrate in a signal handler: have the handler set a variable, and call tombolo_migrate and marked functions where the program reads it";

fn number(node: u32) -> c_int {
    c_int::try_from(node).unwrap_or(c_int::MAX)
}

/// Has marked functions executed on a node from now on.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_migrate(node: c_int) -> c_int {
    let nodes = start::root().nodes().count();
    let Some(node) = u32::try_from(node).ok().filter(|node| *node < nodes) else {
        return status(libc::EINVAL);
    };
    match (handlers::is_running(), nodes) {
        // With one node there is nothing to remember.
        (true, 1) => 0,
        (true, _) => sys::fatal(IN_HANDLER),
        (false, _) => status(if migrate::set_node(start::current(), node) { 0 } else { libc::EINVAL }),
    }
}

/// The node that the caller is executed on.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_node() -> c_int {
    number(start::current().node)
}

/// How many nodes the job has.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_nodes() -> c_int {
    number(start::root().nodes().count())
}

/// The number of the node with a name.
///
/// # Safety
/// The name ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_node_named(name: *const c_char) -> c_int {
    // SAFETY: the caller says so.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    start::root().nodes().find(&name).map_or_else(|| status(libc::ENOENT), number)
}

/// Calls a function with a frame on the node that the caller is to migrate to. The frame once that has
/// returned; null, and the function was not called, if the caller is there; otherwise what the function
/// threw, which the caller throws again. A thread that executes a signal handler is not moved by the
/// run-time, and may not ask for it.
///
/// # Safety
/// The function may be called with the frame. It can be left as `longjmp` and `pthread_exit` leave it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tombolo_migrate_call(function: Function, frame: *mut c_void) -> *mut c_void {
    if handlers::is_running() {
        // One that has no record has never asked to.
        if thread::known().is_some_and(migrate::is_asked_to) {
            sys::fatal(IN_HANDLER);
        }
        return ptr::null_mut();
    }
    match migrate::call(start::current(), function, frame) {
        Called::NotYet => ptr::null_mut(),
        Called::Returned => frame,
        Called::Left(Left::Throw(exception)) => exception as *mut c_void,
        // SAFETY: the caller says so.
        Called::Left(Left::Jump(place, value)) => unsafe {
            jumps::__wrap_longjmp(place as *const usize, value)
        },
        // SAFETY: as above.
        Called::Left(Left::Exit(value)) => unsafe { __wrap_pthread_exit(value as *mut c_void) },
    }
}
