//! Memory ranges that a program passes by address.

use core::ffi::c_void;

use tombolo_mpi_fabric::Memory;

use crate::abi::{fi_ioc, iovec};

/// Ranges of a program's memory, lent for a transfer or registered.
///
/// The code that creates one relies on the contract of libfabric's users: until the transfer completes or the
/// registration is closed, the ranges stay valid, and no other code accesses memory that is received into.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    first: Range,
    /// Further ranges. Most spans have only one, which needs no allocation.
    others: Option<Box<[Range]>>,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    address: usize,
    length: usize,
}

impl Span {
    #[inline]
    pub(crate) fn new(address: *const c_void, length: usize) -> Span {
        Span { first: Range { address: address.expose_provenance(), length }, others: None, length }
    }

    fn from_ranges(mut ranges: impl ExactSizeIterator<Item = Range>) -> Span {
        let first = ranges.next().unwrap_or(Range { address: 0, length: 0 });
        let others: Option<Box<[Range]>> = (ranges.len() > 0).then(|| ranges.collect());
        let more = others.iter().flat_map(|others| others.iter()).map(|range| range.length);
        let length = more.fold(first.length, usize::saturating_add);
        Span { first, others, length }
    }

    /// Creates a span from an array of `iovec`.
    ///
    /// # Safety
    /// `iov` is null or points to `count` entries.
    pub(crate) unsafe fn from_iov(iov: *const iovec, count: usize) -> Span {
        if count == 0 || iov.is_null() {
            return Span::new(core::ptr::null(), 0);
        }
        // SAFETY: not null, and the caller guarantees `count` entries.
        let entries = unsafe { core::slice::from_raw_parts(iov, count) };
        Span::from_ranges(
            entries.iter().map(|entry| Range { address: entry.base.expose_provenance(), length: entry.len }),
        )
    }

    /// Creates a span from an array of number vectors, with `bytes` bytes per number.
    ///
    /// # Safety
    /// `iov` is null or points to `count` entries.
    pub(crate) unsafe fn from_ioc(iov: *const fi_ioc, count: usize, bytes: usize) -> Span {
        if count == 0 || iov.is_null() {
            return Span::new(core::ptr::null(), 0);
        }
        // SAFETY: not null, and the caller guarantees `count` entries.
        let entries = unsafe { core::slice::from_raw_parts(iov, count) };
        Span::from_ranges(entries.iter().map(|entry| Range {
            address: entry.addr.expose_provenance(),
            length: entry.count.saturating_mul(bytes),
        }))
    }

    /// Calls `act` with the parts of the ranges that overlap `length` bytes at `offset`.
    fn for_each_range(&self, offset: usize, length: usize, mut act: impl FnMut(Range)) {
        let mut start = 0_usize;
        let end = offset.saturating_add(length);
        let others = self.others.iter().flat_map(|others| others.iter());
        for range in core::iter::once(&self.first).chain(others) {
            let stop = start.saturating_add(range.length);
            let (from, to) = (offset.max(start), end.min(stop));
            if from < to {
                act(Range { address: range.address.wrapping_add(from - start), length: to - from });
            }
            start = stop;
            if start >= end {
                break;
            }
        }
    }
}

impl Memory for Span {
    #[inline]
    fn len(&self) -> usize {
        self.length
    }

    fn address(&self) -> usize {
        self.first.address
    }

    fn as_contiguous(&self) -> Option<(usize, usize)> {
        self.others.is_none().then_some((self.first.address, self.first.length))
    }

    #[inline]
    fn for_each_source(&self, offset: usize, length: usize, mut take: impl FnMut(&[u8])) {
        let mut one = |range: Range| {
            let address = core::ptr::with_exposed_provenance(range.address);
            // SAFETY: the program guarantees its memory (see `Span`); the range is not empty, and inside
            // one of the span's ranges.
            take(unsafe { core::slice::from_raw_parts(address, range.length) });
        };
        if self.others.is_none()
            && length > 0
            && offset.checked_add(length).is_some_and(|end| end <= self.length)
        {
            return one(Range { address: self.first.address.wrapping_add(offset), length });
        }
        self.for_each_range(offset, length, one);
    }

    #[inline]
    fn for_each_target(&mut self, offset: usize, length: usize, mut give: impl FnMut(&mut [u8])) {
        let mut one = |range: Range| {
            let address = core::ptr::with_exposed_provenance_mut(range.address);
            // SAFETY: as above; no other code accesses memory that is received into, and no other slice
            // of it is alive, as slices end with the call that gets them.
            give(unsafe { core::slice::from_raw_parts_mut(address, range.length) });
        };
        if self.others.is_none()
            && length > 0
            && offset.checked_add(length).is_some_and(|end| end <= self.length)
        {
            return one(Range { address: self.first.address.wrapping_add(offset), length });
        }
        self.for_each_range(offset, length, one);
    }

    fn part(&self, offset: usize, length: usize) -> Self {
        let mut ranges = Vec::new();
        self.for_each_range(offset, length, |range| ranges.push(range));
        Span::from_ranges(ranges.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_several_ranges_have_the_right_bytes() {
        let mut memory: Vec<u8> = (0..100).collect();
        let base = memory.as_mut_ptr();
        let at = |offset: usize, len: usize| iovec { base: base.wrapping_add(offset).cast(), len };
        let iov = [at(10, 5), at(50, 0), at(30, 7), at(90, 2)];
        // SAFETY: four entries that point to memory which outlives the span.
        let mut span = unsafe { Span::from_iov(iov.as_ptr(), iov.len()) };
        assert_eq!(span.len(), 14);
        assert_eq!(&*span.to_boxed(), [10, 11, 12, 13, 14, 30, 31, 32, 33, 34, 35, 36, 90, 91]);
        assert_eq!(&*span.part(4, 9).to_boxed(), [14, 30, 31, 32, 33, 34, 35, 36, 90]);
        span.put(3, &[1, 2, 3]);
        span.put(13, &[4, 5, 6]);
        assert_eq!(&*span.to_boxed(), [10, 11, 12, 1, 2, 3, 31, 32, 33, 34, 35, 36, 90, 4]);
        assert!(span.part(14, 1).is_empty());
        drop(memory);
    }
}
