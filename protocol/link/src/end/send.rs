//! Send path of a channel end.

use tombolo_base::CacheMaintenance;
use tombolo_ring::{Batch, Claim, SendError, ShortMessage};

use super::{ChannelEnd, EndError, Signals, Stored};

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// Sends a whole message, or nothing.
    ///
    /// # Errors
    /// [`EndError`]; nothing was sent.
    #[inline(always)]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        match self.try_store(message, ShortMessage::OneSlot) {
            Stored::Nothing => return self.send_slow(message),
            Stored::Message => {}
            Stored::Unfinished => self.finish(),
        }
        Ok(())
    }

    /// Sends a message if stores to memory suffice. Makes no call; see [`Stored`].
    #[inline(always)]
    pub fn try_store(&mut self, message: &[u8], size: ShortMessage) -> Stored {
        self.send_credit();
        if !self.ends.producer.try_send_sized(message, size) {
            return Stored::Nothing;
        }
        if self.ends.waker.is_quiet() { Stored::Message } else { Stored::Unfinished }
    }

    /// Completes a send that returned [`Stored::Unfinished`]: wakes the peer if it sleeps.
    #[inline(never)]
    pub fn finish(&mut self) {
        self.wake_peer();
    }

    /// Sends a message of several slots, or one without known room.
    #[inline(never)]
    fn send_slow(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.record_credit();
        match self.ends.producer.try_send(message) {
            Ok(()) => {
                self.wake_peer();
                Ok(())
            }
            Err(error) => Err(self.on_send_error(error)),
        }
    }

    /// Sends a message of `length_bytes` that `write` writes in place and commits. A dropped claim sends
    /// nothing.
    ///
    /// # Errors
    /// [`EndError`]; `write` was not called.
    #[inline(always)]
    pub fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(Claim<'_, C>),
    ) -> Result<(), EndError> {
        self.record_credit();
        self.send_credit();
        // A separate statement, because the claim borrows the ring until the end of its statement.
        let failed = self.ends.producer.claim(length_bytes).map(write).err();
        match failed {
            None => {
                self.wake_peer();
                Ok(())
            }
            Some(error) => Err(self.on_send_error(error)),
        }
    }

    /// Sends the messages that `fill` adds to a batch and commits, all at once. A dropped batch sends
    /// nothing. Returns the number of messages sent.
    ///
    /// # Errors
    /// [`EndError`] when the channel has ended; `fill` was not called.
    #[inline(always)]
    pub fn try_send_batch(&mut self, fill: impl FnOnce(Batch<'_, C>)) -> Result<u64, EndError> {
        if let Err(error) = self.ends.producer.check_open() {
            return Err(self.on_send_error(error));
        }
        self.record_credit();
        self.send_credit();
        let producer = &mut self.ends.producer;
        let before = producer.counters();
        fill(producer.batch());
        let after = producer.counters();
        if after.messages != before.messages {
            self.wake_peer();
        }
        if after.refused_full != before.refused_full {
            // As after any send that found no room.
            self.check_lifeline_periodically();
        }
        Ok(after.messages - before.messages)
    }

    /// Whether [`try_send`](Self::try_send) of a message as long as the last refused one would return
    /// something other than [`EndError::Full`].
    pub fn sendable(&mut self) -> bool {
        self.record_credit();
        !matches!(self.ends.producer.claim(self.ends.producer.refused_bytes()), Err(SendError::Full))
    }

    /// Whether the peer closed its receiving half, which makes sending useless.
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.ends.producer.peer_closed()
    }

    /// Passes credit that arrived with messages to the producer, before a send that may look for room.
    #[inline(always)]
    fn record_credit(&mut self) {
        self.ends.producer.record_credit(self.ends.consumer.reverse_credit());
    }

    /// Attaches the credit for the reverse ring to the next messages.
    #[inline(always)]
    fn send_credit(&mut self) {
        self.ends.producer.set_reverse_credit(self.ends.consumer.credit_to_piggyback());
    }
}
