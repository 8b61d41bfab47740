//! Constructor and destructor of the library, and the `error` directive.

use std::ffi::c_char;
use std::slice;

use tombolo_omp_team::job::{report, start};
#[cfg(target_env = "musl")]
use tombolo_omp_team::primitives::thread_block;
use tombolo_omp_team::primitives::{separate_processes, sys};

#[cfg(target_env = "gnu")]
use crate::entry;
use crate::symbols;
#[cfg(target_env = "musl")]
use crate::{image, process::environment};

// In an image this runs before the program's constructors, which a worker must not run.
#[used]
#[cfg_attr(target_env = "gnu", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_env = "musl", unsafe(link_section = ".init_array.00001"))]
static AT_START: extern "C" fn() = at_start;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// Reads the environment at program start, when invalid values are reported and `OMP_DISPLAY_ENV` is
/// honoured.
extern "C" fn at_start() {
    // If workers have processes of their own, this has to wait until the arena exists, which constructors of
    // the program or `main` create.
    #[cfg(target_env = "gnu")]
    let uses_worker_processes = entry::uses_worker_processes();
    #[cfg(target_env = "musl")]
    let uses_worker_processes = {
        thread_block::use_own();
        environment::capture();
        image::run_if_worker();
        image::uses_worker_processes()
    };
    if uses_worker_processes {
        #[cfg(target_env = "gnu")]
        start::set_main_check(entry::will_main_be_of_job);
        return;
    }
    start::begin();
}

extern "C" fn at_exit() {
    if separate_processes::is_worker_process() {
        return;
    }
    separate_processes::terminate_workers();
    if start::root().settings.report {
        let names = symbols::of_program();
        report::write(start::root(), |address| symbols::name(&names, address));
    }
}

/// Returns the message of an `error` directive, with a leading colon.
///
/// # Safety
/// The text is null, or has that length, or is null-terminated if the length is all ones.
unsafe fn text(message: *const c_char, length: usize) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe {
        let length = if length == usize::MAX { libc::strlen(message) } else { length };
        slice::from_raw_parts(message.cast::<u8>(), length)
    };
    format!(": {}", String::from_utf8_lossy(bytes))
}

/// `error severity(warning) at(execution)`.
///
/// # Safety
/// The text is as GCC passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_warning(message: *const c_char, length: usize) {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text(message, length) };
    sys::print_error(format_args!("tombolo omp: error directive encountered{text}\n"));
}

/// `error severity(fatal) at(execution)`.
///
/// # Safety
/// The text is as GCC passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_error(message: *const c_char, length: usize) {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text(message, length) };
    sys::print_error(format_args!("tombolo omp: fatal error: error directive encountered{text}\n"));
    // SAFETY: ends the program with its exit handlers.
    unsafe { libc::exit(1) };
}
