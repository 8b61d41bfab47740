//! Error type of this library.

mod bulk;

use std::time::Duration;

use tombolo_base::{ChannelId, DomainId, OutOfRange};
use tombolo_capability::RegionId;
pub use tombolo_control::Fault;
use tombolo_control::{JobError, RelayNode, Unsendable};
use tombolo_interface::{CallError, Malformed, ReplyError, ServeError};
use tombolo_link::DisconnectReason;
use tombolo_naming::TextError;
use tombolo_platform::OsError;
use tombolo_transport::ChannelError;

pub use bulk::BulkError;

/// Error of an operation that was not performed. Nothing is half done: what was to be sent still belongs to
/// the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room, or no message, at the moment.
    #[error("not ready: try again or wait")]
    WouldBlock,
    /// The deadline passed.
    #[error("waited {timeout:?} in vain for {what}")]
    TimedOut {
        /// Event that was waited for.
        what: String,
        /// Timeout of the operation.
        timeout: Duration,
    },
    /// The peer closed its end of the channel; everything it sent before has been received.
    #[error("domain {peer} on {node} closed {channel}")]
    Closed {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Id of the channel, the same on both sides.
        channel: ChannelId,
    },
    /// The peer died, or its node was lost; everything it sent before has been received.
    #[error("domain {peer} on {node} died, and {channel} with it: open a new channel once it is back")]
    PeerDied {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Id of the channel, the same on both sides.
        channel: ChannelId,
    },
    /// A relay between the two ends of a channel died. The peer may still be alive.
    #[error(
        "the relay on {relay} died, and with it {channel} to domain {peer} on {node}: open a new channel, which takes \
         another relay"
    )]
    RelayDied {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Id of the channel, the same on both sides.
        channel: ChannelId,
        /// Name of the node whose relay died.
        relay: String,
    },
    /// The message exceeds the maximum length of the channel.
    #[error(
        "a message of {length_bytes} bytes is too long for this channel, which carries up to {max_bytes}: \
         send it in parts, or open the channel with larger rings"
    )]
    TooLong {
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Maximum length on this channel, in bytes.
        max_bytes: usize,
    },
    /// The two sides of a channel are incompatible, or the far side declined.
    #[error("domain {peer} on {node} cannot open {channel} with this program: {why}")]
    Refused {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Id of the channel, the same on both sides.
        channel: ChannelId,
        /// The two values that differ, or the reason given.
        why: String,
    },
    /// The listener refused the request to open a channel.
    #[error("domain {peer} on {node}, which exports '{name}', refused this channel: {reason}")]
    OpeningRefused {
        /// Name that was connected to.
        name: String,
        /// Domain that listens there.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Reason that the listener gave.
        reason: String,
    },
    /// The peer broke the protocol; its channel can no longer be used.
    #[error("domain {peer} on {node} broke the protocol of {channel}: {what}")]
    Violation {
        /// Domain at the other end.
        peer: DomainId,
        /// Name of the peer's node.
        node: String,
        /// Id of the channel, the same on both sides.
        channel: ChannelId,
        /// The peer's message, and the expected one.
        what: String,
    },
    /// A call returned no results, or a message did not conform to its interface. [`CallError`] distinguishes
    /// the cases.
    #[error("{0}")]
    Call(String),
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
    /// An interface was bound to a channel that does not support it.
    #[error(transparent)]
    Bind(#[from] tombolo_interface::BindError),
    /// The monitor refused a request.
    #[error(transparent)]
    Monitor(#[from] Fault),
    /// The monitor is gone, and with it the machine.
    #[error("the monitor of machine '{machine}' is gone: bring it up again with `tombolo up`")]
    MonitorLost {
        /// Name of the machine.
        machine: String,
    },
    /// The program is not part of a job, or the requested rank does not exist or is its own.
    #[error(transparent)]
    Job(#[from] JobError),
    /// There is no machine to attach to.
    #[error("{0}")]
    NoMachine(String),
    /// The monitor sent a message that is invalid here.
    #[error("the monitor broke the protocol: {0}")]
    MonitorProtocol(String),
    /// The scheduling options of a thread could not be set.
    #[error("cannot {what}: {why}")]
    Scheduling {
        /// Options that were requested.
        what: String,
        /// Reason for the failure.
        why: String,
    },
    /// The text of a record or query has a syntax error.
    #[error("'{text}' is wrong at byte {offset}: {why}")]
    Text {
        /// Complete text.
        text: String,
        /// Offset of the error, in bytes.
        offset: usize,
        /// Description of the defect.
        why: String,
    },
    /// The right to mapped memory was revoked.
    #[error("the right to region {region} has been revoked")]
    Revoked {
        /// Region that the right was for.
        region: RegionId,
    },
    /// The range is not within the memory.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// An operation on pools or buffers failed.
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// The operating system returned an error.
    #[error("cannot {operation}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Os {
        /// The attempted operation, worded to follow "cannot".
        operation: String,
        /// Error number, as in `errno`.
        errno: i32,
    },
}

impl From<OsError> for Error {
    fn from(error: OsError) -> Self {
        Error::Os { operation: error.operation, errno: error.errno.raw_os_error() }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Error::Text { text: error.text, offset: error.offset, why: error.why }
    }
}

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Error::Call(format!("the message does not follow its interface: {error}"))
    }
}

