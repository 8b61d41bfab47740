//! Constructor and destructor of the library, and the `error` directive.

use std::ffi::c_char;
use std::slice;

use tombolo_omp_team::job::{report, start};
#[cfg(target_env = "musl")]
use tombolo_omp_team::primitives::thread_block;
use tombolo_omp_team::primitives::{exclusive, sys};

#[cfg(target_env = "gnu")]
use crate::entry;
use crate::symbols;
#[cfg(target_env = "musl")]
use crate::{image, process::environment};

// In an image this runs before the program's constructors, which a worker must not run.
#[used]
#[cfg_attr(target_env = "gnu", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_env = "musl", unsafe(link_section = ".init_array.00001"))]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Reads the environment at program start, when invalid values are reported and `OMP_DISPLAY_ENV` is
/// honoured.
extern "C" fn begin() {
    // If workers have processes of their own, this has to wait until the arena exists.
    #[cfg(target_env = "gnu")]
    let is_wanted = entry::is_wanted();
    #[cfg(target_env = "musl")]
    let is_wanted = {
        thread_block::begin();
        environment::keep();
        image::join();
        image::is_wanted()
    };
    if is_wanted {
        return;
    }
    start::begin();
}

extern "C" fn end() {
    if exclusive::is_worker() {
        return;
    }
    exclusive::end();
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
    sys::complain(format_args!("tombolo omp: error directive encountered{text}\n"));
}

/// `error severity(fatal) at(execution)`.
///
/// # Safety
/// The text is as GCC passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_error(message: *const c_char, length: usize) {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { text(message, length) };
    sys::complain(format_args!("tombolo omp: fatal error: error directive encountered{text}\n"));
    // SAFETY: ends the program with its exit handlers.
    unsafe { libc::exit(1) };
}
