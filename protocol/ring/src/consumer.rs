//! Receiving end of a ring.

use tombolo_base::sync::Ordering::{Acquire, Relaxed, Release};
use tombolo_base::{CacheMaintenance, Coherent, SharedMemory, SharedWords};

use crate::config::{LayoutError, RingConfig, RingMemory, Variant};
use crate::control::{self, IMPOSSIBLE, MORE, RESERVED_MASK, SINGLE_MASK, TAG_MASK};
use crate::error::{RecvError, Violation};
use crate::message::{Head, Message, View};
use crate::slots::Slots;
use crate::tally::Tally;

/// Number of slots that a consumer prefetches together.
///
/// Each slot is a cache miss for its consumer, and the processor's out-of-order window covers only a few
/// messages.
const PREFETCH_SLOTS: u64 = 8;

/// Counters of a consumer since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConsumerCounters {
    /// Messages consumed.
    pub messages: u64,
    /// Bytes of payload consumed.
    pub bytes: u64,
    /// Number of times that slots were returned to the producer. When this grows, a producer that sleeps for
    /// room should be woken.
    pub credit_stores: u64,
}

/// Message at the consumer's position, with all its slots validated. Zero slots mean no message.
#[derive(Clone, Copy)]
struct Found {
    slots: u64,
    len_bytes: usize,
}

impl Found {
    const NONE: Found = Found { slots: 0, len_bytes: 0 };
}

/// Result of [`Consumer::peek`].
#[derive(Debug)]
pub enum Peek {
    /// A message is available.
    Message(Head),
    /// No message is available. All slots consumed so far have been returned.
    Empty,
    /// Any other case, such as an error or the end of the ring. [`Consumer::try_recv`] handles it.
    SlowPath,
}

/// Receiving end of a ring.
///
/// Dropping a consumer does not [close](Self::close) it.
pub struct Consumer<C: CacheMaintenance = Coherent> {
    pub(crate) slots: Slots<C>,
    /// Position of the next slot to read.
    pub(crate) position: u64,
    /// Tag that publishes `position`; [`IMPOSSIBLE`] once the ring is closed or has failed.
    expected: u64,
    /// Tag of the slot before it is published; [`IMPOSSIBLE`] in the same cases.
    idle: u64,
    single_max_bytes: usize,
    /// Position at which slow work is next due: returning slots, or computing the tags of a new lap.
    checkpoint: u64,
    /// Number of slots returned so far.
    credited: u64,
    /// Number of consumed slots that forces a return before the next empty poll: half the ring, or one.
    credit_step: u64,
    reverse_credit: u32,
    /// Messages and bytes consumed.
    tally: Tally,
    credit_stores: u64,
    producer_line: SharedWords<1, C>,
    credit_line: SharedMemory<C>,
    config: RingConfig,
    /// Reason why nothing more can be received.
    ended: Option<RecvError>,
}

impl<C: CacheMaintenance> Consumer<C> {
    /// Creates the receiving end of the ring in `memory`, which must be zero before either end is created.
    ///
    /// # Errors
    /// [`LayoutError`] when the size of `memory` does not match `config`.
    pub fn new(config: RingConfig, memory: RingMemory<C>) -> Result<Self, LayoutError> {
        memory.check(&config)?;
        let slots = Slots::new(&config, memory.slots);
        let credit_step = match config.variant() {
            Variant::EpochCredit => slots.count() / 2,
            Variant::UsedFlag => 1,
        };
        Ok(Consumer {
            position: 0,
            expected: slots.tag(0),
            idle: slots.idle_tag(0, config.variant()),
            single_max_bytes: config.single_max_bytes(),
            credited: 0,
            credit_step,
            checkpoint: credit_step,
            reverse_credit: 0,
            tally: Tally::EMPTY,
            credit_stores: 0,
            slots,
            producer_line: SharedWords::first_of(memory.producer_line),
            credit_line: memory.credit_line,
            config,
            ended: None,
        })
    }

