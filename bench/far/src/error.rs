//! Errors of measurements.

use std::path::PathBuf;
use std::time::Duration;

use tombolo_platform::OsError;

/// The reason why something was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image of the peer's program is missing.
    #[error(
        "the measuring program is not at {}: build it with `make setup && make kit`, or say where it is",
        path.display()
    )]
    NoImage {
        /// The path of the image.
        path: PathBuf,
    },
    /// Two sides that poll need a processor each.
    #[error(
        "measuring takes two processors, one for each side, and this program may use {allowed}: \
         allow it more (taskset, cgroups) or measure on another host"
    )]
    TooFewCpus {
        /// The number of allowed processors.
        allowed: usize,
    },
    /// The kernel refused something about processors.
    #[error("cannot {what}: {error} (`--no-pin` measures without)")]
    Cpus {
        /// The operation that failed.
        what: String,
        /// The error of the kernel.
        error: std::io::Error,
    },
    /// The node is down.
    #[error("node {node} is down{}", because(cause))]
    NodeDown {
        /// The node.
        node: String,
        /// The cause, if known.
        cause: String,
    },
    /// The peer ended during the measurement.
    #[error("the peer on {node} ended ({exit}) during the measurement")]
    PeerEnded {
        /// The node of the peer.
        node: String,
        /// How it ended.
        exit: String,
    },
    /// The other side does not answer.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// The length of the time.
        waited: Duration,
    },
    /// What arrived is not what was sent.
    #[error("message {message} of a run arrived with other bytes than were sent")]
    Corrupt {
        /// Counted from the start of the run.
        message: u64,
    },
    /// Messages are missing, or too many.
    #[error("{sent} messages were sent and {received} received")]
    Lost {
        /// The count of one side.
        sent: u64,
        /// The count of the other side.
        received: u64,
    },
    /// An unexpected message: the two sides are of different versions.
    #[error("the other side sent {length_bytes} bytes that make no sense here: rebuild with `make kit`")]
    Unexpected {
        /// Their length.
        length_bytes: usize,
    },
    /// The channel is too small for the two lines of the limit.
    #[error("the memory under a channel has {have_bytes} bytes; the limit is measured in {need_bytes}")]
    TooSmall {
        /// The length of that memory, in bytes.
        have_bytes: usize,
        /// What is needed.
        need_bytes: usize,
    },
    /// Rings that are placed by hand.
    #[error("cannot measure where slots and credit lie: {what}")]
    Placement {
        /// What failed.
        what: String,
    },
    /// Figures that a node takes of itself.
    #[error("cannot measure this node: {what}")]
    Figures {
        /// What failed.
        what: String,
    },
    /// The peer's arguments.
    #[error("'{found}' are not arguments of this program, which `tombolo bench ring` starts")]
    Arguments {
        /// The arguments, as given.
        found: String,
    },
    /// A connection to a virtual machine that has a network.
    #[error("{}: cannot {what}", crate::network::TCP_OVER_VIRTIO)]
    Network {
        /// What failed.
        what: String,
    },
    /// The kernel.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A channel or the monitor.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
}

impl Error {
    /// An error of figures that a node takes of itself.
    pub fn of_figures(error: impl std::fmt::Display) -> Error {
        Error::Figures { what: error.to_string() }
    }

    /// An error of rings that are placed by hand.
    pub fn of_placement(error: impl std::fmt::Display) -> Error {
        Error::Placement { what: error.to_string() }
    }
}

fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(": {cause}") }
}
