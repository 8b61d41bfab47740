//! Protocol state of one channel: terms come first, then pools, then buffers of pools that both sides have.
//!
//! A session validates one side's messages against the other's, not against buffers: the pool's
//! [table](crate::table) decides whether a buffer can come from a channel. An invalid message ends the
//! channel and nothing else.

use alloc::vec::Vec;

use crate::layout::Layout;
use crate::wire::{
    self, Content, MAX_CONTENT_BYTES, MAX_POOLS, Malformed, Message, Offer, PIECE_WORDS, PoolIndex, Segment,
    Terms, Transfer, Trust, Verb, Veto, decode,
};

/// Protocol violation by a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    /// The bytes are not a message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The message number is not the next one.
    #[error("message number {found} instead of {expected}")]
    Number { expected: u32, found: u32 },
    /// Terms did not come first, or came twice.
    #[error("the terms did not come first, or came twice")]
    OutOfTurn,
    /// The message does not fit the state of the pool.
    #[error("{0} does not fit the state of its pool")]
    PoolState(&'static str),
    /// A piece lies outside its buffer, or the buffer does not exist.
    #[error(
        "invalid piece: {length_bytes} bytes at {offset_bytes} of buffer {buffer}, in a pool of {count} buffers of {buffer_bytes} bytes"
    )]
    Range { buffer: u32, offset_bytes: u64, length_bytes: u64, count: u32, buffer_bytes: u64 },
    /// The message exceeds an agreed limit.
    #[error("{0} beyond the agreed limit")]
    Beyond(&'static str),
}

/// Reason why a message cannot be sent. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum BulkSendError {
    /// The other side has not sent its terms yet.
    #[error("the other side has not sent its terms yet")]
    NoTerms,
    /// The channel already has the agreed number of pools.
    #[error("the channel has {0} pools, the most that both sides accept")]
    TooManyPools(u8),
    /// The pool is not on this channel.
    #[error("the pool is not on this channel")]
    NoSuchPool,
    /// There are more pieces than agreed, or none.
    #[error("a transfer of {found} pieces; both sides accept 1 to {max}")]
    Segments { found: usize, max: usize },
    /// There is more metadata than agreed.
    #[error("{found} bytes of metadata; both sides accept up to {max}")]
    Metadata { found: usize, max: usize },
    /// A piece lies outside its buffer.
    #[error("{length_bytes} bytes at {offset_bytes} do not lie inside a buffer of {buffer_bytes} bytes")]
    Range { offset_bytes: u64, length_bytes: u64, buffer_bytes: u64 },
    /// A buffer occurs twice.
    #[error("buffer {0} occurs twice in the transfer")]
    Twice(u32),
}

