//! Startup, exit and output of a program in C.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::time::Duration;

use tombolo_bare::{env, time};
use tombolo_platform_bare::program;

// SAFETY: the signatures are those of the C library and of `support/board.c`.
unsafe extern "C" {
    /// Entry point of the C program.
    fn main(argc: c_int, argv: *mut *mut c_char) -> c_int;
    /// Initializes thread-local storage and runs constructors. In `support/board.c`.
    fn tombolo_board_begin();
    /// Flushes the standard streams. In `support/board.c`.
    fn tombolo_board_flush();
    /// Runs the `atexit` handlers and calls `_exit`. In the C library.
    #[link_name = "exit"]
    fn libc_exit(status: c_int) -> !;
}

tombolo_bare::main!(run_main);

fn run_main() -> u8 {
    // Truncates an argument at a zero byte, which a C string cannot contain and a shell never passes.
    let until_zero = |text: alloc::string::String| CString::new(text.split('\0').next().unwrap_or_default());
    let arguments = env::args().map(|text| until_zero(text).unwrap_or_default().into_raw());
    let mut arguments: Vec<*mut c_char> = arguments.collect();
    let count = arguments.len() as c_int;
    arguments.push(null_mut());
    // Leaked, because C programs may keep and modify their arguments until they exit.
    let argv = arguments.leak().as_mut_ptr();
    // SAFETY: no C code has run before, and this runs once. `argv` ends with a null pointer and is never
    // freed.
    unsafe {
        tombolo_board_begin();
        libc_exit(main(count, argv))
    }
}

/// Flushes the standard streams and ends the program with an exit status.
pub fn exit(status: u8) -> ! {
    // SAFETY: the streams are initialized statically, and a program has one thread.
    unsafe { tombolo_board_flush() };
    program::exit(status)
}

/// `_exit`: ends the program.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    exit(status as u8)
}

/// `abort`: ends the program with the status that a shell reports for SIGABRT.
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    exit(134)
}

/// Writes to stream 1 or 2 of the program. Bytes that do not fit are dropped and counted.
///
/// # Safety
/// `bytes` is valid for reads of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn tombolo_board_write(stream: c_int, bytes: *const c_void, length: usize) {
    if length > 0 {
        // SAFETY: by the contract.
        program::print(stream as u8, unsafe { core::slice::from_raw_parts(bytes.cast(), length) });
    }
}

/// Returns the nanoseconds since the board started.
#[must_use]
pub fn now_ns() -> u64 {
    program::clock_ns()
}

/// Exports [`now_ns`] to `support/board.c`.
#[unsafe(no_mangle)]
extern "C" fn tombolo_board_now_ns() -> u64 {
    now_ns()
}

/// Sleeps for a duration in nanoseconds.
#[unsafe(no_mangle)]
extern "C" fn tombolo_board_sleep(duration_ns: u64) {
    time::sleep(Duration::from_nanos(duration_ns));
}
