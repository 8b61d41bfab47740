//! One end of a channel in memory, without anything of an operating system.
//!
//! Rings, credit and doorbells in one; what is left to the caller is how a bell sounds, how to sleep, and how to
//! know that the peer is gone. After every call that may have something for a sleeping peer to hear, the caller
//! asks [`ring_due`](ChannelEnd::ring_due) and rings.
//!
//! To sleep: [`announce`](ChannelEnd::announce), [`may_sleep`](ChannelEnd::may_sleep), sleep if that is true on
//! a bell that remembers, and [`awake`](ChannelEnd::awake).

use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_ring::{
    ConsumerCounters, Message, ProducerCounters, RecvError, SendError, Sleeper, Violation, WakeOrder,
};

use crate::layout::{AttachError, ChannelConfig, ChannelLayout, Ends, Side};

/// Why an operation did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndError {
    /// No room until the peer has received more.
    #[error("the channel has no room until the peer has received more")]
    Full,
    /// Longer than the channel carries; it would never fit.
    #[error("a message of {length_bytes} bytes is longer than the {max_bytes} that this channel carries")]
    TooLong {
        /// Length of the message.
        length_bytes: usize,
        /// The longest that the channel carries.
        max_bytes: usize,
    },
    /// The peer, or this end, closed; everything sent before was received.
    #[error("the channel is closed")]
    Closed,
    /// The peer was reported gone: [`ChannelEnd::note_end`].
    #[error("the peer died")]
    PeerDied,
    /// The peer broke the protocol, for good.
    #[error("the peer broke the protocol: {0}")]
    Violation(Violation),
}

/// What a side waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// A message, or the end.
    Message,
    /// Room for the message that last found none.
    Room,
    /// Either.
    Both,
}

impl Awaited {
    fn message(self) -> bool {
        matches!(self, Awaited::Message | Awaited::Both)
    }

    fn room(self) -> bool {
        matches!(self, Awaited::Room | Awaited::Both)
    }
}

/// One end of a channel.
#[derive(Debug)]
pub struct ChannelEnd {
    ends: Ends,
    broken: Option<Violation>,
    closed: bool,
    /// Length of the message that last found no room: what a sleep for room waits for.
    refused_bytes: usize,
    /// How often credit had been given back when the peer was last told.
    credit_stores: u64,
    ring_due: bool,
}

impl ChannelEnd {
    /// Takes up `side` of a channel of that shape in `memory`, after the handshake. Each side does so once.
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small.
    pub fn attach(memory: &SharedMemory, side: Side, config: ChannelConfig) -> Result<Self, AttachError> {
        // No barrier of an operating system reaches across: each side brings its own.
        let ends = ChannelLayout::new(config).attach(memory, side, WakeOrder::Fence)?;
        Ok(ChannelEnd {
            ends,
            broken: None,
            closed: false,
            refused_bytes: 0,
            credit_stores: 0,
            ring_due: false,
        })
    }

