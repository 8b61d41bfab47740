//! Output to the program that started this one, or to the board's console. Writing never waits: bytes that
//! find no room are dropped, and the output reports their number.

use alloc::string::String;
use core::fmt::{Arguments, Write};

use tombolo_platform_bare::program;

/// Stream that output is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Console of the board: `tombolo console`.
    Console,
    /// Standard output, which `tombolo run` prints.
    Output,
    /// Standard error, which `tombolo run` prints.
    Error,
}

/// Writes bytes; returns the number of bytes accepted.
pub fn write(stream: Stream, bytes: &[u8]) -> usize {
    let number = match stream {
        Stream::Console => 0,
        Stream::Output => 1,
        Stream::Error => 2,
    };
    program::print(number, bytes)
}

/// Implements the macros: one write per call.
#[doc(hidden)]
pub fn write_formatted(stream: Stream, arguments: Arguments<'_>, end: &str) {
    let mut text = String::new();
    // Writing to a string cannot fail; if a value's own formatting fails, its text is incomplete.
    let _ = text.write_fmt(arguments);
    text.push_str(end);
    write(stream, text.as_bytes());
}

/// Prints to the program's output.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => {
        $crate::output::write_formatted($crate::output::Stream::Output, format_args!($($argument)*), "")
    };
}

/// Prints a line to the program's output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => {
        $crate::output::write_formatted($crate::output::Stream::Output, format_args!($($argument)*), "\n")
    };
}

/// Prints a line to the program's errors.
#[macro_export]
macro_rules! eprintln {
    ($($argument:tt)*) => {
        $crate::output::write_formatted($crate::output::Stream::Error, format_args!($($argument)*), "\n")
    };
}

/// Prints a line to the board's console.
#[macro_export]
macro_rules! console {
    ($($argument:tt)*) => {
        $crate::output::write_formatted($crate::output::Stream::Console, format_args!($($argument)*), "\n")
    };
}
