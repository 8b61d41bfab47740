//! End of a channel at a relay, over memory or a stream.

use tombolo_base::coherence::Flushed;
use tombolo_link::end::EndError;
use tombolo_link::{DisconnectReason, relay};

use crate::contract::{Transport, TransportExt};
use crate::error::ChannelError;
use crate::memory::MemoryChannel;
use crate::stream::StreamChannel;

/// Relay's end of one of the two channels that it joins.
#[derive(Debug)]
pub enum Hop {
    /// Over rings in memory.
    Memory(Box<MemoryChannel>),
    /// Over rings in a window whose lines are written back and invalidated.
    Flushed(Box<MemoryChannel<Flushed>>),
    /// Over a byte stream.
    Stream(Box<StreamChannel>),
}

macro_rules! on {
    ($hop:expr, $channel:ident => $body:expr) => {
        match $hop {
            Hop::Memory($channel) => $body,
            Hop::Flushed($channel) => $body,
            Hop::Stream($channel) => $body,
        }
    };
}

impl Hop {
    /// Ends without closing and without a report, as the death of this process would.
    pub(super) fn abandon(&mut self) {
        on!(self, channel => channel.abandon());
    }
}

transport_of_variants!(Hop { Memory, Flushed, Stream });

impl relay::Hop for Hop {
    fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, EndError> {
        self.try_recv_into(buffer).map(|length| length.is_some())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.try_send(message)
    }

    fn has_unsent(&mut self) -> bool {
        TransportExt::has_unsent(self)
    }

    fn disconnect_reason(&self) -> Option<DisconnectReason> {
        match self.failure() {
            Some(ChannelError::Disconnected(reason)) => Some(reason),
            _ => None,
        }
    }

    fn close(&mut self) {
        Transport::close(self);
    }

    fn abort(&mut self, why: DisconnectReason) {
        on!(self, channel => channel.abort(why));
    }
}
