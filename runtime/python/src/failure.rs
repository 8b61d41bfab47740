//! Errors, which become exceptions of `tombolo.errors`.

use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tombolo::Error;
use tombolo::bulk::{BulkError, BulkSendError, TableError};
use tombolo::error::Fault;
use tombolo::names::NameFault;
use tombolo::region::CapabilityFault;
use tombolo_files::{FileError, FileFault};

/// Error of an operation.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Error of the façade.
    Facade(Error),
    /// Class of `tombolo.errors`, with a text.
    Named(&'static str, String),
    /// Exception raised by Python.
    Raised(PyErr),
}

impl Failure {
    pub(crate) fn new(class: &'static str, text: impl Into<String>) -> Failure {
        Failure::Named(class, text.into())
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure::new("InvalidArgument", text)
    }

    /// Error for memory that still has views but is to be given up.
    pub(crate) fn has_views_failure(what: &str, view_count: usize) -> Failure {
        let views = if view_count == 1 { "1 view".to_owned() } else { format!("{view_count} views") };
        let text = format!(
            "{what} still has {views}: release the memoryviews, arrays and tensors that were made of it"
        );
        Failure::new("Exported", text)
    }

    /// Error for an object that another thread uses.
    pub(crate) fn busy(what: &str) -> Failure {
        Failure::new(
            "Busy",
            format!(
                "{what} is in use: one thread at a time can use it, and no function that it calls meanwhile"
            ),
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Facade(error)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        match error {
            FileError::Tombolo(error) => error.into(),
            error => Failure::new(class_of_file(&error), error.to_string()),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Raised(error)
    }
}

impl From<pyo3::CastError<'_, '_>> for Failure {
    fn from(error: pyo3::CastError<'_, '_>) -> Failure {
        Failure::Raised(error.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Facade(error) => raise(class_of(&error), error.to_string()),
            Failure::Named(class, text) => raise(class, text),
            Failure::Raised(error) => error,
        }
    }
}

fn raise(class: &str, text: String) -> PyErr {
    Python::attach(|py| match class_named(py, class) {
        Ok(class) => PyErr::from_type(class, (text,)),
        Err(error) => error,
    })
}

/// Returns a class of `tombolo.regions`.
pub(crate) fn region_class<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    static REGIONS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let regions = REGIONS.get_or_try_init(py, || py.import("tombolo.regions").map(Bound::unbind))?;
    regions.bind(py).getattr(class)
}

/// Returns a class of `tombolo.errors`.
pub(crate) fn class_named<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, pyo3::types::PyType>> {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let errors = ERRORS.get_or_try_init(py, || py.import("tombolo.errors").map(Bound::unbind))?;
    Ok(errors.bind(py).getattr(class)?.cast_into()?)
}

fn class_of(error: &Error) -> &'static str {
    match error {
        Error::WouldBlock => "WouldBlock",
        Error::TimedOut { .. } => "TimedOut",
        Error::Closed { .. } => "Closed",
        Error::PeerDied { .. } => "PeerDied",
        Error::RelayDied { .. } => "RelayDied",
        Error::TooLong { .. } => "TooLong",
        Error::Refused { .. } => "Refused",
        Error::OpeningRefused { .. } => "OpeningRefused",
        Error::Violation { .. } => "Violation",
        Error::Monitor(fault) => class_of_fault(fault),
        Error::Job(_) => "NotInJob",
        Error::MonitorLost { .. } => "MonitorLost",
        Error::NoMachine(_) => "NoMachine",
        Error::MonitorProtocol(_) => "MonitorProtocol",
        Error::Text { .. } => "BadText",
        Error::BadOption { .. } => "InvalidArgument",
        Error::Revoked { .. } => "Revoked",
        Error::OutOfRange(_) => "OutOfRange",
        Error::Bulk(error) => class_of_bulk(error),
        _ => "System",
    }
}

