//! Receiving.

use tombolo_ring::{FastRecv, Message, Producer};

use super::{ChannelEnd, EndError, Signals};

impl<S: Signals> ChannelEnd<S> {
    /// Receives the next message, if there is one, where it lies: it is consumed when `read` returns.
    ///
    /// # Errors
    /// [`EndError::Closed`] and [`EndError::PeerDied`] only after everything sent before was received;
    /// [`EndError::Broken`].
    #[inline(always)]
    pub fn try_recv<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        // Looked at before the ring: a peer that is gone by now has sent everything it ever will.
        let peer_gone = self.signals.peer_gone();
        let received = 'received: {
            // In a statement of its own: a message that might have been borrows the ring to its end.
            let unclear = match self.ends.consumer.try_recv_fast() {
                FastRecv::Message(message) => {
                    prepare_answer(&mut self.sent_at_receive, &self.ends.producer);
                    break 'received read(&message);
                }
                FastRecv::Empty => peer_gone,
                FastRecv::SlowPath => true,
            };
            if unclear {
                return self.recv_slow(peer_gone, read);
            }
            if self.ends.producer.messages() != self.sent_at_receive {
                self.ends.consumer.prefetch_second();
            }
            self.look_now_and_then();
            return Ok(None);
        };
        self.note_received();
        Ok(Some(received))
    }

    /// A message of several slots, an end, or room to be given back.
    #[inline(never)]
    fn recv_slow<R>(
        &mut self,
        peer_gone: bool,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, EndError> {
        let received = match self.ends.consumer.try_recv() {
            Ok(Some(message)) => {
                prepare_answer(&mut self.sent_at_receive, &self.ends.producer);
                Ok(Some(read(&message)))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match received {
            Ok(Some(received)) => {
                self.note_received();
                Ok(Some(received))
            }
            Ok(None) => self.note_nothing(peer_gone).map(|()| None),
            Err(error) => Err(self.not_received(error)),
        }
    }

    /// Receives up to `max` messages where they lie, at less cost for each than one by one. Says how many.
    ///
    /// # Errors
    /// As [`try_recv`](Self::try_recv), when not even one was received.
    #[inline(always)]
    pub fn try_recv_batch(
        &mut self,
        max: usize,
        mut read: impl FnMut(&Message<'_>),
    ) -> Result<usize, EndError> {
        let peer_gone = self.signals.peer_gone();
        let mut received = 0;
        let mut failed = None;
        while received < max {
            match self.ends.consumer.try_recv() {
                Ok(Some(message)) => read(&message),
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            received += 1;
        }
        match failed {
            _ if received > 0 => {
                self.note_received();
                Ok(received)
            }
            // An error stays, and is found again by the next call.
            Some(error) => Err(self.not_received(error)),
            None if max == 0 => Ok(0),
            None => self.note_nothing(peer_gone).map(|()| 0),
        }
    }

    /// Whether [`try_recv`](Self::try_recv) would return something other than "none yet": a message, an end, or an
    /// error.
    #[inline]
    pub fn readable(&mut self) -> bool {
        let readable = self.has_message_or_end();
        if !readable {
            self.look_now_and_then();
        }
        readable
    }

    pub(super) fn has_message_or_end(&mut self) -> bool {
        let found = self.ends.consumer.poll();
        self.wake_peer_for_credit();
        found || self.signals.peer_gone()
    }

    /// Takes note of what came along with messages that were received.
    #[inline(always)]
    fn note_received(&mut self) {
        self.wake_peer_for_credit();
        self.ends.producer.note_credit(self.ends.consumer.reverse_credit());
    }

    /// After a look at the ring that found no message.
    #[inline(always)]
    fn note_nothing(&mut self, peer_gone: bool) -> Result<(), EndError> {
        self.wake_peer_for_credit();
        if peer_gone {
            // The lifeline may have said so to another channel of this program: sending ends with receiving.
            self.note_end();
            return Err(EndError::PeerDied);
        }
        self.look_now_and_then();
        Ok(())
    }
}

/// To be called when a message is found, before it is read. The slot of the answer lies in the cache of the peer,
/// which polls it; its way here takes as long as that of the message, and may as well begin now. Where messages
/// only come, the slot is left alone, for the peer would have to fetch it again.
#[inline(always)]
fn prepare_answer(sent_at_receive: &mut u64, producer: &Producer) {
    let sent = producer.messages();
    if sent != *sent_at_receive {
        *sent_at_receive = sent;
        producer.prefetch();
    }
}
