//! Contract of a transport.

use std::os::fd::BorrowedFd;

use tombolo_link::TransportKind;
pub use tombolo_link::end::{Announced, EndError, Room, ShortMessage, Stats, Stored};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use crate::capabilities::Capabilities;
use crate::error::ChannelError;
use crate::memory::MemoryChannel;
use crate::message::{Batch, Draft, Message};

/// Description of a transport. Constant for its lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Description {
    /// Kind of the transport.
    pub kind: TransportKind,
    /// Capabilities beyond the contract.
    pub capabilities: Capabilities,
    /// Length limit of a message, in bytes.
    pub max_message_bytes: usize,
}

/// Object that holds one end of a channel, such as the end itself.
pub trait HasTransport {
    /// Transport of the channel.
    type Transport: Transport;

    /// Returns the channel end.
    fn transport(&self) -> &Self::Transport;

    /// Returns the channel end.
    fn transport_mut(&mut self) -> &mut Self::Transport;
}

impl<T: Transport> HasTransport for T {
    type Transport = T;

    #[inline]
    fn transport(&self) -> &T {
        self
    }

    #[inline]
    fn transport_mut(&mut self) -> &mut T {
        self
    }
}

/// End of a channel: two one-way queues of whole messages, in order. A message is lost only together with the
/// channel.
///
/// No method blocks. [`crate::wait`] turns them into operations with deadlines.
pub trait Transport {
    /// Returns the kind, capabilities and message limit.
    fn describe(&self) -> Description;

    /// Returns the counters of this end.
    fn stats(&self) -> Stats;

    /// Returns the cause of the failure after an operation returned [`EndError::Broken`]. After
    /// [`EndError::PeerDied`], returns a relay's report about the far end, if there is one.
    fn failure(&self) -> Option<ChannelError>;

    /// Sends a whole message, or nothing.
    ///
    /// # Errors
    /// [`EndError::Full`] when there is no room. [`EndError::TooLong`] concerns only this message. All others
    /// are final. The close or death of a peer may be noticed only after another message was accepted, which
    /// is then lost like all others that were accepted and not received.
    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError>;

    /// Returns this end as a channel in coherent memory, if it is one. A wrapper that adds little to an
    /// operation sends and receives through it, with inlined stores and loads. `None` by default.
    #[inline(always)]
    fn as_memory_channel(&mut self) -> Option<&mut MemoryChannel> {
        None
    }

    /// Receives the next message in place, if there is one. It is consumed when `read` returns.
    ///
    /// # Errors
    /// [`EndError::Closed`] and [`EndError::PeerDied`] only after everything sent before was received.
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError>
    where
        Self: Sized;

