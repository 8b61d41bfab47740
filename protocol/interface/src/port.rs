//! What clients and servers need of a channel.

use core::time::Duration;

use tombolo_base::DEFAULT_TIMEOUT;

use crate::client::BindError;
use crate::encode::Body;
use crate::message::Outgoing;
use crate::source::Source;

/// What a link can carry besides bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carries {
    /// Rights to endpoints, regions and the like.
    pub capabilities: bool,
    /// Bulk memory out of pools.
    pub buffers: bool,
}

impl Carries {
    /// Bytes and nothing else.
    pub const BYTES: Carries = Carries { capabilities: false, buffers: false };
}

/// What became of a message that was to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a message that found no room was not sent"]
pub enum Sent {
    /// The peer receives it, or learns that this end is gone.
    Accepted,
    /// There was no room in time: nothing was sent.
    NoRoom,
}

/// What opens channels by name, as a domain does.
pub trait Connect {
    /// A channel's end.
    type Port: Port;
    /// Why it was not opened.
    type Error: From<BindError>;

    /// Opens a channel to the domain that exports `name` for an interface of that hash.
    ///
    /// # Errors
    /// It was not opened.
    fn connect_for(&self, name: &str, interface_hash: u64) -> Result<Self::Port, Self::Error>;
}

/// One end of a channel: whole messages, in order, both ways.
pub trait Port {
    /// Why it is of no use any more, the death of the peer above all.
    type Error;

    /// Nanoseconds of a clock that never goes back.
    fn now_ns(&self) -> u64;

    /// How long calls wait where nothing else is said.
    fn timeout(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// The longest message, in bytes.
    fn max_message_bytes(&self) -> usize;

    /// What it can carry besides bytes.
    fn carries(&self) -> Carries;

    /// An interface that needs as much is used over it from now on.
    fn bound(&mut self, needs: Carries) {
        let _ = needs;
    }

    /// Whether looking for a message costs no more than a few loads from memory.
    fn is_polled(&self) -> bool {
        false
    }

    /// Sends a message that is not longer than [`max_message_bytes`](Self::max_message_bytes), whole or not
    /// at all, waiting for room up to `timeout`.
    ///
    /// # Errors
    /// The channel has ended.
    fn send<B: Body>(&mut self, message: &Outgoing<'_, B>, timeout: Duration) -> Result<Sent, Self::Error>;

    /// Receives the next message where it lies, waiting up to `timeout`, and says whether there was one:
    /// `read` is called once then, and the message is consumed when it returns.
    ///
    /// It returns nothing: a result would be moved through all layers below, read back in other pieces than
    /// it was just stored in, for which a processor waits each time. A caller that wants one has a place for
    /// it.
    ///
    /// # Errors
    /// The channel has ended, and everything sent before was received.
    fn recv(&mut self, timeout: Duration, read: impl FnMut(Source<'_>)) -> Result<bool, Self::Error>;
}
