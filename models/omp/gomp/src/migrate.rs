//! What `tombolo_migrate.h` has, and what the code calls that `tombolo ompcc` puts in front of marked
//! functions.

use std::ffi::{CStr, c_char, c_int, c_void};

use tombolo_omp_team::device::migrate;
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::task::Function;

use crate::exceptions;
use crate::threads::status;

fn number(node: u32) -> c_int {
    c_int::try_from(node).unwrap_or(c_int::MAX)
}

/// Has marked functions executed on a node from now on.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_migrate(node: c_int) -> c_int {
    let done = u32::try_from(node).is_ok_and(|node| migrate::set_node(start::current(), node));
    status(if done { 0 } else { libc::EINVAL })
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

/// Calls a function with a frame on the node that the caller is to migrate to. 0, and the function was not
/// called, if the caller is there. A thread that holds a C++ exception is not moved by the run-time, and may
/// not ask for it.
#[unsafe(no_mangle)]
pub extern "C" fn __tombolo_migrate_call(function: Function, frame: *mut c_void) -> c_int {
    let me = start::current();
    if exceptions::is_held() {
        if migrate::is_asked_to(me) {
            sys::fatal(
                "a thread cannot migrate while it throws or handles a C++ exception: call the marked function after the handler, or tombolo_migrate(tombolo_node()) before",
            );
        }
        return 0;
    }
    c_int::from(migrate::call(me, function, frame))
}
