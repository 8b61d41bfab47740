//! Messages that are written before they are published: in place, or several together.

use tombolo_base::sync::Ordering::{Relaxed, Release};
use tombolo_base::{CacheMaintenance, Coherent};

use crate::bytes;
use crate::error::{OutOfMessage, SendError};
use crate::producer::Producer;
use crate::tally::Tally;

/// Reserved room for one message, to be written in place and then committed.
///
/// Dropping it leaves the ring unchanged. Bytes that are not written are unspecified (they hold what was in
/// the slots before). The consumer sees nothing before [`commit`](Self::commit).
///
/// ```
/// # use tombolo_base::{LINE_BYTES, SharedMemory};
/// # use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};
/// # let config = RingConfig::new(SlotSize::B64, SlotCount::new(16)?, Variant::EpochCredit);
/// # let memory = RingMemory {
/// #     slots: SharedMemory::zeroed(config.slots_bytes()),
/// #     producer_line: SharedMemory::zeroed(LINE_BYTES),
/// #     credit_line: SharedMemory::zeroed(LINE_BYTES),
/// # };
/// # let mut producer = Producer::new(config, memory.clone())?;
/// let mut claim = producer.claim(80)?; // two slots of 56 bytes of payload
/// claim.write_u64_le(0, 42)?;
/// claim.write_at(8, &[7; 72])?;
/// claim.commit();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a claim that is not committed sends nothing"]
pub struct Claim<'a, C: CacheMaintenance = Coherent> {
    producer: &'a mut Producer<C>,
    len_bytes: usize,
}

impl<'a, C: CacheMaintenance> Claim<'a, C> {
    /// Creates a claim of slots that the caller has reserved.
    pub(crate) fn new(producer: &'a mut Producer<C>, len_bytes: usize) -> Self {
        Claim { producer, len_bytes }
    }

    /// Returns the length of the message, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_bytes
    }

    /// Whether the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// Shortens the message, for encoders that claim their worst case. A greater length has no effect.
    pub fn truncate(&mut self, len_bytes: usize) {
        self.len_bytes = self.len_bytes.min(len_bytes);
    }

    /// Writes `source` at any offset. Offsets that are multiples of eight are fastest.
    ///
    /// # Errors
    /// [`OutOfMessage`] when `source` does not lie inside the message; nothing was written.
    pub fn write_at(&mut self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfMessage> {
        OutOfMessage::check(offset_bytes, source.len(), self.len_bytes)?;
        let slots = &self.producer.slots;
        let (slot, mut within) = slots.locate(offset_bytes);
        let mut position = self.producer.position + slot;
        let mut rest = source;
        while !rest.is_empty() {
            let (fragment, after) = rest.split_at(rest.len().min(slots.payload_bytes() - within));
            bytes::store_at(slots.payload(position), within, fragment);
            (position, within, rest) = (position + 1, 0, after);
        }
        Ok(())
    }

    /// Writes a little-endian number at any offset, with one store if the offset is a multiple of eight.
    ///
    /// # Errors
    /// [`OutOfMessage`] when its eight bytes do not lie inside the message; nothing was written.
    #[inline]
    pub fn write_u64_le(&mut self, offset_bytes: usize, value: u64) -> Result<(), OutOfMessage> {
        if !offset_bytes.is_multiple_of(8) {
            return self.write_at(offset_bytes, &value.to_le_bytes());
        }
        OutOfMessage::check(offset_bytes, 8, self.len_bytes)?;
        let (slot, within) = self.producer.slots.locate(offset_bytes);
        // A payload consists of whole words, so an aligned word never straddles two slots.
        let word = self.producer.slots.payload_word(self.producer.position + slot, within / 8);
        word.store(value.to_le(), Relaxed);
        Ok(())
    }

    /// Publishes the message with one release store.
    #[inline]
    pub fn commit(self) {
        let Claim { producer, len_bytes } = self;
        let slots = producer.slots.slots_for(len_bytes);
        let first_word = if slots == 1 {
            producer.word(producer.position, len_bytes, false)
        } else {
            producer.finish_fragments(len_bytes, slots)
        };
        producer.slots.write_back_before_control(producer.position);
        producer.slots.store_control(producer.position, first_word, Release);
        producer.advance(slots, len_bytes);
    }
}

