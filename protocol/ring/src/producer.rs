//! Sending end of a ring.

use tombolo_base::sync::Ordering::{self, Acquire, Relaxed, Release};
use tombolo_base::{CacheMaintenance, Coherent, SharedMemory};

use crate::config::{LayoutError, RingConfig, RingMemory, Variant};
use crate::control::{self, CREDIT_MASK, CREDIT_SHIFT, LENGTH_SHIFT, MORE};
use crate::error::{SendError, Violation};
use crate::slots::Slots;
use crate::staged::{Batch, Claim, RestorePoint};
use crate::tally::Tally;

/// Counters of a producer since it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProducerCounters {
    /// Messages published.
    pub messages: u64,
    /// Bytes of payload published.
    pub bytes: u64,
    /// Sends that found no room.
    pub refused_full: u64,
    /// Number of loads of the consumer's memory to look for room.
    pub credit_loads: u64,
}

/// Number of slots of a message that can be sent by stores alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShortMessage {
    /// One.
    OneSlot,
    /// Two.
    TwoSlots,
}

/// Sending end of a ring.
///
/// A send is atomic: it publishes the whole message or changes nothing. Dropping a producer does not
/// [close](Self::close) it, because the end of a program is detected by other means.
pub struct Producer<C: CacheMaintenance = Coherent> {
    pub(crate) slots: Slots<C>,
    /// Position of the next slot to write.
    pub(crate) position: u64,
    /// Position up to which slots may be written. Equals `position` permanently once the ring is closed or
    /// has failed.
    limit: u64,
    /// Control word of the slots before `fast_end`, without length and continuation bit: the tag of their
    /// lap, and the credit that travels with each message.
    lap_word: u64,
    /// Slots before this position are free and belong to the lap of `lap_word`, so short messages are written
    /// without further checks. At most `limit`.
    fast_end: u64,
    single_max_bytes: usize,
    /// Length of the longest message that takes two slots, in bytes.
    pair_max_bytes: usize,
    /// First slot held back by a batch; all later ones are held back with it.
    held_from: Option<u64>,
    /// Messages and bytes published.
    pub(crate) tally: Tally,
    refused_full: u64,
    /// Length of the last message that found no room, in bytes.
    refused_bytes: usize,
    credit_loads: u64,
    config: RingConfig,
    /// Reason why nothing more can be sent: closed, abandoned or violated.
    ended: Option<SendError>,
    /// Slots acknowledged in the credit line when it was last loaded.
    line_credit: u64,
    /// Slots acknowledged by the last piggybacked credit that was applied.
    piggybacked_credit: u64,
    /// Credit of the last message of the reverse ring, not yet applied.
    recorded_credit: u32,
    producer_line: SharedMemory<C>,
    credit_line: SharedMemory<C>,
}

impl<C: CacheMaintenance> Producer<C> {
    /// Creates the sending end of the ring in `memory`, which must be zero.
    ///
    /// # Errors
    /// [`LayoutError`] when the size of `memory` does not match `config`.
    pub fn new(config: RingConfig, memory: RingMemory<C>) -> Result<Self, LayoutError> {
        memory.check(&config)?;
        let slots = Slots::new(&config, memory.slots);
        Ok(Producer {
            position: 0,
            limit: slots.count(),
            lap_word: slots.tag(0),
            fast_end: slots.count(),
            slots,
            single_max_bytes: config.single_max_bytes(),
            pair_max_bytes: (2 * config.slot_size().payload_bytes()).min(config.max_message_bytes()),
            held_from: None,
            tally: Tally::EMPTY,
            refused_full: 0,
            refused_bytes: 0,
            credit_loads: 0,
            config,
            ended: None,
            line_credit: 0,
            piggybacked_credit: 0,
            recorded_credit: 0,
            producer_line: memory.producer_line,
            credit_line: memory.credit_line,
        })
    }

    /// Returns the configuration of the ring.
    #[must_use]
    pub fn config(&self) -> &RingConfig {
        &self.config
    }