fn class_of_bulk(error: &BulkError) -> &'static str {
    match error {
        BulkError::State(TableError::Revoked) => "Revoked",
        BulkError::State(
            TableError::NotOnChannel | TableError::TooManyChannels | TableError::Forwarded(_),
        ) => "PoolRefused",
        BulkError::State(_) => "BufferState",
        BulkError::Send(BulkSendError::NoSuchPool | BulkSendError::TooManyPools(_)) => "PoolRefused",
        BulkError::Send(_) | BulkError::Layout(_) => "InvalidArgument",
        BulkError::NoBuffer { .. } => "NoBuffer",
        BulkError::Range { .. } | BulkError::Unaligned { .. } | BulkError::Copy(_) => "OutOfRange",
        BulkError::Lost { .. } => "ContentLost",
        _ => "PoolRefused",
    }
}

fn class_of_file(error: &FileError) -> &'static str {
    let fault = match error {
        FileError::NoneGranted | FileError::NotServed { .. } => return "NotGranted",
        FileError::Ended { .. } => return "FileEnded",
        FileError::Buffers { .. } => return "InvalidArgument",
        FileError::Fault { fault, .. } => fault,
        _ => return "FileFault",
    };
    match fault {
        FileFault::NotGranted
        | FileFault::ReadOnly
        | FileFault::Outside
        | FileFault::Denied
        | FileFault::OpenedReadOnly => "NotGranted",
        FileFault::NotFound => "NoSuchFile",
        FileFault::Exists => "FileExists",
        FileFault::IsFolder => "IsFolder",
        FileFault::NotAFolder => "NotFolder",
        FileFault::BadMode => "InvalidArgument",
        FileFault::OutOfRange => "OutOfRange",
        _ => "FileFault",
    }
}

fn class_of_capability(fault: &CapabilityFault) -> &'static str {
    match fault {
        CapabilityFault::Gone { .. }
        | CapabilityFault::NotYours { .. }
        | CapabilityFault::TakenUp { .. }
        | CapabilityFault::NotFrom { .. } => "NoSuchCapability",
        CapabilityFault::Revoked { .. } => "Revoked",
        CapabilityFault::Lacks { .. } => "LacksRight",
        CapabilityFault::BadExtent { .. } | CapabilityFault::Unaligned { .. } => "OutOfRange",
        CapabilityFault::NotReachable { .. } => "NotReachable",
        CapabilityFault::Mapped { .. }
        | CapabilityFault::Sealed { .. }
        | CapabilityFault::CannotSeal { .. } => "Sealed",
        CapabilityFault::Split { .. } | CapabilityFault::InUse { .. } => "InUse",
        CapabilityFault::WrongKind { .. } | CapabilityFault::CannotSplit { .. } => "WrongKind",
        CapabilityFault::StillHeld { .. } => "StillHeld",
    }
}

fn class_of_fault(fault: &Fault) -> &'static str {
    match fault {
        Fault::NoSuchNode { .. } => "NoSuchNode",
        Fault::NodeDown { .. } => "NodeDown",
        Fault::NoSuchName { .. } => "NoSuchName",
        Fault::NameTaken { .. } => "NameTaken",
        Fault::BadName { .. } => "BadName",
        Fault::NoSuchDomain { .. } => "NoSuchDomain",
        Fault::NoBuildForIsa { .. } | Fault::BadImage { .. } => "BadImage",
        Fault::StartFailed { .. } => "StartFailed",
        Fault::NoLink { .. } => "NoLink",
        Fault::Limit { .. } => "Limit",
        Fault::System { .. } => "System",
        Fault::Name { fault: NameFault::NoSuchName { .. } } => "NoSuchName",
        Fault::Name { fault: NameFault::Exists { .. } } => "NameTaken",
        Fault::Name { fault: NameFault::BadName { .. } } => "BadName",
        Fault::Capability { fault } => class_of_capability(fault),
        Fault::NotGiven { .. } => "NoSuchCapability",
        _ => "Denied",
    }
}

/// Locks an object that one thread uses at a time, or fails. After a panic, the state is still consistent
/// enough to be used.
pub(crate) fn exclusive<'a, T>(state: &'a Mutex<T>, what: &str) -> Result<MutexGuard<'a, T>, Failure> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::busy(what)),
    }
}
