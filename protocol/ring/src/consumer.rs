//! The receiving end.

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::{Acquire, Relaxed, Release};

use crate::config::{LayoutError, RingConfig, RingMemory, Variant};
use crate::control::{self, IMPOSSIBLE, MORE, RESERVED_MASK, SINGLE_MASK, TAG_MASK};
use crate::error::{RecvError, Violation};
use crate::message::Message;
use crate::slots::Slots;

/// How far ahead a consumer that runs behind asks for slots.
///
/// Each slot is a cache miss, and a processor looks only a few messages ahead by itself. To ask for a slot that is
/// still being written takes it from under the producer's hands, so this is done only after
/// [`PREFETCH_AFTER_SLOTS`] in a row without a fruitless poll: then there is a backlog.
const PREFETCH_SLOTS: u64 = 8;
const PREFETCH_AFTER_SLOTS: u64 = 16;

/// What a consumer has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConsumerCounters {
    /// Messages consumed.
    pub messages: u64,
    /// Bytes of payload consumed.
    pub bytes: u64,
    /// Times that room was given back to the producer: a producer asleep for want of room is worth a wake when
    /// this has grown.
    pub credit_stores: u64,
}

/// A message found at the consumer's position, all its slots checked; no slots: no message.
#[derive(Clone, Copy)]
struct Found {
    slots: u64,
    len_bytes: usize,
}

impl Found {
    const NOTHING: Found = Found { slots: 0, len_bytes: 0 };
}

/// What [`Consumer::try_recv_fast`] sees.
#[derive(Debug)]
pub enum FastRecv<'a> {
    /// A message.
    Message(Message<'a>),
    /// Nothing new, and nothing to be done about it.
    Empty,
    /// Something rarer, which [`Consumer::try_recv`] finds out.
    SlowPath,
}

/// The receiving end of a ring.
///
/// Dropping a consumer does not [close](Self::close) it.
pub struct Consumer {
    pub(crate) slots: Slots,
    /// The next slot to be read.
    pub(crate) position: u64,
    /// The tag of `position`; impossible for good once the ring is closed or failed.
    expected: u64,
    /// The tag that the slot has until it is published; impossible likewise.
    idle: u64,
    single_max_bytes: usize,
    /// The position from which on there is more to do than to count.
    checkpoint: u64,
    /// Slots given back so far.
    credited: u64,
    /// How many consumed slots are given back without waiting for an idle moment: half the ring, or each.
    credit_step: u64,
    reverse_credit: u32,
    /// From this position on the consumer is taken to run behind, see [`PREFETCH_SLOTS`].
    prefetch_from: u64,
    /// Bytes of payload consumed. Of a message that takes one slot nothing else is counted.
    bytes: u64,
    /// Consumed slots that began no message.
    continued_slots: u64,
    /// The end of the last message of several slots.
    several_until: u64,
    credit_stores: u64,
    producer_line: SharedMemory,
    credit_line: SharedMemory,
    config: RingConfig,
    /// Why nothing can be received any more.
    ended: Option<RecvError>,
}

impl Consumer {
    /// The receiving end of the ring in `memory`, which must be zero before either end is made.
    ///
    /// # Errors
    /// [`LayoutError`] when `memory` is not the size that `config` says.
    pub fn new(config: RingConfig, memory: RingMemory) -> Result<Self, LayoutError> {
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
            prefetch_from: PREFETCH_AFTER_SLOTS,
            bytes: 0,
            continued_slots: 0,
            several_until: 0,
            credit_stores: 0,
            slots,
            producer_line: memory.producer_line,
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

    /// What has been done so far.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> ConsumerCounters {
        ConsumerCounters {
            messages: self.position - self.continued_slots,
            bytes: self.bytes,
            credit_stores: self.credit_stores,
        }
    }

