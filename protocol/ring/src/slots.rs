//! Addressing: which words belong to which position.

use tombolo_base::SharedMemory;
use tombolo_base::sync::{AtomicU64, Ordering};

use crate::config::{RingConfig, SlotSize, Variant};
use crate::control;

/// The slots of a ring. A position counts slots since the ring began; it never wraps.
pub(crate) struct Slots {
    memory: SharedMemory,
    /// Slot count less one.
    mask: u64,
    /// Binary logarithm of the slot count.
    lap_shift: u32,
    /// Binary logarithm of the words in a slot.
    words_shift: u32,
    size: SlotSize,
}

impl Slots {
    /// The caller has checked that `memory` is as long as `config` says.
    pub(crate) fn new(config: &RingConfig, memory: SharedMemory) -> Self {
        Slots {
            memory,
            mask: u64::from(config.slot_count().get()) - 1,
            lap_shift: config.slot_count().log2(),
            words_shift: (config.slot_size().bytes() / 8).trailing_zeros(),
            size: config.slot_size(),
        }
    }

    #[inline(always)]
    pub(crate) fn size(&self) -> SlotSize {
        self.size
    }

    pub(crate) fn count(&self) -> u64 {
        self.mask + 1
    }

    #[inline(always)]
    pub(crate) fn payload_bytes(&self) -> usize {
        self.size.payload_bytes()
    }

    /// The slot at `position`, when slots are known to have `WORDS` words.
    #[inline(always)]
    pub(crate) fn sized<const WORDS: usize>(&self, position: u64) -> &[AtomicU64; WORDS] {
        let (slots, _) = self.memory.words().as_chunks::<WORDS>();
        &slots[(position & self.mask) as usize]
    }

    /// The slot at `position`: payload and control word.
    #[inline(always)]
    pub(crate) fn slot(&self, position: u64) -> (&[AtomicU64], &AtomicU64) {
        let start = ((position & self.mask) as usize) << self.words_shift;
        let last = start + (1 << self.words_shift) - 1;
        let slot = &self.memory.words()[start..=last];
        (&slot[..last - start], &slot[last - start])
    }

    #[inline(always)]
    pub(crate) fn load_control(&self, position: u64, order: Ordering) -> u64 {
        u64::from_le(self.slot(position).1.load(order))
    }

    #[inline(always)]
    pub(crate) fn store_control(&self, position: u64, word: u64, order: Ordering) {
        self.slot(position).1.store(word.to_le(), order);
    }

    #[inline(always)]
    pub(crate) fn lap(&self, position: u64) -> u64 {
        position >> self.lap_shift
    }

    /// The tag that publishes `position`.
    #[inline(always)]
    pub(crate) fn tag(&self, position: u64) -> u64 {
        control::tag(self.lap(position))
    }

    /// The tag that the slot at `position` has until it is published.
    pub(crate) fn idle_tag(&self, position: u64, variant: Variant) -> u64 {
        match variant {
            Variant::EpochCredit => control::tag_before(self.lap(position)),
            Variant::UsedFlag => 0,
        }
    }

    /// Slots that a message of `len_bytes` takes. An empty message takes one.
    #[inline]
    pub(crate) fn slots_for(&self, len_bytes: usize) -> u64 {
        // One arm for each size: a division by a constant is a multiplication.
        let slots = match self.size {
            SlotSize::B32 => len_bytes.div_ceil(SlotSize::B32.payload_bytes()),
            SlotSize::B64 => len_bytes.div_ceil(SlotSize::B64.payload_bytes()),
            SlotSize::B128 => len_bytes.div_ceil(SlotSize::B128.payload_bytes()),
        };
        slots.max(1) as u64
    }

    /// Which slot of a message has the byte at `offset_bytes`, and where in that slot it is.
    #[inline]
    pub(crate) fn locate(&self, offset_bytes: usize) -> (u64, usize) {
        let within = |payload: usize| ((offset_bytes / payload) as u64, offset_bytes % payload);
        match self.size {
            SlotSize::B32 => within(SlotSize::B32.payload_bytes()),
            SlotSize::B64 => within(SlotSize::B64.payload_bytes()),
            SlotSize::B128 => within(SlotSize::B128.payload_bytes()),
        }
    }
}
