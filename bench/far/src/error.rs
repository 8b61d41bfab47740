//! Errors of measurements.

use std::path::PathBuf;
use std::time::Duration;

use tombolo_platform::OsError;

/// Error that prevented a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image of the peer's program is missing.
    #[error(
        "the measuring program is not at {}: build it with `make setup && make kit`, or say where it is",
        path.display()
    )]
    NoImage {
        /// Path of the image.
        path: PathBuf,
    },
    /// Fewer than two processors are allowed, and each polling side needs one.
    #[error(
        "measuring takes two processors, one for each side, and this program may use {allowed}: \
         allow it more (taskset, cgroups) or measure on another host"
    )]
    TooFewCpus {
        /// Number of allowed processors.
        allowed: usize,
    },
    /// The kernel refused to report or set processor affinity.
    #[error("cannot {what}: {error} (`--no-pin` measures without)")]
    Cpus {
        /// Operation that failed.
        what: String,
        /// Error of the kernel.
        error: std::io::Error,
    },
    /// The node is down.
    #[error("node {node} is down{}", because(cause))]
    NodeDown {
        /// Name of the node.
        node: String,
        /// Cause, if known.
        cause: String,
    },
    /// The peer exited during the measurement.
    #[error("the peer on {node} ended ({exit}) during the measurement")]
    PeerEnded {
        /// Node of the peer.
        node: String,
        /// Exit status of the peer.
        exit: String,
    },
    /// The other side did not answer in time.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// Time waited without an answer.
        waited: Duration,
    },
    /// A message arrived with wrong content.
    #[error("message {message} of a run arrived with other bytes than were sent")]
    Corrupt {
        /// Index of the message in its run.
        message: u64,
    },
    /// The counts of sent and received messages differ.
    #[error("{sent} messages were sent and {received} received")]
    Lost {
        /// Number of messages sent.
        sent: u64,
        /// Number of messages received.
        received: u64,
    },
    /// An unexpected message: the two sides are of different versions.
    #[error("the other side sent {length_bytes} bytes that make no sense here: rebuild with `make kit`")]
    Unexpected {
        /// Length of the message, in bytes.
        length_bytes: usize,
    },
    /// The channel is too small for the two lines of the limit.
    #[error("the memory under a channel has {have_bytes} bytes; the limit is measured in {need_bytes}")]
    TooSmall {
        /// Length of that memory, in bytes.
        have_bytes: usize,
        /// Length needed, in bytes.
        need_bytes: usize,
    },
    /// A measurement of ring placement failed.
    #[error("cannot measure where slots and credit lie: {what}")]
    Placement {
        /// Failed operation, with the reason.
        what: String,
    },
    /// A measurement of the node itself failed.
    #[error("cannot measure this node: {what}")]
    Figures {
        /// Failed operation, with the reason.
        what: String,
    },
    /// The peer's arguments are invalid.
    #[error("'{found}' are not arguments of this program, which `tombolo bench ring` starts")]
    Arguments {
        /// Arguments as given.
        found: String,
    },
    /// A connection to a virtual machine with a network failed.
    #[error("{}: cannot {what}", crate::network::TCP_OVER_VIRTIO)]
    Network {
        /// Failed operation, with the reason.
        what: String,
    },
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A channel or the monitor failed.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
}

impl Error {
    /// Creates the error of a node's measurement of itself.
    pub fn of_figures(error: impl std::fmt::Display) -> Error {
        Error::Figures { what: error.to_string() }
    }

    /// Creates the error of a measurement of ring placement.
    pub fn of_placement(error: impl std::fmt::Display) -> Error {
        Error::Placement { what: error.to_string() }
    }
}

fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(": {cause}") }
}