/// Keeps the error of a channel that ended; any other becomes [`Error::Call`].
impl<D: std::fmt::Debug> From<CallError<Error, D>> for Error {
    fn from(error: CallError<Error, D>) -> Self {
        match error {
            CallError::Ended { error, .. } => error,
            CallError::TooLong { length_bytes, max_bytes } => Error::TooLong { length_bytes, max_bytes },
            other => Error::Call(other.to_string()),
        }
    }
}

/// Keeps the error of a channel that ended; any other becomes [`Error::Call`].
impl From<ServeError<Error>> for Error {
    fn from(error: ServeError<Error>) -> Self {
        match error {
            ServeError::Ended(error) => error,
            other => Error::Call(other.to_string()),
        }
    }
}

/// Keeps the error of a reply that was not sent; any other becomes [`Error::Call`].
impl From<ReplyError<Error>> for Error {
    fn from(error: ReplyError<Error>) -> Self {
        match error {
            ReplyError::NotSent(error) => error.into(),
            other => Error::Call(other.to_string()),
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

impl Error {
    /// Whether the other end of the channel is gone, for any reason.
    #[must_use]
    pub fn is_peer_gone(&self) -> bool {
        matches!(self, Error::PeerDied { .. } | Error::RelayDied { .. } | Error::Closed { .. })
    }

    /// Converts an error of a channel.
    pub(crate) fn of_channel(error: ChannelError, end: &End<'_>, timeout: Duration) -> Error {
        let (peer, node, channel) = (end.peer, end.node.to_owned(), end.channel);
        match error {
            ChannelError::WouldBlock => Error::WouldBlock,
            ChannelError::TimedOut(awaited) => {
                Error::TimedOut { what: format!("{awaited} domain {peer} on {node}, on {channel}"), timeout }
            }
            ChannelError::Closed => Error::Closed { peer, node, channel },
            // A relay that is alive reports who died.
            ChannelError::PeerDied => match end.via.first() {
                None => Error::PeerDied { peer, node, channel },
                Some(relay) => Error::RelayDied { peer, node, channel, relay: relay.name.clone() },
            },
            ChannelError::Disconnected(DisconnectReason::Died) => Error::PeerDied { peer, node, channel },
            ChannelError::Disconnected(DisconnectReason::RelayDied(on)) => {
                match end.via.iter().find(|relay| relay.node == on) {
                    // A peer that is not a relay can claim anything about its own end.
                    None => Error::PeerDied { peer, node, channel },
                    Some(relay) => Error::RelayDied { peer, node, channel, relay: relay.name.clone() },
                }
            }
            ChannelError::Disconnected(DisconnectReason::Broken) => {
                let what = "the relay beside it received what cannot be".to_owned();
                Error::Violation { peer, node, channel, what }
            }
            ChannelError::TooLong { length_bytes, max_bytes } => Error::TooLong { length_bytes, max_bytes },
            ChannelError::Violation(what) | ChannelError::Diverged(what) => {
                Error::Violation { peer, node, channel, what }
            }
            ChannelError::Handshake(why) => Error::Refused { peer, node, channel, why: why.to_string() },
            ChannelError::Os(error) => error.into(),
        }
    }
}

/// Other end of a channel, as described in errors.
pub(crate) struct End<'a> {
    pub(crate) channel: ChannelId,
    pub(crate) peer: DomainId,
    /// Name of the peer's node.
    pub(crate) node: &'a str,
    /// Relays between the two ends.
    pub(crate) via: &'a [RelayNode],
}