/// Message from the other side that passed all checks of the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionEvent<'a> {
    /// Agreed terms; `None` if the trust of both sides differs, which ends the channel.
    Terms {
        /// Terms in force.
        agreed: Option<Terms>,
        /// Trust declared by the other side.
        theirs: Trust,
    },
    /// The other side offers a pool: answer with [`Message::Assigned`] or [`Message::Vetoed`].
    Offered(Offer),
    /// The other side accepted an offered pool.
    Assigned(PoolIndex),
    /// The other side refused an offered pool.
    Vetoed(PoolIndex, Veto),
    /// The other side asks to take the pool off the channel: answer with [`Message::Unassigned`] or
    /// [`Message::Kept`].
    Unassign(PoolIndex),
    /// The pool is off the channel.
    Unassigned(PoolIndex),
    /// The pool stays on the channel.
    Kept(PoolIndex),
    /// Rights to buffers are transferred.
    Transfer(Transfer<'a>),
    /// Bytes of a buffer whose transfer follows, to be stored in the buffer if the other side owns it.
    Content(Content<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Free,
    /// Offered by this side and not answered yet.
    Offered(Layout),
    /// Offered by the other side and not answered yet.
    Proposed(Layout),
    Assigned(Layout),
    /// This side asked to take it off the channel.
    Leaving(Layout),
    /// The other side asked to take it off the channel; not answered yet.
    Asked(Layout),
}

/// End of a channel for bulk data.
#[derive(Clone, Debug)]
pub struct Session {
    accepting: bool,
    ours: Terms,
    agreed: Option<Terms>,
    told: bool,
    /// Pools assigned by the connecting side, then those of the accepting side.
    slots: [[Slot; MAX_POOLS as usize]; 2],
    /// Bit sets of the same pools whose content is copied.
    copied: [u32; 2],
    sent: u32,
    received: u32,
}

impl Session {
    /// Creates a session with the terms `ours`, on the accepting or the connecting side.
    #[must_use]
    pub fn new(accepting: bool, ours: Terms) -> Self {
        let slots = [[Slot::Free; MAX_POOLS as usize]; 2];
        Session { accepting, ours, agreed: None, told: false, slots, copied: [0; 2], sent: 0, received: 0 }
    }

    /// Returns the agreed terms, once there are any.
    #[must_use]
    #[inline]
    pub fn terms(&self) -> Option<Terms> {
        self.agreed.filter(|_| self.told)
    }

    /// Returns this side's first message.
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

    /// Whether the contents of the pool's buffers are copied over this channel, because the side that did not
    /// assign the pool cannot reach its memory.
    #[must_use]
    #[inline]
    pub fn is_copied(&self, place: PoolIndex) -> bool {
        self.copied[usize::from(place.by_accepting_side())] & (1 << place.index()) != 0
    }

    fn note_copied(&mut self, offer: &Offer) {
        let bits = &mut self.copied[usize::from(offer.place.by_accepting_side())];
        let bit = 1 << offer.place.index();
        let is_copied = self.ours.trust == Trust::Full && offer.capability == 0;
        *bits = if is_copied { *bits | bit } else { *bits & !bit };
    }

    fn is_ours(&self, place: PoolIndex) -> bool {
        place.by_accepting_side() == self.accepting
    }

    fn used(&self) -> usize {
        self.slots.as_flattened().iter().filter(|slot| **slot != Slot::Free).count()
    }

    /// Returns a free index for one more pool.
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

    /// Encodes any message but a transfer into `out`, replacing its contents. Call [`sent`](Self::sent) after
    /// sending it.
    ///
    /// # Errors
    /// [`BulkSendError`].
    pub fn prepare(&self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BulkSendError> {
        self.after(message)?;
        message.encode(self.sent, out);
        Ok(())
    }

    /// Returns the state of a pool after this side sends a message.
    fn after(&self, message: &Message<'_>) -> Result<Option<(PoolIndex, Slot)>, BulkSendError> {
        if !matches!(message, Message::Terms(_)) && self.agreed.is_none() {
            return Err(BulkSendError::NoTerms);
        }
        let change = match *message {
            Message::Terms(_) | Message::Transfer(_) | Message::Content(_) => return Ok(None),
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

    /// Records that a [prepared](Self::prepare) message was sent.
    pub fn sent(&mut self, message: &Message<'_>) {
        if let Ok(Some((place, slot))) = self.after(message) {
            self.set(place, slot);
        }
        if let Message::Assign(offer) = message {
            self.note_copied(offer);
        }
        self.told |= matches!(message, Message::Terms(_));
        self.sent = self.sent.wrapping_add(1);
    }

    /// Encodes a transfer into `out`, replacing its contents. Call [`transferred`](Self::transferred) after
    /// sending it.
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

    /// Starts a message with the content of a part of a buffer in `out`, replacing its contents, and returns
    /// the bytes to fill. Send it before the transfer of the buffer, while this side still has the right to
    /// it. Call [`transferred`](Self::transferred) after sending it.
    ///
    /// # Errors
    /// [`BulkSendError::NoSuchPool`], also for a pool whose memory both sides can reach.
    /// [`BulkSendError::Range`], also for a part of no bytes or more than [`MAX_CONTENT_BYTES`].
    pub fn prepare_content<'o>(
        &self,
        segment: Segment,
        out: &'o mut Vec<u8>,
    ) -> Result<&'o mut [u8], BulkSendError> {
        let (Slot::Assigned(layout) | Slot::Asked(layout)) = self.slot(segment.place) else {
            return Err(BulkSendError::NoSuchPool);
        };
        if !self.is_copied(segment.place) {
            return Err(BulkSendError::NoSuchPool);
        }
        let Segment { offset_bytes, length_bytes, .. } = segment;
        let fits = (1..=MAX_CONTENT_BYTES as u64).contains(&length_bytes);
        if !fits || !layout.holds(offset_bytes, length_bytes) {
            let buffer_bytes = layout.buffer_bytes();
            return Err(BulkSendError::Range { offset_bytes, length_bytes, buffer_bytes });
        }
        Ok(wire::encode_content(segment, self.sent, out))
    }

    /// Like [`prepare_transfer`](Self::prepare_transfer) for a single piece without metadata, the common
    /// case, encoded as words.
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

    /// Receives a transfer of one piece without metadata, in memory that both sides map, if it is valid now.
    /// Otherwise returns `None` without effect; pass the message to [`receive`](Self::receive), which handles
    /// all others.
    #[inline]
    pub fn receive_piece(&mut self, words: [u64; PIECE_WORDS]) -> Option<(Verb, Segment)> {
        let (verb, segment, number) = wire::piece_of(words)?;
        let (Slot::Assigned(layout) | Slot::Leaving(layout)) = self.slot(segment.place) else { return None };
        let fits =
            segment.buffer < layout.count() && layout.holds(segment.offset_bytes, segment.length_bytes);
        // Without full trust the memory arrives separately.
        let brings_memory = self.ours.trust.brings_memory() && verb.brings_content();
        if number != self.received || self.agreed.is_none() || !fits || brings_memory {
            return None;
        }
        self.received = self.received.wrapping_add(1);
        Some((verb, segment))
    }

    /// Returns the number of this side's next message.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.sent
    }

    /// Returns the number of the other side's last message.
    #[must_use]
    pub fn last_received(&self) -> u32 {
        self.received.wrapping_sub(1)
    }

    /// Records that a transfer or content was sent.
    #[inline]
    pub fn transferred(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Receives a message of the other side.
    ///
    /// # Errors
    /// [`Violation`]; the session has failed permanently.
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
            Message::Content(content) => self.content(content),
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
                // Both sides asked at the same time, so neither uses it: the pool is off, and neither waits
                // for an answer.
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
        let has_memory = offer.capability != 0;
        if (has_memory && self.ours.trust != Trust::Full) || (!has_memory && offer.offset_bytes != 0) {
            return Err(Violation::PoolState("a pool's memory without the agreed trust"));
        }
        self.note_copied(&offer);
        self.set(offer.place, Slot::Proposed(offer.layout));
        Ok(SessionEvent::Offered(offer))
    }

    /// Whether one more pool would exceed the agreed number, counting offers that are not answered.
    #[must_use]
    pub fn is_over_full(&self) -> bool {
        self.agreed.is_some_and(|terms| self.used() > usize::from(terms.max_pools))
    }

    fn content<'a>(&self, content: Content<'a>) -> Result<SessionEvent<'a>, Violation> {
        // Sent before the other side learned that this side wants the pool off the channel.
        let (Slot::Assigned(layout) | Slot::Leaving(layout)) = self.slot(content.place) else {
            return Err(Violation::PoolState("content"));
        };
        if !self.is_copied(content.place) {
            return Err(Violation::PoolState("content of a pool whose memory both sides reach"));
        }
        let Content { buffer, offset_bytes, bytes, .. } = content;
        let length_bytes = bytes.len() as u64;
        if buffer >= layout.count() || !layout.holds(offset_bytes, length_bytes) {
            let (count, buffer_bytes) = (layout.count(), layout.buffer_bytes());
            return Err(Violation::Range { buffer, offset_bytes, length_bytes, count, buffer_bytes });
        }
        Ok(SessionEvent::Content(content))
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
            // Sent before the other side learned that this side wants the pool off the channel.
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
