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
    LimitExceeded(&'static str),
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
    Unassigning(Layout),
    /// The other side asked to take it off the channel; not answered yet.
    UnassignRequested(Layout),
}

/// End of a channel for bulk data.
#[derive(Clone, Debug)]
pub struct Session {
    accepting: bool,
    ours: Terms,
    agreed: Option<Terms>,
    terms_sent: bool,
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
        Session {
            accepting,
            ours,
            agreed: None,
            terms_sent: false,
            slots,
            copied: [0; 2],
            sent: 0,
            received: 0,
        }
    }

    /// Returns the agreed terms, once there are any.
    #[must_use]
    #[inline]
    pub fn terms(&self) -> Option<Terms> {
        self.agreed.filter(|_| self.terms_sent)
    }

    /// Returns this side's first message.
    #[must_use]
    pub fn first_message(&self) -> Message<'static> {
        Message::Terms(self.ours)
    }

    #[inline]
    fn slot(&self, pool_index: PoolIndex) -> Slot {
        self.slots[usize::from(pool_index.by_accepting_side())][pool_index.index()]
    }

    fn set_slot(&mut self, pool_index: PoolIndex, slot: Slot) {
        self.slots[usize::from(pool_index.by_accepting_side())][pool_index.index()] = slot;
    }

    /// Whether the contents of the pool's buffers are copied over this channel, because the side that did not
    /// assign the pool cannot reach its memory.
    #[must_use]
    #[inline]
    pub fn is_copied(&self, pool_index: PoolIndex) -> bool {
        self.copied[usize::from(pool_index.by_accepting_side())] & (1 << pool_index.index()) != 0
    }

    fn record_copied(&mut self, offer: &Offer) {
        let bits = &mut self.copied[usize::from(offer.pool_index.by_accepting_side())];
        let bit = 1 << offer.pool_index.index();
        let is_copied = self.ours.trust == Trust::Full && offer.capability == 0;
        *bits = if is_copied { *bits | bit } else { *bits & !bit };
    }

    fn is_ours(&self, pool_index: PoolIndex) -> bool {
        pool_index.by_accepting_side() == self.accepting
    }

    fn used(&self) -> usize {
        self.slots.as_flattened().iter().filter(|slot| **slot != Slot::Free).count()
    }

    /// Returns a free index for one more pool.
    ///
    /// # Errors
    /// [`BulkSendError::TooManyPools`], [`BulkSendError::NoTerms`].
    pub fn free_pool_index(&self) -> Result<PoolIndex, BulkSendError> {
        let terms = self.terms().ok_or(BulkSendError::NoTerms)?;
        if self.used() >= usize::from(terms.max_pools) {
            return Err(BulkSendError::TooManyPools(terms.max_pools));
        }
        (0..MAX_POOLS)
            .filter_map(|index| PoolIndex::new(self.accepting, index))
            .find(|pool_index| self.slot(*pool_index) == Slot::Free)
            .ok_or(BulkSendError::TooManyPools(terms.max_pools))
    }

    /// Encodes any message but a transfer into `out`, replacing its contents. Call
    /// [`record_sent`](Self::record_sent) after sending it.
    ///
    /// # Errors
    /// [`BulkSendError`].
    pub fn prepare(&self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BulkSendError> {
        self.state_after_send(message)?;
        message.encode(self.sent, out);
        Ok(())
    }

    /// Returns the state of a pool after this side sends a message.
    fn state_after_send(&self, message: &Message<'_>) -> Result<Option<(PoolIndex, Slot)>, BulkSendError> {
        if !matches!(message, Message::Terms(_)) && self.agreed.is_none() {
            return Err(BulkSendError::NoTerms);
        }
        let change = match *message {
            Message::Terms(_) | Message::Transfer(_) | Message::Content(_) => return Ok(None),
            Message::Assign(offer)
                if self.is_ours(offer.pool_index) && self.slot(offer.pool_index) == Slot::Free =>
            {
                (offer.pool_index, Slot::Offered(offer.layout))
            }
            Message::Assigned(pool_index) => match self.slot(pool_index) {
                Slot::Proposed(layout) => (pool_index, Slot::Assigned(layout)),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Vetoed(pool_index, _) => match self.slot(pool_index) {
                Slot::Proposed(_) => (pool_index, Slot::Free),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Unassign(pool_index) => match self.slot(pool_index) {
                Slot::Assigned(layout) => (pool_index, Slot::Unassigning(layout)),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Unassigned(pool_index) => match self.slot(pool_index) {
                Slot::UnassignRequested(_) => (pool_index, Slot::Free),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Kept(pool_index) => match self.slot(pool_index) {
                Slot::UnassignRequested(layout) => (pool_index, Slot::Assigned(layout)),
                _ => return Err(BulkSendError::NoSuchPool),
            },
            Message::Assign(_) => return Err(BulkSendError::NoSuchPool),
        };
        Ok(Some(change))
    }

    /// Records that a [prepared](Self::prepare) message was sent.
    pub fn record_sent(&mut self, message: &Message<'_>) {
        if let Ok(Some((pool_index, slot))) = self.state_after_send(message) {
            self.set_slot(pool_index, slot);
        }
        if let Message::Assign(offer) = message {
            self.record_copied(offer);
        }
        self.terms_sent |= matches!(message, Message::Terms(_));
        self.sent = self.sent.wrapping_add(1);
    }

    /// Encodes a transfer into `out`, replacing its contents. Call
    /// [`record_transfer_sent`](Self::record_transfer_sent) after sending it.
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
            let (Slot::Assigned(layout) | Slot::UnassignRequested(layout)) = self.slot(segment.pool_index)
            else {
                return Err(BulkSendError::NoSuchPool);
            };
            let Segment { offset_bytes, length_bytes, buffer, pool_index } = *segment;
            if !layout.holds(offset_bytes, length_bytes) {
                let buffer_bytes = layout.buffer_bytes();
                return Err(BulkSendError::Range { offset_bytes, length_bytes, buffer_bytes });
            }
            if segments[..index]
                .iter()
                .any(|before| (before.pool_index, before.buffer) == (pool_index, buffer))
            {
                return Err(BulkSendError::Twice(buffer));
            }
        }
        let blank = |segment: Segment| match verb.carries_content() {
            true => segment,
            false => Segment { offset_bytes: 0, length_bytes: 0, ..segment },
        };
        wire::encode_transfer(verb, segments.iter().copied().map(blank), metadata, self.sent, out);
        Ok(())
    }

    /// Starts a message with the content of a part of a buffer in `out`, replacing its contents, and returns
    /// the bytes to fill. Send it before the transfer of the buffer, while this side still has the right to
    /// it. Call [`record_transfer_sent`](Self::record_transfer_sent) after sending it.
    ///
    /// # Errors
    /// [`BulkSendError::NoSuchPool`], also for a pool whose memory both sides can reach.
    /// [`BulkSendError::Range`], also for a part of no bytes or more than [`MAX_CONTENT_BYTES`].
    pub fn prepare_content<'o>(
        &self,
        segment: Segment,
        out: &'o mut Vec<u8>,
    ) -> Result<&'o mut [u8], BulkSendError> {
        let (Slot::Assigned(layout) | Slot::UnassignRequested(layout)) = self.slot(segment.pool_index) else {
            return Err(BulkSendError::NoSuchPool);
        };
        if !self.is_copied(segment.pool_index) {
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
        if !self.terms_sent || self.agreed.is_none() {
            return Err(BulkSendError::NoTerms);
        }
        let (Slot::Assigned(layout) | Slot::UnassignRequested(layout)) = self.slot(segment.pool_index) else {
            return Err(BulkSendError::NoSuchPool);
        };
        let Segment { offset_bytes, length_bytes, .. } = segment;
        if !layout.holds(offset_bytes, length_bytes) {
            let buffer_bytes = layout.buffer_bytes();
            return Err(BulkSendError::Range { offset_bytes, length_bytes, buffer_bytes });
        }
        Ok(wire::encode_piece(verb, segment, self.sent))
    }

    /// Receives a transfer of one piece without metadata, in memory that both sides map, if it is valid now.
    /// Otherwise returns `None` without effect; pass the message to [`receive`](Self::receive), which handles
    /// all others.
    #[inline]
    pub fn receive_piece(&mut self, words: [u64; PIECE_WORDS]) -> Option<(Verb, Segment)> {
        let (verb, segment, number) = wire::decode_piece(words)?;
        let (Slot::Assigned(layout) | Slot::Unassigning(layout)) = self.slot(segment.pool_index) else {
            return None;
        };
        let fits =
            segment.buffer < layout.count() && layout.holds(segment.offset_bytes, segment.length_bytes);
        // Without full trust the memory arrives separately.
        let has_own_memory = self.ours.trust.has_own_memory() && verb.carries_content();
        if number != self.received || self.agreed.is_none() || !fits || has_own_memory {
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
    pub fn record_transfer_sent(&mut self) {
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
            Message::Terms(theirs) => Ok(self.handle_terms(theirs)),
            Message::Assign(offer) => self.handle_offer(offer),
            Message::Transfer(transfer) => self.check_transfer(transfer),
            Message::Content(content) => self.check_content(content),
            Message::Assigned(pool_index) => match self.slot(pool_index) {
                Slot::Offered(layout) => Ok(self.set_slot_and_return(
                    pool_index,
                    Slot::Assigned(layout),
                    SessionEvent::Assigned(pool_index),
                )),
                _ => Err(Violation::PoolState("assigned")),
            },
            Message::Vetoed(pool_index, veto) => match self.slot(pool_index) {
                Slot::Offered(_) => Ok(self.set_slot_and_return(
                    pool_index,
                    Slot::Free,
                    SessionEvent::Vetoed(pool_index, veto),
                )),
                _ => Err(Violation::PoolState("vetoed")),
            },
            Message::Unassign(pool_index) => match self.slot(pool_index) {
                Slot::Assigned(layout) => Ok(self.set_slot_and_return(
                    pool_index,
                    Slot::UnassignRequested(layout),
                    SessionEvent::Unassign(pool_index),
                )),
                // Both sides asked at the same time, so neither uses it: the pool is off, and neither waits
                // for an answer.
                Slot::Unassigning(_) => {
                    Ok(self.set_slot_and_return(pool_index, Slot::Free, SessionEvent::Unassigned(pool_index)))
                }
                _ => Err(Violation::PoolState("unassign")),
            },
            Message::Unassigned(pool_index) => match self.slot(pool_index) {
                Slot::Unassigning(_) => {
                    Ok(self.set_slot_and_return(pool_index, Slot::Free, SessionEvent::Unassigned(pool_index)))
                }
                _ => Err(Violation::PoolState("unassigned")),
            },
            Message::Kept(pool_index) => match self.slot(pool_index) {
                Slot::Unassigning(layout) => Ok(self.set_slot_and_return(
                    pool_index,
                    Slot::Assigned(layout),
                    SessionEvent::Kept(pool_index),
                )),
                _ => Err(Violation::PoolState("kept")),
            },
        }
    }

    fn set_slot_and_return<'a>(
        &mut self,
        pool_index: PoolIndex,
        slot: Slot,
        event: SessionEvent<'a>,
    ) -> SessionEvent<'a> {
        self.set_slot(pool_index, slot);
        event
    }

    fn handle_terms(&mut self, theirs: Terms) -> SessionEvent<'static> {
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

    fn handle_offer(&mut self, offer: Offer) -> Result<SessionEvent<'static>, Violation> {
        if self.is_ours(offer.pool_index) || self.slot(offer.pool_index) != Slot::Free {
            return Err(Violation::PoolState("assign"));
        }
        let has_memory = offer.capability != 0;
        if (has_memory && self.ours.trust != Trust::Full) || (!has_memory && offer.offset_bytes != 0) {
            return Err(Violation::PoolState("a pool's memory without the agreed trust"));
        }
        self.record_copied(&offer);
        self.set_slot(offer.pool_index, Slot::Proposed(offer.layout));
        Ok(SessionEvent::Offered(offer))
    }

    /// Whether one more pool would exceed the agreed number, counting offers that are not answered.
    #[must_use]
    pub fn is_over_full(&self) -> bool {
        self.agreed.is_some_and(|terms| self.used() > usize::from(terms.max_pools))
    }

    fn check_content<'a>(&self, content: Content<'a>) -> Result<SessionEvent<'a>, Violation> {
        // Sent before the other side learned that this side wants the pool off the channel.
        let (Slot::Assigned(layout) | Slot::Unassigning(layout)) = self.slot(content.pool_index) else {
            return Err(Violation::PoolState("content"));
        };
        if !self.is_copied(content.pool_index) {
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

    fn check_transfer<'a>(&self, transfer: Transfer<'a>) -> Result<SessionEvent<'a>, Violation> {
        let Some(terms) = self.agreed else { return Err(Violation::OutOfTurn) };
        if transfer.len() > usize::from(terms.max_segments) {
            return Err(Violation::LimitExceeded("pieces"));
        }
        if transfer.metadata.len() > usize::from(terms.max_metadata_bytes) {
            return Err(Violation::LimitExceeded("metadata"));
        }
        for segment in transfer.segments() {
            // Sent before the other side learned that this side wants the pool off the channel.
            let (Slot::Assigned(layout) | Slot::Unassigning(layout)) = self.slot(segment.pool_index) else {
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
