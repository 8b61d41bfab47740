//! Parameters that both ends of a ring must agree on.

use core::fmt;

use tombolo_base::{CacheMaintenance, Coherent, SharedMemory};

/// Size of a slot. Its last eight bytes are the control word; the rest is payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotSize {
    /// 32 bytes, 24 of them payload: two slots to a 64-byte cache line.
    B32,
    /// 64 bytes, 56 of them payload: the cache line of most processors.
    B64,
    /// 128 bytes, 120 of them payload: the cache line of some Arm processors, and of adjacent-line
    /// prefetchers.
    B128,
}

impl SlotSize {
    /// All slot sizes, smallest first.
    pub const ALL: [SlotSize; 3] = [SlotSize::B32, SlotSize::B64, SlotSize::B128];

    /// Returns the size in bytes, including the control word.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            SlotSize::B32 => 32,
            SlotSize::B64 => 64,
            SlotSize::B128 => 128,
        }
    }

    /// Returns the payload bytes of a slot: all but the control word.
    #[must_use]
    pub const fn payload_bytes(self) -> usize {
        self.bytes() - 8
    }

    /// Returns the variant for a size in bytes, or `None` if the ring does not support that size.
    #[must_use]
    pub const fn from_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            32 => Some(SlotSize::B32),
            64 => Some(SlotSize::B64),
            128 => Some(SlotSize::B128),
            _ => None,
        }
    }
}

/// Number of slots in a ring: a power of two from 2 to 65,536.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotCount(u32);

impl SlotCount {
    /// Slot count of the smallest ring.
    pub const MIN: SlotCount = SlotCount(2);
    /// Slot count of the largest ring.
    pub const MAX: SlotCount = SlotCount(65_536);

    /// Validates `slots` as a slot count.
    ///
    /// # Errors
    /// [`LayoutError::SlotCount`] unless it is a power of two from 2 to 65,536.
    pub const fn new(slots: u32) -> Result<Self, LayoutError> {
        if slots.is_power_of_two() && slots >= Self::MIN.0 && slots <= Self::MAX.0 {
            Ok(SlotCount(slots))
        } else {
            Err(LayoutError::SlotCount { slots })
        }
    }

    /// Returns the count as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    pub(crate) const fn log2(self) -> u32 {
        self.0.trailing_zeros()
    }
}

impl fmt::Display for SlotCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Method by which consumed slots return to the producer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// The consumer publishes the number of slots that it has consumed in its own credit line; only the
    /// producer writes slots. Each side writes only its own memory, so this is the default across a window.
    EpochCredit,
    /// The consumer frees each slot individually by storing zero in its control word, and the producer polls
    /// the slots. Requires coherent memory.
    UsedFlag,
}

/// Geometry and limits of a ring. Both ends must use the same configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RingConfig {
    slot_size: SlotSize,
    slot_count: SlotCount,
    variant: Variant,
    max_message_bytes: usize,
}

impl RingConfig {
    /// Creates a configuration in which one message may fill the whole ring.
    ///
    /// Use few slots for request-reply traffic: beyond two cache-line transfers, the cost of a round trip
    /// grows with the number of slots in rotation, up to about sixteen (measured in ADR 0026 and 0029). Use
    /// more slots for bursts.
    #[must_use]
    pub const fn new(slot_size: SlotSize, slot_count: SlotCount, variant: Variant) -> Self {
        let max_message_bytes = slot_size.payload_bytes() * slot_count.get() as usize;
        RingConfig { slot_size, slot_count, variant, max_message_bytes }
    }

    /// Limits the length of a message. A limit above the ring's capacity is clamped to the capacity.
    ///
    /// A message that fills most of the ring has to wait until nearly everything before it is consumed; a
    /// limit of a quarter of the ring or less keeps both ends busy.
    #[must_use]
    pub const fn with_max_message_bytes(mut self, max_message_bytes: usize) -> Self {
        let whole_ring = self.slot_size.payload_bytes() * self.slot_count.get() as usize;
        self.max_message_bytes = if max_message_bytes < whole_ring { max_message_bytes } else { whole_ring };
        self
    }

    /// Returns the size of a slot.
    #[must_use]
    pub const fn slot_size(&self) -> SlotSize {
        self.slot_size
    }

    /// Returns the number of slots.
    #[must_use]
    pub const fn slot_count(&self) -> SlotCount {
        self.slot_count
    }

    /// Returns how slots return to the producer.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        self.variant
    }

    /// Returns the length limit of a message, in bytes.
    #[must_use]
    pub const fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// Returns the size of the slot memory, in bytes.
    #[must_use]
    pub const fn slots_bytes(&self) -> usize {
        self.slot_size.bytes() * self.slot_count.get() as usize
    }

    /// Returns the length of the longest message that fits in one slot, in bytes.
    pub(crate) fn single_max_bytes(&self) -> usize {
        self.slot_size.payload_bytes().min(self.max_message_bytes)
    }
}

/// Bytes of the producer line that are used. Allocate [`LINE_BYTES`](tombolo_base::LINE_BYTES) for it so that
/// it shares no cache line with another writer.
pub const PRODUCER_LINE_BYTES: usize = 16;
/// Bytes of the credit line that are used; allocate as for [`PRODUCER_LINE_BYTES`].
pub const CREDIT_LINE_BYTES: usize = 16;

