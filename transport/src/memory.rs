//! Channels over two rings in memory that both sides map: [`ChannelEnd`] with the signals of Linux.

use std::any::Any;
use std::os::fd::BorrowedFd;

use tombolo_base::{CacheMaintenance, Coherent, SharedMemory};
use tombolo_link::end::{Announced, Awaited, ChannelEnd, EndError, Head, Peek};
use tombolo_link::hello::Agreed;
use tombolo_link::open::{self, Opening};
use tombolo_link::{DisconnectReason, Hello, Side, TransportKind, disconnect_reason};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use crate::capabilities::Capabilities;
use crate::connection::Connection;
use crate::contract::{Description, ShortMessage, Stats, Stored, Transport};
use crate::error::ChannelError;
use crate::message::{Batch, Draft, Message, MessageMemory};

/// End of a channel over rings in memory.
#[derive(Debug)]
pub struct MemoryChannel<C: CacheMaintenance = Coherent> {
    kind: TransportKind,
    side: Side,
    end: ChannelEnd<Connection, C>,
    memory: SharedMemory<C>,
}

impl<C: MessageMemory> MemoryChannel<C> {
    /// Opens one side of a channel in `memory`: runs the handshake, then attaches to the rings.
    pub(crate) fn open(
        kind: TransportKind,
        memory: SharedMemory<C>,
        side: Side,
        hello: Hello,
        mut connection: Connection,
        deadline: Deadline,
    ) -> Result<Self, ChannelError> {
        let mut opening =
            Opening::start(&memory, side, hello, &mut connection).map_err(|error| invalid_memory(&error))?;
        let agreed = connection.open(&mut opening, deadline).map_err(|error| match error {
            ChannelError::PeerDied => disconnect_reason::disconnect_reason(&memory, side)
                .map_or(ChannelError::PeerDied, ChannelError::Disconnected),
            error => error,
        })?;
        Self::opened(kind, memory, side, opening, agreed, connection)
    }

    /// Creates the end after the handshake.
    pub(crate) fn opened(
        kind: TransportKind,
        memory: SharedMemory<C>,
        side: Side,
        opening: Opening<C>,
        agreed: Agreed,
        connection: Connection,
    ) -> Result<Self, ChannelError> {
        let end = opening.attach(agreed, connection).map_err(|error| invalid_memory(&error))?;
        Ok(MemoryChannel { kind, side, end, memory })
    }

    /// Ends this side as a relay does when the end behind it is gone. Drop the channel afterwards.
    pub(crate) fn abort(&mut self, why: DisconnectReason) {
        // The memory has the line for it: the handshake used it.
        let _ = disconnect_reason::report(&self.memory, self.side, why);
        self.abandon();
    }

    /// Ends this side without closing. Drop the channel afterwards.
    pub(crate) fn abandon(&mut self) {
        self.end.abandon();
    }

    /// Declines a channel that a peer proposes in `memory`.
    pub(crate) fn decline(
        memory: &SharedMemory<C>,
        side: Side,
        hello: Hello,
        reason: u32,
        mut connection: Connection,
    ) -> Result<(), ChannelError> {
        open::decline(memory, side, hello, reason, &mut connection).map_err(|error| invalid_memory(&error))
    }
}

impl<C: CacheMaintenance> MemoryChannel<C> {
    /// Converts the channel to its bare memory, header and rings, for measurements. Both programs may then
    /// use the memory freely; the rings no longer work.
    #[must_use]
    pub fn into_raw_memory(self) -> RawMemory<C> {
        RawMemory { memory: self.memory.clone(), _channel: self }
    }
}

/// Returns the error for memory that cannot hold the agreed channel.
pub(crate) fn invalid_memory(error: &dyn std::fmt::Display) -> ChannelError {
    ChannelError::Violation(error.to_string())
}

/// Operations with loads and stores alone, for [`Transport::as_memory_channel`].
impl MemoryChannel {
    /// Sends a message of the given size if stores to memory suffice; see [`Stored`].
    #[inline(always)]
    pub fn try_store(&mut self, message: &[u8], size: ShortMessage) -> Stored {
        self.end.try_store(message, size)
    }

