//! Layout and allocation of a window.
//!
//! Only the root monitor of the machine allocates. Its tables lie outside the window, so neither the other
//! side nor a domain can corrupt them.
//!
//! ```text
//! 0        header, one page: magic, version, generation, length, node and window, caches
//! 4096     the control channel between the two monitors, in the window of a node with the host
//! ...      ranges allocated to channels, and to programs being loaded
//! ```

use alloc::collections::BTreeMap;
use core::num::{NonZeroU16, NonZeroU32};

use tombolo_base::coherence::{Caches, Evictions};
use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, NodeId, SharedMemory, WindowId};
use tombolo_ring::{SlotSize, Variant};

use crate::hello::PROTOCOL_VERSION;
use crate::layout::{ChannelConfig, ChannelLayout, PAGE_BYTES};

/// Codes of the kinds of caches in a header.
const COHERENT: u64 = 0;
const FLUSHED: u64 = 1;
const EMULATED: u64 = 2;

const MAGIC: u64 = u64::from_le_bytes(*b"TMBLWIND");

/// Offset of the control channel, in bytes.
pub const CONTROL_OFFSET_BYTES: usize = PAGE_BYTES;

/// Returns the configuration of the control channel: many large slots, because it carries command lines and
/// output.
#[must_use]
pub fn control_config() -> ChannelConfig {
    ChannelConfig { slot: SlotSize::B128, slots: 2048, variant: Variant::EpochCredit }
}

/// Offset of the first allocatable byte of a window without a control channel.
pub const SHARED_HEAP_OFFSET_BYTES: usize = PAGE_BYTES;

/// Interrupt vector that wakes the monitor of a node for orders.
pub const CONTROL_VECTOR: u16 = 0;

/// Interrupt vector that wakes the monitor of a node for channels without a vector of their own; see
/// [shared doorbells](crate::shared_doorbell).
pub const SHARED_VECTOR: u16 = 1;

/// First interrupt vector that is lent to ends of channels.
pub const FIRST_CHANNEL_VECTOR: u16 = 2;

/// Returns the offset of the first allocatable byte of a node's window with the host.
#[must_use]
pub fn heap_offset_bytes() -> usize {
    CONTROL_OFFSET_BYTES + ChannelLayout::new(control_config()).length_bytes()
}

/// Minimum size of a window, with room for the control channel and a few channels, in bytes.
pub const MIN_WINDOW_BYTES: usize = 1 << 20;

/// Contents of a window's first page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowHeader {
    /// Id of the window within the machine.
    pub window: WindowId,
    /// Node that shares the window with the host; [`NodeId::HOST`] if several nodes share it.
    pub node: NodeId,
    /// Generation of the node.
    pub generation: NonZeroU16,
    /// Length of the whole window, in bytes.
    pub length_bytes: u64,
    /// How each side keeps its view of the window consistent; `None` if the window is coherent.
    pub caches: Option<Caches>,
}

/// Error of a window header that is missing, malformed or of another version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum WindowError {
    /// The header is missing.
    #[error(
        "the shared window has no Tombolo header (first word {found:#018x}); it may belong to another device"
    )]
    NotTombolo { found: u64 },
    /// The version differs.
    #[error("the window has version {theirs}, this program version {ours}; rebuild the node's image")]
    Version { ours: u32, theirs: u32 },
    /// The length differs, or the window is too short even for the header.
    #[error("the window's header says {expected_bytes} bytes, but {found} are mapped")]
    Length { expected_bytes: u64, found: u64 },
    /// The generation is zero.
    #[error("the window's header has generation 0")]
    Generation,
    /// The kind of caches is unknown.
    #[error("the window's header says {found} for how its caches are kept consistent; 0 to 2 are known")]
    Caches { found: u64 },
}

impl WindowHeader {
    /// Writes the header; the last store publishes it.
    ///
    /// # Panics
    /// When the window is too short for the header, hence shorter than [`MIN_WINDOW_BYTES`].
    pub fn write<C: CacheMaintenance>(&self, window: &SharedMemory<C>) {
        let node =
            u64::from(self.node.0) | u64::from(self.generation.get()) << 16 | u64::from(self.window.0) << 32;
        window.store_le(1, u64::from(PROTOCOL_VERSION), Ordering::Relaxed);
        window.store_le(2, self.length_bytes, Ordering::Relaxed);
        window.store_le(3, node, Ordering::Relaxed);
        let [kind, seed, one_in] = match self.caches {
            None => [COHERENT, 0, 0],
            Some(Caches::Processor) => [FLUSHED, 0, 0],
            Some(Caches::Emulated(Evictions { seed, one_in })) => {
                [EMULATED, seed, one_in.map_or(0, |one_in| one_in.get().into())]
            }
        };
        for (index, word) in (4..).zip([kind, seed, one_in]) {
            window.store_le(index, word, Ordering::Relaxed);
        }
        window.store_through_le(0, MAGIC, Ordering::Release);
    }