    /// Returns the length limit of a message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.config.max_message_bytes()
    }

    /// Returns a snapshot of the counters.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> ProducerCounters {
        ProducerCounters {
            messages: self.messages(),
            bytes: self.tally.bytes(self.position),
            refused_full: self.refused_full,
            credit_loads: self.credit_loads,
        }
    }

    /// Returns the number of messages published. Messages of a leaked batch count too.
    #[inline(always)]
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.tally.messages(self.position)
    }

    /// Returns the number of slots written since the ring was created.
    #[inline(always)]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the length of the last message that found no room, in bytes, which is how much room to wait
    /// for.
    #[must_use]
    pub fn refused_bytes(&self) -> usize {
        self.refused_bytes
    }

    /// Sends a copy of `message`.
    ///
    /// # Errors
    /// [`SendError`]; the message was not sent and the ring is unchanged.
    #[inline(always)]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.try_send_short(message) { Ok(()) } else { self.send_slow(message) }
    }

    /// Sends a copy of `message` if it takes one or two slots that are known to be free, the common case.
    /// Otherwise returns false and does nothing; [`try_send`](Self::try_send) then sends it or returns the
    /// error.
    ///
    /// For callers whose fast path must not reserve stack space for an error.
    #[inline(always)]
    #[must_use = "the message may not have been sent"]
    pub fn try_send_short(&mut self, message: &[u8]) -> bool {
        // Inlined: a call would store the return address and registers, which occupy the processor's store
        // buffer (ADR 0142).
        self.put_single(message, Release) || self.put_pair(message, Release)
    }

    /// Like [`try_send_short`](Self::try_send_short), but publishes with `order`, which is relaxed after a
    /// message that a batch holds back.
    #[inline(always)]
    pub(crate) fn put_short(&mut self, message: &[u8], order: Ordering) -> bool {
        self.put_single(message, order) || self.put_pair_outlined(message, order)
    }

    #[inline(never)]
    fn put_pair_outlined(&mut self, message: &[u8], order: Ordering) -> bool {
        self.put_pair(message, order)
    }

    /// Like [`try_send_short`](Self::try_send_short), but only for a message of exactly the slots given by
    /// `size`. Makes no call.
    #[inline(always)]
    #[must_use = "the message may not have been sent"]
    pub fn try_send_sized(&mut self, message: &[u8], size: ShortMessage) -> bool {
        match size {
            ShortMessage::OneSlot => self.put_single(message, Release),
            ShortMessage::TwoSlots => self.put_pair(message, Release),
        }
    }

    /// Like [`put_short`](Self::put_short), for a message of little-endian numbers in 64-byte slots.
    ///
    /// When inlined, the numbers go from registers to the slots. A message in memory would be stored twice,
    /// and a stream is bound by the number of stores and instructions (ADR 0136).
    #[inline(always)]
    pub(crate) fn put_words<const N: usize>(&mut self, words: &[u64; N], order: Ordering) -> bool {
        let slots = if N <= 7 { 1 } else { 2 };
        let fits = self.slots.are_b64() && 8 * N <= self.pair_max_bytes;
        let position = self.position;
        if N == 0 || N > 14 || !fits || position + slots > self.fast_end {
            return false;
        }
        if slots == 1 {
            self.slots.fill_numbers::<0, N>(position, words, self.fast_word(8 * N, false), order);
        } else {
            let word = self.fast_word(8 * N - 56, false);
            self.slots.fill_numbers::<7, N>(position + 1, words, word, Relaxed);
            self.slots.fill_numbers::<0, N>(position, words, self.fast_word(56, true), order);
        }
        self.advance(slots, 8 * N);
        true
    }

    #[inline(always)]
    fn put_single(&mut self, message: &[u8], order: Ordering) -> bool {
        if !self.has_single(message.len()) {
            return false;
        }
        self.slots.fill(self.position, message, self.fast_word(message.len(), false), order);
        self.advance(1, message.len());
        true
    }

    /// Sends a message of two slots, the most common size that does not fit in one: a cache line of the
    /// caller.
    #[inline(always)]
    fn put_pair(&mut self, message: &[u8], order: Ordering) -> bool {
        let payload_bytes = self.slots.payload_bytes();
        let is_pair = message.len() > payload_bytes && message.len() <= self.pair_max_bytes;
        if !is_pair || self.position + 2 > self.fast_end {
            return false;
        }
        let rest_bytes = message.len() - payload_bytes;
        let words = [self.fast_word(payload_bytes, true), self.fast_word(rest_bytes, false)];
        self.slots.fill_pair(self.position, message, words, order);
        self.advance(2, message.len());
        true
    }

    /// Whether a message of `len_bytes` takes one slot and that slot lies before `fast_end`.
    #[inline(always)]
    pub(crate) fn has_single(&self, len_bytes: usize) -> bool {
        len_bytes <= self.single_max_bytes && self.position < self.fast_end
    }

    /// Returns the control word of a slot before `fast_end`.
    #[inline(always)]
    fn fast_word(&self, len_bytes: usize, more: bool) -> u64 {
        self.lap_word | (len_bytes as u64) << LENGTH_SHIFT | if more { MORE } else { 0 }
    }

    /// Enables the fast path for the known free slots in the lap of `position`.
    fn begin_lap(&mut self) {
        self.lap_word = self.word(self.position, 0, false);
        self.fast_end = self.limit.min(self.slots.next_lap(self.position));
    }

    #[inline(never)]
    fn send_slow(&mut self, message: &[u8]) -> Result<(), SendError> {
        let slots = self.reserve(message.len())?;
        let (first, word) = self.stage(message);
        self.slots.fill(self.position, first, word, Release);
        self.advance(slots, message.len());
        Ok(())
    }

    /// Reserves room for a message to be written in place. See [`Claim`].
    ///
    /// # Errors
    /// [`SendError`]; the ring is unchanged.
    #[inline]
    pub fn claim(&mut self, len_bytes: usize) -> Result<Claim<'_, C>, SendError> {
        if !self.has_single(len_bytes) {
            self.reserve(len_bytes)?;
        }
        Ok(Claim::new(self, len_bytes))
    }

    /// Starts a batch of messages that become visible together. See [`Batch`].
    pub fn batch(&mut self) -> Batch<'_, C> {
        Batch::new(self)
    }

    /// Checks that a message of `len_bytes` can be written now, and returns its number of slots.
    #[inline(never)]
    pub(crate) fn reserve(&mut self, len_bytes: usize) -> Result<u64, SendError> {
        let max_bytes = self.config.max_message_bytes();
        if len_bytes > max_bytes {
            return Err(SendError::TooLong { len_bytes, max_bytes });
        }
        let needed = self.slots.slots_for(len_bytes);
        if self.limit - self.position < needed {
            self.refresh(needed)?;
            if self.limit - self.position < needed {
                self.refused_full += 1;
                self.refused_bytes = len_bytes;
                return Err(SendError::Full);
            }
        }
        self.begin_lap();
        Ok(needed)
    }

    /// Writes all slots of `message` at `position` except the first. Returns the payload and control word of
    /// the first.
    ///
    /// The consumer does not read the other slots before the first is published, so their order does not
    /// matter.
    pub(crate) fn stage<'m>(&self, message: &'m [u8]) -> (&'m [u8], u64) {
        let payload_bytes = self.slots.payload_bytes();
        let (first, mut rest) = message.split_at(message.len().min(payload_bytes));
        let first_word = self.word(self.position, first.len(), !rest.is_empty());
        let mut position = self.position;
        while !rest.is_empty() {
            let (fragment, after) = rest.split_at(rest.len().min(payload_bytes));
            (position, rest) = (position + 1, after);
            let word = self.word(position, fragment.len(), !rest.is_empty());
            self.slots.fill(position, fragment, word, Relaxed);
        }
        (first, first_word)
    }

    /// Writes the control words of a message written in place, except that of its first slot, which is
    /// returned.
    #[inline(never)]
    pub(crate) fn finish_fragments(&self, len_bytes: usize, slots: u64) -> u64 {
        let payload_bytes = self.slots.payload_bytes();
        let mut rest = len_bytes - payload_bytes;
        for position in self.position + 1..self.position + slots {
            let fragment = rest.min(payload_bytes);
            rest -= fragment;
            self.slots.write_back_before_control(position);
            self.slots.store_control(position, self.word(position, fragment, rest > 0), Relaxed);
        }
        self.word(self.position, payload_bytes, true)
    }

    /// Returns the control word of a slot.
    #[inline(always)]
    pub(crate) fn word(&self, position: u64, len_bytes: usize, more: bool) -> u64 {
        let more = if more { MORE } else { 0 };
        let credit = self.lap_word & CREDIT_MASK;
        credit | self.slots.tag(position) | (len_bytes as u64) << LENGTH_SHIFT | more
    }

    /// Moves `position` past a message of `slots` slots that has been written.
    #[inline(always)]
    pub(crate) fn advance(&mut self, slots: u64, len_bytes: usize) {
        self.tally.count(self.position, len_bytes, slots);
        self.position += slots;
    }

    /// Rolls back the slots that a batch staged from `start` on and did not publish.
    ///
    /// The first slot still has its idle tag. The others get theirs back, which is what the consumer expects
    /// in an unpublished slot. It cannot read them before the first slot is published, and that store
    /// releases these.
    pub(crate) fn roll_back(&mut self, start: RestorePoint) {
        for staged in start.position + 1..self.position {
            self.slots.store_control(staged, self.idle_word(staged), Relaxed);
        }
        self.release_hold(start.position);
        self.position = start.position;
        self.tally = start.tally;
        if self.ended.is_some() {
            self.limit = start.position;
        }
        self.begin_lap();
    }

    pub(crate) fn restore_point(&self) -> RestorePoint {
        RestorePoint { position: self.position, tally: self.tally }
    }

    /// Hides slots from `position` on from the consumer.
    pub(crate) fn start_hold(&mut self) {
        // A leaked batch holds back this one too, permanently.
        self.held_from = self.held_from.or(Some(self.position));
    }

    /// Publishes slots hidden by [`start_hold`](Self::start_hold) at `position`.
    pub(crate) fn release_hold(&mut self, position: u64) {
        if self.held_from == Some(position) {
            self.held_from = None;
        }
    }

    /// Returns the control word of the slot at `position` before it is published.
    pub(crate) fn idle_word(&self, position: u64) -> u64 {
        self.slots.idle_tag(position, self.config.variant())
    }

    /// Returns the position up to which the consumer may have seen slots.
    pub(crate) fn published(&self) -> u64 {
        self.held_from.unwrap_or(self.position)
    }

    /// Looks for `needed` free slots beyond the known limit.
    #[inline(never)]
    fn refresh(&mut self, needed: u64) -> Result<(), SendError> {
        self.check_open()?;
        self.apply_credit()?;
        if self.limit - self.position >= needed {
            return Ok(());
        }
        self.credit_loads += 1;
        if self.credit_line.load_current_le(1, Acquire) != 0 {
            return Err(self.set_ended(SendError::Closed));
        }
        match self.config.variant() {
            Variant::EpochCredit => self.load_credit(),
            Variant::UsedFlag => {
                self.probe_slots(needed);
                Ok(())
            }
        }
    }

    fn load_credit(&mut self) -> Result<(), SendError> {
        let credit = self.credit_line.load_current_le(0, Acquire);
        let before = self.line_credit;
        if credit < before {
            return Err(self.on_violation(Violation::CreditWentBack { credit, before }));
        }
        let sent = self.published();
        if credit > sent {
            return Err(self.on_violation(Violation::CreditBeyondSent { credit, sent }));
        }
        self.line_credit = credit;
        self.acknowledge(credit);
        Ok(())
    }

    /// Advances the limit by probing control words. Slots are returned in order, so a zero slot proves that
    /// all before it are free.
    ///
    /// Tries half a ring ahead first: while the consumer keeps up, this costs one load for half a ring of
    /// messages. Slots held back by a batch are excluded, because the first of them is still zero.
    fn probe_slots(&mut self, needed: u64) {
        let half = self.slots.count() / 2;
        let furthest = self.slots.count() - (self.position - self.published());
        for distance in [half.max(needed), needed] {
            if distance <= furthest && self.slots.load_control(self.position + distance - 1, Acquire) == 0 {
                self.limit = self.limit.max(self.position + distance);
                return;
            }
        }
    }

    fn acknowledge(&mut self, credit: u64) {
        self.limit = self.limit.max(credit + self.slots.count());
    }

    /// Sets the credit that every slot published from now on carries:
    /// [`Consumer::credit_to_piggyback`](crate::Consumer::credit_to_piggyback) of the reverse ring.
    #[inline(always)]
    pub fn set_reverse_credit(&mut self, credit: u32) {
        // Credit never changes under one-way traffic, and a store costs more than a comparison.
        if control::reverse_credit(self.lap_word) != credit {
            self.lap_word = self.lap_word & !CREDIT_MASK | u64::from(credit) << CREDIT_SHIFT;
        }
    }

    /// Notes credit for this ring that arrived with a message on the reverse ring. See
    /// [`Consumer::reverse_credit`](crate::Consumer::reverse_credit).
    ///
    /// It saves a load of the credit line, which may be across a link. Only a send that finds no known room
    /// applies it, so it need not be noted before other sends. Credit for more slots than were sent fails the
    /// send that applies it.
    ///
    /// Only the low half of the count travels, so credit is applied only while it is unambiguous: as long as
    /// fewer than 2³² slots were sent since the last applied credit. Beyond that, which takes a peer that
    /// never answers, piggybacked credit is ignored. With [`Variant::UsedFlag`] it is always ignored.
    #[inline(always)]
    pub fn record_credit(&mut self, credit: u32) {
        if self.recorded_credit != credit {
            self.recorded_credit = credit;
        }
    }

    /// Prefetches the slot of the next message for writing, unless the previous message took several slots.
    /// Useful only if that message is sent soon: a peer that polls the slot takes the line back.
    #[inline(always)]
    pub fn prefetch(&self) {
        if !self.tally.last_was_multi_slot(self.position) {
            self.slots.prefetch_for_write(self.position);
        }
    }

    /// Extends the credit of a message of the reverse ring to its full count, if it is new and unambiguous.
    #[inline(always)]
    fn new_credit(&self, credit: u32) -> Option<u64> {
        let before = self.piggybacked_credit;
        let delta = credit.wrapping_sub(before as u32);
        let ambiguous = self.published() - before > u64::from(u32::MAX);
        let unchanged = delta == 0 || ambiguous || self.config.variant() == Variant::UsedFlag;
        (!unchanged).then(|| before + u64::from(delta))
    }

    /// Applies the noted credit.
    fn apply_credit(&mut self) -> Result<(), SendError> {
        let Some(credit) = self.new_credit(self.recorded_credit) else { return Ok(()) };
        let sent = self.published();
        if credit > sent {
            return Err(self.on_violation(Violation::CreditBeyondSent { credit, sent }));
        }
        self.piggybacked_credit = credit;
        self.acknowledge(credit);
        Ok(())
    }

    /// Returns how many slots can be written now. Looks for room if none is known.
    ///
    /// # Errors
    /// [`SendError::Closed`] and [`SendError::Violation`], as sending would.
    pub fn free_slots(&mut self) -> Result<u64, SendError> {
        if self.position == self.limit {
            self.refresh(1)?;
            self.begin_lap();
        }
        Ok(self.limit - self.position)
    }

    /// Returns how many slots this end knows to be writable, without loading the consumer's memory; zero once
    /// it has ended. For display only: credit is validated when a send applies it.
    #[inline(always)]
    #[must_use]
    pub fn known_free_slots(&self) -> u64 {
        self.known_free_slots_with(self.recorded_credit)
    }

    /// Like [`known_free_slots`](Self::known_free_slots), with credit for this ring that is not yet
    /// [noted](Self::record_credit).
    #[inline(always)]
    #[must_use]
    pub fn known_free_slots_with(&self, credit: u32) -> u64 {
        let known = self.limit - self.position;
        match self.new_credit(credit) {
            Some(credit) if self.ended.is_none() && credit <= self.published() => {
                known.max((credit + self.slots.count()).saturating_sub(self.position))
            }
            _ => known,
        }
    }

    /// Whether a single-slot message would be refused for lack of room. Looks for room if none is known.
    ///
    /// # Errors
    /// Same as [`free_slots`](Self::free_slots).
    pub fn is_full(&mut self) -> Result<bool, SendError> {
        Ok(self.free_slots()? == 0)
    }

    /// Whether the consumer has closed. Loads the consumer's line, which sending does only if there seems to
    /// be no room.
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.credit_line.load_current_le(1, Acquire) != 0
    }

    /// Stops sending. The consumer receives everything sent before, then
    /// [`RecvError::Closed`](crate::RecvError::Closed). Does nothing if this end was already closed or
    /// abandoned.
    pub fn close(&mut self) {
        if let Some(SendError::Closed | SendError::Abandoned) = self.ended {
            return;
        }
        self.producer_line.store_through_le(0, self.published() + 1, Release);
        self.set_ended(self.ended.unwrap_or(SendError::Closed));
    }

    /// Stops sending without notifying the consumer, for an end whose peer was reported dead. If the report
    /// was really about this end, its peer must see a death, not an orderly close.
    pub fn abandon(&mut self) {
        self.set_ended(self.ended.unwrap_or(SendError::Abandoned));
    }

    /// Checks that this end can still send: neither closed nor failed, as far as it knows.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Abandoned`] or [`SendError::Violation`].
    #[inline]
    pub fn check_open(&self) -> Result<(), SendError> {
        self.ended.map_or(Ok(()), Err)
    }

    fn on_violation(&mut self, violation: Violation) -> SendError {
        self.set_ended(SendError::Violation(violation))
    }

    /// Ends sending. Without room every send takes the slow path, which returns the error.
    fn set_ended(&mut self, error: SendError) -> SendError {
        self.ended = Some(error);
        (self.limit, self.fast_end) = (self.position, self.position);
        error
    }
}

