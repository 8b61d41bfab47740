//! Errors of a channel.

use tombolo_link::end::EndError;
use tombolo_link::{DisconnectReason, HandshakeError};
use tombolo_platform::OsError;

/// Error of an operation on a channel. The caller keeps ownership of the message to be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ChannelError {
    /// There is no room, or no message, at the moment.
    #[error("the channel is not ready; try again or wait")]
    WouldBlock,
    /// The deadline passed. The channel is unchanged.
    #[error("timed out waiting for {0} the peer")]
    TimedOut(Awaited),
    /// The peer closed its end; everything it sent before has been received.
    #[error("the peer closed the channel")]
    Closed,
    /// The peer died or its node was lost; everything it sent before has been received.
    #[error("the peer died")]
    PeerDied,
    /// A relay on the path reported how the far end ended. Everything that came before has been received.
    #[error("{}", describe_disconnect(*.0))]
    Disconnected(DisconnectReason),
    /// The message exceeds the channel's limit. Send it in parts, or open the channel with larger rings.
    #[error("a message of {length_bytes} bytes exceeds this channel's limit of {max_bytes} bytes")]
    TooLong { length_bytes: usize, max_bytes: usize },
    /// The peer violated the protocol. The channel has failed permanently; nothing else is affected.
    #[error("the peer broke the protocol: {0}")]
    Violation(String),
    /// The program diverges from the replayed capture: it sends something else.
    #[error("the program diverged from the replayed capture: {0}")]
    Diverged(String),
    /// The two sides do not agree on the channel.
    #[error(transparent)]
    Handshake(HandshakeError),
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl From<&ChannelError> for EndError {
    fn from(error: &ChannelError) -> Self {
        match error {
            ChannelError::WouldBlock | ChannelError::TimedOut(_) => EndError::Full,
            ChannelError::TooLong { .. } => EndError::TooLong,
            ChannelError::Closed => EndError::Closed,
            ChannelError::PeerDied | ChannelError::Disconnected(_) => EndError::PeerDied,
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
            // A withdrawal is not an error of either side.
            HandshakeError::Withdrawn => ChannelError::Closed,
            error => ChannelError::Handshake(error),
        }
    }
}

/// Formats the report of a relay as a sentence.
fn describe_disconnect(what: DisconnectReason) -> String {
    match what {
        DisconnectReason::Died => "the peer died".to_owned(),
        DisconnectReason::RelayDied(node) => format!("the relay on node {node} died"),
        DisconnectReason::Broken => "the peer broke the protocol towards its relay".to_owned(),
    }
}

/// Event that a wait waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A message.
    Message,
    /// Room for a message.
    Room,
    /// The peer's part of a handshake.
    Handshake,
    /// Any event on any of several channels.
    Any,
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Awaited::Message => "a message from",
            Awaited::Room => "room towards",
            Awaited::Handshake => "the handshake of",
            Awaited::Any => "anything from",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_say_what_was_awaited() {
        let text = |awaited| ChannelError::TimedOut(awaited).to_string();
        assert_eq!(text(Awaited::Message), "timed out waiting for a message from the peer");
        assert_eq!(text(Awaited::Room), "timed out waiting for room towards the peer");
        assert_eq!(text(Awaited::Handshake), "timed out waiting for the handshake of the peer");
        assert_eq!(text(Awaited::Any), "timed out waiting for anything from the peer");
    }
}
