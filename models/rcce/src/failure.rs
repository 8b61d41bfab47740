//! Errors, as the header's numbers and as texts.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

/// Base of the error numbers, as in RCCE 1.x and 2.0.
const BASE: i32 = 1_234_321;

/// Maximum length of an error text with its final zero, `RCCE_MAX_ERROR_STRING`.
pub const MAX_ERROR_STRING: usize = 64;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:expr, $text:literal;)*) => {
        /// Error number that a failed call returns.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        pub enum Code {
            $($(#[$doc])* $name = $number,)*
        }

        impl Code {
            /// Returns the text of an error number; `None` for an unknown one.
            #[must_use]
            pub fn text(number: i32) -> Option<&'static str> {
                match number {
                    0 => Some("success"),
                    $(number if number == Code::$name as i32 => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// `RCCE_ERROR`
    Error = -1, "the call failed";
    /// `RCCE_ERROR_TARGET`
    Target = BASE + 1, "the target is not in the message buffer";
    /// `RCCE_ERROR_SOURCE`
    Source = BASE + 2, "the source is not in the message buffer";
    /// `RCCE_ERROR_ID`
    Id = BASE + 3, "there is no such rank";
    /// `RCCE_ERROR_MESSAGE_LENGTH`
    MessageLength = BASE + 4, "the length is invalid";
    /// `RCCE_ERROR_FLAG_UNDEFINED`
    FlagUndefined = BASE + 5, "the flag is null";
    /// `RCCE_ERROR_NUM_UES`
    NumUes = BASE + 6, "the number of ranks is invalid";
    /// `RCCE_ERROR_DATA_OVERLAP`
    DataOverlap = BASE + 7, "source and target overlap";
    /// `RCCE_ERROR_ALIGNMENT`
    Alignment = BASE + 8, "an address is not aligned";
    /// `RCCE_ERROR_DEBUG_FLAG`
    DebugFlag = BASE + 9, "there is no such debug option";
    /// `RCCE_ERROR_FLAG_NOT_IN_COMM_BUFFER`
    FlagNotInBuffer = BASE + 10, "the flag is not in the message buffer";
    /// `RCCE_ERROR_FLAG_STATUS_UNDEFINED`
    FlagStatus = BASE + 11, "a flag is neither set nor unset by that";
    /// `RCCE_ERROR_FLAG_NOT_ALLOCATED`
    FlagNotAllocated = BASE + 12, "the flag is not allocated, or was freed";
    /// `RCCE_ERROR_VAL_UNDEFINED`
    ValUndefined = BASE + 13, "there is no room for the value";
    /// `RCCE_ERROR_INVALID_ERROR_CODE`
    InvalidErrorCode = BASE + 14, "there is no such error";
    /// `RCCE_ERROR_COMM_UNDEFINED`
    CommUndefined = BASE + 22, "the communicator is invalid";
    /// `RCCE_ERROR_ILLEGAL_OP`
    IllegalOp = BASE + 23, "there is no such operation";
    /// `RCCE_ERROR_ILLEGAL_TYPE`
    IllegalType = BASE + 24, "there is no such type";
    /// `RCCE_ERROR_MALLOC`
    Malloc = BASE + 25, "the message buffer has no room for it";
    /// `RCCE_ERROR_COMM_INITIALIZED`
    CommInitialized = BASE + 26, "the communicator is in use already";
    /// `RCCE_ERROR_NO_POWER_MANAGEMENT`, not in RCCE
    NoPowerManagement = BASE + 100, "this machine has no power management for programs";
}

/// Error of a call, with an explanation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Error number that the call returns.
    pub code: Code,
    /// The failure and its remedy.
    pub text: String,
    /// Whether the error is fatal, so that the program ends.
    pub is_fatal: bool,
}

impl Failure {
    /// Creates an error that the call returns as a number.
    #[must_use]
    pub fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into(), is_fatal: false }
    }

    /// Creates a fatal error, which ends the program.
    #[must_use]
    pub fn fatal(text: impl Into<String>) -> Failure {
        Failure { code: Code::Error, text: text.into(), is_fatal: true }
    }
}

/// Creates a failure with the standard text of its number.
impl From<Code> for Failure {
    fn from(code: Code) -> Failure {
        Failure::new(code, Code::text(code as i32).unwrap_or("an error"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_text_that_fits() {
        for number in (BASE..BASE + 128).chain(-1..=0) {
            if let Some(text) = Code::text(number) {
                assert!(text.len() < MAX_ERROR_STRING, "{text}");
            }
        }
        assert_eq!(Code::text(1_234_325), Some("the length is invalid"));
        assert_eq!(Code::text(BASE + 99), None);
    }
}