    /// The next message, to be read in place; `None` when there is none now.
    ///
    /// Dropping the [`Message`] consumes it and gives its slots back. Leaking it leaves it to be received again.
    /// A poll that finds nothing gives back what was consumed since credit was last stored.
    ///
    /// # Errors
    /// [`RecvError`], from then on always the same.
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<Option<Message<'_>>, RecvError> {
        let word = self.slots.load_control(self.position, Acquire);
        if self.is_single(word) {
            return Ok(Some(self.single(word)));
        }
        if self.continues(word)
            && let Some(len_bytes) = self.pair_bytes(word)
        {
            self.hear(word);
            return Ok(Some(Message::new(self, len_bytes, 2)));
        }
        self.prefetch_from = self.position + PREFETCH_AFTER_SLOTS;
        if self.nothing_new(word) {
            return Ok(None);
        }
        let found = self.examine(word);
        if found.slots != 0 {
            return Ok(Some(Message::new(self, found.len_bytes, found.slots)));
        }
        self.ended.map_or(Ok(None), Err)
    }

    /// The next message, or that there is none; whatever else there is, [`try_recv`](Self::try_recv) finds out.
    ///
    /// For callers in whose fast path an error, even one that never comes, would be kept in memory.
    #[inline(always)]
    pub fn try_recv_fast(&mut self) -> FastRecv<'_> {
        let word = self.slots.load_control(self.position, Acquire);
        if self.is_single(word) {
            return FastRecv::Message(self.single(word));
        }
        if self.continues(word) {
            if let Some(len_bytes) = self.pair_bytes(word) {
                self.hear(word);
                return FastRecv::Message(Message::new(self, len_bytes, 2));
            }
            let found = self.examine(word);
            if found.slots != 0 {
                return FastRecv::Message(Message::new(self, found.len_bytes, found.slots));
            }
            return FastRecv::SlowPath;
        }
        self.prefetch_from = self.position + PREFETCH_AFTER_SLOTS;
        if self.nothing_new(word) { FastRecv::Empty } else { FastRecv::SlowPath }
    }

    /// Of this lap, the first slot of several.
    #[inline(always)]
    fn continues(&self, word: u64) -> bool {
        word & SINGLE_MASK == self.expected | MORE
    }

    /// The length of the message that [begins](Self::continues) with this word, if it takes two slots and nothing is wrong with
    /// it.
    #[inline(always)]
    fn pair_bytes(&self, word: u64) -> Option<usize> {
        let payload_bytes = self.slots.payload_bytes();
        if control::length_bytes(word) != payload_bytes {
            return None;
        }
        // Published by the first slot's word, so there already and not to be acquired again.
        let second = self.slots.load_control(self.position + 1, Relaxed);
        let rest_bytes = control::length_bytes(second);
        let len_bytes = payload_bytes + rest_bytes;
        let is_last = second & SINGLE_MASK == self.slots.tag(self.position + 1);
        let fits = (1..=payload_bytes).contains(&rest_bytes) && len_bytes <= self.config.max_message_bytes();
        (is_last && fits).then_some(len_bytes)
    }

    /// One comparison says: of this lap, a single slot, nothing reserved.
    #[inline(always)]
    fn is_single(&self, word: u64) -> bool {
        word & SINGLE_MASK == self.expected && control::length_bytes(word) <= self.single_max_bytes
    }

    /// The message that a control word found to be [single](Self::is_single) announces.
    #[inline(always)]
    fn single(&mut self, word: u64) -> Message<'_> {
        self.hear(word);
        if self.position >= self.prefetch_from {
            self.slots.prefetch(self.position + PREFETCH_SLOTS);
        }
        Message::new(self, control::length_bytes(word), 1)
    }

    /// Takes note of the credit that came along.
    #[inline(always)]
    fn hear(&mut self, word: u64) {
        let credit = control::reverse_credit(word);
        // Where messages go one way only it is always the same, and a store is dearer than a look.
        if self.reverse_credit != credit {
            self.reverse_credit = credit;
        }
    }

    /// Whether [`try_recv`](Self::try_recv) would return something else than `None`. Gives slots back as it does.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let word = self.slots.load_control(self.position, Acquire);
        if word & SINGLE_MASK == self.expected {
            return true;
        }
        !self.nothing_new(word) && (self.examine(word).slots != 0 || self.ended.is_some())
    }

    /// The usual empty poll: an idle slot, no room to give back, no word that the producer closed.
    #[inline(always)]
    fn nothing_new(&self, word: u64) -> bool {
        word & TAG_MASK == self.idle
            && self.credited == self.position
            && self.producer_line.load_le(0, Acquire) == 0
    }

    /// Everything that is neither a single-slot message nor a usual empty poll. Finds no slots when there is nothing
    /// to receive, and `ended` says whether there never will be.
    ///
    /// Two numbers come back in registers, which keeps messages in registers on the fast path too.
    #[inline(never)]
    fn examine(&mut self, word: u64) -> Found {
        if self.ended.is_none() {
            match self.look(word) {
                Ok(found) => return found,
                Err(error) => self.bar(error),
            }
        }
        Found::NOTHING
    }

    fn look(&mut self, word: u64) -> Result<Found, RecvError> {
        let mut word = word;
        if word & TAG_MASK == self.idle {
            self.give_back();
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

    /// After an idle slot: `None` when the producer has not closed; the slot's word, loaded again, when it has and
    /// says that there is more to receive.
    fn word_after_close(&self) -> Result<Option<u64>, RecvError> {
        let close_word = self.producer_line.load_le(0, Acquire);
        let Some(closed_at) = close_word.checked_sub(1) else { return Ok(None) };
        let position = self.position;
        if closed_at == position {
            return Err(RecvError::Closed);
        }
        if closed_at < position || closed_at - position > self.slots.count() {
            return Err(Violation::CloseOutOfRange { closed_at, position }.into());
        }
        // The slot was loaded before the line; what was published before the close can be seen after it.
        Ok(Some(self.slots.load_control(position, Acquire)))
    }

    fn unexpected_tag(&self, word: u64) -> Violation {
        let found = (word & TAG_MASK) as u16;
        Violation::LapTag { position: self.position, expected: self.expected as u16, found }
    }

    /// Bounds every slot of the message whose first control word is `first`; at most the slots of the ring.
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
            len_bytes += fragment_bytes;
            if len_bytes > max_bytes || (more && len_bytes == max_bytes) {
                return Err(Violation::MessageTooLong { position: self.position, max_bytes });
            }
            position += 1;
            if !more {
                return Ok(Found { len_bytes, slots: position - self.position });
            }
            // Published by the first slot's word, so there already and not to be acquired again.
            word = self.slots.load_control(position, Relaxed);
            if word & TAG_MASK != self.slots.tag(position) {
                return Err(Violation::FragmentMissing { position });
            }
        }
    }

    /// Consumes a message of `slots` slots.
    #[inline(always)]
    pub(crate) fn consume(&mut self, slots: u64, len_bytes: usize) {
        self.position += slots;
        self.bytes += len_bytes as u64;
        if slots > 1 {
            self.continued_slots += slots - 1;
            self.several_until = self.position;
        }
        if self.position >= self.checkpoint {
            self.pass_checkpoint();
        }
    }

    /// After a message of several slots the next is taken to be one too: asks for the line of its second slot, so that it comes
    /// with the first and not after it. To be called between two polls while an answer is awaited. In a stream of messages it
    /// would take the line from a producer that is still writing there.
    #[inline(always)]
    pub fn prefetch_second(&self) {
        if self.several_until == self.position {
            self.slots.prefetch(self.position + 1);
        }
    }

    /// Does what is not done for each message: gives slots back, takes up the tags of the next lap.
    #[inline(never)]
    fn pass_checkpoint(&mut self) {
        if self.position - self.credited >= self.credit_step {
            self.give_back();
        }
        self.expected = self.slots.tag(self.position);
        self.idle = self.slots.idle_tag(self.position, self.config.variant());
        let credit_due = self.credited + self.credit_step;
        self.checkpoint = credit_due.min(self.slots.next_lap(self.position));
    }

    /// Gives all consumed slots back to the producer.
    fn give_back(&mut self) {
        if self.credited == self.position {
            return;
        }
        match self.config.variant() {
            Variant::EpochCredit if tombolo_base::canary!("ring gives back too little") => {
                self.credit_line.store_le(0, self.position - 1, Release);
            }
            Variant::EpochCredit => self.credit_line.store_le(0, self.position, Release),
            Variant::UsedFlag => {
                for position in self.credited..self.position {
                    self.slots.store_control(position, 0, Release);
                }
            }
        }
        self.credited = self.position;
        self.credit_stores += 1;
    }

    /// The credit that came with the latest message: how many slots of the reverse ring its consumer had consumed,
    /// modulo 2³². To be given to that ring's [`Producer::hear_credit`](crate::Producer::hear_credit).
    #[inline]
    #[must_use]
    pub fn reverse_credit(&self) -> u32 {
        self.reverse_credit
    }

    /// Times that room was given back to the producer.
    #[inline(always)]
    #[must_use]
    pub fn credit_stores(&self) -> u64 {
        self.credit_stores
    }

    /// How many slots were consumed of this ring, modulo 2³²: to be sent along on the reverse ring by
    /// [`Producer::set_reverse_credit`](crate::Producer::set_reverse_credit).
    ///
    /// It is a hint and replaces nothing: the peer sees it only when it receives, which it may never do, so credit
    /// is stored in the credit line all the same. What it spares is the producer's look at that line.
    #[inline]
    #[must_use]
    pub fn credit_to_piggyback(&self) -> u32 {
        self.position as u32
    }

    /// Receives nothing more, gives all slots back and tells the producer, whose next look for room ends in
    /// [`SendError::Closed`](crate::SendError::Closed).
    pub fn close(&mut self) {
        self.give_back();
        self.credit_line.store_le(1, 1, Release);
        self.bar(self.ended.unwrap_or(RecvError::Closed));
    }

    /// Receives nothing more, and tells the producer nothing; see [`Producer::abandon`](crate::Producer::abandon).
    pub fn abandon(&mut self) {
        self.bar(self.ended.unwrap_or(RecvError::Closed));
    }

    /// Ends receiving. No word has the impossible tags, so every poll takes the slow path and finds the error.
    fn bar(&mut self, error: RecvError) {
        self.ended = Some(error);
        self.expected = IMPOSSIBLE;
        self.idle = IMPOSSIBLE;
    }
}

impl core::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Consumer")
            .field("config", &self.config)
            .field("position", &self.position)
            .field("credited", &self.credited)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