    /// Sends a message, whole or not at all.
    ///
    /// # Errors
    /// [`EndError`]; nothing was sent.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.ends.producer.set_reverse_credit(self.ends.consumer.credit_to_piggyback());
        match self.ends.producer.try_send(message) {
            Ok(()) => {
                if self.ends.waker.must_ring() {
                    self.ring_due = true;
                    // A peer that closed is rung for ever: this is how one that only sends learns of it.
                    self.note_end(false);
                }
                Ok(())
            }
            Err(error) => Err(self.not_sent(error, message.len())),
        }
    }

    /// Receives the next message, if there is one, where it lies.
    ///
    /// # Errors
    /// [`EndError::Closed`] after everything sent before was received; [`EndError::Violation`].
    #[inline]
    pub fn try_recv<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let mut failed = None;
        let received = match self.ends.consumer.try_recv() {
            Ok(Some(message)) => Some(read(&message)),
            Ok(None) => None,
            Err(error) => {
                // In a copy, for the message that might have been borrows the ring to the end of the match.
                failed = Some(error);
                None
            }
        };
        match failed {
            Some(RecvError::Violation(violation)) => return Err(self.violated(violation)),
            Some(RecvError::Closed) => {
                self.note_end(false);
                return Err(self.broken.map_or(EndError::Closed, EndError::Violation));
            }
            None => {}
        }
        self.tell_credit();
        if received.is_some() {
            self.ends.producer.hear_credit(self.ends.consumer.reverse_credit());
        }
        Ok(received)
    }

    /// Whether [`try_recv`](Self::try_recv) would return something other than "none yet".
    pub fn readable(&mut self) -> bool {
        let readable = self.ends.consumer.poll();
        self.tell_credit();
        readable
    }

    /// Whether the peer closed its receiving half, so that sending is of no use.
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.ends.producer.peer_closed()
    }

    /// Sends nothing more to a peer that receives nothing more, or that is reported gone: to be called with every
    /// report, and after every sleep. What was sent before is still received.
    pub fn note_end(&mut self, peer_gone: bool) {
        // In this order: who closes is reported gone right after. What was found is kept by the ring, because the
        // line can be overwritten by the peer at any time.
        if self.ends.producer.peer_closed() {
            self.ends.producer.close();
        } else if peer_gone {
            self.ends.producer.abandon();
        }
    }

    /// Says that this side is about to sleep. What may follow is a look, and the sleep.
    pub fn announce(&mut self, awaited: Awaited) {
        if awaited.message() {
            announce(&mut self.ends.sleeper);
        }
        if awaited.room() {
            announce(&mut self.ends.room_sleeper);
        }
    }

    /// The last look before a sleep: false when what is awaited came meanwhile.
    ///
    /// Once it returned true, whatever the peer does that was awaited rings this side: no wake-up is lost.
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn may_sleep(&mut self, awaited: Awaited) -> bool {
        // In any case, for it gives back all room that the peer may be waiting for.
        let nothing_to_read = !self.readable();
        let no_room = matches!(self.ends.producer.claim(self.refused_bytes), Err(SendError::Full));
        (nothing_to_read || !awaited.message()) && (no_room || !awaited.room())
    }

    /// Takes back the announcement.
    pub fn awake(&mut self) {
        if !self.closed {
            self.ends.sleeper.disarm();
        }
        self.ends.room_sleeper.disarm();
    }

    /// Whether the peer must be rung now: it sleeps and there is something for it. True once for each sleep.
    #[must_use = "a bell that is not rung leaves the peer asleep"]
    pub fn ring_due(&mut self) -> bool {
        core::mem::take(&mut self.ring_due)
    }

    /// The longest message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.ends.producer.max_message_bytes()
    }

    /// What was sent and received.
    #[must_use]
    pub fn counters(&self) -> (ProducerCounters, ConsumerCounters) {
        (self.ends.producer.counters(), self.ends.consumer.counters())
    }

    /// Closes this end in order: the peer receives everything sent before. A bell is then due.
    pub fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.ends.close();
        // For good: a peer that only ever sends, and so looks at this line, learns of the end by ringing for it.
        announce(&mut self.ends.sleeper);
        self.ring_due = true;
    }

    /// A peer asleep for room must hear of credit that was given back.
    #[inline]
    fn tell_credit(&mut self) {
        let stores = self.ends.consumer.counters().credit_stores;
        if stores != self.credit_stores {
            self.credit_stores = stores;
            self.ring_due |= self.ends.room_waker.must_ring();
        }
    }

    #[cold]
    fn violated(&mut self, violation: Violation) -> EndError {
        let violation = *self.broken.get_or_insert(violation);
        self.close();
        EndError::Violation(violation)
    }

    #[cold]
    fn not_sent(&mut self, error: SendError, length_bytes: usize) -> EndError {
        match error {
            SendError::Full if self.ends.producer.peer_closed() => EndError::Closed,
            SendError::Full => {
                self.refused_bytes = length_bytes;
                EndError::Full
            }
            SendError::TooLong { len_bytes, max_bytes } => {
                EndError::TooLong { length_bytes: len_bytes, max_bytes }
            }
            SendError::Violation(violation) => self.violated(violation),
            SendError::Abandoned if !self.closed => {
                self.broken.map_or(EndError::PeerDied, EndError::Violation)
            }
            SendError::Closed | SendError::Abandoned => {
                self.broken.map_or(EndError::Closed, EndError::Violation)
            }
        }
    }
}

fn announce(sleeper: &mut Sleeper) {
    // The fence is in `arm`: no heavy barrier is asked for with `WakeOrder::Fence`.
    let Ok(()) = sleeper.arm(|| Ok::<(), core::convert::Infallible>(()));
}