/// Memory of a ring, as three views that may lie on different sides of a link.
///
/// All of it must be zero before either end is created. Each part has one writer: the producer writes `slots`
/// and `producer_line`, the consumer `credit_line`. (With [`Variant::UsedFlag`] the consumer also clears
/// control words.) In memory that is not [`Coherent`], no two parts may share a cache line. Align `slots` to
/// the slot size and the lines to [`LINE_BYTES`](tombolo_base::LINE_BYTES) for speed; correctness does not
/// depend on it.
#[derive(Clone, Debug)]
pub struct RingMemory<C: CacheMaintenance = Coherent> {
    /// Slot memory, of exactly [`RingConfig::slots_bytes`].
    pub slots: SharedMemory<C>,
    /// Line in which the producer records that it has closed, of at least [`PRODUCER_LINE_BYTES`].
    pub producer_line: SharedMemory<C>,
    /// Line in which the consumer returns credit and records that it has closed, of at least
    /// [`CREDIT_LINE_BYTES`].
    pub credit_line: SharedMemory<C>,
}

impl<C: CacheMaintenance> RingMemory<C> {
    pub(crate) fn check(&self, config: &RingConfig) -> Result<(), LayoutError> {
        // The consumer clears a word of a line that the producer fills next. The producer's cache may still
        // hold the old word and evict it together with the first bytes of the next message.
        if !C::COHERENT && config.variant == Variant::UsedFlag {
            return Err(LayoutError::SharedLines);
        }
        let (have_bytes, need_bytes) = (self.slots.len_bytes(), config.slots_bytes());
        if have_bytes != need_bytes {
            return Err(LayoutError::SlotsLength { have_bytes, need_bytes });
        }
        check_line("producer", &self.producer_line, PRODUCER_LINE_BYTES)?;
        check_line("credit", &self.credit_line, CREDIT_LINE_BYTES)
    }
}

pub(crate) fn check_line<C: CacheMaintenance>(
    line: &'static str,
    memory: &SharedMemory<C>,
    need_bytes: usize,
) -> Result<(), LayoutError> {
    let have_bytes = memory.len_bytes();
    if have_bytes < need_bytes {
        return Err(LayoutError::LineLength { line, have_bytes, need_bytes });
    }
    Ok(())
}

/// Error of creating a ring: unsuitable memory or an invalid slot count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum LayoutError {
    /// The slot count is out of range or not a power of two.
    #[error("invalid slot count {slots}; use a power of two from 2 to 65536")]
    SlotCount { slots: u32 },
    /// The slot memory differs from the configured size.
    #[error("the slot memory has {have_bytes} bytes; this ring needs exactly {need_bytes}")]
    SlotsLength { have_bytes: usize, need_bytes: usize },
    /// A line is too short.
    #[error("the {line} line has {have_bytes} bytes; it needs at least {need_bytes}")]
    LineLength { line: &'static str, have_bytes: usize, need_bytes: usize },
    /// Both sides would write the same cache line in incoherent memory.
    #[error("returning slots by a used flag needs coherent memory; return them by credit")]
    SharedLines,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slot_counts_are_powers_of_two_in_range() {
        for slots in [2, 4, 256, 65_536] {
            assert_eq!(SlotCount::new(slots).unwrap().get(), slots);
        }
        for slots in [0, 1, 3, 255, 65_535, 65_537, 131_072, u32::MAX] {
            assert_eq!(SlotCount::new(slots), Err(LayoutError::SlotCount { slots }));
        }
    }

    #[test]
    fn slot_sizes_have_eight_bytes_of_control() {
        for size in SlotSize::ALL {
            assert_eq!(size.payload_bytes() + 8, size.bytes());
            assert_eq!(SlotSize::from_bytes(size.bytes()), Some(size));
        }
        assert_eq!(SlotSize::from_bytes(48), None);
    }

    #[test]
    fn a_message_limit_never_exceeds_the_ring() {
        let config = RingConfig::new(SlotSize::B64, SlotCount::MIN, Variant::EpochCredit);
        assert_eq!(config.max_message_bytes(), 112);
        assert_eq!(config.with_max_message_bytes(111).max_message_bytes(), 111);
        assert_eq!(config.with_max_message_bytes(113).max_message_bytes(), 112);
        assert_eq!(config.with_max_message_bytes(10).single_max_bytes(), 10);
        assert_eq!(config.single_max_bytes(), 56);
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let config = RingConfig::new(SlotSize::B32, SlotCount::MIN, Variant::EpochCredit);
        let memory = |slots, producer, credit| RingMemory {
            slots: SharedMemory::zeroed(slots),
            producer_line: SharedMemory::zeroed(producer),
            credit_line: SharedMemory::zeroed(credit),
        };
        assert_eq!(memory(64, 16, 16).check(&config), Ok(()));
        for slots in [56, 72] {
            let error = LayoutError::SlotsLength { have_bytes: slots, need_bytes: 64 };
            assert_eq!(memory(slots, 16, 16).check(&config), Err(error));
        }
        let error = |line| LayoutError::LineLength { line, have_bytes: 8, need_bytes: 16 };
        assert_eq!(memory(64, 8, 16).check(&config), Err(error("producer")));
        assert_eq!(memory(64, 16, 8).check(&config), Err(error("credit")));
    }
}
