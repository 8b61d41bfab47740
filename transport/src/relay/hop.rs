//! A relay's end of a channel, over memory or a stream.

use std::os::fd::BorrowedFd;

use tombolo_base::coherence::Flushed;
use tombolo_link::end::EndError;
use tombolo_link::{FarEnd, relay};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use crate::contract::{Announced, Description, Stats, Transport, TransportExt};
use crate::error::ChannelError;
use crate::memory::MemoryChannel;
use crate::message::{Batch, Draft, Message};
use crate::stream::StreamChannel;

/// A relay's end of one of the two channels that it joins.
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
    /// Ends without a close and without a word, as the death of this process would.
    pub(super) fn abandon(&mut self) {
        on!(self, channel => channel.abandon());
    }
}

impl Transport for Hop {
    fn describe(&self) -> Description {
        on!(self, channel => channel.describe())
    }

    fn stats(&self) -> Stats {
        on!(self, channel => channel.stats())
    }

    fn failure(&self) -> Option<ChannelError> {
        on!(self, channel => channel.failure())
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        on!(self, channel => channel.try_send(message))
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        on!(self, channel => channel.try_recv_in_place(read))
    }

    fn try_recv_batch(&mut self, max: usize, read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        on!(self, channel => channel.try_recv_batch(max, read))
    }

    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError> {
        on!(self, channel => channel.try_send_in_place(length_bytes, write))
    }

    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError> {
        on!(self, channel => channel.try_send_batch(fill))
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        on!(self, channel => channel.is_ready(awaited))
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        on!(self, channel => channel.announce_sleep(awaited))
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        on!(self, channel => channel.may_sleep(awaited))
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        on!(self, channel => channel.sources(awaited, sources));
    }

    fn park(&mut self, deadline: Deadline) -> Option<bool> {
        on!(self, channel => channel.park(deadline))
    }

    fn woken(&mut self, rung: bool) {
        on!(self, channel => channel.woken(rung));
    }

    fn close(&mut self) {
        on!(self, channel => channel.close());
    }
}

impl relay::Hop for Hop {
    fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, EndError> {
        self.try_recv_into(buffer).map(|length| length.is_some())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.try_send(message)
    }

    fn has_unsent(&mut self) -> bool {
        self.unsent()
    }

    fn told(&self) -> Option<FarEnd> {
        match self.failure() {
            Some(ChannelError::FarEnd(told)) => Some(told),
            _ => None,
        }
    }

    fn close(&mut self) {
        Transport::close(self);
    }

    fn leave(&mut self, why: FarEnd) {
        on!(self, channel => channel.leave(why));
    }
}
