//! Receive path of a channel end.

use tombolo_base::CacheMaintenance;
use tombolo_ring::{Head, Peek, View};

use super::{ChannelEnd, EndError, Signals};

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// Returns the next message if loads alone find it. Read it with [`view`](Self::view) and consume it with
    /// [`consume`](Self::consume). Returns the slots consumed so far if there is no message.
    #[inline(always)]
    pub fn peek(&mut self) -> Peek {
        // Read before the ring is polled: a peer that is gone by now has already sent everything.
        let peer_gone = self.signals.peer_gone();
        match self.ends.consumer.peek() {
            Peek::Message(head) => {
                self.prefetch_reply_slot();
                Peek::Message(head)
            }
            Peek::Empty if !peer_gone => {
                if self.ends.producer.position() != self.sent_at_receive {
                    self.ends.consumer.prefetch_second();
                }
                self.on_idle_poll();
                Peek::Empty
            }
            Peek::Empty | Peek::SlowPath => Peek::SlowPath,
        }
    }

    /// Returns the content of a message found by [`peek`](Self::peek).
    #[inline(always)]
    #[must_use]
    pub fn view(&self, head: &Head) -> View<'_, C> {
        self.ends.consumer.view(head)
    }

    /// Consumes a message found by [`peek`](Self::peek). Returns whether slots were returned, which may have
    /// rung the peer.
    #[inline(always)]
    pub fn consume(&mut self, head: Head) -> bool {
        let returned = self.ends.consumer.consume(head);
        if returned {
            self.wake_peer_for_credit();
        }
        returned
    }

    /// Receives the next message in place, if there is one. It is consumed when `read` returns.
    ///
    /// # Errors
    /// [`EndError::Closed`] and [`EndError::PeerDied`] only after everything sent before was received;
    /// [`EndError::Broken`].
    #[inline(always)]
    pub fn try_recv<R>(&mut self, read: impl FnOnce(View<'_, C>) -> R) -> Result<Option<R>, EndError> {
        match self.peek() {
            Peek::Message(head) => {
                let received = read(self.view(&head));
                self.consume(head);
                Ok(Some(received))
            }
            Peek::Empty => Ok(None),
            Peek::SlowPath => {
                // Not the result of `receive` itself: the call would write it to the place of the result
                // above, which would then be in memory too.
                let mut received = None;
                self.receive(|view| received = Some(read(view)))?;
                Ok(received)
            }
        }
    }

    /// Slow path of [`try_recv`](Self::try_recv) after [`Peek::SlowPath`]: receives the next message, if
    /// there is one.
    ///
    /// # Errors
    /// Same as [`try_recv`](Self::try_recv).
    #[inline(never)]
    pub fn receive<R>(&mut self, read: impl FnOnce(View<'_, C>) -> R) -> Result<Option<R>, EndError> {
        let peer_gone = self.signals.peer_gone();
        let received = match self.ends.consumer.try_recv() {
            Ok(Some(message)) => Ok(Some(read(message.view()))),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match received {
            Ok(Some(received)) => {
                self.prefetch_reply_slot();
                self.wake_peer_for_credit();
                Ok(Some(received))
            }
            Ok(None) => self.on_empty_poll(peer_gone).map(|()| None),
            Err(error) => Err(self.on_receive_error(error)),
        }
    }

    /// Receives up to `max` messages in place, at a lower cost per message, and returns their number.
    ///
    /// # Errors
    /// Same as [`try_recv`](Self::try_recv), if none was received.
    #[inline(always)]
    pub fn try_recv_batch(
        &mut self,
        max: usize,
        mut read: impl FnMut(View<'_, C>),
    ) -> Result<usize, EndError> {
        let peer_gone = self.signals.peer_gone();
        let mut received = 0;
        // The rare cases take `read` by reference, out of line, which keeps this loop short.
        let is_empty = loop {
            if received == max {
                break true;
            }
            match self.ends.consumer.peek() {
                Peek::Message(head) => {
                    read(self.ends.consumer.view(&head));
                    self.ends.consumer.consume(head);
                    received += 1;
                }
                Peek::Empty => break !peer_gone,
                Peek::SlowPath => break false,
            }
        };
        if received > 0 {
            self.wake_peer_for_credit();
        } else if !is_empty {
            return self.receive_one(&mut read);
        } else {
            self.on_idle_poll();
        }
        Ok(received)
    }

    /// Like [`receive`](Self::receive), but returns the number of messages received, 0 or 1.
    #[inline(never)]
    fn receive_one(&mut self, read: &mut dyn FnMut(View<'_, C>)) -> Result<usize, EndError> {
        Ok(usize::from(self.receive(read)?.is_some()))
    }

    /// Whether [`try_recv`](Self::try_recv) would return anything but `Ok(None)`: a message, an end or an
    /// error.
    #[inline]
    pub fn readable(&mut self) -> bool {
        let readable = self.has_message_or_end();
        if !readable {
            self.check_lifeline_periodically();
        }
        readable
    }

    pub(super) fn has_message_or_end(&mut self) -> bool {
        let found = self.ends.consumer.poll();
        self.wake_peer_for_credit();
        found || self.signals.peer_gone()
    }

    /// Prefetches the slot of the reply when a message is found, before it is read. That slot lies in the
    /// cache of the peer, which polls it, and takes as long to arrive as the message did. Under one-way
    /// traffic the slot is left alone, because the peer would have to fetch it again.
    #[inline(always)]
    fn prefetch_reply_slot(&mut self) {
        let sent = self.ends.producer.position();
        if self.sent_at_receive != sent {
            self.sent_at_receive = sent;
            self.ends.producer.prefetch();
        }
    }

    /// Handles a poll of the ring that found no message.
    #[inline(always)]
    fn on_empty_poll(&mut self, peer_gone: bool) -> Result<(), EndError> {
        if peer_gone {
            self.wake_peer_for_credit();
            // Another channel of this program may have learned it from the lifeline. Sending ends together
            // with receiving.
            self.record_peer_end();
            return Err(EndError::PeerDied);
        }
        self.on_idle_poll();
        Ok(())
    }

    /// Handles a poll of the ring that found no message while the peer is alive.
    #[inline(always)]
    fn on_idle_poll(&mut self) {
        self.wake_peer_for_credit();
        self.check_lifeline_periodically();
    }
}
