//! Symmetric allocation: the same calls give the same offsets on all sides, without communication (RCCE's
//! symmetric name space).

use alloc::vec::Vec;

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::hash::fnv1a;

/// Alignment and unit of allocations, in bytes, so that a line has a single owner.
pub const GRANULE_BYTES: usize = CACHE_LINE_BYTES;

/// Error of an allocation: no free range is long enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{wanted_bytes} bytes do not fit: the longest free range of the {length_bytes} bytes has {longest_bytes}"
)]
pub struct NoSpace {
    /// Requested length.
    pub wanted_bytes: usize,
    /// Length of the longest free range.
    pub longest_bytes: usize,
    /// Total length.
    pub length_bytes: usize,
}

/// Error of an offset at which no allocation starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("nothing that is allocated starts at offset {offset_bytes}")]
pub struct NotAllocated {
    /// Offset in question.
    pub offset_bytes: usize,
}

/// Summary of a side's allocations and frees so far, to be compared with that of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// Number of calls so far.
    pub operations: u64,
    /// Hash of the calls with their arguments, in order.
    pub digest: u64,
}

impl History {
    fn add(&mut self, kind: u8, argument: usize) {
        self.operations += 1;
        let mut bytes = [kind; 17];
        bytes[1..9].copy_from_slice(&(argument as u64).to_le_bytes());
        bytes[9..].copy_from_slice(&self.digest.to_le_bytes());
        self.digest = fnv1a(&bytes);
    }
}

/// Allocator of one side. It touches no memory.
///
/// Freed ranges are reused as late as possible, so that an offset that is used after it was freed is usually
/// unallocated, and refused.
#[derive(Clone, Debug)]
pub struct SymmetricHeap {
    length_bytes: usize,
    /// Allocated ranges, as offset and length, by their offsets.
    blocks: Vec<(usize, usize)>,
    /// Offset at which the search for a free range starts.
    next: usize,
    history: History,
}

impl SymmetricHeap {
    /// Creates an allocator of `length_bytes`, rounded down to whole granules, all free.
    #[must_use]
    pub fn new(length_bytes: usize) -> Self {
        let length_bytes = length_bytes - length_bytes % GRANULE_BYTES;
        SymmetricHeap { length_bytes, blocks: Vec::new(), next: 0, history: History::default() }
    }

    /// Allocates `wanted_bytes`, rounded up to granules and at least one, and returns the offset. A failed
    /// call counts in the history too.
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn allocate(&mut self, wanted_bytes: usize) -> Result<usize, NoSpace> {
        self.history.add(1, wanted_bytes);
        let (length_bytes, next) = (self.length_bytes, self.next);
        let no_space = |longest_bytes| NoSpace { wanted_bytes, longest_bytes, length_bytes };
        let rounded = wanted_bytes.max(1).checked_next_multiple_of(GRANULE_BYTES);
        let rounded = rounded.ok_or_else(|| no_space(self.longest_bytes()))?;
        // Searches from `next` on, and then from the start.
        let ranges_from_next = self.free_ranges().map(|(start, end)| (start.max(next), end));
        let fits = |&(start, end): &(usize, usize)| end >= start && end - start >= rounded;
        let found = ranges_from_next.into_iter().find(fits).or_else(|| self.free_ranges().find(fits));
        let (offset, _) = found.ok_or_else(|| no_space(self.longest_bytes()))?;
        let index = self.blocks.partition_point(|(start, _)| *start < offset);
        self.blocks.insert(index, (offset, rounded));
        self.next = offset + rounded;
        Ok(offset)
    }

    /// Allocates the longest free range, or `wanted_bytes` if that is shorter. Returns offset and length.
    ///
    /// # Errors
    /// [`NoSpace`] when all is in use.
    pub fn allocate_up_to(&mut self, wanted_bytes: usize) -> Result<(usize, usize), NoSpace> {
        let granted_bytes = wanted_bytes.min(self.longest_bytes());
        if granted_bytes == 0 {
            self.history.add(1, wanted_bytes);
            return Err(NoSpace { wanted_bytes, longest_bytes: 0, length_bytes: self.length_bytes });
        }
        self.allocate(granted_bytes).map(|offset| (offset, granted_bytes))
    }

