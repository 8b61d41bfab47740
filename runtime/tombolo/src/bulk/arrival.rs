//! What arrives on a bulk channel.

use tombolo_bulk::wire::Offer;

use super::buffer::{Buffer, Shared};
use super::pool::Pool;

/// What a transfer brought: one piece or more.
#[derive(Debug)]
pub struct Received<T> {
    first: T,
    rest: Vec<T>,
}

impl<T> Received<T> {
    pub(super) fn new(first: T, rest: Vec<T>) -> Self {
        Received { first, rest }
    }

    #[inline]
    pub(super) fn one(first: T) -> Self {
        Received { first, rest: Vec::new() }
    }

    /// How many pieces were received, at least 1.
    #[must_use]
    pub fn pieces(&self) -> usize {
        1 + self.rest.len()
    }

    /// The first piece; the others, if there are any, are dropped.
    #[must_use]
    pub fn into_first(self) -> T {
        self.first
    }

    /// All pieces, in the order in which they were sent.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.pieces());
        all.push(self.first);
        all.extend(self.rest);
        all
    }
}

/// What the other side of a bulk channel did.
#[derive(Debug)]
pub enum Arrival {
    /// It moved buffers here.
    Moved(Received<Buffer>),
    /// It shared buffers.
    Shared(Received<Shared>),
    /// It passed this many buffers back and said something with it; those that come without a word are just
    /// free again.
    Passed(usize),
    /// It released this many buffers and said something with it.
    Released(usize),
    /// It assigned a pool, which was taken.
    Pool(Pool),
    /// It offers a pool; to be [taken](super::BulkChannel::take_pool) or
    /// [declined](super::BulkChannel::decline_pool).
    Offered(PoolOffer),
    /// It took a pool off the channel.
    PoolGone(Pool),
}

impl Arrival {
    /// The buffers that were moved here, if that is what happened.
    #[must_use]
    pub fn moved(self) -> Option<Received<Buffer>> {
        if let Arrival::Moved(received) = self { Some(received) } else { None }
    }

    /// The buffers that were shared, if that is what happened.
    #[must_use]
    pub fn shared(self) -> Option<Received<Shared>> {
        if let Arrival::Shared(received) = self { Some(received) } else { None }
    }
}

/// A pool that the other side of a channel offers.
#[derive(Debug)]
pub struct PoolOffer {
    pub(super) offer: Offer,
}

impl PoolOffer {
    /// Bytes of each buffer.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.offer.layout.buffer_bytes()
    }

    /// How many buffers there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.offer.layout.count()
    }
}