    /// Returns the configuration of the ring.
    #[must_use]
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// Returns a snapshot of the counters.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> ConsumerCounters {
        ConsumerCounters {
            messages: self.tally.messages(self.position),
            bytes: self.tally.bytes(self.position),
            credit_stores: self.credit_stores,
        }
    }

    /// Returns the next message, to be read in place, or `None` if none is available.
    ///
    /// Dropping the [`Message`] consumes it and returns its slots; a leaked one is received again. An empty
    /// poll returns all slots consumed so far to the producer.
    ///
    /// # Errors
    /// [`RecvError`], and the same error on every later call.
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<Option<Message<'_, C>>, RecvError> {
        let word = self.slots.load_control(self.position, Acquire);
        if self.is_single(word) {
            self.prepare_single(word);
            return Ok(Some(Message::new(self, control::length_bytes(word), 1)));
        }
        if self.is_multi_slot(word)
            && let Some(len_bytes) = self.pair_bytes(word)
        {
            self.record_credit(word);
            self.prefetch_ahead::<2>();
            return Ok(Some(Message::new(self, len_bytes, 2)));
        }
        if self.is_empty_poll(word) {
            return Ok(None);
        }
        let found = self.examine(word);
        if found.slots != 0 {
            return Ok(Some(Message::new(self, found.len_bytes, found.slots)));
        }
        self.ended.map_or(Ok(None), Err)
    }

    /// Fast path of [`try_recv`](Self::try_recv): distinguishes a message from an empty ring and leaves all
    /// rarer cases to `try_recv`.
    ///
    /// For callers whose fast path must not reserve stack space for an error, and which read messages of all
    /// transports at one place. Read the message through [`view`](Self::view); it stays in the ring until
    /// [`consume`](Self::consume).
    #[inline(always)]
    pub fn peek(&mut self) -> Peek {
        let word = self.slots.load_control(self.position, Acquire);
        if self.is_single(word) {
            self.prepare_single(word);
            return Peek::Message(Head::new(self.position, control::length_bytes(word), 1));
        }
        if self.is_multi_slot(word) {
            if let Some(len_bytes) = self.pair_bytes(word) {
                self.record_credit(word);
                self.prefetch_ahead::<2>();
                return Peek::Message(Head::new(self.position, len_bytes, 2));
            }
            let found = self.examine(word);
            if found.slots != 0 {
                return Peek::Message(Head::new(self.position, found.len_bytes, found.slots));
            }
            return Peek::SlowPath;
        }
        if word & TAG_MASK != self.idle || self.producer_line.load_current_le::<0>(Acquire) != 0 {
            return Peek::SlowPath;
        }
        self.return_slots();
        Peek::Empty
    }

    /// Returns the content of a message found by [`peek`](Self::peek).
    #[inline(always)]
    #[must_use]
    pub fn view(&self, head: &Head) -> View<'_, C> {
        View::new(self, head)
    }

    /// Consumes a message found by [`peek`](Self::peek). Returns whether slots were returned to the producer.
    #[inline(always)]
    pub fn consume(&mut self, head: Head) -> bool {
        let (slots, len_bytes) = head.into_parts();
        self.advance(slots, len_bytes)
    }

    /// Whether `word` is the control word of the first of several slots in the current lap.
    #[inline(always)]
    fn is_multi_slot(&self, word: u64) -> bool {
        word & SINGLE_MASK == self.expected | MORE
    }

    /// Returns the length of the message that [starts](Self::is_multi_slot) with `word`, if it is valid and
    /// takes exactly two slots.
    #[inline(always)]
    fn pair_bytes(&self, word: u64) -> Option<usize> {
        let payload_bytes = self.slots.payload_bytes();
        if control::length_bytes(word) != payload_bytes {
            return None;
        }
        // Published together with the first slot, whose acquire load orders this one.
        let second = self.slots.load_control(self.position + 1, Relaxed);
        let rest_bytes = control::length_bytes(second);
        let len_bytes = payload_bytes + rest_bytes;
        let is_last = second & SINGLE_MASK == self.slots.tag(self.position + 1);
        let fits = (1..=payload_bytes).contains(&rest_bytes) && len_bytes <= self.config.max_message_bytes();
        self.slots.invalidate_payload(self.position);
        self.slots.invalidate_payload(self.position + 1);
        (is_last && fits).then_some(len_bytes)
    }

    /// Checks three conditions with one comparison: current lap, single slot, reserved bits zero.
    #[inline(always)]
    fn is_single(&self, word: u64) -> bool {
        word & SINGLE_MASK == self.expected && control::length_bytes(word) <= self.single_max_bytes
    }

    /// Prepares to read the message of a [single-slot](Self::is_single) control word.
    #[inline(always)]
    fn prepare_single(&mut self, word: u64) {
        self.record_credit(word);
        self.prefetch_ahead::<1>();
        self.slots.invalidate_payload(self.position);
    }

    /// Prefetches the next block of slots when the first slot of a block is consumed.
    #[inline(always)]
    fn prefetch_ahead<const SLOTS: u64>(&self) {
        if C::COHERENT && self.position % PREFETCH_SLOTS < SLOTS {
            self.prefetch_block();
        }
    }

    /// Prefetches the next block of slots if its last slot has been published. A prefetch of a slot that is
    /// still being written would take its line from the producer, which a fast consumer follows closely.
    #[inline(never)]
    fn prefetch_block(&self) {
        let last = self.position + 2 * PREFETCH_SLOTS - 1;
        let is_long_ring = self.slots.count() > 2 * PREFETCH_SLOTS;
        if is_long_ring && self.slots.load_control(last, Relaxed) & TAG_MASK == self.slots.tag(last) {
            for ahead in PREFETCH_SLOTS..2 * PREFETCH_SLOTS - 1 {
                self.slots.prefetch(self.position + ahead);
            }
        }
    }

    /// Stores the credit that arrived with a message.
    #[inline(always)]
    fn record_credit(&mut self, word: u64) {
        let credit = control::reverse_credit(word);
        // Credit never changes under one-way traffic, and a store costs more than a comparison.
        if self.reverse_credit != credit {
            self.reverse_credit = credit;
        }
    }

    /// Whether [`try_recv`](Self::try_recv) would return a message or an error. Returns slots to the producer
    /// as `try_recv` does.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let word = self.slots.load_control(self.position, Acquire);
        if word & SINGLE_MASK == self.expected {
            return true;
        }
        !self.is_empty_poll(word) && (self.examine(word).slots != 0 || self.ended.is_some())
    }

    /// Detects the common empty poll: an idle slot, no slots to return, and a producer that has not closed.
    #[inline(always)]
    fn is_empty_poll(&self, word: u64) -> bool {
        word & TAG_MASK == self.idle
            && self.credited == self.position
            && self.producer_line.load_current_le::<0>(Acquire) == 0
    }

    /// Handles everything except single-slot messages and common empty polls. Returns zero slots if there is
    /// no message; `ended` then records whether the ring has ended.
    ///
    /// The result fits in two registers, so that messages stay in registers on the fast path too.
    #[inline(never)]
    fn examine(&mut self, word: u64) -> Found {
        if self.ended.is_none() {
            match self.examine_tag(word) {
                Ok(found) => return found,
                Err(error) => self.set_ended(error),
            }
        }
        Found::NONE
    }

    fn examine_tag(&mut self, word: u64) -> Result<Found, RecvError> {
        let mut word = word;
        if word & TAG_MASK == self.idle {
            self.return_slots();
            let Some(at_word) = self.word_after_close()? else { return Ok(Found::NONE) };
            word = at_word;
        }
        if word & TAG_MASK != self.expected {
            return Err(self.unexpected_tag(word).into());
        }
        let found = self.check_message(word)?;
        self.reverse_credit = control::reverse_credit(word);
        Ok(found)
    }

    /// Returns the control word to examine at an idle slot: `None` while the producer has not closed, or the
    /// slot's word, loaded again, if it closed beyond this position.
    fn word_after_close(&self) -> Result<Option<u64>, RecvError> {
        let close_word = self.producer_line.load_current_le::<0>(Acquire);
        let Some(closed_at) = close_word.checked_sub(1) else { return Ok(None) };
        let position = self.position;
        if closed_at == position {
            return Err(RecvError::Closed);
        }
        if closed_at < position || closed_at - position > self.slots.count() {
            return Err(Violation::CloseOutOfRange { closed_at, position }.into());
        }
        // The slot was loaded before the close word. Everything published before the close is visible now.
        Ok(Some(self.slots.load_control(position, Acquire)))
    }

    fn unexpected_tag(&self, word: u64) -> Violation {
        let found = (word & TAG_MASK) as u16;
        Violation::LapTag { position: self.position, expected: self.expected as u16, found }
    }

    /// Validates every slot of the message whose first control word is `first`. Reads at most one lap.
    fn check_message(&self, first: u64) -> Result<Found, Violation> {
        let payload_bytes = self.slots.payload_bytes();
        let max_bytes = self.config.max_message_bytes();
        let (mut word, mut position, mut len_bytes) = (first, self.position, 0);
        loop {
            if word & RESERVED_MASK != 0 {
                return Err(Violation::ReservedBits { position, word });
            }
            let more = word & MORE != 0;
            let fragment_bytes = control::length_bytes(word);
            let may_be_empty = position == self.position;
            if fragment_bytes > payload_bytes
                || (more && fragment_bytes != payload_bytes)
                || (fragment_bytes == 0 && !may_be_empty)
            {
                return Err(Violation::FragmentLength { position, length_bytes: fragment_bytes as u8 });
            }
            self.slots.invalidate_payload(position);
            len_bytes += fragment_bytes;
            if len_bytes > max_bytes || (more && len_bytes == max_bytes) {
                return Err(Violation::MessageTooLong { position: self.position, max_bytes });
            }
            position += 1;
            if !more {
                return Ok(Found { len_bytes, slots: position - self.position });
            }
            // Published together with the first slot, whose acquire load orders this one.
            word = self.slots.load_control(position, Relaxed);
            if word & TAG_MASK != self.slots.tag(position) {
                return Err(Violation::FragmentMissing { position });
            }
        }
    }

    /// Consumes a message of `slots` slots. Returns whether slots were returned to the producer.
    #[inline(always)]
    pub(crate) fn advance(&mut self, slots: u64, len_bytes: usize) -> bool {
        self.tally.count(self.position, len_bytes, slots);
        self.position += slots;
        self.position >= self.checkpoint && self.pass_checkpoint()
    }

    /// Prefetches the second slot of the next message if the last message took several slots, so that both
    /// lines arrive together. Call it between polls while waiting for a reply. In a stream of messages it
    /// would steal the line from a producer that is still writing it.
    #[inline(always)]
    pub fn prefetch_second(&self) {
        if self.tally.last_was_multi_slot(self.position) {
            self.slots.prefetch(self.position + 1);
        }
    }

    /// Slow path of [`advance`](Self::advance): returns slots and computes the tags of the next lap. Returns
    /// whether slots were returned to the producer.
    #[inline(never)]
    fn pass_checkpoint(&mut self) -> bool {
        let is_due = self.position - self.credited >= self.credit_step;
        if is_due {
            self.return_slots();
        }
        self.expected = self.slots.tag(self.position);
        self.idle = self.slots.idle_tag(self.position, self.config.variant());
        let credit_due = self.credited + self.credit_step;
        self.checkpoint = credit_due.min(self.slots.next_lap(self.position));
        is_due
    }

    /// Returns all consumed slots to the producer.
    #[inline(always)]
    fn return_slots(&mut self) {
        if self.credited != self.position {
            self.return_consumed();
        }
    }

    #[inline(never)]
    fn return_consumed(&mut self) {
        match self.config.variant() {
            Variant::EpochCredit if tombolo_base::canary!("ring gives back too little") => {
                self.credit_line.store_through_le(0, self.position - 1, Release);
            }
            Variant::EpochCredit => self.credit_line.store_through_le(0, self.position, Release),
            Variant::UsedFlag => {
                for position in self.credited..self.position {
                    self.slots.store_control(position, 0, Release);
                }
            }
        }
        self.credited = self.position;
        self.credit_stores += 1;
    }

    /// Returns the credit that arrived with the latest message: slots of the reverse ring consumed by the
    /// peer, modulo 2³². Pass it to [`Producer::record_credit`](crate::Producer::record_credit) of that ring.
    #[inline]
    #[must_use]
    pub fn reverse_credit(&self) -> u32 {
        self.reverse_credit
    }

    /// Returns the number of times that slots were returned to the producer.
    #[inline(always)]
    #[must_use]
    pub fn credit_stores(&self) -> u64 {
        self.credit_stores
    }

    /// Returns the number of slots consumed, modulo 2³². Pass it to the producer of the reverse ring with
    /// [`Producer::set_reverse_credit`](crate::Producer::set_reverse_credit).
    ///
    /// It is a hint that saves the producer a load of the credit line. The peer sees it only when it
    /// receives, which may never happen, so the consumer writes the credit line as well.
    #[inline]
    #[must_use]
    pub fn credit_to_piggyback(&self) -> u32 {
        self.position as u32
    }

    /// Stops receiving, returns all slots and notifies the producer. The producer gets
    /// [`SendError::Closed`](crate::SendError::Closed) when it next looks for room.
    pub fn close(&mut self) {
        self.return_slots();
        self.credit_line.store_through_le(1, 1, Release);
        self.set_ended(self.ended.unwrap_or(RecvError::Closed));
    }

    /// Stops receiving without notifying the producer; see [`Producer::abandon`](crate::Producer::abandon).
    pub fn abandon(&mut self) {
        self.set_ended(self.ended.unwrap_or(RecvError::Closed));
    }

    /// Ends receiving. No control word matches the impossible tags, so every poll takes the slow path and
    /// returns the error.
    fn set_ended(&mut self, error: RecvError) {
        self.ended = Some(error);
        self.expected = IMPOSSIBLE;
        self.idle = IMPOSSIBLE;
    }
}

impl<C: CacheMaintenance> core::fmt::Debug for Consumer<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Consumer")
            .field("config", &self.config)
            .field("position", &self.position)
            .field("credited", &self.credited)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
