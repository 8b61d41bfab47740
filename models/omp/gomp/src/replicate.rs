//! What `tombolo_omp.h` has for data that is only read: see there.

use std::ffi::{c_int, c_void};

/// Has the nodes whose memory is behind a window read a copy of their own. 0, or the system's number of an
/// error. Does nothing where all workers have the same memory.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_omp_replicate(begin: *const c_void, bytes: usize) -> c_int {
    ask(begin, bytes, false)
}

/// Has all share the data again, which may then be written to. 0, or the system's number of an error.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_omp_restore(begin: *const c_void, bytes: usize) -> c_int {
    ask(begin, bytes, true)
}

#[cfg(target_env = "musl")]
fn ask(begin: *const c_void, bytes: usize, again: bool) -> c_int {
    use tombolo_omp_team::job::start;
    use tombolo_omp_team::primitives::exclusive;
    if !exclusive::is_on() {
        return 0;
    }
    tombolo_omp_domains::replica::ask(start::current(), begin as usize, bytes, again)
}

#[cfg(target_env = "gnu")]
fn ask(_begin: *const c_void, _bytes: usize, _again: bool) -> c_int {
    0
}
