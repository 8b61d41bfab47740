//! What may be said on one channel, and when: terms first, then pools, then buffers of pools that both sides have.
//!
//! A session looks at one side's words and the other's, not at buffers: whether a buffer can come from where it is
//! said to is for the pool's [table](crate::table). Anything that cannot be said ends the channel and nothing else.

use alloc::vec::Vec;

use crate::layout::Layout;
use crate::wire::{
    self, MAX_POOLS, Malformed, Message, Offer, PIECE_WORDS, PoolIndex, Segment, Terms, Transfer, Trust,
    Verb, Veto, decode,
};

/// How a peer broke the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// No message at all.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Not the next one.
    #[error("message {found} came where {expected} was next")]
    Number {
        /// The number that was next.
        expected: u32,
        /// The one that came.
        found: u32,
    },
    /// Terms come first, and once.
    #[error("terms come first, and once")]
    OutOfTurn,
    /// The pool is not in a state in which this can be said of it.
    #[error("{0} was said of a pool that it cannot be said of")]
    PoolState(&'static str),
    /// A piece outside of its buffer, or of a buffer that there is not.
    #[error(
        "{length_bytes} bytes from {offset_bytes} on of buffer {buffer}, in a pool of {count} buffers of {buffer_bytes} bytes"
    )]
    Range {
        /// Which buffer.
        buffer: u32,
        /// Where it is said to begin.
        offset_bytes: u64,
        /// How long it is said to be.
        length_bytes: u64,
        /// How many buffers there are.
        count: u32,
        /// How long each is.
        buffer_bytes: u64,
    },
    /// More than was agreed.
    #[error("{0} beyond what both sides agreed to")]
    Beyond(&'static str),
}

/// Why something cannot be said. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BulkSendError {
    /// The other side has not said its terms yet.
    #[error("the other side has not said yet what it is ready to do")]
    NoTerms,
    /// The channel has as many pools as it can.
    #[error("the channel has {0} pools, the most that both sides take")]
    TooManyPools(u8),
    /// The pool is not on this channel.
    #[error("the pool is not on this channel")]
    NoSuchPool,
    /// More pieces than was agreed, or none.
    #[error("a transfer of {found} pieces, where both sides take 1 to {max}")]
    Segments {
        /// How many there are.
        found: usize,
        /// How many there can be.
        max: usize,
    },
    /// More metadata than was agreed.
    #[error("{found} bytes of metadata, where both sides take {max}")]
    Metadata {
        /// How long it is.
        found: usize,
        /// How long it can be.
        max: usize,
    },
    /// A piece that is not within its buffer.
    #[error("{length_bytes} bytes from {offset_bytes} on are not within a buffer of {buffer_bytes} bytes")]
    Range {
        /// Where it begins.
        offset_bytes: u64,
        /// How long it is.
        length_bytes: u64,
        /// How long the buffer is.
        buffer_bytes: u64,
    },
    /// One buffer twice.
    #[error("buffer {0} is in one transfer twice")]
    Twice(u32),
}

/// What the other side said, after everything that a session can check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEvent<'a> {
    /// What both sides agreed to; `None` where they trust each other differently, which ends the channel.
    Terms {
        /// The terms that hold.
        agreed: Option<Terms>,
        /// How far the other side trusts.
        theirs: Trust,
    },
    /// A pool is offered: to be answered by [`Message::Assigned`] or [`Message::Vetoed`].
    Offered(Offer),
    /// A pool that was offered was taken.
    Assigned(PoolIndex),
    /// It was not.
    Vetoed(PoolIndex, Veto),
    /// A pool is to go off the channel: to be answered by [`Message::Unassigned`] or [`Message::Kept`].
    Unassign(PoolIndex),
    /// It is off.
    Unassigned(PoolIndex),
    /// It stays.
    Kept(PoolIndex),
    /// Rights to buffers.
    Transfer(Transfer<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Free,
    /// Offered by this side; no answer yet.
    Offered(Layout),
    /// Offered by the other side; not answered yet.
    Proposed(Layout),
    Assigned(Layout),
    /// This side wants it off.
    Leaving(Layout),
    /// The other side wants it off; not answered yet.
    Asked(Layout),
}

/// One end of a channel for bulk data.
#[derive(Clone, Debug)]
pub struct Session {
    accepting: bool,
    ours: Terms,
    agreed: Option<Terms>,
    told: bool,
    /// Those that the connecting side assigns, then those of the accepting side.
    slots: [[Slot; MAX_POOLS as usize]; 2],
    sent: u32,
    received: u32,
}

