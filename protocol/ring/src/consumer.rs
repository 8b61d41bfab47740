//! The receiving end.

use tombolo_base::sync::Ordering::{Acquire, Relaxed, Release};
use tombolo_base::{CacheMaintenance, Coherent, SharedMemory, SharedWords};

use crate::burst::Burst;
use crate::config::{LayoutError, RingConfig, RingMemory, Variant};
use crate::control::{self, IMPOSSIBLE, MORE, RESERVED_MASK, SINGLE_MASK, TAG_MASK};
use crate::error::{RecvError, Violation};
use crate::message::{Head, Message, View};
use crate::slots::Slots;
use crate::tally::Tally;

/// How far ahead a consumer prefetches.
const PREFETCH_SLOTS: u64 = 8;

/// What a consumer has done since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConsumerCounters {
    /// Messages consumed.
    pub messages: u64,
    /// Bytes of payload consumed.
    pub bytes: u64,
    /// How often slots were returned to the producer. When this grows, a producer that sleeps for room is
    /// worth a wake.
    pub credit_stores: u64,
}

/// A message at the consumer's position with all its slots checked. Zero slots: no message.
#[derive(Clone, Copy)]
struct Found {
    slots: u64,
    len_bytes: usize,
}

impl Found {
    const NOTHING: Found = Found { slots: 0, len_bytes: 0 };
}

/// The result of [`Consumer::look`].
#[derive(Debug)]
pub enum Look {
    /// There is a message.
    Message(Head),
    /// No message. All slots consumed so far have been returned.
    Empty,
    /// Anything else: an error or the end. [`Consumer::try_recv`] handles it.
    Other,
}

/// The receiving end of a ring.
///
/// Dropping a consumer does not [close](Self::close) it.
pub struct Consumer<C: CacheMaintenance = Coherent> {
    pub(crate) slots: Slots<C>,
    /// The next slot to be read.
    pub(crate) position: u64,
    /// The tag of `position`; [`IMPOSSIBLE`] once the ring is closed or failed.
    expected: u64,
    /// The tag of the slot before it is published; [`IMPOSSIBLE`] likewise.
    idle: u64,
    single_max_bytes: usize,
    /// The position at which the next rare work is due: returning slots, or the tags of a new lap.
    checkpoint: u64,
    /// Slots returned so far.
    credited: u64,
    /// Consumed slots that force a return without waiting for an idle moment: half the ring, or each.
    credit_step: u64,
    reverse_credit: u32,
    burst: Burst,
    /// What was consumed.
    tally: Tally,
    credit_stores: u64,
    producer_line: SharedWords<1, C>,
    credit_line: SharedMemory<C>,
    config: RingConfig,
    /// Why nothing more can be received.
    ended: Option<RecvError>,
}

