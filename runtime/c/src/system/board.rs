//! System functions on boards.

use tombolo_bare::Error;
use tombolo_bare_c::Global;
pub(crate) use tombolo_bare_c::{domain as attach, now_ns};

use crate::status::{Last, Status};

/// Returns the result of `body`. A panic ends the program.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    Ok(body())
}

static LAST: Global<Last> = Global::new(Last::NONE);

/// Accesses the text of the last failure.
pub(crate) fn with_last<T>(body: impl FnOnce(&mut Last) -> T) -> Option<T> {
    Some(body(&mut LAST.lock()))
}

/// Returns the status of an error that has no specific one.
pub(crate) fn status_of(_: &Error) -> Status {
    Status::System
}
