//! What can go wrong on a channel.

use tombolo_link::HandshakeError;
use tombolo_link::end::EndError;
use tombolo_platform::OsError;

use crate::contract::Transport;

/// Why an operation on a channel did not happen. Ownership of what was to be sent stays with the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChannelError {
    /// No room, or nothing there, right now.
    #[error("the channel is not ready: try again or wait")]
    WouldBlock,
    /// The deadline passed. The channel is as it was.
    #[error("the deadline passed before the peer {0}")]
    TimedOut(Awaited),
    /// The peer closed its end; everything it sent before has been received.
    #[error("the peer closed the channel")]
    Closed,
    /// The peer died or its node was lost; everything it sent before has been received.
    #[error("the peer died")]
    PeerDied,
    /// Longer than the channel carries. Send it in parts, or open the channel with larger rings.
    #[error(
        "a message of {length_bytes} bytes is too long for this channel, which carries up to {max_bytes}"
    )]
    TooLong {
        /// The length of the message.
        length_bytes: usize,
        /// The longest this channel carries.
        max_bytes: usize,
    },
    /// The peer broke the protocol. The channel is of no use any more; nothing else is affected.
    #[error("the peer broke the protocol: {0}")]
    Violation(String),
    /// What is sent is not what was sent in the capture that is replayed.
    #[error("the program departs from the capture that is replayed: {0}")]
    Diverged(String),
    /// The two sides do not fit.
    #[error(transparent)]
    Handshake(HandshakeError),
    /// The operating system refused something.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl ChannelError {
    /// The full error for what an operation of `transport` on a message of `length_bytes` returned.
    #[cold]
    pub fn of(transport: &impl Transport, error: EndError, length_bytes: usize) -> ChannelError {
        match error {
            EndError::Full => ChannelError::WouldBlock,
            EndError::TooLong => {
                ChannelError::TooLong { length_bytes, max_bytes: transport.describe().max_message_bytes }
            }
            EndError::Closed => ChannelError::Closed,
            EndError::PeerDied => ChannelError::PeerDied,
            EndError::Broken => transport
                .failure()
                .unwrap_or_else(|| ChannelError::Violation("the transport does not say how".into())),
        }
    }
}

impl From<&ChannelError> for EndError {
    fn from(error: &ChannelError) -> Self {
        match error {
            ChannelError::WouldBlock | ChannelError::TimedOut(_) => EndError::Full,
            ChannelError::TooLong { .. } => EndError::TooLong,
            ChannelError::Closed => EndError::Closed,
            ChannelError::PeerDied => EndError::PeerDied,
            ChannelError::Violation(_)
            | ChannelError::Diverged(_)
            | ChannelError::Handshake(_)
            | ChannelError::Os(_) => EndError::Broken,
        }
    }
}

impl From<HandshakeError> for ChannelError {
    fn from(error: HandshakeError) -> Self {
        match error {
            // Nothing is wrong with either side, nor between them.
            HandshakeError::Withdrawn => ChannelError::Closed,
            error => ChannelError::Handshake(error),
        }
    }
}

/// What a wait was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A message.
    Message,
    /// Room for a message.
    Room,
    /// The other side of a handshake.
    Handshake,
    /// Anything on any of several channels.
    Any,
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Awaited::Message => "sent a message",
            Awaited::Room => "made room",
            Awaited::Handshake => "answered the handshake",
            Awaited::Any => "did anything on any channel",
        })
    }
}