/// The memory of a channel of that shape, cut from a window.
///
/// # Errors
/// [`OutOfRange`] when it does not lie there.
pub fn memory_of(
    window: &SharedMemory,
    offset_bytes: usize,
    config: ChannelConfig,
) -> Result<SharedMemory, OutOfRange> {
    window.slice(offset_bytes, ChannelLayout::new(config).length_bytes())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;
    use tombolo_ring::{SlotSize, Variant};

    fn both(slots: u32) -> (ChannelEnd, ChannelEnd) {
        let config = ChannelConfig::new(SlotSize::B64, slots, Variant::EpochCredit).unwrap();
        let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
        let end = |side| ChannelEnd::attach(&memory, side, config).unwrap();
        (end(Side::A), end(Side::B))
    }

    fn recv(end: &mut ChannelEnd) -> Result<Option<Vec<u8>>, EndError> {
        end.try_recv(|message| {
            let mut bytes = std::vec![0; message.len()];
            message.copy_to(&mut bytes).unwrap();
            bytes
        })
    }

    #[test]
    fn messages_go_both_ways_and_a_sleeping_peer_is_rung_once() {
        let (mut a, mut b) = both(4);
        a.try_send(b"to B").unwrap();
        assert!(!a.ring_due(), "nobody sleeps");
        assert_eq!(recv(&mut b), Ok(Some(b"to B".to_vec())));
        b.announce(Awaited::Message);
        assert!(b.may_sleep(Awaited::Message));
        a.try_send(b"wake up").unwrap();
        a.try_send(b"twice").unwrap();
        assert!(a.ring_due());
        assert!(!a.ring_due());
        b.awake();
        assert_eq!(recv(&mut b), Ok(Some(b"wake up".to_vec())));
        b.announce(Awaited::Message);
        assert!(!b.may_sleep(Awaited::Message), "one is there");
    }

    #[test]
    fn room_is_waited_for_and_rung_for() {
        let (mut a, mut b) = both(2);
        while a.try_send(b"x").is_ok() {}
        assert_eq!(a.try_send(b"x"), Err(EndError::Full));
        a.announce(Awaited::Room);
        assert!(a.may_sleep(Awaited::Room));
        while recv(&mut b).unwrap().is_some() {}
        let _ = b.readable();
        assert!(b.ring_due());
        a.awake();
        a.try_send(b"x").unwrap();
    }

    #[test]
    fn an_end_that_closes_is_heard_after_what_it_sent() {
        let (mut a, mut b) = both(4);
        a.try_send(b"last").unwrap();
        a.close();
        assert!(a.ring_due());
        assert_eq!(recv(&mut b), Ok(Some(b"last".to_vec())));
        assert_eq!(recv(&mut b), Err(EndError::Closed));
        assert_eq!(a.try_send(b"more"), Err(EndError::Closed));
        assert!(b.peer_closed());
    }

    #[test]
    fn one_that_only_sends_learns_of_an_end() {
        let (mut a, mut b) = both(64);
        a.close();
        assert_eq!(b.try_send(b"it may be asleep"), Ok(()));
        assert_eq!(b.try_send(b"it is not"), Err(EndError::Closed));
    }

    #[test]
    fn nothing_is_sent_after_an_end() {
        let (mut a, mut b) = both(4);
        a.close();
        assert_eq!(recv(&mut b), Err(EndError::Closed));
        assert_eq!(b.try_send(b"to nobody"), Err(EndError::Closed), "there is room, and nobody to read it");

        let (mut a, mut b) = both(4);
        a.try_send(b"last words").unwrap();
        b.note_end(true);
        assert_eq!(b.try_send(b"to nobody"), Err(EndError::PeerDied));
        assert_eq!(recv(&mut b), Ok(Some(b"last words".to_vec())));

        let (mut a, mut b) = both(4);
        a.close();
        b.note_end(true);
        assert_eq!(b.try_send(b"to nobody"), Err(EndError::Closed), "who closes is reported gone as well");
        b.close();
        assert_eq!(b.try_send(b"to nobody"), Err(EndError::Closed));
    }

    #[test]
    fn what_is_too_long_is_refused_and_concerns_nothing_else() {
        let (mut a, mut b) = both(4);
        let max_bytes = a.max_message_bytes();
        let error = EndError::TooLong { length_bytes: max_bytes + 1, max_bytes };
        assert_eq!(a.try_send(&std::vec![0; max_bytes + 1]), Err(error));
        a.try_send(&std::vec![7; max_bytes]).unwrap();
        assert_eq!(recv(&mut b), Ok(Some(std::vec![7; max_bytes])));
    }

    #[test]
    fn a_peer_that_breaks_the_protocol_breaks_its_channel_for_good() {
        let config = ChannelConfig::new(SlotSize::B64, 4, Variant::EpochCredit).unwrap();
        let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
        let mut a = ChannelEnd::attach(&memory, Side::A, config).unwrap();
        memory.words().iter().skip(128).for_each(|word| {
            word.store(u64::MAX, tombolo_base::sync::Ordering::Relaxed);
        });
        let error = recv(&mut a).unwrap_err();
        assert!(matches!(error, EndError::Violation(_)));
        assert_eq!(recv(&mut a), Err(error));
        assert_eq!(a.try_send(b"x"), Err(error));
    }
}
