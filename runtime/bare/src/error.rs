//! Error type of this library.

use alloc::string::{String, ToString};
use core::time::Duration;

use tombolo_base::coherence::NoCacheInstructions;
use tombolo_base::{DomainId, OutOfRange, RegionId};
pub use tombolo_control::Fault;
use tombolo_control::{JobError, Unsendable};
use tombolo_link::HandshakeError;
use tombolo_naming::NameFault;

/// Error of an operation that was not performed. What was to be sent still belongs to the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room at the moment.
    #[error("the channel is not ready: try again or wait")]
    WouldBlock,
    /// The deadline passed; nothing has changed.
    #[error("waited {timeout:?} in vain for {what}")]
    TimedOut {
        /// Event that was waited for.
        what: String,
        /// Timeout of the operation.
        timeout: Duration,
    },
    /// The peer closed its end; everything that it sent before has been received.
    #[error("domain {peer} on node {node} closed the channel")]
    Closed {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
    },
    /// The peer died or its node was lost; everything that it sent before has been received.
    #[error("domain {peer} on node {node} died")]
    PeerDied {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
    },
    /// A relay between the two ends died. The peer may still be alive.
    #[error("the relay on node {relay} died, and with it the channel to domain {peer} on node {node}")]
    RelayDied {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Name of the node whose relay died.
        relay: String,
    },
    /// The message exceeds the maximum length of the channel.
    #[error("a message of {length_bytes} bytes is too long: the channel carries up to {max_bytes}")]
    TooLong {
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Maximum length on this channel, in bytes.
        max_bytes: usize,
    },
    /// The two sides of the channel are incompatible.
    #[error("the channel to domain {peer} on node {node} does not open: {why}")]
    Refused {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Reason of the handshake.
        why: HandshakeError,
    },
    /// The peer broke the protocol.
    #[error("domain {peer} on node {node} broke the protocol: {what}")]
    Violation {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// The peer's message, and the expected one.
        what: String,
    },
    /// An option was given a value that is not allowed.
    #[error("{option} cannot be {given}: choose {allowed}")]
    BadOption {
        /// Name of the function that sets the option.
        option: &'static str,
        /// Value that was given.
        given: u64,
        /// Values that are allowed.
        allowed: &'static str,
    },
    /// The right to the region was revoked.
    #[error("the right to region {region} was taken back: its memory is not this program's to use any more")]
    Revoked {
        /// Region that the right was for.
        region: RegionId,
    },
    /// The range is not within the memory.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The window is not coherent, and this processor has no cache maintenance instructions for it.
    #[error(transparent)]
    NoCacheInstructions(#[from] NoCacheInstructions),
    /// The program is not part of a job, or the requested rank does not exist or is its own.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The monitor refused a request.
    #[error(transparent)]
    Monitor(#[from] Fault),
    /// The monitor sent a message that is invalid here.
    #[error("the monitor broke the protocol: {0}")]
    MonitorProtocol(String),
}

impl Error {
    /// Returns the fault if this is an error of a request about names.
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
