//! Printing: to the program that started this one, or to the board's console. None of it ever waits: what
//! finds no room is dropped, and the output says how much.

use alloc::string::String;
use core::fmt::{Arguments, Write};

use tombolo_platform_bare::program;

/// The streams that output can go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// The board's console: `tombolo console`.
    Console,
    /// Output, as of any program: `tombolo run` shows it.
    Output,
    /// Errors, likewise.
    Error,
}

/// Writes bytes; returns how many were taken.
pub fn write(stream: Stream, bytes: &[u8]) -> usize {
    let number = match stream {
        Stream::Console => 0,
        Stream::Output => 1,
        Stream::Error => 2,
    };
    program::print(number, bytes)
}

/// What the macros do: one write for each.
#[doc(hidden)]
pub fn write_formatted(stream: Stream, arguments: Arguments<'_>, end: &str) {
    let mut text = String::new();
    // Writing to a string cannot fail; what a value's own formatting refuses is left out.
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
