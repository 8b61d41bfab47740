//! The error of this library.

mod bulk;

use std::time::Duration;

use tombolo_base::{ChannelId, DomainId, OutOfRange};
use tombolo_capability::RegionId;
pub use tombolo_control::Fault;
use tombolo_control::{JobError, RelayNode, Unsendable};
use tombolo_interface::{CallError, Malformed, ReplyError, ServeError};
use tombolo_link::FarEnd;
use tombolo_naming::TextError;
use tombolo_platform::OsError;
use tombolo_transport::ChannelError;

pub use bulk::BulkError;

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
        /// For how long.
        timeout: Duration,
    },
    /// The peer closed its end of the channel; everything it sent before has been received.
    #[error("domain {peer} on {node} closed {channel}")]
    Closed {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The channel, by the id that both ends know.
        channel: ChannelId,
    },
    /// The peer died, or its node was lost; everything it sent before has been received.
    #[error("domain {peer} on {node} died, and {channel} with it: open a new channel once it is back")]
    PeerDied {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The channel, by the id that both ends know.
        channel: ChannelId,
    },
    /// A relay between the two ends of a channel died. The peer may live.
    #[error(
        "the relay on {relay} died, and with it {channel} to domain {peer} on {node}: open a new channel, which takes \
         another relay"
    )]
    RelayDied {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The channel, by the id that both ends know.
        channel: ChannelId,
        /// The name of the node whose relay died.
        relay: String,
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
    #[error("domain {peer} on {node} cannot open {channel} with this program: {why}")]
    Refused {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The channel, by the id that both ends know.
        channel: ChannelId,
        /// Both values, or the reason given.
        why: String,
    },
    /// The listener refused the request with which a channel was to be opened.
    #[error("domain {peer} on {node}, which exports '{name}', refused this channel: {reason}")]
    OpeningRefused {
        /// The name that was connected to.
        name: String,
        /// The domain that listens there.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The reason that it gave.
        reason: String,
    },
    /// The peer broke the protocol; its channel is of no use any more.
    #[error("domain {peer} on {node} broke the protocol of {channel}: {what}")]
    Violation {
        /// The domain at the other end.
        peer: DomainId,
        /// The name of its node.
        node: String,
        /// The channel, by the id that both ends know.
        channel: ChannelId,
        /// What it sent, and what it should have sent.
        what: String,
    },
    /// A call has no results, or what came over a channel is not what its interface says.
    /// [`CallError`] tells the cases apart.
    #[error("{0}")]
    Call(String),
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
    /// An interface was bound to a channel that lacks what it needs.
    #[error(transparent)]
    Bind(#[from] tombolo_interface::BindError),
    /// The monitor refused a request.
    #[error(transparent)]
    Monitor(#[from] Fault),
    /// The monitor is gone, and the machine with it.
    #[error("the monitor of machine '{machine}' is gone: bring it up again with `tombolo up`")]
    MonitorLost {
        /// The name of the machine.
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
    #[error("'{text}' is wrong at byte {offset}: {why}")]
    Text {
        /// All of it.
        text: String,
        /// Where it is wrong, in bytes from its start.
        offset: usize,
        /// What is wrong there.
        why: String,
    },
    /// The right to memory that is mapped was taken back.
    #[error("the right to region {region} has been revoked")]
    Revoked {
        /// The region that it was a right to.
        region: RegionId,
    },
    /// Bytes that do not lie in the memory.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// Something about pools and buffers could not be done.
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// The operating system refused something.
    #[error("cannot {operation}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Os {
        /// What was tried, to read after "cannot".
        operation: String,
        /// The number of the error, as in `errno`.
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

/// The end of a channel stays what it is; everything else is [`Error::Call`].
impl<D: std::fmt::Debug> From<CallError<Error, D>> for Error {
    fn from(error: CallError<Error, D>) -> Self {
        match error {
            CallError::Ended { error, .. } => error,
            CallError::TooLong { length_bytes, max_bytes } => Error::TooLong { length_bytes, max_bytes },
            other => Error::Call(other.to_string()),
        }
    }
}

/// The end of a channel stays what it is; everything else is [`Error::Call`].
impl From<ServeError<Error>> for Error {
    fn from(error: ServeError<Error>) -> Self {
        match error {
            ServeError::Ended(error) => error,
            other => Error::Call(other.to_string()),
        }
    }
}

/// The end of a channel stays what it is; everything else is [`Error::Call`].
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
    /// Whether the other end of a channel is gone, in whatever way.
    #[must_use]
    pub fn is_peer_gone(&self) -> bool {
        matches!(self, Error::PeerDied { .. } | Error::RelayDied { .. } | Error::Closed { .. })
    }

    /// An error of a channel.
    pub(crate) fn of_channel(error: ChannelError, end: &End<'_>, timeout: Duration) -> Error {
        let (peer, node, channel) = (end.peer, end.node.to_owned(), end.channel);
        match error {
            ChannelError::WouldBlock => Error::WouldBlock,
            ChannelError::TimedOut(awaited) => Error::TimedOut {
                what: format!("that domain {peer} on {node} {awaited} on {channel}"),
                timeout,
            },
            ChannelError::Closed => Error::Closed { peer, node, channel },
            // A relay that lives says who died.
            ChannelError::PeerDied => match end.via.first() {
                None => Error::PeerDied { peer, node, channel },
                Some(relay) => Error::RelayDied { peer, node, channel, relay: relay.name.clone() },
            },
            ChannelError::FarEnd(FarEnd::Died) => Error::PeerDied { peer, node, channel },
            ChannelError::FarEnd(FarEnd::RelayDied(on)) => {
                match end.via.iter().find(|relay| relay.node == on) {
                    // A peer that is no relay can say what it likes of its own end.
                    None => Error::PeerDied { peer, node, channel },
                    Some(relay) => Error::RelayDied { peer, node, channel, relay: relay.name.clone() },
                }
            }
            ChannelError::FarEnd(FarEnd::Broken) => {
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

/// The other end of a channel, for errors.
pub(crate) struct End<'a> {
    pub(crate) channel: ChannelId,
    pub(crate) peer: DomainId,
    /// The name of its node.
    pub(crate) node: &'a str,
    /// The relays on the way.
    pub(crate) via: &'a [RelayNode],
}
