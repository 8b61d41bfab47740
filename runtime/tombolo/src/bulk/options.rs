//! Options for creating pools, and opening of bulk channels.

use std::time::Duration;

use tombolo_bulk::wire;
use tombolo_bulk::{Terms, Trust};

use crate::address::Address;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::{Listener, sealed};
pub use crate::options::BulkOptions;

use super::channel::BulkChannel;

/// Options for creating a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    pub(super) buffer_bytes: u64,
    pub(super) count: u32,
    pub(super) trust: Trust,
    pub(super) node: Option<String>,
}

impl PoolOptions {
    /// Options for `count` buffers of `buffer_bytes` bytes each, a multiple of 64, with full trust.
    #[must_use]
    pub fn new(buffer_bytes: u64, count: u32) -> Self {
        PoolOptions { buffer_bytes, count, trust: Trust::Full, node: None }
    }

    /// Sets how far the domains that receive the pool are trusted.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Places the pool in memory that this node can also reach: for a virtual machine, its window. Needs
    /// [`Trust::Full`].
    #[must_use]
    pub fn reachable_from(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }
}

/// Limits the terms so that the longest message of a bulk channel fits its rings.
pub(super) fn fits(channel: &Channel, terms: Terms) -> Terms {
    let room = channel.max_message_bytes();
    let one_piece = wire::transfer_bytes(1, 0);
    let metadata = room.saturating_sub(one_piece).min(usize::from(terms.max_metadata_bytes));
    let mut pieces = terms.max_segments;
    while pieces > 1 && wire::transfer_bytes(usize::from(pieces), metadata) > room {
        pieces -= 1;
    }
    Terms { max_segments: pieces, max_metadata_bytes: metadata as u16, ..terms }
}

impl Domain {
    /// Claims a name under which other domains can [open bulk channels](Self::connect_bulk).
    /// [`BulkOptions::export`] does the same with other options.
    ///
    /// # Errors
    /// Same as [`export`](Self::export).
    pub fn export_bulk(&self, name: &str) -> Result<Listener<BulkChannel>, Error> {
        BulkOptions::default().export(self, name)
    }

    /// Opens a bulk channel to a name or service that was [exported](Self::export_bulk) or
    /// [served](BulkOptions::serve) for bulk data. [`BulkOptions::connect`] does the same with other options.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect); [`Error::Bulk`] with
    /// [`BulkError::Trust`](super::BulkError::Trust) or
    /// [`BulkError::NotOneKernel`](super::BulkError::NotOneKernel).
    pub fn connect_bulk(&self, to: impl Into<Address>) -> Result<BulkChannel, Error> {
        BulkOptions::default().connect(self, to)
    }
}

impl BulkOptions {
    /// Like [`Domain::export_bulk`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn export(&self, domain: &Domain, name: &str) -> Result<Listener<BulkChannel>, Error> {
        domain.export_name(name, self.underneath(), self.clone())
    }

    /// Like [`Domain::connect_bulk`], with these options.
    ///
    /// # Errors
    /// Same as [`Domain::connect_bulk`].
    pub fn connect(&self, domain: &Domain, to: impl Into<Address>) -> Result<BulkChannel, Error> {
        let channel = self.underneath().connect(domain, to)?;
        BulkChannel::over(domain, channel, self, domain.timeout())
    }
}

impl sealed::Accepted for BulkChannel {
    type Terms = BulkOptions;

    fn over(
        channel: Channel,
        domain: &Domain,
        options: &BulkOptions,
        timeout: Duration,
    ) -> Result<BulkChannel, Error> {
        BulkChannel::over(domain, channel, options, timeout)
    }
}

impl BulkChannel {
    /// Opens a bulk channel over a channel that is already open.
    pub(crate) fn over(
        domain: &Domain,
        channel: Channel,
        options: &BulkOptions,
        timeout: Duration,
    ) -> Result<BulkChannel, Error> {
        let terms = fits(&channel, options.terms);
        BulkChannel::open(domain, channel, options, terms, timeout)
    }
}
