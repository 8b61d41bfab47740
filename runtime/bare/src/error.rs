//! What can go wrong.

use alloc::string::{String, ToString};
use core::time::Duration;

use tombolo_base::coherence::NoCacheInstructions;
use tombolo_base::{DomainId, OutOfRange, RegionId};
pub use tombolo_control::Fault;
use tombolo_control::{JobError, Unsendable};
use tombolo_link::HandshakeError;
use tombolo_naming::NameFault;

/// Why an operation did not happen. What was to be sent is still the caller's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No room, right now.
    #[error("the channel is not ready: try again or wait")]
    WouldBlock,
    /// The deadline passed; everything is as it was.
    #[error("waited {timeout:?} in vain for {what}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        timeout: Duration,
    },
    /// The peer closed its end; everything it sent before has been received.
    #[error("domain {peer} on node {node} closed the channel")]
    Closed {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
    },
    /// The peer died or its node was lost; everything it sent before has been received.
    #[error("domain {peer} on node {node} died")]
    PeerDied {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
    },
    /// A relay between the two ends died. The peer may live.
    #[error("the relay on node {relay} died, and with it the channel to domain {peer} on node {node}")]
    RelayDied {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The name of the node whose relay died.
        relay: String,
    },
    /// Longer than the channel carries.
    #[error("a message of {length_bytes} bytes is too long: the channel carries up to {max_bytes}")]
    TooLong {
        /// Length of the message.
        length_bytes: usize,
        /// The longest that the channel carries.
        max_bytes: usize,
    },
    /// The two sides do not fit.
    #[error("the channel to domain {peer} on node {node} does not open: {why}")]
    Refused {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// What the handshake found wrong.
        why: HandshakeError,
    },
    /// The peer broke the protocol.
    #[error("domain {peer} on node {node} broke the protocol: {what}")]
    Violation {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// What it sent, and what it should have sent.
        what: String,
    },
    /// An option has a value that it cannot have.
    #[error("{option} cannot be {given}: choose {allowed}")]
    BadOption {
        /// The option, by the name of the function that sets it.
        option: &'static str,
        /// The value that was given.
        given: u64,
        /// The values that it can have.
        allowed: &'static str,
    },
    /// The right to the region was taken back.
    #[error("the right to region {region} was taken back: its memory is not this program's to use any more")]
    Revoked {
        /// The region.
        region: RegionId,
    },
    /// Bytes that do not lie in the memory.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The window is not coherent, and this processor has nothing to do about it.
    #[error(transparent)]
    NoCacheInstructions(#[from] NoCacheInstructions),
    /// The program has no place in a job, or not the one that was asked for.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The monitor could not do what was asked.
    #[error(transparent)]
    Monitor(#[from] Fault),
    /// The monitor said something that cannot be.
    #[error("the monitor broke the protocol: {0}")]
    MonitorProtocol(String),
}

impl Error {
    /// What is wrong with a name, if that is what the monitor said.
    #[must_use]
    pub fn name_fault(&self) -> Option<&NameFault> {
        match self {
            Error::Monitor(Fault::Name { fault }) => Some(fault),
            _ => None,
        }
    }
}

impl From<Unsendable> for Error {
    fn from(error: Unsendable) -> Self {
        match error {
            Unsendable::TooLong { length_bytes, max_bytes } => Error::TooLong { length_bytes, max_bytes },
            field => Error::Monitor(Fault::Limit { what: field.to_string() }),
        }
    }
}
