//! Functions of `tombolo_omp.h` for read-only data, which are documented there.

use std::ffi::{c_int, c_void};

/// Gives each node behind a window its own copy of the data. Returns 0 or an errno value. Does nothing if all
/// workers have the same memory.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_omp_replicate(begin: *const c_void, bytes: usize) -> c_int {
    request(begin, bytes, false)
}

/// Shares the data again, so that it may be written. Returns 0 or an errno value.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_omp_restore(begin: *const c_void, bytes: usize) -> c_int {
    request(begin, bytes, true)
}

#[cfg(target_env = "musl")]
fn request(begin: *const c_void, bytes: usize, restore: bool) -> c_int {
    use tombolo_omp_team::job::start;
    use tombolo_omp_team::primitives::separate_processes;
    if !separate_processes::is_enabled() {
        return 0;
    }
    tombolo_omp_domains::replica::request(start::current(), begin as usize, bytes, restore)
}

#[cfg(target_env = "gnu")]
fn request(_begin: *const c_void, _bytes: usize, _restore: bool) -> c_int {
    0
}