    /// Reads and checks the header.
    ///
    /// # Errors
    /// [`WindowError`] of the first invalid field.
    pub fn read<C: CacheMaintenance>(window: &SharedMemory<C>) -> Result<Self, WindowError> {
        let found = window.len_bytes() as u64;
        if found < PAGE_BYTES as u64 {
            return Err(WindowError::Length { expected_bytes: PAGE_BYTES as u64, found });
        }
        let magic = window.load_current_le(0, Ordering::Acquire);
        if magic != MAGIC {
            return Err(WindowError::NotTombolo { found: magic });
        }
        let theirs = window.load_le(1, Ordering::Relaxed) as u32;
        if theirs != PROTOCOL_VERSION {
            return Err(WindowError::Version { ours: PROTOCOL_VERSION, theirs });
        }
        let length_bytes = window.load_le(2, Ordering::Relaxed);
        if length_bytes != found {
            return Err(WindowError::Length { expected_bytes: length_bytes, found });
        }
        let node = window.load_le(3, Ordering::Relaxed);
        let generation = NonZeroU16::new((node >> 16) as u16).ok_or(WindowError::Generation)?;
        let [kind, seed, one_in] = [4, 5, 6].map(|index| window.load_le(index, Ordering::Relaxed));
        let caches = match kind {
            COHERENT => None,
            FLUSHED => Some(Caches::Processor),
            EMULATED => Some(Caches::Emulated(Evictions { seed, one_in: NonZeroU32::new(one_in as u32) })),
            found => return Err(WindowError::Caches { found }),
        };
        let id = WindowId((node >> 32) as u16);
        Ok(WindowHeader { window: id, node: NodeId(node as u16), generation, length_bytes, caches })
    }
}

/// Allocated range of a window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WindowRange {
    /// Offset of the first byte, a multiple of the page size.
    pub offset_bytes: u64,
    /// Length, a multiple of the page size.
    pub length_bytes: u64,
}

/// Error of an allocation: no free range of the window is long enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the window has no free range of {wanted_bytes} bytes (longest {longest_bytes} of {total_bytes}): \
     raise `window_mib` in the machine file"
)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct WindowFull {
    pub wanted_bytes: u64,
    pub longest_bytes: u64,
    pub total_bytes: u64,
}

/// First-fit allocator for page ranges of a window. Adjacent free ranges are merged.
#[derive(Debug)]
pub struct WindowAllocator {
    /// Free ranges, from offset to length; never adjacent.
    free: BTreeMap<u64, u64>,
    /// Allocated ranges, from offset to length.
    allocated: BTreeMap<u64, u64>,
    total_bytes: u64,
}

impl WindowAllocator {
    /// Creates an allocator for the bytes `offset_bytes..length_bytes` of the window.
    #[must_use]
    pub fn new(offset_bytes: u64, length_bytes: u64) -> Self {
        let page = PAGE_BYTES as u64;
        let start = offset_bytes.next_multiple_of(page);
        let end = length_bytes / page * page;
        let total_bytes = end.saturating_sub(start);
        let mut free = BTreeMap::new();
        if total_bytes > 0 {
            free.insert(start, total_bytes);
        }
        WindowAllocator { free, allocated: BTreeMap::new(), total_bytes }
    }

    /// Allocates `length_bytes`, rounded up to pages.
    ///
    /// # Errors
    /// [`WindowFull`]; the allocator is unchanged.
    pub fn allocate(&mut self, length_bytes: u64) -> Result<WindowRange, WindowFull> {
        self.allocate_aligned(length_bytes, 1)
    }

