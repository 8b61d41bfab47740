//! Memory of the program that uses an endpoint.

/// Memory that a program lent for a transfer, or registered for others: of a provider the ranges that C
/// passed in, of a test a vector. It may lie in several pieces.
pub trait Memory {
    /// How many bytes it has.
    fn len(&self) -> usize;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it begins, for completions; 0 where that means nothing.
    fn address(&self) -> usize {
        0
    }

    /// Where it is, if it is in one piece, as an address and how many bytes.
    fn in_one_piece(&self) -> Option<(usize, usize)> {
        None
    }

    /// Calls `take` with each piece of `length` bytes from `offset` on, in order. What lies outside is not
    /// there.
    fn each_source(&self, offset: usize, length: usize, take: impl FnMut(&[u8]));

    /// Calls `give` with each piece of `length` bytes from `offset` on, in order. What lies outside is not
    /// there.
    fn each_target(&mut self, offset: usize, length: usize, give: impl FnMut(&mut [u8]));

    /// A part of it, as memory of its own: the same bytes.
    #[must_use]
    fn part(&self, offset: usize, length: usize) -> Self
    where
        Self: Sized;

    /// Copies all of it.
    fn to_boxed(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(self.len());
        self.each_source(0, self.len(), |piece| bytes.extend_from_slice(piece));
        bytes.into()
    }

    /// Puts bytes in from `offset` on, as many as fit.
    fn put(&mut self, offset: usize, source: &[u8]) {
        let mut at = 0;
        self.each_target(offset, source.len(), |piece| {
            piece.copy_from_slice(&source[at..at + piece.len()]);
            at += piece.len();
        });
    }
}

/// What a transfer takes its bytes from: memory of the program, or a copy where that is the program's again
/// already.
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

    /// Calls `take` with each piece of a part that lies inside.
    #[inline]
    pub(crate) fn each(&self, offset: usize, length: usize, mut take: impl FnMut(&[u8])) {
        match self {
            Payload::Lent(memory) => memory.each_source(offset, length, take),
            Payload::Copied(bytes) => take(&bytes[offset..offset + length]),
        }
    }
}
