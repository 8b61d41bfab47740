//! What can go wrong in a comparison.

use std::path::PathBuf;
use std::time::Duration;

use tombolo_platform::OsError;

/// Why something was not measured, or a report not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No peer of that name.
    #[error("there is no peer called '{name}'; there are: {}", known.join(", "))]
    UnknownPeer {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The far side ended, or speaks another version.
    #[error("the far side of the measurement {what}")]
    Far {
        /// What it did, as a predicate.
        what: String,
    },
    /// What a peer's own library said.
    #[error("{peer}: cannot {what}")]
    Peer {
        /// Which peer.
        peer: String,
        /// The failed operation and the error.
        what: String,
    },
    /// A peer was asked for what it does not do.
    #[error("this peer does not do that")]
    Unsupported,
    /// A file of results.
    #[error("{}: {why}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The other side does not answer.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// The length of the time.
        waited: Duration,
    },
    /// What a measurement needs did not work.
    #[error("{what}")]
    Failed {
        /// What did not work, and why.
        what: String,
    },
    /// As the measurement of rings.
    #[error(transparent)]
    Ring(#[from] crate::ring::Error),
    /// The kernel.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl Error {
    pub(crate) fn failed(what: impl Into<String>) -> Error {
        Error::Failed { what: what.into() }
    }

    /// For `map_err`: the system refused `operation`, such as "open x".
    pub(crate) fn system(operation: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::Failed { what: format!("cannot {operation}: {error}") }
    }

    /// What a peer's library could not do.
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
