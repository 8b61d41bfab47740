//! What can go wrong in a measurement.

use std::path::PathBuf;
use std::time::Duration;

use tombolo_platform::OsError;

/// Why something was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The peer's program is not there.
    #[error(
        "the measuring program is not at {}: build it with `make setup && make kit`, or say where it is",
        path.display()
    )]
    NoImage {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Two sides that poll need a processor each.
    #[error(
        "measuring takes two processors, one for each side, and this program may use {allowed}: \
         allow it more (taskset, cgroups) or measure on another host"
    )]
    TooFewCpus {
        /// How many it may use.
        allowed: usize,
    },
    /// The kernel refused something about processors.
    #[error("cannot {what}: {error} (`--no-pin` measures without)")]
    Cpus {
        /// What.
        what: String,
        /// Its answer.
        error: std::io::Error,
    },
    /// The node does not run.
    #[error("node {node} is down{}", because(cause))]
    NodeDown {
        /// Which.
        node: String,
        /// Why, if known.
        cause: String,
    },
    /// The peer ended in the middle.
    #[error("the peer on {node} ended ({exit}) during the measurement")]
    PeerEnded {
        /// Where.
        node: String,
        /// How.
        exit: String,
    },
    /// The other side says nothing.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// How long.
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
        /// By the one side.
        sent: u64,
        /// By the other.
        received: u64,
    },
    /// A message where none, or another, belongs: the two sides are of different versions.
    #[error("the other side sent {length_bytes} bytes that make no sense here: rebuild with `make kit`")]
    Unexpected {
        /// Their length.
        length_bytes: usize,
    },
    /// The channel is too small for the two lines of the limit.
    #[error("the memory under a channel has {have_bytes} bytes; the limit is measured in {need_bytes}")]
    TooSmall {
        /// What it has.
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
    /// The peer's arguments.
    #[error("'{found}' are not arguments of this program, which `tombolo bench ring` starts")]
    Arguments {
        /// What was given.
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
    /// What failed of rings that are placed by hand.
    pub fn of_placement(error: impl std::fmt::Display) -> Error {
        Error::Placement { what: error.to_string() }
    }
}

fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(": {cause}") }
}