    /// Completes a send that returned [`Stored::Unfinished`].
    pub fn finish(&mut self) {
        self.end.finish();
    }

    /// Returns the next message if loads alone find it. Read it with [`message`](Self::message); it stays
    /// until [`consume`](Self::consume).
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Peek {
        self.end.peek()
    }

    /// Returns the content of a message found by [`peek`](Self::peek).
    #[inline(always)]
    pub(crate) fn message(&self, head: &Head) -> Message<'_> {
        Coherent::message(self.end.view(head))
    }

    /// Consumes a message found by [`peek`](Self::peek). Returns whether that may have rung the peer.
    #[inline(always)]
    pub(crate) fn consume(&mut self, head: Head) -> bool {
        self.end.consume(head)
    }
}

fn awaited(interest: Interest) -> Awaited {
    match interest {
        Interest::Read => Awaited::Message,
        Interest::Write => Awaited::Room,
        Interest::ReadWrite => Awaited::Both,
    }
}

impl<C: MessageMemory> Transport for MemoryChannel<C> {
    fn describe(&self) -> Description {
        let capabilities = match self.kind.traits().atomics {
            true => Capabilities::OF_SHARED_MEMORY,
            false => Capabilities::OF_WINDOW,
        };
        Description { kind: self.kind, capabilities, max_message_bytes: self.end.max_message_bytes() }
    }

    #[inline(always)]
    fn stats(&self) -> Stats {
        self.end.stats()
    }

    fn failure(&self) -> Option<ChannelError> {
        match self.end.violation() {
            Some(violation) => Some(ChannelError::Violation(violation.to_string())),
            None => {
                disconnect_reason::disconnect_reason(&self.memory, self.side).map(ChannelError::Disconnected)
            }
        }
    }

    #[inline(always)]
    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.end.try_send(message)
    }

    #[inline(always)]
    fn as_memory_channel(&mut self) -> Option<&mut MemoryChannel> {
        // Resolved at compile time, because both types are known.
        (self as &mut dyn Any).downcast_mut()
    }

    #[inline(always)]
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        self.end.try_recv(|message| read(&C::message(message)))
    }

    #[inline(always)]
    fn try_recv_batch(&mut self, max: usize, mut read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        self.end.try_recv_batch(max, |message| read(&C::message(message)))
    }

    #[inline(always)]
    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError> {
        self.end.try_send_in_place(length_bytes, |claim| {
            let mut draft = C::draft(claim);
            write(&mut draft);
            draft.commit();
        })
    }

    #[inline(always)]
    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError> {
        self.end.try_send_batch(|batch| {
            let mut batch = C::batch(batch);
            fill(&mut batch);
            batch.commit();
        })
    }

    #[inline]
    fn is_ready(&mut self, interest: Interest) -> bool {
        self.end.is_ready(awaited(interest))
    }

    fn announce_sleep(&mut self, interest: Interest) -> Announced {
        self.end.announce(awaited(interest))
    }

    fn may_sleep(&mut self, interest: Interest) -> bool {
        self.end.may_sleep(awaited(interest))
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.end.signals().sources(sources);
    }

    fn park(&mut self, deadline: Deadline) -> Option<bool> {
        self.end.signals_mut().park(deadline)
    }

    fn finish_sleep(&mut self, rung: bool) {
        self.end.finish_sleep(rung);
    }

    fn close(&mut self) {
        self.end.close();
    }
}

impl<C: CacheMaintenance> Drop for MemoryChannel<C> {
    fn drop(&mut self) {
        self.end.close();
    }
}

/// Bare memory of a former channel.
#[derive(Debug)]
pub struct RawMemory<C: CacheMaintenance = Coherent> {
    /// Header, followed by the rings.
    pub memory: SharedMemory<C>,
    /// Keeps the lifeline, so that the peer's end stays open while the memory is in use.
    _channel: MemoryChannel<C>,
}
