//! Functions of `tombolo_omp.h` for read-only data, which are documented there.

use std::ffi::{c_int, c_void};

/// Gives each node behind a window its own copy of the data. Returns 0 or an errno value. Does nothing if all
/// workers have the same memory.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_omp_replicate(begin: *const c_void, bytes: usize) -> c_int {
    ask(begin, bytes, false)
}

/// Shares the data again, so that it may be written. Returns 0 or an errno value.
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
