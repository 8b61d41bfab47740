//! Events that a bulk channel delivers.

use tombolo_bulk::wire::Offer;

use super::buffer::{Buffer, Shared};
use super::pool::Pool;

/// Buffers that one transfer delivered, at least one.
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

    /// Returns the number of pieces received, at least 1.
    #[must_use]
    pub fn pieces(&self) -> usize {
        1 + self.rest.len()
    }

    /// Returns the first piece and drops the others.
    #[must_use]
    pub fn into_first(self) -> T {
        self.first
    }

    /// Returns all pieces in the order in which they were sent.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.pieces());
        all.push(self.first);
        all.extend(self.rest);
        all
    }
}

/// Event that [`BulkChannel::recv`](super::BulkChannel::recv) returns: what the peer did.
#[derive(Debug)]
pub enum Arrival {
    /// The peer moved buffers to this domain.
    Moved(Received<Buffer>),
    /// The peer shared buffers with this domain.
    Shared(Received<Shared>),
    /// The peer passed back this number of buffers, with metadata. Buffers passed back without metadata
    /// become free silently.
    Passed(usize),
    /// The peer released this number of buffers, with metadata.
    Released(usize),
    /// The peer assigned a pool, which this side accepted.
    Pool(Pool),
    /// The peer offers a pool; [take](super::BulkChannel::take_pool) or
    /// [decline](super::BulkChannel::decline_pool) it.
    Offered(PoolOffer),
    /// The peer removed a pool from the channel.
    PoolGone(Pool),
}

impl Arrival {
    /// Returns the buffers that were moved, if this is [`Arrival::Moved`].
    #[must_use]
    pub fn moved(self) -> Option<Received<Buffer>> {
        if let Arrival::Moved(received) = self { Some(received) } else { None }
    }

    /// Returns the buffers that were shared, if this is [`Arrival::Shared`].
    #[must_use]
    pub fn shared(self) -> Option<Received<Shared>> {
        if let Arrival::Shared(received) = self { Some(received) } else { None }
    }
}

/// Pool that the peer offers on a channel.
#[derive(Debug)]
pub struct PoolOffer {
    pub(super) offer: Offer,
}

impl PoolOffer {
    /// Size of each buffer, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.offer.layout.buffer_bytes()
    }

    /// Number of buffers in the pool.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.offer.layout.count()
    }
}