impl<C: CacheMaintenance> core::fmt::Debug for Producer<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Producer")
            .field("config", &self.config)
            .field("position", &self.position)
            .field("limit", &self.limit)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use tombolo_base::LINE_BYTES;

    use super::*;
    use crate::config::{SlotCount, SlotSize};

    /// Returns a producer that has sent `position` slots, all acknowledged, and last applied the credit
    /// `piggybacked`.
    fn producer_at(position: u64, piggybacked: u64) -> Producer {
        let config = RingConfig::new(SlotSize::B32, SlotCount::MIN, Variant::EpochCredit);
        let memory = RingMemory {
            slots: SharedMemory::zeroed(config.slots_bytes()),
            producer_line: SharedMemory::zeroed(LINE_BYTES),
            credit_line: SharedMemory::zeroed(LINE_BYTES),
        };
        let mut producer = Producer::new(config, memory).unwrap();
        producer.line_credit = position;
        producer.limit = position + producer.slots.count();
        producer.piggybacked_credit = piggybacked;
        producer.recorded_credit = piggybacked as u32;
        producer.position = position;
        producer
    }

    fn apply(producer: &mut Producer, credit: u32) {
        producer.record_credit(credit);
        producer.apply_credit().unwrap();
    }

    #[test]
    fn piggybacked_credit_continues_beyond_32_bits() {
        let start = (1 << 32) - 1;
        let mut producer = producer_at(start, start);
        producer.try_send(&[1]).unwrap();
        producer.try_send(&[2]).unwrap();
        // One of the two: the count passes 2³².
        apply(&mut producer, 0);
        assert_eq!(producer.free_slots(), Ok(1));
        assert_eq!(producer.piggybacked_credit, 1 << 32);
        // A late repetition is not a violation and changes nothing.
        apply(&mut producer, 0);
        apply(&mut producer, 1);
        assert_eq!(producer.free_slots(), Ok(2));
    }

    #[test]
    fn recorded_credit_gives_room_without_a_load() {
        let mut producer = producer_at(1 << 40, 1 << 40);
        let slots = producer.slots.count();
        producer.limit = producer.position + 1;
        assert_eq!(producer.known_free_slots(), 1);
        producer.position += 1;
        producer.recorded_credit = producer.position as u32;
        assert_eq!(producer.known_free_slots(), slots);
        // Invalid credit fails the send that applies it, and is not visible before.
        producer.recorded_credit = producer.position as u32 + 1;
        assert_eq!(producer.known_free_slots(), 0);
        producer.close();
        assert_eq!(producer.known_free_slots(), 0);
    }

    #[test]
    fn piggybacked_credit_older_than_the_line_is_ignored() {
        let mut producer = producer_at(1000, 10);
        apply(&mut producer, 900);
        assert_eq!(producer.free_slots(), Ok(2));
        assert_eq!(producer.limit, 1002);
    }

    #[test]
    fn ambiguous_piggybacked_credit_is_ignored() {
        let mut producer = producer_at((1 << 32) + 9, 10);
        apply(&mut producer, 5);
        assert_eq!(producer.piggybacked_credit, (1 << 32) + 5);
        let mut producer = producer_at((1 << 32) + 10, 10);
        for credit in [5, 10, 11, u32::MAX] {
            apply(&mut producer, credit);
        }
        assert_eq!(producer.piggybacked_credit, 10);
        assert_eq!(producer.limit, (1 << 32) + 12);
    }
}
