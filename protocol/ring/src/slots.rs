//! Slot addressing: maps positions to words of memory.

use core::hint::cold_path;

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::sync::{AtomicU64, Ordering, prefetch, prefetch_for_write};
use tombolo_base::{CacheMaintenance, CircularWords, SharedMemory};

use crate::bytes;
use crate::config::{RingConfig, SlotSize, Variant};
use crate::control;

/// Payload of a 64-byte slot, the usual size, in bytes.
pub const B64_PAYLOAD_BYTES: usize = SlotSize::B64.payload_bytes();

/// Slots of a ring. A position counts slots since the ring was created and never wraps.
pub(crate) struct Slots<C: CacheMaintenance> {
    words: CircularWords<C>,
    /// Slot count minus one.
    mask: u64,
    /// Binary logarithm of the slot count.
    lap_shift: u32,
    /// Binary logarithm of the words in a slot.
    words_shift: u32,
    /// Index of the control word in a slot: the last word.
    control_index: usize,
    /// Bytes of a slot before its control word.
    payload_bytes: usize,
    size: SlotSize,
}

impl<C: CacheMaintenance> Slots<C> {
    /// Creates the slots in `memory`. The caller has checked that its length matches `config`.
    pub(crate) fn new(config: &RingConfig, memory: SharedMemory<C>) -> Self {
        let slot_words = config.slot_size().bytes() / 8;
        Slots {
            words: CircularWords::of(memory),
            mask: u64::from(config.slot_count().get()) - 1,
            lap_shift: config.slot_count().log2(),
            words_shift: slot_words.trailing_zeros(),
            control_index: slot_words - 1,
            payload_bytes: config.slot_size().payload_bytes(),
            size: config.slot_size(),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.mask + 1
    }

    #[inline(always)]
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the words of the slot at `position`, for slots of `WORDS` words.
    #[inline(always)]
    fn sized<const WORDS: usize>(&self, position: u64) -> &[AtomicU64; WORDS] {
        self.words.chunk(position as usize)
    }

    /// Returns the payload of the slot at `position`.
    #[inline(always)]
    pub(crate) fn payload(&self, position: u64) -> &[AtomicU64] {
        match self.size {
            SlotSize::B32 => &self.sized::<4>(position)[..3],
            SlotSize::B64 => &self.sized::<8>(position)[..7],
            SlotSize::B128 => &self.sized::<16>(position)[..15],
        }
    }

    /// Returns word `index` of the payload of the slot at `position`. `index` must lie inside the payload.
    #[inline(always)]
    pub(crate) fn payload_word(&self, position: u64, index: usize) -> &AtomicU64 {
        debug_assert!(index < self.control_index);
        self.words.word((position as usize) << self.words_shift | index)
    }

    /// Fills the slot at `position` with `source`, then stores its control word with `order`.
    #[inline(always)]
    pub(crate) fn fill(&self, position: u64, source: &[u8], word: u64, order: Ordering) {
        // Tests the usual size first.
        if self.size == SlotSize::B64 {
            return self.fill_sized::<8, 7>(position, source, word, order);
        }
        match self.size {
            SlotSize::B32 => self.fill_sized::<4, 3>(position, source, word, order),
            SlotSize::B64 => {}
            SlotSize::B128 => self.fill_sized::<16, 15>(position, source, word, order),
        }
    }

    /// Fills two slots with a message that does not fit in one, the second slot first. `words` are their
    /// control words.
    #[inline(always)]
    pub(crate) fn fill_pair(&self, position: u64, message: &[u8], words: [u64; 2], order: Ordering) {
        match self.size {
            SlotSize::B32 => self.fill_pair_sized::<4, 3, 24>(position, message, words, order),
            SlotSize::B64 => self.fill_pair_sized::<8, 7, 56>(position, message, words, order),
            SlotSize::B128 => self.fill_pair_sized::<16, 15, 120>(position, message, words, order),
        }
    }

    // A copy of constant length compiles to neither loops nor branches.
    #[inline(always)]
    fn fill_pair_sized<const WORDS: usize, const PAYLOAD_WORDS: usize, const PAYLOAD_BYTES: usize>(
        &self,
        position: u64,
        message: &[u8],
        words: [u64; 2],
        order: Ordering,
    ) {
        let Some((first, rest)) = message.split_first_chunk::<PAYLOAD_BYTES>() else { return };
        self.fill_sized::<WORDS, PAYLOAD_WORDS>(position + 1, rest, words[1], Ordering::Relaxed);
        self.fill_sized::<WORDS, PAYLOAD_WORDS>(position, first, words[0], order);
    }

    #[inline(always)]
    fn fill_sized<const WORDS: usize, const PAYLOAD_WORDS: usize>(
        &self,
        position: u64,
        source: &[u8],
        word: u64,
        order: Ordering,
    ) {
        if tombolo_base::canary!("ring publishes before it writes") {
            self.store_control(position, word, order);
        }
        if let Some((payload, [control])) = self.sized::<WORDS>(position).split_first_chunk::<PAYLOAD_WORDS>()
        {
            bytes::store(payload, source);
            self.write_back_before_control(position);
            control.store(word.to_le(), order);
            self.write_back_control(position);
        }
    }

    /// Whether slots are 64 bytes long, as [`fill_numbers`](Self::fill_numbers) requires.
    #[inline(always)]
    pub(crate) fn are_b64(&self) -> bool {
        self.size == SlotSize::B64
    }

    /// Like [`fill`](Self::fill), with the numbers of a message from index `FIRST` on. Slots must [hold seven
    /// words](Self::are_b64).
    #[inline(always)]
    pub(crate) fn fill_numbers<const FIRST: usize, const N: usize>(
        &self,
        position: u64,
        numbers: &[u64; N],
        word: u64,
        order: Ordering,
    ) {
        if let Some((payload, [control])) = self.sized::<8>(position).split_first_chunk::<7>() {
            bytes::store_numbers::<FIRST, N>(payload, numbers);
            self.write_back_before_control(position);
            control.store(word.to_le(), order);
            self.write_back_control(position);
        }
    }

    /// Loads the start of the payload of the slot at `position`.
    #[inline(always)]
    pub(crate) fn load(&self, position: u64, target: &mut [u8]) {
        match self.size {
            SlotSize::B32 => self.load_sized::<4, 3>(position, target),
            SlotSize::B64 => self.load_sized::<8, 7>(position, target),
            SlotSize::B128 => self.load_sized::<16, 15>(position, target),
        }
    }

    /// Loads two slots of a message that does not fit in one.
    #[inline(always)]
    pub(crate) fn load_pair(&self, position: u64, target: &mut [u8]) {
        match self.size {
            SlotSize::B32 => self.load_pair_sized::<4, 3, 24>(position, target),
            SlotSize::B64 => self.load_pair_sized::<8, 7, 56>(position, target),
            SlotSize::B128 => self.load_pair_sized::<16, 15, 120>(position, target),
        }
    }

    #[inline(always)]
    fn load_pair_sized<const WORDS: usize, const PAYLOAD_WORDS: usize, const PAYLOAD_BYTES: usize>(
        &self,
        position: u64,
        target: &mut [u8],
    ) {
        let Some((first, rest)) = target.split_first_chunk_mut::<PAYLOAD_BYTES>() else { return };
        self.load_sized::<WORDS, PAYLOAD_WORDS>(position, first);
        self.load_sized::<WORDS, PAYLOAD_WORDS>(position + 1, rest);
    }

    /// Loads a message of exactly the length of `target`, if it lies in one or two 64-byte slots.
    #[inline(always)]
    pub(crate) fn load_b64(&self, position: u64, target: &mut [u8]) -> bool {
        if self.size != SlotSize::B64 || target.len() > 2 * B64_PAYLOAD_BYTES {
            return false;
        }
        if target.len() <= B64_PAYLOAD_BYTES {
            self.load_sized::<8, 7>(position, target);
        } else {
            self.load_pair_sized::<8, 7, B64_PAYLOAD_BYTES>(position, target);
        }
        true
    }

    /// Loads the first `N` words of a message, if slots have the usual 64 bytes.
    #[inline(always)]
    pub(crate) fn load_words<const N: usize>(&self, position: u64) -> Option<[u64; N]> {
        if self.size != SlotSize::B64 {
            cold_path();
            return None;
        }
        let mut words = [0; N];
        let mut rest = words.iter_mut();
        for slot in 0..N.div_ceil(7) as u64 {
            let payload = self.sized::<8>(position + slot)[..7].iter();
            for (from, word) in payload.zip(rest.by_ref()) {
                *word = u64::from_le(from.load(Ordering::Relaxed));
            }
        }
        Some(words)
    }

    /// Loads the whole payload of the slot at `position`, if slots have the usual 64 bytes.
    #[inline(always)]
    pub(crate) fn load_payload(&self, position: u64, target: &mut [u8; B64_PAYLOAD_BYTES]) -> bool {
        let is_b64 = self.size == SlotSize::B64;
        if is_b64 {
            self.load_sized::<8, 7>(position, target);
        }
        is_b64
    }

    #[inline(always)]
    fn load_sized<const WORDS: usize, const PAYLOAD_WORDS: usize>(&self, position: u64, target: &mut [u8]) {
        if let Some((payload, _)) = self.sized::<WORDS>(position).split_first_chunk::<PAYLOAD_WORDS>() {
            bytes::load(payload, target);
        }
    }

    /// Returns the control word of the slot at `position`.
    #[inline(always)]
    fn control(&self, position: u64) -> &AtomicU64 {
        self.words.word((position as usize) << self.words_shift | self.control_index)
    }

    /// Prefetches the slot at `position`. Does nothing for incoherent memory, where the line would be stale.
    #[inline(always)]
    pub(crate) fn prefetch(&self, position: u64) {
        if C::COHERENT {
            prefetch(self.control(position));
        }
    }

    /// Prefetches the slot at `position` for writing.
    #[inline(always)]
    pub(crate) fn prefetch_for_write(&self, position: u64) {
        if C::COHERENT {
            prefetch_for_write(self.control(position));
        }
    }

    /// Invalidates the line of the control word of the slot at `position`, then loads the word.
    #[inline(always)]
    pub(crate) fn load_control(&self, position: u64, order: Ordering) -> u64 {
        if !C::COHERENT {
            self.words.memory().caches().invalidate(core::slice::from_ref(self.control(position)));
        }
        u64::from_le(self.control(position).load(order))
    }

    /// Stores the control word of the slot at `position` and writes its line back. The other lines of a
    /// published slot must have been written back before.
    #[inline(always)]
    pub(crate) fn store_control(&self, position: u64, word: u64, order: Ordering) {
        self.control(position).store(word.to_le(), order);
        self.write_back_control(position);
    }

    #[inline(always)]
    fn write_back_control(&self, position: u64) {
        if !C::COHERENT {
            self.words.memory().caches().write_back(core::slice::from_ref(self.control(position)));
        }
    }

    /// Writes back the lines that must reach memory before the control word of the slot. Stores to the
    /// control word's own line leave the cache together with it, or earlier.
    #[inline(always)]
    pub(crate) fn write_back_before_control(&self, position: u64) {
        if !C::COHERENT {
            if self.size.bytes() > CACHE_LINE_BYTES {
                self.words.memory().caches().write_back(self.payload_before_control_line(position));
            }
            self.words.memory().caches().between_stores(self.payload(position));
        }
    }

    /// Invalidates the payload of the slot at `position` except for the line of its control word, which has
    /// just been loaded.
    #[inline(always)]
    pub(crate) fn invalidate_payload(&self, position: u64) {
        if !C::COHERENT && self.size.bytes() > CACHE_LINE_BYTES {
            self.words.memory().caches().invalidate(self.payload_before_control_line(position));
        }
    }

    /// Returns the payload in other cache lines than that of the control word, which lies in the last.
    fn payload_before_control_line(&self, position: u64) -> &[AtomicU64] {
        let payload = self.payload(position);
        &payload[..(payload.len() + 1).saturating_sub(CACHE_LINE_BYTES / 8)]
    }

    #[inline(always)]
    pub(crate) fn lap(&self, position: u64) -> u64 {
        position >> self.lap_shift
    }

    /// Returns the first position of the lap after that of `position`.
    pub(crate) fn next_lap(&self, position: u64) -> u64 {
        (position | self.mask) + 1
    }

    /// Returns the tag that publishes `position`.
    #[inline(always)]
    pub(crate) fn tag(&self, position: u64) -> u64 {
        control::tag(self.lap(position))
    }

    /// Returns the tag of the slot at `position` until it is published.
    pub(crate) fn idle_tag(&self, position: u64, variant: Variant) -> u64 {
        match variant {
            Variant::EpochCredit => control::tag_before(self.lap(position)),
            Variant::UsedFlag => 0,
        }
    }

    /// Returns the number of slots of a message of `len_bytes`: at least one, even if it is empty.
    #[inline(always)]
    pub(crate) fn slots_for(&self, len_bytes: usize) -> u64 {
        if len_bytes <= self.payload_bytes { 1 } else { self.locate_far(len_bytes - 1).0 + 1 }
    }

    /// Returns the index, within a message, of the slot that holds the byte at `offset_bytes`, and the offset
    /// within that slot.
    #[inline(always)]
    pub(crate) fn locate(&self, offset_bytes: usize) -> (u64, usize) {
        if offset_bytes < self.payload_bytes { (0, offset_bytes) } else { self.locate_far(offset_bytes) }
    }

    #[inline(never)]
    fn locate_far(&self, offset_bytes: usize) -> (u64, usize) {
        // One arm per size: division by a constant compiles to a multiplication.
        let (slot, within) = match self.size {
            SlotSize::B32 => (offset_bytes / 24, offset_bytes % 24),
            SlotSize::B64 => (offset_bytes / 56, offset_bytes % 56),
            SlotSize::B128 => (offset_bytes / 120, offset_bytes % 120),
        };
        (slot as u64, within)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::config::SlotCount;

    /// A wrong lap boundary would only send the consumer through its slow path, with the same results, so no
    /// other test detects it.
    #[test]
    fn laps_begin_at_multiples_of_the_slot_count() {
        let config = RingConfig::new(SlotSize::B32, SlotCount::new(4).unwrap(), Variant::EpochCredit);
        let slots = Slots::new(&config, SharedMemory::zeroed(config.slots_bytes()));
        let next = [0, 1, 3, 4, 7, 8, 21].map(|position| slots.next_lap(position));
        assert_eq!(next, [4, 4, 4, 8, 8, 12, 24]);
        assert_eq!([0, 3, 4, 7, 8].map(|position| slots.lap(position)), [0, 0, 1, 1, 2]);
    }
}
