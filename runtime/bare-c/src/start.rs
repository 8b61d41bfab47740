//! How a program in C begins and ends, and what it writes.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use core::time::Duration;

use tombolo_bare::{env, time};
use tombolo_platform_bare::program;

// SAFETY: their types are those of the C library and of `support/board.c`.
unsafe extern "C" {
    /// The program's.
    fn main(argc: c_int, argv: *mut *mut c_char) -> c_int;
    /// Of `support/board.c`: sets up what C code expects before `main`.
    fn tombolo_board_begin();
    /// Of `support/board.c`: writes what the streams hold.
    fn tombolo_board_flush();
    /// Of the C library: runs what `atexit` was given, and `_exit`.
    #[link_name = "exit"]
    fn exit_of_library(status: c_int) -> !;
}

tombolo_bare::main!(begin);

fn begin() -> u8 {
    // A zero byte in an argument, which no shell gives, ends it.
    let until_zero = |text: alloc::string::String| CString::new(text.split('\0').next().unwrap_or_default());
    let arguments = env::args().map(|text| until_zero(text).unwrap_or_default().into_raw());
    let mut arguments: Vec<*mut c_char> = arguments.collect();
    let count = arguments.len() as c_int;
    arguments.push(null_mut());
    // C programs may keep and change their arguments until they end.
    let argv = arguments.leak().as_mut_ptr();
    // SAFETY: the first code in C that runs, once; `argv` is as C has it, and stays.
    unsafe {
        tombolo_board_begin();
        exit_of_library(main(count, argv))
    }
}

/// Ends the program with a status, after what its streams hold was written.
pub fn exit(status: u8) -> ! {
    // SAFETY: the streams are there from before `main` on, and a program has one thread.
    unsafe { tombolo_board_flush() };
    program::exit(status)
}

/// `_exit`: the end of the program.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    exit(status as u8)
}

/// `abort`, with the status that a shell shows for it.
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    exit(134)
}

/// Writes to a stream of the program, 1 or 2. What finds no room is counted and dropped.
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

/// Nanoseconds since the board started.
#[must_use]
pub fn now_ns() -> u64 {
    program::clock_ns()
}

/// As [`now_ns`], for `support/board.c`.
#[unsafe(no_mangle)]
extern "C" fn tombolo_board_now_ns() -> u64 {
    now_ns()
}

/// Sleeps for that long.
#[unsafe(no_mangle)]
extern "C" fn tombolo_board_sleep(duration_ns: u64) {
    time::sleep(Duration::from_nanos(duration_ns));
}