impl Session {
    /// A session of the side that accepted the channel, or of the one that connected.
    #[must_use]
    pub fn new(accepting: bool, ours: Terms) -> Self {
        let slots = [[Slot::Free; MAX_POOLS as usize]; 2];
        Session { accepting, ours, agreed: None, told: false, slots, sent: 0, received: 0 }
    }

    /// What both sides agreed to, once they have.
    #[must_use]
    #[inline]
    pub fn terms(&self) -> Option<Terms> {
        self.agreed.filter(|_| self.told)
    }

    /// This side's first message.
    #[must_use]
    pub fn first(&self) -> Message<'static> {
        Message::Terms(self.ours)
    }

    #[inline]
    fn slot(&self, place: PoolIndex) -> Slot {
        self.slots[usize::from(place.by_accepting_side())][place.index()]
    }

    fn set(&mut self, place: PoolIndex, slot: Slot) {
        self.slots[usize::from(place.by_accepting_side())][place.index()] = slot;
    }

    fn is_ours(&self, place: PoolIndex) -> bool {
        place.by_accepting_side() == self.accepting
    }

    fn used(&self) -> usize {
        self.slots.as_flattened().iter().filter(|slot| **slot != Slot::Free).count()
    }

    /// A place for one more pool.
    ///
    /// # Errors
    /// [`BulkSendError::TooManyPools`], [`BulkSendError::NoTerms`].
    pub fn free_place(&self) -> Result<PoolIndex, BulkSendError> {
        let terms = self.terms().ok_or(BulkSendError::NoTerms)?;
        if self.used() >= usize::from(terms.max_pools) {
            return Err(BulkSendError::TooManyPools(terms.max_pools));
        }
        (0..MAX_POOLS)
            .filter_map(|index| PoolIndex::new(self.accepting, index))
            .find(|place| self.slot(*place) == Slot::Free)
            .ok_or(BulkSendError::TooManyPools(terms.max_pools))
    }

    /// Encodes anything but a transfer in place of what `out` held. Once it was sent, [`sent`](Self::sent) is to be told.
    ///
    /// # Errors
    /// [`BulkSendError`].
    pub fn prepare(&self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BulkSendError> {
        self.after(message)?;
        message.encode(self.sent, out);
        Ok(())
    }

    /// What becomes of a place when this side says something.
    fn after(&self, message: &Message<'_>) -> Result<Option<(PoolIndex, Slot)>, BulkSendError> {
        if !matches!(message, Message::Terms(_)) && self.agreed.is_none() {
            return Err(BulkSendError::NoTerms);
        }
        let change = match *message {
            Message::Terms(_) | Message::Transfer(_) => return Ok(None),
            Message::Assign(offer) if self.is_ours(offer.place) && self.slot(offer.place) == Slot::Free => {
                (offer.place, Slot::Offered(offer.layout))
            }
            Message::Assigned(place) => match self.slot(place) {
                Slot::Proposed(layout) => (place, Slot::Assigned(layout)),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Vetoed(place, _) => match self.slot(place) {
                Slot::Proposed(_) => (place, Slot::Free),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Unassign(place) => match self.slot(place) {
                Slot::Assigned(layout) => (place, Slot::Leaving(layout)),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Unassigned(place) => match self.slot(place) {
                Slot::Asked(_) => (place, Slot::Free),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Kept(place) => match self.slot(place) {
                Slot::Asked(layout) => (place, Slot::Assigned(layout)),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Assign(_) => return Err(BulkSendError::NoSuchPool),
        };
        Ok(Some(change))
    }

    /// A message that was [prepared](Self::prepare) has been sent.
    pub fn sent(&mut self, message: &Message<'_>) {
        if let Ok(Some((place, slot))) = self.after(message) {
            self.set(place, slot);
        }
        self.told |= matches!(message, Message::Terms(_));
        self.sent = self.sent.wrapping_add(1);
    }

    /// Encodes a transfer in place of what `out` held. Once it was sent, [`transferred`](Self::transferred) is to be
    /// told.
    ///
    /// # Errors
    /// [`BulkSendError`].
    pub fn prepare_transfer(
        &self,
        verb: Verb,
        segments: &[Segment],
        metadata: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BulkSendError> {
        let terms = self.terms().ok_or(BulkSendError::NoTerms)?;
        let max = usize::from(terms.max_segments);
        if segments.is_empty() || segments.len() > max {
            return Err(BulkSendError::Segments { found: segments.len(), max });
        }
        let max = usize::from(terms.max_metadata_bytes);
        if metadata.len() > max {
            return Err(BulkSendError::Metadata { found: metadata.len(), max });
        }
        for (index, segment) in segments.iter().enumerate() {
            let (Slot::Assigned(layout) | Slot::Asked(layout)) = self.slot(segment.place) else {
                return Err(BulkSendError::NoSuchPool);
            };
            let Segment { offset_bytes, length_bytes, buffer, place } = *segment;
            if !layout.holds(offset_bytes, length_bytes) {
                let buffer_bytes = layout.buffer_bytes();
                return Err(BulkSendError::Range { offset_bytes, length_bytes, buffer_bytes });
            }
            if segments[..index].iter().any(|before| (before.place, before.buffer) == (place, buffer)) {
                return Err(BulkSendError::Twice(buffer));
            }
        }
        let blank = |segment: Segment| match verb.brings_content() {
            true => segment,
            false => Segment { offset_bytes: 0, length_bytes: 0, ..segment },
        };
        wire::encode_transfer(verb, segments.iter().copied().map(blank), metadata, self.sent, out);
        Ok(())
    }

    /// What [`prepare_transfer`](Self::prepare_transfer) encodes for one piece and no metadata, as nearly all transfers are, in
    /// words.
    ///
    /// # Errors
    /// [`BulkSendError`].
    #[inline]
    pub fn prepare_piece(&self, verb: Verb, segment: Segment) -> Result<[u64; PIECE_WORDS], BulkSendError> {
        if !self.told || self.agreed.is_none() {
            return Err(BulkSendError::NoTerms);
        }
        let (Slot::Assigned(layout) | Slot::Asked(layout)) = self.slot(segment.place) else {
            return Err(BulkSendError::NoSuchPool);
        };
        let Segment { offset_bytes, length_bytes, .. } = segment;
        if !layout.holds(offset_bytes, length_bytes) {
            let buffer_bytes = layout.buffer_bytes();
            return Err(BulkSendError::Range { offset_bytes, length_bytes, buffer_bytes });
        }
        Ok(wire::piece_words(verb, segment, self.sent))
    }

    /// Takes what the other side said, if it is the transfer of one piece without metadata, in memory that both map, and may
    /// be said now. Otherwise nothing has changed, and it is to be given to [`receive`](Self::receive), which knows everything else.
    #[inline]
    pub fn receive_piece(&mut self, words: [u64; PIECE_WORDS]) -> Option<(Verb, Segment)> {
        let (verb, segment, number) = wire::piece_of(words)?;
        let (Slot::Assigned(layout) | Slot::Leaving(layout)) = self.slot(segment.place) else { return None };
        let fits =
            segment.buffer < layout.count() && layout.holds(segment.offset_bytes, segment.length_bytes);
        // Without trust the memory comes on a way of its own.
        let brings_memory = self.ours.trust == Trust::None && verb.brings_content();
        if number != self.received || self.agreed.is_none() || !fits || brings_memory {
            return None;
        }
        self.received = self.received.wrapping_add(1);
        Some((verb, segment))
    }

    /// The number that the next message of this side will have.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.sent
    }

    /// The number that the last message of the other side had.
    #[must_use]
    pub fn last_received(&self) -> u32 {
        self.received.wrapping_sub(1)
    }

    /// A transfer has been sent.
    #[inline]
    pub fn transferred(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Takes what the other side said.
    ///
    /// # Errors
    /// [`Violation`]: the session is of no use any more.
    pub fn receive<'a>(&mut self, bytes: &'a [u8]) -> Result<SessionEvent<'a>, Violation> {
        let (message, found) = decode(bytes)?;
        let expected = self.received;
        if found != expected {
            return Err(Violation::Number { expected, found });
        }
        self.received = self.received.wrapping_add(1);
        if matches!(message, Message::Terms(_)) != self.agreed.is_none() {
            return Err(Violation::OutOfTurn);
        }
        match message {
            Message::Terms(theirs) => Ok(self.agree(theirs)),
            Message::Assign(offer) => self.offered(offer),
            Message::Transfer(transfer) => self.transfer(transfer),
            Message::Assigned(place) => match self.slot(place) {
                Slot::Offered(layout) => {
                    Ok(self.change(place, Slot::Assigned(layout), SessionEvent::Assigned(place)))
                }
                _ => Err(Violation::PoolState("assigned")),
            },
            Message::Vetoed(place, veto) => match self.slot(place) {
                Slot::Offered(_) => Ok(self.change(place, Slot::Free, SessionEvent::Vetoed(place, veto))),
                _ => Err(Violation::PoolState("vetoed")),
            },
            Message::Unassign(place) => match self.slot(place) {
                Slot::Assigned(layout) => {
                    Ok(self.change(place, Slot::Asked(layout), SessionEvent::Unassign(place)))
                }
                // Both asked at once, and who asks has nothing in use: it is off, and neither waits for an answer.
                Slot::Leaving(_) => Ok(self.change(place, Slot::Free, SessionEvent::Unassigned(place))),
                _ => Err(Violation::PoolState("unassign")),
            },
            Message::Unassigned(place) => match self.slot(place) {
                Slot::Leaving(_) => Ok(self.change(place, Slot::Free, SessionEvent::Unassigned(place))),
                _ => Err(Violation::PoolState("unassigned")),
            },
            Message::Kept(place) => match self.slot(place) {
                Slot::Leaving(layout) => {
                    Ok(self.change(place, Slot::Assigned(layout), SessionEvent::Kept(place)))
                }
                _ => Err(Violation::PoolState("kept")),
            },
        }
    }

    fn change<'a>(&mut self, place: PoolIndex, slot: Slot, heard: SessionEvent<'a>) -> SessionEvent<'a> {
        self.set(place, slot);
        heard
    }

    fn agree(&mut self, theirs: Terms) -> SessionEvent<'static> {
        let agreed = Terms {
            trust: self.ours.trust,
            max_pools: self.ours.max_pools.min(theirs.max_pools),
            max_segments: self.ours.max_segments.min(theirs.max_segments),
            max_metadata_bytes: self.ours.max_metadata_bytes.min(theirs.max_metadata_bytes),
        };
        self.agreed = Some(agreed);
        SessionEvent::Terms {
            agreed: Some(agreed).filter(|_| theirs.trust == self.ours.trust),
            theirs: theirs.trust,
        }
    }

    fn offered(&mut self, offer: Offer) -> Result<SessionEvent<'static>, Violation> {
        if self.is_ours(offer.place) || self.slot(offer.place) != Slot::Free {
            return Err(Violation::PoolState("assign"));
        }
        let needs_memory = self.ours.trust == Trust::Full;
        if needs_memory == (offer.capability == 0) || (!needs_memory && offer.offset_bytes != 0) {
            return Err(Violation::PoolState("the memory of another kind of trust"));
        }
        self.set(offer.place, Slot::Proposed(offer.layout));
        Ok(SessionEvent::Offered(offer))
    }

    /// Whether one more pool is more than was agreed, counting those that are offered and not answered.
    #[must_use]
    pub fn is_over_full(&self) -> bool {
        self.agreed.is_some_and(|terms| self.used() > usize::from(terms.max_pools))
    }

    fn transfer<'a>(&self, transfer: Transfer<'a>) -> Result<SessionEvent<'a>, Violation> {
        let Some(terms) = self.agreed else { return Err(Violation::OutOfTurn) };
        if transfer.len() > usize::from(terms.max_segments) {
            return Err(Violation::Beyond("pieces"));
        }
        if transfer.metadata.len() > usize::from(terms.max_metadata_bytes) {
            return Err(Violation::Beyond("metadata"));
        }
        for segment in transfer.segments() {
            // What was said before the other side heard that this one wants it off.
            let (Slot::Assigned(layout) | Slot::Leaving(layout)) = self.slot(segment.place) else {
                return Err(Violation::PoolState(match transfer.verb {
                    Verb::Move => "move",
                    Verb::Share => "share",
                    Verb::Pass => "pass",
                    Verb::Release => "release",
                }));
            };
            let Segment { buffer, offset_bytes, length_bytes, .. } = segment;
            if buffer >= layout.count() || !layout.holds(offset_bytes, length_bytes) {
                let (count, buffer_bytes) = (layout.count(), layout.buffer_bytes());
                return Err(Violation::Range { buffer, offset_bytes, length_bytes, count, buffer_bytes });
            }
        }
        Ok(SessionEvent::Transfer(transfer))
    }
}
