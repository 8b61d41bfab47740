//! Errors of a comparison.

use std::path::PathBuf;
use std::time::Duration;

use tombolo_platform::OsError;

/// Error that prevented a measurement or the writing of a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No peer has that name.
    #[error("there is no peer called '{name}'; there are: {}", known.join(", "))]
    UnknownPeer {
        /// Name that was requested.
        name: String,
        /// Names of all peers.
        known: Vec<String>,
    },
    /// The far side exited or has another version.
    #[error("the far side of the measurement {what}")]
    Far {
        /// Behaviour of the far side, as a predicate.
        what: String,
    },
    /// A peer's library returned an error.
    #[error("{peer}: cannot {what}")]
    Peer {
        /// Name of the peer.
        peer: String,
        /// Failed operation and its error.
        what: String,
    },
    /// The peer does not support the operation.
    #[error("this peer does not do that")]
    Unsupported,
    /// A results file is unreadable or malformed.
    #[error("{}: {why}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The other side did not answer in time.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// Time waited without an answer.
        waited: Duration,
    },
    /// A prerequisite of a measurement failed.
    #[error("{what}")]
    Failed {
        /// Failed prerequisite, with the reason.
        what: String,
    },
    /// An error of the ring benchmark.
    #[error(transparent)]
    Ring(#[from] crate::ring::Error),
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl Error {
    pub(crate) fn failed(what: impl Into<String>) -> Error {
        Error::Failed { what: what.into() }
    }

    /// Returns a converter for `map_err`: the system refused `operation`, such as "open x".
    pub(crate) fn system(operation: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::Failed { what: format!("cannot {operation}: {error}") }
    }

    /// Creates the error of an operation that a peer's library failed to perform.
    pub fn of_peer(peer: &str, what: impl std::fmt::Display) -> Error {
        Error::Peer { peer: peer.to_owned(), what: what.to_string() }
    }
}

impl From<tombolo_hubs::HubError> for Error {
    fn from(error: tombolo_hubs::HubError) -> Self {
        match error {
            tombolo_hubs::HubError::Tombolo(error) => error.into(),
            error => Error::failed(error.to_string()),
        }
    }
}

impl From<tombolo_transport::ChannelError> for Error {
    fn from(error: tombolo_transport::ChannelError) -> Self {
        Error::Far { what: format!("failed on its channel: {error}") }
    }
}

impl From<tombolo_transport::EndError> for Error {
    fn from(error: tombolo_transport::EndError) -> Self {
        Error::Far { what: format!("failed on its channel: {error}") }
    }
}

impl From<tombolo::Error> for Error {
    fn from(error: tombolo::Error) -> Self {
        Error::Ring(error.into())
    }
}
