//! Where the library begins and ends, and errors that the program asks for.

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

// In an image before the program's own: a worker does not run those.
#[used]
#[cfg_attr(target_env = "gnu", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_env = "musl", unsafe(link_section = ".init_array.00001"))]
static BEGIN: extern "C" fn() = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Reads the environment as the program starts, as it says what makes no sense in it, and may be asked to
/// show it.
extern "C" fn begin() {
    // Where workers are processes it has to wait until the arena is there.
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

/// The text of `error`.
///
/// # Safety
/// The text is null, or so long, or ends in a zero if the length is all ones.
unsafe fn text(message: *const c_char, length: usize) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: the caller says so.
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
    // SAFETY: the caller says so.
    let text = unsafe { text(message, length) };
    sys::complain(format_args!("tombolo omp: error directive encountered{text}\n"));
}

/// `error severity(fatal) at(execution)`.
///
/// # Safety
/// The text is as GCC passes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_error(message: *const c_char, length: usize) {
    // SAFETY: the caller says so.
    let text = unsafe { text(message, length) };
    sys::complain(format_args!("tombolo omp: fatal error: error directive encountered{text}\n"));
    // SAFETY: ends the program as an error does, with what it has to do at its end.
    unsafe { libc::exit(1) };
}