    /// Like [`allocate`](Self::allocate), at an offset that is a multiple of `alignment_bytes`, a power of
    /// two. Every range is aligned to pages.
    ///
    /// # Errors
    /// [`WindowFull`], with the longest range for this alignment; the allocator is unchanged.
    pub fn allocate_aligned(
        &mut self,
        length_bytes: u64,
        alignment_bytes: u64,
    ) -> Result<WindowRange, WindowFull> {
        // First aligned offset in a free range, and the bytes available from there.
        let from = |offset: u64, available: u64| {
            let start = offset.checked_next_multiple_of(alignment_bytes.max(1))?;
            Some((start, available.checked_sub(start - offset)?))
        };
        let full = |free: &BTreeMap<u64, u64>| WindowFull {
            wanted_bytes: length_bytes,
            longest_bytes: free
                .iter()
                .filter_map(|(at, bytes)| Some(from(*at, *bytes)?.1))
                .max()
                .unwrap_or(0),
            total_bytes: self.total_bytes,
        };
        let page = PAGE_BYTES as u64;
        let length = match length_bytes.max(1).checked_next_multiple_of(page) {
            Some(length) => length,
            None => return Err(full(&self.free)),
        };
        let mut ranges = self.free.iter().filter_map(|(&at, &bytes)| Some((at, from(at, bytes)?)));
        let Some((at, (offset, left))) = ranges.find(|(_, (_, left))| *left >= length) else {
            return Err(full(&self.free));
        };
        if !tombolo_base::canary!("window lends twice") {
            self.free.remove(&at);
        }
        self.free_remainder(at, offset - at);
        self.free_remainder(offset + length, left - length);
        self.allocated.insert(offset, length);
        Ok(WindowRange { offset_bytes: offset, length_bytes: length })
    }

    /// Returns the rest of a free range before or after an allocated one to the free list, if it is not
    /// empty.
    fn free_remainder(&mut self, at: u64, length: u64) {
        if length > 0 {
            self.free.insert(at, length);
        }
    }

    /// Frees a range. Returns false and changes nothing if it is not allocated.
    pub fn free(&mut self, range: WindowRange) -> bool {
        if self.allocated.get(&range.offset_bytes) != Some(&range.length_bytes) {
            return false;
        }
        self.allocated.remove(&range.offset_bytes);
        let (mut start, mut end) = (range.offset_bytes, range.offset_bytes + range.length_bytes);
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        self.free.insert(start, end - start);
        true
    }

