//! Errors of copies.

use std::time::Duration;

use tombolo_stubs::copies::CopyFault;

/// Error of an operation on a copy service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopiesError {
    /// The service refused the operation, or it failed.
    #[error("the copy service on {node}: {}", text(*fault))]
    Fault {
        /// Node of the service.
        node: String,
        /// Reason of the failure.
        fault: CopyFault,
    },
    /// The descriptor has not ended in time. It is still in progress.
    #[error(
        "descriptor {descriptor} has not ended in {timeout:?} and is still in progress; wait again or cancel it"
    )]
    NotEnded {
        /// Number of the descriptor.
        descriptor: u32,
        /// Timeout of the wait.
        timeout: Duration,
    },
    /// The descriptor is not in progress: its end was taken, or it belongs to another connection.
    #[error("descriptor {descriptor} is not in progress: its end was taken before")]
    NotInProgress {
        /// Number of the descriptor.
        descriptor: u32,
    },
    /// The maximum number of descriptors is in progress.
    #[error("{limit} descriptors are in progress, the most of a client; take ends first")]
    Full {
        /// Limit per client.
        limit: usize,
    },
    /// The service has ended, or another operation of the underlying library failed.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
}

impl CopiesError {
    /// Returns the service's fault, if it reported one.
    #[must_use]
    pub fn fault(&self) -> Option<CopyFault> {
        match self {
            CopiesError::Fault { fault, .. } => Some(*fault),
            _ => None,
        }
    }
}

/// Describes a fault.
fn text(fault: CopyFault) -> &'static str {
    match fault {
        CopyFault::UNKNOWN_MEMORY => "no such memory is registered; register it first",
        CopyFault::OUT_OF_RANGE => "the bytes do not lie in the memory",
        CopyFault::READ_ONLY => {
            "the memory that is to be written was registered for reading; register it with the right to write"
        }
        CopyFault::OVERLAP => "source and target of the copy overlap",
        CopyFault::IN_USE => {
            "a descriptor that has not ended uses the same bytes; wait for it, or fence the new one"
        }
        CopyFault::EARLIER => "a descriptor that this one waited for failed; nothing was written",
        CopyFault::CANCELLED => "the descriptor was cancelled",
        CopyFault::REVOKED => "the right to the memory was revoked",
        CopyFault::TOO_MANY => "a client has no more descriptors or memories; take ends or withdraw memory",
        CopyFault::NUMBER_IN_USE => "a descriptor of that number has not ended",
        CopyFault::NOT_COPIED => {
            "it does not copy files, memory that a program keeps to itself, and memory that is not coherent; \
             copy that in the program itself"
        }
        CopyFault::FAILED => "an engine failed",
        _ => "it failed in a way that this program does not know; use the same version on both sides",
    }
}
