//! System functions on boards.

use tombolo_bare::Error;
use tombolo_bare_c::Global;
pub(crate) use tombolo_bare_c::{domain as attach, now_ns};

use crate::status::{LastError, Status};

/// Returns the result of `body`. A panic ends the program.
pub(crate) fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    Ok(body())
}

static LAST_ERROR: Global<LastError> = Global::new(LastError::NONE);

/// Accesses the text of the last failure.
pub(crate) fn with_last_error<T>(body: impl FnOnce(&mut LastError) -> T) -> Option<T> {
    Some(body(&mut LAST_ERROR.lock()))
}

/// Returns the status of an error that has no specific one.
pub(crate) fn status_of(_: &Error) -> Status {
    Status::System
}
