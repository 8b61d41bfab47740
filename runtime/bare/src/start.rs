//! Entry and exit of a program.

use core::fmt::Display;

/// Return type of a program's `main`: nothing, a status, or a result.
pub trait Outcome {
    /// Returns the exit status; prints an error.
    fn status(self) -> u8;
}

impl Outcome for () {
    fn status(self) -> u8 {
        0
    }
}

impl Outcome for u8 {
    fn status(self) -> u8 {
        self
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn status(self) -> u8 {
        match self {
            Ok(()) => 0,
            Err(error) => {
                crate::eprintln!("Error: {error}");
                1
            }
        }
    }
}

/// Makes a function the program's main function: `tombolo_bare::main!(main);`. It returns an [`Outcome`].
#[macro_export]
macro_rules! main {
    ($main:path) => {
        fn tombolo_program_main() -> u8 {
            $crate::Outcome::status($main())
        }
        $crate::board_program!(tombolo_program_main);
    };
}
