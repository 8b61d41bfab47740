//! What can go wrong, for programs.

use std::time::Duration;

use tombolo_base::{DomainId, OutOfRange};
use tombolo_capability::RegionId;
use tombolo_control::{Fault, JobError, Unsendable};
use tombolo_platform::OsError;
use tombolo_transport::ChannelError;

use crate::bulk::BulkError;
use crate::files::FileError;

/// Why an operation did not happen. Nothing is half done: what was to be sent is still the caller's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No room, or nothing there, right now.
    #[error("not ready: try again or wait")]
    WouldBlock,
    /// The deadline passed.
    #[error("{what} did not happen within {timeout:?}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        timeout: Duration,
    },
    /// The peer closed its end of the channel; everything it sent before has been received.
    #[error("domain {peer} on {node} closed the channel")]
    Closed {
        /// Who.
        peer: DomainId,
        /// Its node.
        node: String,
    },
    /// The peer died, or its node was lost; everything it sent before has been received.
    #[error("domain {peer} on {node} died (open a new channel once it is back)")]
    PeerDied {
        /// Who.
        peer: DomainId,
        /// Its node.
        node: String,
    },
    /// The message is longer than the channel carries.
    #[error(
        "a message of {length_bytes} bytes is too long for this channel, which carries up to {max_bytes}: \
         send it in parts, or open the channel with larger rings"
    )]
    TooLong {
        /// The length of the message.
        length_bytes: usize,
        /// The longest this channel carries.
        max_bytes: usize,
    },
    /// The two sides of a channel do not fit, or the far side declined.
    #[error("domain {peer} on {node}: {why}")]
    Refused {
        /// Who.
        peer: DomainId,
        /// Its node.
        node: String,
        /// Both values, or the reason given.
        why: String,
    },
    /// The peer broke the protocol; its channel is of no use any more.
    #[error("domain {peer} on {node} broke the protocol: {what}")]
    Violation {
        /// Who.
        peer: DomainId,
        /// Its node.
        node: String,
        /// How.
        what: String,
    },
    /// A client took no answers, and was let go.
    #[error("domain {peer} on {node}: {why}")]
    Stuck {
        /// Who.
        peer: DomainId,
        /// Its node.
        node: String,
        /// How long it was waited for.
        why: String,
    },
    /// An interface was bound to a channel that lacks what it needs.
    #[error(transparent)]
    Bind(#[from] tombolo_interface::BindError),
    /// The monitor refused a request.
    #[error(transparent)]
    Monitor(#[from] Fault),
    /// The monitor is gone, and the machine with it.
    #[error("the monitor of machine '{machine}' is gone: bring it up again with `tombolo up`")]
    MonitorLost {
        /// Which machine.
        machine: String,
    },
    /// The program has no place in a job, or not the one that was asked for.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No machine to attach to.
    #[error("{0}")]
    NoMachine(String),
    /// The monitor said something that cannot be.
    #[error("the monitor broke the protocol: {0}")]
    MonitorProtocol(String),
    /// A thread may not run as it was to.
    #[error("cannot {what}: {why}")]
    Scheduling {
        /// What was asked for.
        what: String,
        /// What is missing.
        why: String,
    },
    /// A record or query as it was written cannot be understood.
    #[error(transparent)]
    Text(#[from] tombolo_naming::TextError),
    /// The right to memory that is mapped was taken back.
    #[error("the right to region {region} has been revoked")]
    Revoked {
        /// Which.
        region: RegionId,
    },
    /// Bytes that do not lie in the memory.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Something about pools and buffers could not be done.
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// Something about files could not be done.
    #[error(transparent)]
    File(#[from] FileError),
    /// The operating system refused something.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl From<Unsendable> for Error {
    fn from(error: Unsendable) -> Self {
        match error {
            Unsendable::TooLong { length_bytes, max_bytes } => Error::TooLong { length_bytes, max_bytes },
            field => Error::Monitor(Fault::Limit { what: field.to_string() }),
        }
    }
}

impl Error {
    /// Whether the other end of a channel is gone, in whatever way.
    #[must_use]
    pub fn is_peer_gone(&self) -> bool {
        matches!(self, Error::PeerDied { .. } | Error::Closed { .. })
    }

    /// An error of a channel, with who is at its other end.
    pub(crate) fn of_channel(error: ChannelError, peer: DomainId, node: &str, timeout: Duration) -> Error {
        let node = node.to_owned();
        match error {
            ChannelError::WouldBlock => Error::WouldBlock,
            ChannelError::TimedOut(awaited) => {
                Error::TimedOut { what: format!("that domain {peer} on {node} {awaited}"), timeout }
            }
            ChannelError::Closed => Error::Closed { peer, node },
            ChannelError::PeerDied => Error::PeerDied { peer, node },
            ChannelError::TooLong { length_bytes, max_bytes } => Error::TooLong { length_bytes, max_bytes },
            ChannelError::Violation(what) | ChannelError::Diverged(what) => {
                Error::Violation { peer, node, what }
            }
            ChannelError::Handshake(why) => Error::Refused { peer, node, why: why.to_string() },
            ChannelError::Os(error) => Error::Os(error),
        }
    }
}
