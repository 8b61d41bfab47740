//! What every transport does.

use std::os::fd::BorrowedFd;

use tombolo_link::TransportKind;
pub use tombolo_link::end::{Announced, EndError, Room, Stats};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use crate::capabilities::Capabilities;
use crate::error::ChannelError;
use crate::message::{Batch, Draft, Message};

/// What a transport says of itself. The same throughout its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Description {
    /// What carries it.
    pub kind: TransportKind,
    /// What it can do besides what every transport must.
    pub capabilities: Capabilities,
    /// The longest message that it carries, in bytes.
    pub max_message_bytes: usize,
}

/// Something that holds one end of a channel, such as the end itself.
pub trait Endpoint {
    /// What carries it.
    type Transport: Transport;

    /// The end.
    fn transport(&self) -> &Self::Transport;

    /// The end.
    fn transport_mut(&mut self) -> &mut Self::Transport;
}

impl<T: Transport> Endpoint for T {
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

/// One end of a channel: two one-way queues of whole messages, in order, lost only with the channel.
///
/// None of these blocks. [`crate::wait`] turns them into operations with deadlines.
pub trait Transport {
    /// What it is and what it can do.
    fn describe(&self) -> Description;

    /// What has passed so far.
    fn stats(&self) -> Stats;

    /// What broke the channel, once an operation said [`EndError::Broken`].
    fn failure(&self) -> Option<ChannelError>;

    /// Sends a message, whole or not at all.
    ///
    /// # Errors
    /// [`EndError::Full`] when there is no room; [`EndError::TooLong`] concerns this message only;
    /// the others are final. A peer that closes or dies may be noticed only after another message was accepted,
    /// which shares the fate of all that were accepted and not received.
    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError>;

    /// Receives the next message, if there is one, where it lies: it is consumed when `read` returns.
    ///
    /// # Errors
    /// [`EndError::Closed`] and [`EndError::PeerDied`] only after everything sent before was received.
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError>
    where
        Self: Sized;

    /// Receives up to `max` messages where they lie, at less cost for each than one by one. Says how many.
    ///
    /// # Errors
    /// As [`try_recv_in_place`](Self::try_recv_in_place), when not even one was received.
    fn try_recv_batch(&mut self, max: usize, mut read: impl FnMut(&Message<'_>)) -> Result<usize, EndError>
    where
        Self: Sized,
    {
        for received in 0..max {
            match self.try_recv_in_place(&mut read) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(received),
                Err(error) if received == 0 => return Err(error),
                Err(_) => return Ok(received),
            }
        }
        Ok(max)
    }

    /// Sends a message of `length_bytes` that `write` writes where it will be sent from.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send); `write` was not called, or what it wrote was not sent.
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

    /// Sends the messages that `fill` adds to a batch: together, where the transport can, and at less cost for each
    /// than one by one. Says how many.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send), when the channel had ended before: `fill` was not called, or
    /// nothing that it added was sent.
    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError>
    where
        Self: Sized,
    {
        one_by_one(self, fill)
    }

    /// Whether what is awaited is there. To read: [`try_recv_in_place`](Self::try_recv_in_place) would return something
    /// other than "none yet". To write: [`try_send`](Self::try_send) of a message as long as the one that last found no
    /// room would return something other than [`EndError::Full`], and the kernel has taken all that was accepted.
    fn is_ready(&mut self, awaited: Interest) -> bool;

    /// Announces that this end is about to sleep until `awaited` is possible. What follows is, in this order: a barrier
    /// [everywhere](tombolo_platform::barrier::everywhere) if the answer says so, [`may_sleep`](Self::may_sleep), a sleep on
    /// [`sources`](Self::sources) if that is true, and always [`woken`](Self::woken). One barrier does for the announcements
    /// of many channels.
    #[must_use = "without the barrier a wake-up can be lost"]
    fn announce_sleep(&mut self, awaited: Interest) -> Announced;

    /// The last look before a sleep: false when what is awaited came meanwhile, so that there is no need to.
    ///
    /// Once it returned true, whatever the peer does that was awaited makes a source ready: no wake-up is lost.
    fn may_sleep(&mut self, awaited: Interest) -> bool;

    /// What to sleep on: the same descriptors in the same order for as long as the channel lives; what is awaited on
    /// each may change with every announcement.
    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>);

    /// Sleeps by itself on what [`sources`](Self::sources) would be asked for, where that is quicker: whether a source was
    /// ready before the deadline. `None`: it did not, and the caller sleeps on the sources.
    fn park(&mut self, _deadline: Deadline) -> Option<bool> {
        None
    }

    /// Takes back the announcement. `rung` says that a source was ready: then takes note of what it has to say.
    fn woken(&mut self, rung: bool);

    /// Closes this end in order: the peer receives everything sent before, then [`EndError::Closed`].
    fn close(&mut self);
}

/// What follows from the operations of any transport.
pub trait TransportExt: Transport {
    /// The longest message that it carries, in bytes.
    fn max_message_bytes(&self) -> usize {
        self.describe().max_message_bytes
    }

    /// Receives the next message in place of what `buffer` held; `None` when there is none yet.
    ///
    /// # Errors
    /// As [`try_recv_in_place`](Transport::try_recv_in_place).
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

    /// Whether there is a message to receive, an end, or an error.
    #[inline]
    fn readable(&mut self) -> bool {
        self.is_ready(Interest::Read)
    }

    /// Whether bytes of an accepted message still wait in this process for the kernel to take them. Gives it
    /// what it takes now. Always false where sending is a store to memory.
    #[inline(always)]
    fn unsent(&mut self) -> bool {
        self.stats().unsent_bytes > 0 && {
            let _ = self.is_ready(Interest::Write);
            self.stats().unsent_bytes > 0
        }
    }
}

impl<T: Transport> TransportExt for T {}

/// A batch of messages each of which is sent when it is added.
pub(crate) fn one_by_one<T: Transport>(
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
