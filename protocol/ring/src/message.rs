//! Received messages, read in place.

use tombolo_base::sync::Ordering::Relaxed;
use tombolo_base::{CacheMaintenance, Coherent};

use crate::bytes;
use crate::consumer::Consumer;
use crate::error::{OutOfMessage, TargetTooShort};
use crate::slots::B64_PAYLOAD_BYTES;

/// Validated length and slot count of the message at the head of a ring, as found by [`Consumer::peek`].
///
/// The message stays in the ring until [`Consumer::consume`].
#[derive(Debug)]
#[must_use = "the message is still in the ring"]
pub struct Head {
    position: u64,
    len_bytes: usize,
    slots: u64,
}

impl Head {
    #[inline(always)]
    pub(crate) fn new(position: u64, len_bytes: usize, slots: u64) -> Self {
        Head { position, len_bytes, slots }
    }

    /// Returns the length of the message, in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the slot count and the length in bytes.
    #[inline(always)]
    pub(crate) fn into_parts(self) -> (u64, usize) {
        (self.slots, self.len_bytes)
    }
}

/// Content of a message at the head of a ring.
///
/// The length is validated and fixed. The bytes lie in memory that the producer can write: an honest producer
/// does not touch them until their slots are returned, but a hostile one may change them between two reads.
/// Read each value once, check it, and use that copy.
// Passed by value, so that it stays in registers.
pub struct View<'a, C: CacheMaintenance = Coherent> {
    consumer: &'a Consumer<C>,
    len_bytes: usize,
    slots: u64,
}

impl<C: CacheMaintenance> Clone for View<'_, C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: CacheMaintenance> Copy for View<'_, C> {}

impl<'a, C: CacheMaintenance> View<'a, C> {
    #[inline(always)]
    pub(crate) fn new(consumer: &'a Consumer<C>, head: &Head) -> Self {
        debug_assert_eq!(head.position, consumer.position, "a head of an earlier message");
        View { consumer, len_bytes: head.len_bytes, slots: head.slots }
    }

    /// Returns the length of the message, in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(self) -> usize {
        self.len_bytes
    }

    /// Whether the message has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len_bytes == 0
    }

    /// Copies the whole message to the start of `target` and returns its length in bytes.
    ///
    /// # Errors
    /// [`TargetTooShort`]; nothing was copied.
    #[inline(always)]
    pub fn copy_to(self, target: &mut [u8]) -> Result<usize, TargetTooShort> {
        // Callers often know the length of their target, and thus of the message, at compile time. The copy
        // then compiles to straight-line code.
        let slots = &self.consumer.slots;
        if target.len() == self.len_bytes && slots.load_b64(self.consumer.position, target) {
            return Ok(self.len_bytes);
        }
        let (message_bytes, target_bytes) = (self.len_bytes, target.len());
        if copy_to_start(self.consumer, self.len_bytes, self.slots, target) {
            Ok(self.len_bytes)
        } else {
            Err(TargetTooShort { message_bytes, target_bytes })
        }
    }

    /// Returns the message as `N` little-endian numbers, or `None` if its length differs.
    ///
    /// When inlined, the numbers of a message in 64-byte slots are loaded directly into registers.
    #[inline(always)]
    #[must_use]
    pub fn to_words<const N: usize>(self) -> Option<[u64; N]> {
        if self.len_bytes != 8 * N {
            return None;
        }
        if let Some(words) = self.consumer.slots.load_words(self.consumer.position) {
            return Some(words);
        }
        // A separate array: sharing it would force the numbers above through memory too.
        let mut bytes = [[0; 8]; N];
        copy_to_start(self.consumer, self.len_bytes, self.slots, bytes.as_flattened_mut());
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes) {
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }

    /// Copies a message that lies in one 64-byte slot to the start of `target`. The rest of `target` then
    /// holds bytes of earlier messages. Returns false and copies nothing if the message has another layout.
    ///
    /// The copy has a constant length, independent of the length of the message, and thus no branches.
    #[inline(always)]
    #[must_use = "the message may not have been copied"]
    pub fn copy_slot_to(self, target: &mut [u8; B64_PAYLOAD_BYTES]) -> bool {
        self.slots == 1 && self.consumer.slots.load_payload(self.consumer.position, target)
    }

    /// Copies the part of the message at `offset_bytes` that fills `target`.
    ///
    /// # Errors
    /// [`OutOfMessage`] when the part does not lie inside the message; nothing was copied.
    #[inline]
    pub fn read_at(self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfMessage> {
        read_part(self.consumer, self.len_bytes, offset_bytes, target)
    }

    /// Reads a little-endian number at any offset, with one load if the offset is a multiple of eight.
    ///
    /// # Errors
    /// [`OutOfMessage`] when its eight bytes do not lie inside the message.
    #[inline]
    pub fn read_u64_le(self, offset_bytes: usize) -> Result<u64, OutOfMessage> {
        if !offset_bytes.is_multiple_of(8) {
            let mut value = [0; 8];
            read_part(self.consumer, self.len_bytes, offset_bytes, &mut value)?;
            return Ok(u64::from_le_bytes(value));
        }
        OutOfMessage::check(offset_bytes, 8, self.len_bytes)?;
        let slots = &self.consumer.slots;
        let (slot, within) = slots.locate(offset_bytes);
        // A payload consists of whole words, so an aligned word never straddles two slots.
        let word = slots.payload_word(self.consumer.position + slot, within / 8);
        Ok(u64::from_le(word.load(Relaxed)))
    }

    /// Copies the message into a vector.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn to_vec(self) -> alloc::vec::Vec<u8> {
        let mut bytes = alloc::vec![0; self.len_bytes];
        // The target is exactly as long as the message.
        let _ = self.copy_to(&mut bytes);
        bytes
    }
}

