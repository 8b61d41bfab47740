//! Abstraction of the memory that a program passes to an endpoint.

/// Memory that a program lent for a transfer or registered for peers, in one or more pieces. In the
/// provider it is the ranges passed from C, in tests a vector.
pub trait Memory {
    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Returns whether the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the start address, for completions; 0 if there is none.
    fn address(&self) -> usize {
        0
    }

    /// Returns address and length in bytes if the memory is contiguous.
    fn as_contiguous(&self) -> Option<(usize, usize)> {
        None
    }

    /// Calls `take` with each piece of the `length` bytes at `offset`, in order. Bytes out of bounds are
    /// skipped.
    fn for_each_source(&self, offset: usize, length: usize, take: impl FnMut(&[u8]));

    /// Calls `give` with each piece of the `length` bytes at `offset`, in order. Bytes out of bounds are
    /// skipped.
    fn for_each_target(&mut self, offset: usize, length: usize, give: impl FnMut(&mut [u8]));

    /// Returns a part of the memory that refers to the same bytes.
    #[must_use]
    fn part(&self, offset: usize, length: usize) -> Self
    where
        Self: Sized;

    /// Copies all bytes into a box.
    fn to_boxed(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(self.len());
        self.for_each_source(0, self.len(), |piece| bytes.extend_from_slice(piece));
        bytes.into()
    }

    /// Copies `source` to `offset`, as far as it fits.
    fn put(&mut self, offset: usize, source: &[u8]) {
        let mut at = 0;
        self.for_each_target(offset, source.len(), |piece| {
            piece.copy_from_slice(&source[at..at + piece.len()]);
            at += piece.len();
        });
    }
}

/// Source of a transfer's bytes: memory lent by the program, or a copy if the program may reuse its memory.
#[derive(Debug)]
pub(crate) enum Payload<M> {
    Lent(M),
    Copied(Box<[u8]>),
}

impl<M: Memory> Payload<M> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Payload::Lent(memory) => memory.len(),
            Payload::Copied(bytes) => bytes.len(),
        }
    }

    /// Calls `take` with each piece of a range, which must be in bounds.
    #[inline]
    pub(crate) fn for_each(&self, offset: usize, length: usize, mut take: impl FnMut(&[u8])) {
        match self {
            Payload::Lent(memory) => memory.for_each_source(offset, length, take),
            Payload::Copied(bytes) => take(&bytes[offset..offset + length]),
        }
    }
}
