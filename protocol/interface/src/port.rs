//! Interface of clients and servers to a channel.

use core::time::Duration;

use tombolo_base::DEFAULT_TIMEOUT;

use crate::client::BindError;
use crate::encode::Body;
use crate::message::Outgoing;
use crate::source::Source;

/// Contents that a link can carry besides bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carries {
    /// Whether it carries rights to endpoints, regions and other objects.
    pub capabilities: bool,
    /// Whether it carries bulk memory from pools.
    pub buffers: bool,
}

impl Carries {
    /// Only bytes, no other contents.
    pub const BYTES: Carries = Carries { capabilities: false, buffers: false };
}

/// Result of sending a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a message that found no room was not sent"]
pub enum Sent {
    /// The peer will receive the message, or learn that this end is gone.
    Accepted,
    /// There was no room in time. Nothing was sent.
    NoRoom,
}

/// Object that opens channels by name, such as a domain.
pub trait Connect {
    /// Type of a channel end.
    type Port: Port;
    /// Error of a channel that was not opened.
    type Error: From<BindError>;

    /// Opens a channel to the domain that exports `name` for an interface with this hash.
    ///
    /// # Errors
    /// The channel was not opened.
    fn connect_for(&self, name: &str, interface_hash: u64) -> Result<Self::Port, Self::Error>;
}

/// Channel together with the program's state for it, as a member of a waitset.
///
/// Generated clients and servers implement it, `tombolo::Channel` and `tombolo::BulkChannel`, and references
/// to all of them. A server may implement it for its state of a client, so that the set returns that together
/// with the channel.
pub trait Waited {
    /// Type of the channel.
    type End;

    /// Returns the channel, always the same one.
    fn end(&self) -> &Self::End;

    /// Returns the channel mutably, always the same one.
    fn end_mut(&mut self) -> &mut Self::End;
}

impl<T: Waited> Waited for &mut T {
    type End = T::End;

    #[inline]
    fn end(&self) -> &T::End {
        (**self).end()
    }

    #[inline]
    fn end_mut(&mut self) -> &mut T::End {
        (**self).end_mut()
    }
}

/// End of a channel that carries whole messages, in order, in both directions.
pub trait Port {
    /// Error of a channel that has ended, mostly by the death of the peer.
    type Error;

    /// Returns the time on a monotonic clock, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Returns the default timeout of calls.
    fn timeout(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// Returns the length limit of a message, in bytes.
    fn max_message_bytes(&self) -> usize;

    /// Returns the contents that it can carry besides bytes.
    fn carries(&self) -> Carries;

    /// Notifies the port that an interface with these requirements uses it from now on.
    fn bound(&mut self, needs: Carries) {
        let _ = needs;
    }

    /// Whether polling for a message costs no more than a few loads from memory.
    fn is_polled(&self) -> bool {
        false
    }

    /// Sends a whole message of at most [`max_message_bytes`](Self::max_message_bytes), or nothing. Waits for
    /// room up to `timeout`.
    ///
    /// # Errors
    /// The channel has ended.
    fn send<B: Body>(&mut self, message: &Outgoing<'_, B>, timeout: Duration) -> Result<Sent, Self::Error>;

    /// Receives the next message in place, waiting up to `timeout`, and returns whether there was one. In
    /// that case `read` is called once, and the message is consumed when it returns.
    ///
    /// `read` returns nothing: a result would be moved through all layers below and loaded in other pieces
    /// than it was stored in, which stalls store forwarding each time. Callers that need a result write it to
    /// a variable.
    ///
    /// # Errors
    /// The channel has ended, and everything sent before was received.
    fn recv(&mut self, timeout: Duration, read: impl FnMut(Source<'_>)) -> Result<bool, Self::Error>;
}
