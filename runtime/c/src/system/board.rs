//! What a program on a board has.

use tombolo_bare::Error;
use tombolo_bare_c::Global;
pub(crate) use tombolo_bare_c::{domain as attach, now_ns};

use crate::status::{Last, Status};

/// What `body` returns. A panic ends the program.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    Ok(body())
}

static LAST: Global<Last> = Global::new(Last::NONE);

/// Uses the text of the last failure.
pub(crate) fn with_last<T>(body: impl FnOnce(&mut Last) -> T) -> Option<T> {
    Some(body(&mut LAST.lock()))
}

/// The status of an error that stands for no other.
pub(crate) fn status_of(_: &Error) -> Status {
    Status::System
}