    /// Returns the number of bytes allocated.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated.values().sum()
    }

    /// Returns the number of bytes that can be allocated in total.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn header_round_trips_and_refuses_what_is_not_one() {
        let window = SharedMemory::zeroed(8192);
        assert_eq!(WindowHeader::read(&window), Err(WindowError::NotTombolo { found: 0 }));
        let header = WindowHeader {
            window: WindowId(7),
            node: NodeId(3),
            generation: NonZeroU16::new(9).unwrap(),
            length_bytes: 8192,
            caches: None,
        };
        header.write(&window);
        assert_eq!(WindowHeader::read(&window), Ok(header));
        let error = WindowHeader::read(&window.slice(0, 4096).unwrap());
        assert_eq!(error, Err(WindowError::Length { expected_bytes: 8192, found: 4096 }));
        window.store_le(1, 7, Ordering::Relaxed);
        assert_eq!(WindowHeader::read(&window), Err(WindowError::Version { ours: 1, theirs: 7 }));
        window.store_le(1, 1, Ordering::Relaxed);
        window.store_le(3, 3, Ordering::Relaxed);
        assert_eq!(WindowHeader::read(&window), Err(WindowError::Generation));
        for length_bytes in [0, 8, 4088] {
            let error = WindowHeader::read(&window.slice(0, length_bytes).unwrap());
            let found = length_bytes as u64;
            assert_eq!(error, Err(WindowError::Length { expected_bytes: 4096, found }));
        }
    }

    #[test]
    fn header_bytes_are_golden() {
        let window = SharedMemory::zeroed(4096);
        let generation = NonZeroU16::new(0x0605).unwrap();
        let (id, node) = (WindowId(0x0807), NodeId(0x0201));
        WindowHeader { window: id, node, generation, length_bytes: 0x0100_0000, caches: None }.write(&window);
        let mut found = [0; 40];
        window.copy_out(0, &mut found).unwrap();
        let mut expected = *b"TMBLWIND\x01.......\0\0\0\x01....\x01\x02\x05\x06\x07\x08..........";
        expected.iter_mut().filter(|byte| **byte == b'.').for_each(|byte| *byte = 0);
        assert_eq!(found, expected);
    }

    #[test]
    fn window_layout_is_golden() {
        assert_eq!((CONTROL_OFFSET_BYTES, heap_offset_bytes()), (4096, 532_480));
        assert!(heap_offset_bytes() + 64 * 1024 <= MIN_WINDOW_BYTES);
    }

    #[test]
    fn limits() {
        let page = PAGE_BYTES as u64;
        let mut allocator = WindowAllocator::new(0, 4 * page);
        assert!(allocator.allocate(4 * page + 1).is_err());
        let whole = allocator.allocate(4 * page).unwrap();
        let error = allocator.allocate(1).unwrap_err();
        assert_eq!((error.wanted_bytes, error.longest_bytes, error.total_bytes), (1, 0, 4 * page));
        assert!(allocator.free(whole));
        assert!(!allocator.free(whole));
        assert!(allocator.allocate(u64::MAX).is_err());
    }

    #[test]
    fn remainder_before_an_aligned_range_can_be_allocated() {
        let page = PAGE_BYTES as u64;
        let mut allocator = WindowAllocator::new(page, 17 * page);
        let aligned = allocator.allocate_aligned(4 * page, 8 * page).unwrap();
        assert_eq!(aligned.offset_bytes, 8 * page);
        let error = allocator.allocate_aligned(page, 32 * page).unwrap_err();
        assert_eq!((error.wanted_bytes, error.longest_bytes), (page, 0));
        assert_eq!(allocator.allocate_aligned(2 * page, 8 * page).unwrap_err().longest_bytes, page);
        assert_eq!(allocator.allocate(7 * page).unwrap().offset_bytes, page);
        assert!(allocator.allocate_aligned(page, 1 << 63).is_err());
        assert_eq!(allocator.allocate_aligned(page, 16 * page).unwrap().offset_bytes, 16 * page);
    }

    #[test]
    fn ranges_that_come_back_join_their_neighbours_on_both_sides() {
        let page = PAGE_BYTES as u64;
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut allocator = WindowAllocator::new(page, 4 * page);
            let ranges = [(); 3].map(|()| allocator.allocate(page).unwrap());
            assert_eq!(ranges.map(|range| range.offset_bytes), [page, 2 * page, 3 * page]);
            for (taken, index) in order.into_iter().enumerate() {
                assert_eq!(allocator.allocated_bytes(), (3 - taken as u64) * page);
                assert!(allocator.free(ranges[index]));
            }
            assert_eq!(
                allocator.allocate(3 * page),
                Ok(WindowRange { offset_bytes: page, length_bytes: 3 * page })
            );
        }
    }

    #[test]
    fn range_of_another_length_cannot_be_freed() {
        let page = PAGE_BYTES as u64;
        let mut allocator = WindowAllocator::new(0, 4 * page);
        let allocated = allocator.allocate(2 * page).unwrap();
        for length_bytes in [0, page, 3 * page] {
            assert!(!allocator.free(WindowRange { length_bytes, ..allocated }));
        }
        assert_eq!(allocator.allocated_bytes(), 2 * page);
        assert!(allocator.free(allocated));
    }

    #[test]
    fn only_whole_pages_are_allocated() {
        let page = PAGE_BYTES as u64;
        assert_eq!(WindowAllocator::new(1, 3 * page + 1).total_bytes(), 2 * page);
        for (offset_bytes, length_bytes) in [(0, page - 1), (page, page), (1, 2 * page - 1), (4 * page, page)]
        {
            let mut allocator = WindowAllocator::new(offset_bytes, length_bytes);
            assert_eq!(allocator.total_bytes(), 0);
            assert!(allocator.allocate(0).is_err());
        }
        let mut allocator = WindowAllocator::new(0, page);
        assert_eq!(allocator.allocate(0).unwrap().length_bytes, page, "one that is empty is a page");
    }

    proptest! {
        // Each step is about a thousand times as slow under miri.
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { ProptestConfig::default().cases },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn ranges_never_overlap_and_everything_comes_back(
            steps in proptest::collection::vec((0_u8..3, 1_u64..40_000, 0_u32..18), 1..if cfg!(miri) { 12 } else { 200 })
        ) {
            let (start, end) = (heap_offset_bytes() as u64, MIN_WINDOW_BYTES as u64);
            let mut allocator = WindowAllocator::new(start, end);
            let mut held: Vec<WindowRange> = Vec::new();
            for (what, amount, shift) in steps {
                if what > 0 {
                    if let Ok(range) = allocator.allocate_aligned(amount, 1 << shift) {
                        prop_assert!(range.length_bytes >= amount && range.offset_bytes >= start);
                        prop_assert!(range.offset_bytes.is_multiple_of(1 << shift));
                        prop_assert!(range.offset_bytes + range.length_bytes <= end);
                        for other in &held {
                            let apart = range.offset_bytes + range.length_bytes <= other.offset_bytes
                                || other.offset_bytes + other.length_bytes <= range.offset_bytes;
                            prop_assert!(apart);
                        }
                        held.push(range);
                    }
                } else if !held.is_empty() {
                    let range = held.swap_remove(amount as usize % held.len());
                    prop_assert!(allocator.free(range));
                }
                let sum: u64 = held.iter().map(|range| range.length_bytes).sum();
                prop_assert_eq!(allocator.allocated_bytes(), sum);
            }
            for range in held {
                prop_assert!(allocator.free(range));
            }
            let total = allocator.total_bytes();
            prop_assert!(allocator.allocate(total).is_ok());
        }
    }
}