/// Several messages that become visible together, with the store that publishes the first.
///
/// The fastest way to send many messages: the consumer does not take cache lines away while they are being
/// written. Dropping a batch leaves the ring unchanged. (Leaking it with [`core::mem::forget`] blocks the
/// ring: the consumer waits for a slot that is never published.)
#[must_use = "a batch that is not committed sends nothing"]
pub struct Batch<'a, C: CacheMaintenance = Coherent> {
    producer: &'a mut Producer<C>,
    /// State of the producer before the batch.
    start: RestorePoint,
    /// Control word that publishes the batch; unused before the first message.
    first_word: u64,
}

/// Progress of a producer, as a restore point.
#[derive(Clone, Copy)]
pub(crate) struct RestorePoint {
    pub(crate) position: u64,
    pub(crate) tally: Tally,
}

impl<'a, C: CacheMaintenance> Batch<'a, C> {
    pub(crate) fn new(producer: &'a mut Producer<C>) -> Self {
        Batch { start: producer.restore_point(), producer, first_word: 0 }
    }

    /// Adds a copy of `message`. All messages of a batch must fit in the ring together.
    ///
    /// # Errors
    /// [`SendError`]; the message was not added, but earlier ones still are.
    #[inline(always)]
    pub fn push(&mut self, message: &[u8]) -> Result<(), SendError> {
        // Only the first message of a batch is held back.
        if self.producer.position != self.start.position && self.producer.put_short(message, Relaxed) {
            return Ok(());
        }
        self.push_slow(message)
    }

    /// Like [`push`](Self::push), for a message of numbers, received as their little-endian bytes. In 64-byte
    /// slots, up to 14 numbers go directly from registers to the slots unless the array is in memory.
    ///
    /// # Errors
    /// Same as [`push`](Self::push).
    #[inline(always)]
    pub fn push_words<const N: usize>(&mut self, words: [u64; N]) -> Result<(), SendError> {
        if self.producer.position != self.start.position && self.producer.put_words(&words, Relaxed) {
            return Ok(());
        }
        let mut copy = words;
        self.push_words_slow(&mut copy)
    }

    // Takes a mutable reference to a copy, so that the caller's array is forced into memory only on this
    // path.
    #[cold]
    #[inline(never)]
    fn push_words_slow<const N: usize>(&mut self, words: &mut [u64; N]) -> Result<(), SendError> {
        // A loop: `map` of an array compiles to calls into the standard library and back.
        let mut bytes = [[0; 8]; N];
        for (bytes, word) in bytes.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        self.push_slow(bytes.as_flattened())
    }

    #[inline(never)]
    fn push_slow(&mut self, message: &[u8]) -> Result<(), SendError> {
        let slots = self.producer.reserve(message.len())?;
        let (first, mut word) = self.producer.stage(message);
        let position = self.producer.position;
        if position == self.start.position {
            self.producer.start_hold();
            self.first_word = core::mem::replace(&mut word, self.producer.idle_word(position));
        }
        self.producer.slots.fill(position, first, word, Relaxed);
        self.producer.advance(slots, message.len());
        Ok(())
    }

    /// Returns the number of messages added so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.producer.messages() - self.start.tally.messages(self.start.position)
    }

    /// Whether no message was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producer.position == self.start.position
    }

    /// Publishes all messages together. Does nothing for an empty batch.
    // Inlined: moving a batch loads it in wider pieces than it was stored in, which stalls store forwarding
    // until the earlier stores have left the store buffer (ADR 0142).
    #[inline(always)]
    pub fn commit(mut self) {
        if !self.is_empty() {
            self.producer.slots.store_control(self.start.position, self.first_word, Release);
            self.producer.release_hold(self.start.position);
        }
        // Leave nothing for `drop` to retract.
        self.start.position = self.producer.position;
    }
}

impl<C: CacheMaintenance> Drop for Batch<'_, C> {
    fn drop(&mut self) {
        if !self.is_empty() {
            self.producer.roll_back(self.start);
        }
    }
}