impl<C: CacheMaintenance> Consumer<C> {
    /// The receiving end of the ring in `memory`, which must be zero before either end is created.
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
            burst: Burst::FIRST,
            tally: Tally::NOTHING,
            credit_stores: 0,
            slots,
            producer_line: SharedWords::first_of(memory.producer_line),
            credit_line: memory.credit_line,
            config,
            ended: None,
        })
    }

    /// The shape of the ring.
    #[must_use]
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// What this end has done so far.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> ConsumerCounters {
        ConsumerCounters {
            messages: self.tally.messages(self.position),
            bytes: self.tally.bytes(self.position),
            credit_stores: self.credit_stores,
        }
    }

    /// The next message, read in place; `None` when there is none now.
    ///
    /// Dropping the [`Message`] consumes it and returns its slots; a leaked one is received again. An empty
    /// poll returns to the producer all slots consumed so far.
    ///
    /// # Errors
    /// [`RecvError`]; the same from then on.
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<Option<Message<'_, C>>, RecvError> {
        let word = self.slots.load_control(self.position, Acquire);
        if self.is_single(word) {
            self.announced(word);
            return Ok(Some(Message::new(self, control::length_bytes(word), 1)));
        }
        if self.continues(word)
            && let Some(len_bytes) = self.pair_bytes(word)
        {
            self.note_credit(word);
            self.prefetch_ahead::<2>();
            return Ok(Some(Message::new(self, len_bytes, 2)));
        }
        self.burst.end(self.position);
        if self.nothing_new(word) {
            return Ok(None);
        }
        let found = self.examine(word);
        if found.slots != 0 {
            return Ok(Some(Message::new(self, found.len_bytes, found.slots)));
        }
        self.ended.map_or(Ok(None), Err)
    }

    /// The fast path of [`try_recv`](Self::try_recv): a message or the lack of one. Whatever is rarer is
    /// left to `try_recv`.
    ///
    /// For callers whose fast path would otherwise keep room for an error in memory, and which read the
    /// message in one place for all transports: it is read by [`view`](Self::view) and stays until
    /// [`consume`](Self::consume).
    #[inline(always)]
    pub fn look(&mut self) -> Look {
        let word = self.slots.load_control(self.position, Acquire);
        if self.is_single(word) {
            self.announced(word);
            return Look::Message(Head::new(self.position, control::length_bytes(word), 1));
        }
        if self.continues(word) {
            if let Some(len_bytes) = self.pair_bytes(word) {
                self.note_credit(word);
                self.prefetch_ahead::<2>();
                return Look::Message(Head::new(self.position, len_bytes, 2));
            }
            let found = self.examine(word);
            if found.slots != 0 {
                return Look::Message(Head::new(self.position, found.len_bytes, found.slots));
            }
            return Look::Other;
        }
        self.burst.end(self.position);
        if word & TAG_MASK != self.idle || self.producer_line.load_current_le::<0>(Acquire) != 0 {
            return Look::Other;
        }
        self.return_slots();
        Look::Empty
    }

    /// The content of the message that [`look`](Self::look) found.
    #[inline(always)]
    #[must_use]
    pub fn view(&self, head: &Head) -> View<'_, C> {
        View::new(self, head)
    }

    /// Consumes the message that [`look`](Self::look) found. Whether that returned slots.
    #[inline(always)]
    pub fn consume(&mut self, head: Head) -> bool {
        let (slots, len_bytes) = head.into_parts();
        self.advance(slots, len_bytes)
    }

    /// Whether `word` is the first of several slots of this lap.
    #[inline(always)]
    fn continues(&self, word: u64) -> bool {
        word & SINGLE_MASK == self.expected | MORE
    }

    /// The length of the message that [begins](Self::continues) with this word, if it takes exactly two
    /// slots and is valid.
    #[inline(always)]
    fn pair_bytes(&self, word: u64) -> Option<usize> {
        let payload_bytes = self.slots.payload_bytes();
        if control::length_bytes(word) != payload_bytes {
            return None;
        }
        // Published by the first slot's word, whose acquire covers this load.
        let second = self.slots.load_control(self.position + 1, Relaxed);
        let rest_bytes = control::length_bytes(second);
        let len_bytes = payload_bytes + rest_bytes;
        let is_last = second & SINGLE_MASK == self.slots.tag(self.position + 1);
        let fits = (1..=payload_bytes).contains(&rest_bytes) && len_bytes <= self.config.max_message_bytes();
        self.slots.invalidate_payload(self.position);
        self.slots.invalidate_payload(self.position + 1);
        (is_last && fits).then_some(len_bytes)
    }

    /// In one comparison: this lap, a single slot, no reserved bits.
    #[inline(always)]
    fn is_single(&self, word: u64) -> bool {
        word & SINGLE_MASK == self.expected && control::length_bytes(word) <= self.single_max_bytes
    }

    /// Prepares to read a message announced by a control word that is [single](Self::is_single).
    #[inline(always)]
    fn announced(&mut self, word: u64) {
        self.note_credit(word);
        self.prefetch_ahead::<1>();
        self.slots.invalidate_payload(self.position);
    }

    /// Prefetches the slots of a message that has yet to be read, if one has probably been published.
    #[inline(always)]
    fn prefetch_ahead<const SLOTS: u64>(&self) {
        if self.burst.goes_on(self.position) {
            if self.burst.begins(self.position) {
                self.prefetch_first_slots();
            }
            for ahead in PREFETCH_SLOTS..PREFETCH_SLOTS + SLOTS {
                self.slots.prefetch(self.position + ahead);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn prefetch_first_slots(&self) {
        for ahead in 1..PREFETCH_SLOTS {
            self.slots.prefetch(self.position + ahead);
        }
    }

    /// Stores the credit that came with a message.
    #[inline(always)]
    fn note_credit(&mut self, word: u64) {
        let credit = control::reverse_credit(word);
        // With one-way traffic the credit never changes, and a store costs more than a comparison.
        if self.reverse_credit != credit {
            self.reverse_credit = credit;
        }
    }

    /// Whether [`try_recv`](Self::try_recv) would return a message or an error. Returns slots as `try_recv`
    /// does.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let word = self.slots.load_control(self.position, Acquire);
        if word & SINGLE_MASK == self.expected {
            return true;
        }
        !self.nothing_new(word) && (self.examine(word).slots != 0 || self.ended.is_some())
    }

    /// The common empty poll: an idle slot, no slots to return, and a producer that has not closed.
    #[inline(always)]
    fn nothing_new(&self, word: u64) -> bool {
        word & TAG_MASK == self.idle
            && self.credited == self.position
            && self.producer_line.load_current_le::<0>(Acquire) == 0
    }

    /// Handles everything except single-slot messages and common empty polls. Returns no slots when there
    /// is nothing to receive; `ended` then tells whether there ever will be.
    ///
    /// The result fits in two registers, which keeps messages in registers on the fast path too.
    #[inline(never)]
    fn examine(&mut self, word: u64) -> Found {
        if self.ended.is_none() {
            match self.examine_tag(word) {
                Ok(found) => return found,
                Err(error) => self.end_with(error),
            }
        }
        Found::NOTHING
    }

    fn examine_tag(&mut self, word: u64) -> Result<Found, RecvError> {
        let mut word = word;
        if word & TAG_MASK == self.idle {
            self.return_slots();
            let Some(at_word) = self.word_after_close()? else { return Ok(Found::NOTHING) };
            word = at_word;
        }
        if word & TAG_MASK != self.expected {
            return Err(self.unexpected_tag(word).into());
        }
        let found = self.check_message(word)?;
        self.reverse_credit = control::reverse_credit(word);
        Ok(found)
    }

    /// What to read at an idle slot: `None` while the producer has not closed. When it has closed beyond
    /// this position, the slot's word, loaded again.
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
        // The slot was loaded before the close; whatever was published before the close is visible now.
        Ok(Some(self.slots.load_control(position, Acquire)))
    }

    fn unexpected_tag(&self, word: u64) -> Violation {
        let found = (word & TAG_MASK) as u16;
        Violation::LapTag { position: self.position, expected: self.expected as u16, found }
    }

    /// Validates every slot of the message whose first control word is `first`; reads at most one lap.
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
            // Published by the first slot's word, whose acquire covers this load.
            word = self.slots.load_control(position, Relaxed);
            if word & TAG_MASK != self.slots.tag(position) {
                return Err(Violation::FragmentMissing { position });
            }
        }
    }

    /// Consumes a message of `slots` slots. Whether that returned slots.
    #[inline(always)]
    pub(crate) fn advance(&mut self, slots: u64, len_bytes: usize) -> bool {
        self.tally.count(self.position, len_bytes, slots);
        self.position += slots;
        self.position >= self.checkpoint && self.pass_checkpoint()
    }

    /// Prefetches the second slot of the next message if the last message took several slots, so that both
    /// lines arrive together. Call it between polls while waiting for a reply; in a stream of messages it
    /// would take the line from a producer that is still writing it.
    #[inline(always)]
    pub fn prefetch_second(&self) {
        if self.tally.ends_several(self.position) {
            self.slots.prefetch(self.position + 1);
        }
    }

    /// The rare work: returns slots, moves to the tags of the next lap. Whether it returned any.
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

    /// The credit that came with the latest message: slots of the reverse ring consumed by its consumer,
    /// modulo 2³². Pass it to [`Producer::note_credit`](crate::Producer::note_credit) of that ring.
    #[inline]
    #[must_use]
    pub fn reverse_credit(&self) -> u32 {
        self.reverse_credit
    }

    /// How often slots were returned to the producer.
    #[inline(always)]
    #[must_use]
    pub fn credit_stores(&self) -> u64 {
        self.credit_stores
    }

    /// Slots consumed of this ring, modulo 2³². Pass it to the producer of the reverse ring with
    /// [`Producer::set_reverse_credit`](crate::Producer::set_reverse_credit).
    ///
    /// It is a hint: the peer sees it only when it receives, which may never happen, so the credit line is
    /// written as well. It saves the producer a load of that line.
    #[inline]
    #[must_use]
    pub fn credit_to_piggyback(&self) -> u32 {
        self.position as u32
    }

    /// Receives nothing more, returns all slots and tells the producer, which gets
    /// [`SendError::Closed`](crate::SendError::Closed) when it next looks for room.
    pub fn close(&mut self) {
        self.return_slots();
        self.credit_line.store_through_le(1, 1, Release);
        self.end_with(self.ended.unwrap_or(RecvError::Closed));
    }

    /// Receives nothing more without telling the producer; see
    /// [`Producer::abandon`](crate::Producer::abandon).
    pub fn abandon(&mut self) {
        self.end_with(self.ended.unwrap_or(RecvError::Closed));
    }

    /// Ends receiving. No word has the impossible tags, so every poll takes the slow path and returns the
    /// error.
    fn end_with(&mut self, error: RecvError) {
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