impl<C: CacheMaintenance> core::fmt::Debug for View<'_, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "View({} bytes in {} slots)", self.len_bytes, self.slots)
    }
}

/// Message at the head of a ring. Dropping it consumes it and returns its slots to the producer.
#[must_use = "a message is consumed when it is dropped"]
pub struct Message<'a, C: CacheMaintenance = Coherent> {
    consumer: &'a mut Consumer<C>,
    len_bytes: usize,
    slots: u64,
}

impl<'a, C: CacheMaintenance> Message<'a, C> {
    #[inline(always)]
    pub(crate) fn new(consumer: &'a mut Consumer<C>, len_bytes: usize, slots: u64) -> Self {
        Message { consumer, len_bytes, slots }
    }

    /// Returns the content of the message.
    #[inline(always)]
    #[must_use]
    pub fn view(&self) -> View<'_, C> {
        View { consumer: self.consumer, len_bytes: self.len_bytes, slots: self.slots }
    }

    /// Returns the length of the message, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_bytes
    }

    /// Whether the message has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// Same as [`View::copy_to`].
    ///
    /// # Errors
    /// [`TargetTooShort`]; nothing was copied.
    #[inline(always)]
    pub fn copy_to(&self, target: &mut [u8]) -> Result<usize, TargetTooShort> {
        self.view().copy_to(target)
    }

    /// Same as [`View::read_at`].
    ///
    /// # Errors
    /// [`OutOfMessage`] when the part does not lie inside the message; nothing was copied.
    #[inline]
    pub fn read_at(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfMessage> {
        self.view().read_at(offset_bytes, target)
    }

    /// Same as [`View::read_u64_le`].
    ///
    /// # Errors
    /// [`OutOfMessage`] when its eight bytes do not lie inside the message.
    #[inline]
    pub fn read_u64_le(&self, offset_bytes: usize) -> Result<u64, OutOfMessage> {
        self.view().read_u64_le(offset_bytes)
    }

    /// Same as [`View::to_vec`].
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn to_vec(&self) -> alloc::vec::Vec<u8> {
        self.view().to_vec()
    }
}

// Functions that are not inlined take the consumer, not the message: a message whose address is never taken
// stays in registers.

/// Copies the next message to the start of `target`. Returns false and copies nothing if `target` is too
/// short. An error value would be returned through memory, and would force the length there on the fast path
/// as well.
#[inline(never)]
fn copy_to_start<C: CacheMaintenance>(
    consumer: &Consumer<C>,
    len_bytes: usize,
    slots: u64,
    target: &mut [u8],
) -> bool {
    let Some(target) = target.get_mut(..len_bytes) else { return false };
    match slots {
        1 => consumer.slots.load(consumer.position, target),
        2 => consumer.slots.load_pair(consumer.position, target),
        _ => copy_fragments(consumer, target),
    }
    true
}

/// Copies the next message, which takes several slots. `target` has the length of the message.
#[inline(never)]
fn copy_fragments<C: CacheMaintenance>(consumer: &Consumer<C>, target: &mut [u8]) {
    let slots = &consumer.slots;
    let fragments = target.chunks_mut(slots.payload_bytes());
    for (position, fragment) in (consumer.position..).zip(fragments) {
        slots.load(position, fragment);
    }
}

/// Copies a part of the next message.
#[inline(never)]
fn read_part<C: CacheMaintenance>(
    consumer: &Consumer<C>,
    len_bytes: usize,
    offset_bytes: usize,
    target: &mut [u8],
) -> Result<(), OutOfMessage> {
    OutOfMessage::check(offset_bytes, target.len(), len_bytes)?;
    let slots = &consumer.slots;
    let (slot, mut within) = slots.locate(offset_bytes);
    let mut position = consumer.position + slot;
    let mut rest = target;
    while !rest.is_empty() {
        let cut = rest.len().min(slots.payload_bytes() - within);
        let (fragment, after) = rest.split_at_mut(cut);
        bytes::load_at(slots.payload(position), within, fragment);
        (position, within, rest) = (position + 1, 0, after);
    }
    Ok(())
}

impl<C: CacheMaintenance> Drop for Message<'_, C> {
    #[inline(always)]
    fn drop(&mut self) {
        self.consumer.advance(self.slots, self.len_bytes);
    }
}

impl<C: CacheMaintenance> core::fmt::Debug for Message<'_, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Message({} bytes in {} slots)", self.len_bytes, self.slots)
    }
}
