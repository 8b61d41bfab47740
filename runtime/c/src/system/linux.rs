//! System functions on Linux.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Instant;

use tombolo::bulk::{BulkError, BulkSendError, TableError};
use tombolo::{Domain, Error};

use crate::status::{LastError, Status};

/// Returns the result of `body`, or an error if it panics.
pub(crate) fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, ()> {
    // After a panic, a handle remains usable or fails: no handle has an invariant that the safety of this
    // library depends on.
    catch_unwind(AssertUnwindSafe(body)).map_err(drop)
}

thread_local! {
    static LAST_ERROR: RefCell<LastError> = const { RefCell::new(LastError::NONE) };
}

/// Accesses the text of this thread's last failure; `None` while the thread is ending.
pub(crate) fn with_last_error<T>(body: impl FnOnce(&mut LastError) -> T) -> Option<T> {
    LAST_ERROR.try_with(|last| body(&mut last.borrow_mut())).ok()
}

/// Attaches to the machine.
pub(crate) fn attach() -> Result<Domain, Error> {
    Domain::attach()
}

/// Returns the nanoseconds since the first call.
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the status of an error that does not occur on boards.
pub(crate) fn status_of(error: &Error) -> Status {
    match error {
        Error::OpeningRefused { .. } => Status::OpeningRefused,
        Error::MonitorLost { .. } => Status::MonitorLost,
        Error::NoMachine(_) => Status::NoMachine,
        Error::Text { .. } => Status::BadText,
        Error::Bulk(error) => status_of_bulk(error),
        _ => Status::System,
    }
}

fn status_of_bulk(error: &BulkError) -> Status {
    match error {
        BulkError::State(TableError::Revoked) => Status::Revoked,
        BulkError::State(
            TableError::NotOnChannel | TableError::TooManyChannels | TableError::Forwarded(_),
        ) => Status::PoolRefused,
        BulkError::State(_) => Status::BufferState,
        BulkError::Send(BulkSendError::NoSuchPool | BulkSendError::TooManyPools(_)) => Status::PoolRefused,
        BulkError::Send(_) | BulkError::Layout(_) => Status::InvalidArgument,
        BulkError::NoBuffer { .. } => Status::NoBuffer,
        BulkError::Range { .. } | BulkError::Unaligned { .. } | BulkError::Copy(_) => Status::OutOfRange,
        BulkError::Lost { .. } => Status::ContentLost,
        _ => Status::PoolRefused,
    }
}