    /// Receives up to `max` messages in place, at a lower cost per message, and returns their number.
    ///
    /// # Errors
    /// Same as [`try_recv_in_place`](Self::try_recv_in_place), if none was received.
    fn try_recv_batch(&mut self, max: usize, mut read: impl FnMut(&Message<'_>)) -> Result<usize, EndError>
    where
        Self: Sized,
    {
        recv_one_by_one(self, max, &mut read)
    }

    /// Sends a message of `length_bytes` that `write` writes in place.
    ///
    /// # Errors
    /// Same as [`try_send`](Self::try_send); `write` was not called, or the message it wrote was not sent.
    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError>
    where
        Self: Sized,
    {
        if length_bytes > self.describe().max_message_bytes {
            return Err(EndError::TooLong);
        }
        let mut bytes = vec![0; length_bytes];
        write(&mut Draft::of_bytes(&mut bytes));
        self.try_send(&bytes)
    }

    /// Sends the messages that `fill` adds to a batch and returns their number. They are sent together if the
    /// transport can do that, at a lower cost per message.
    ///
    /// # Errors
    /// Same as [`try_send`](Self::try_send), if the channel has ended: `fill` was not called, or nothing that
    /// it added was sent.
    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError>
    where
        Self: Sized,
    {
        send_one_by_one(self, fill)
    }

    /// Whether the awaited condition holds. To read: [`try_recv_in_place`](Self::try_recv_in_place) would not
    /// return `None`. To write: [`try_send`](Self::try_send) of a message as long as the last refused one
    /// would not return [`EndError::Full`], and the kernel has taken all accepted messages.
    fn is_ready(&mut self, awaited: Interest) -> bool;

    /// Announces that this end is about to sleep for `awaited`. The caller must then, in this order: execute
    /// a [global barrier](tombolo_platform::barrier::global) if the result requires it, call
    /// [`may_sleep`](Self::may_sleep), sleep on [`sources`](Self::sources) if that returned true, and always
    /// call [`finish_sleep`](Self::finish_sleep). One barrier serves the announcements of many channels.
    #[must_use = "without the barrier a wake-up can be lost"]
    fn announce_sleep(&mut self, awaited: Interest) -> Announced;

    /// Polls a last time before a sleep. Returns false if the awaited condition already holds.
    ///
    /// After it returned true, every awaited action of the peer makes a source ready: no wake-up is lost.
    fn may_sleep(&mut self, awaited: Interest) -> bool;

    /// Appends the descriptors to sleep on. They are always the same in the same order; the interest in each
    /// may change with every announcement.
    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>);

    /// Sleeps on its own [`sources`](Self::sources) where that is faster, and returns whether one was ready
    /// before the deadline. Returns `None` if it did not sleep and the caller must.
    fn park(&mut self, _deadline: Deadline) -> Option<bool> {
        None
    }

    /// Withdraws the announcement. If `rung`, that is, a source was ready, it also reads the sources.
    fn finish_sleep(&mut self, rung: bool);

    /// Closes this end. The peer receives everything sent before, then [`EndError::Closed`].
    fn close(&mut self);
}

impl ChannelError {
    /// Returns the full error for `error`, returned by an operation of `transport` on a message of
    /// `length_bytes`.
    #[cold]
    pub fn of(transport: &impl Transport, error: EndError, length_bytes: usize) -> ChannelError {
        match error {
            EndError::Full => ChannelError::WouldBlock,
            EndError::TooLong => {
                ChannelError::TooLong { length_bytes, max_bytes: transport.describe().max_message_bytes }
            }
            EndError::Closed => ChannelError::Closed,
            EndError::PeerDied => match transport.failure() {
                Some(told @ ChannelError::Disconnected(_)) => told,
                _ => ChannelError::PeerDied,
            },
            EndError::Broken => transport
                .failure()
                .unwrap_or_else(|| ChannelError::Violation("the transport gives no details".into())),
        }
    }
}

/// Operations that are derived from those of any transport.
pub trait TransportExt: Transport {
    /// Returns the length limit of a message, in bytes.
    fn max_message_bytes(&self) -> usize {
        self.describe().max_message_bytes
    }

    /// Receives the next message into `buffer`, replacing its contents, and returns its length. Returns
    /// `None` if there is none.
    ///
    /// # Errors
    /// Same as [`try_recv_in_place`](Transport::try_recv_in_place).
    #[inline(always)]
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, EndError>
    where
        Self: Sized,
    {
        self.try_recv_in_place(|message| {
            message.copy_into(buffer);
            message.len()
        })
    }

    /// Whether a message, an end or an error can be received.
    #[inline]
    fn readable(&mut self) -> bool {
        self.is_ready(Interest::Read)
    }

    /// Whether bytes of accepted messages are still queued in this process. Offers them to the kernel first.
    /// Always false where sending is a store to memory.
    #[inline(always)]
    fn has_unsent(&mut self) -> bool {
        self.stats().unsent_bytes > 0 && {
            let _ = self.is_ready(Interest::Write);
            self.stats().unsent_bytes > 0
        }
    }
}

impl<T: Transport> TransportExt for T {}

/// Receives up to `max` messages one by one.
#[inline(never)]
pub(crate) fn recv_one_by_one<T: Transport>(
    transport: &mut T,
    max: usize,
    read: &mut dyn FnMut(&Message<'_>),
) -> Result<usize, EndError> {
    for received in 0..max {
        match transport.try_recv_in_place(&mut *read) {
            Ok(Some(())) => {}
            // The error persists; the next call returns it.
            Err(error) if received == 0 => return Err(error),
            _ => return Ok(received),
        }
    }
    Ok(max)
}

/// Runs a batch whose messages are each sent when added.
pub(crate) fn send_one_by_one<T: Transport>(
    transport: &mut T,
    fill: impl FnOnce(&mut Batch<'_>),
) -> Result<u64, EndError> {
    let mut end = None;
    let max_bytes = transport.describe().max_message_bytes;
    let mut send = |message: &[u8]| {
        transport.try_send(message).inspect_err(|error| match error {
            EndError::Full | EndError::TooLong => {}
            error => end = Some(*error),
        })
    };
    let mut batch = Batch::one_by_one(max_bytes, &mut send);
    fill(&mut batch);
    match (batch.commit(), end) {
        (0, Some(error)) => Err(error),
        (sent, _) => Ok(sent),
    }
}