    /// Frees the allocation at `offset_bytes`, and returns its length.
    ///
    /// # Errors
    /// [`NotAllocated`].
    pub fn free(&mut self, offset_bytes: usize) -> Result<usize, NotAllocated> {
        self.history.add(2, offset_bytes);
        let found = self.blocks.binary_search_by_key(&offset_bytes, |(start, _)| *start);
        let index = found.map_err(|_| NotAllocated { offset_bytes })?;
        Ok(self.blocks.remove(index).1)
    }

    /// Returns the length of the allocation at `offset_bytes`, if there is one.
    #[must_use]
    pub fn allocated(&self, offset_bytes: usize) -> Option<usize> {
        let found = self.blocks.binary_search_by_key(&offset_bytes, |(start, _)| *start);
        found.ok().map(|index| self.blocks[index].1)
    }

    /// Returns the length of the longest free range, in bytes.
    #[must_use]
    pub fn longest_bytes(&self) -> usize {
        self.free_ranges().map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// Returns the history of calls.
    #[must_use]
    pub fn history(&self) -> History {
        self.history
    }

    /// Returns the free ranges, start and end, in order.
    fn free_ranges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let starts = core::iter::once(0).chain(self.blocks.iter().map(|(start, length)| start + length));
        let ends = self.blocks.iter().map(|(start, _)| *start).chain(core::iter::once(self.length_bytes));
        starts.zip(ends).filter(|(start, end)| start < end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_calls_give_the_same_offsets_and_histories() {
        let mut heaps = [SymmetricHeap::new(8192), SymmetricHeap::new(8192)];
        for wanted in [32, 64, 65, 4096] {
            let [a, b] = heaps.each_mut().map(|heap| heap.allocate(wanted).unwrap());
            assert_eq!(a, b);
        }
        assert_eq!(heaps[0].history(), heaps[1].history());
        let _ = heaps[0].allocate(32);
        let _ = heaps[1].allocate(64);
        let [a, b] = heaps.each_ref().map(SymmetricHeap::history);
        assert_eq!((a.operations, b.operations), (5, 5));
        assert_ne!(a.digest, b.digest);
    }

    #[test]
    fn freed_ranges_are_reused_last() {
        let mut heap = SymmetricHeap::new(4 * GRANULE_BYTES);
        let offsets: Vec<usize> = (0..3).map(|_| heap.allocate(1).unwrap()).collect();
        heap.free(offsets[0]).unwrap();
        assert_eq!(heap.allocate(1), Ok(3 * GRANULE_BYTES));
        assert_eq!(heap.allocated(offsets[0]), None);
        assert_eq!(heap.allocate(1), Ok(offsets[0]));
        let full = NoSpace { wanted_bytes: 1, longest_bytes: 0, length_bytes: 4 * GRANULE_BYTES };
        assert_eq!(heap.allocate(1), Err(full));
    }

    #[test]
    fn limits_are_exact() {
        let mut heap = SymmetricHeap::new(8192);
        assert_eq!(heap.allocate(8193).unwrap_err().longest_bytes, 8192);
        assert_eq!(heap.allocate(usize::MAX).unwrap_err().longest_bytes, 8192);
        assert_eq!(heap.allocate(8192), Ok(0));
        assert!(heap.allocate_up_to(100).is_err());
        assert_eq!(heap.free(0), Ok(8192));
        assert_eq!(heap.free(0), Err(NotAllocated { offset_bytes: 0 }));
        assert_eq!(heap.allocate_up_to(100_000), Ok((0, 8192)));
    }

    proptest! {
        #[test]
        fn ranges_never_overlap(calls in proptest::collection::vec((0_usize..3, 1_usize..1000), 0..80)) {
            let mut heap = SymmetricHeap::new(8192);
            let mut live: Vec<usize> = Vec::new();
            for (kind, argument) in calls {
                if kind > 0 {
                    if let Ok(offset) = heap.allocate(argument) {
                        live.push(offset);
                    }
                } else if !live.is_empty() {
                    heap.free(live.swap_remove(argument % live.len())).unwrap();
                }
                let mut ranges: Vec<_> = live.iter().map(|at| (*at, heap.allocated(*at).unwrap())).collect();
                ranges.sort_unstable();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
                prop_assert!(ranges.iter().all(|(start, length)| start + length <= 8192));
            }
        }
    }
}
