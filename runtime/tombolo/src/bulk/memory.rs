//! The memory of a pool of domains that trust each other: a region, which each of them maps once.

use std::time::Duration;

use tombolo_base::coherence::Flushed;
use tombolo_base::{Coherent, DomainId, SharedMemory};
use tombolo_bulk::Layout;
use tombolo_bulk::wire::{Offer, Veto};
use tombolo_capability::{CapabilityFault, CapabilityId};
use tombolo_control::Fault;
use tombolo_platform::Errno;

use crate::domain::Domain;
use crate::error::Error;
use crate::region::Rights;
use crate::region::{Capability, MapOptions, Mapping, RegionOptions};

use super::options::PoolOptions;

/// A pool's memory, and the right to it.
#[derive(Debug)]
pub(super) struct PoolMemory {
    capability: Capability,
    mapping: Mapping,
    memory: SharedMemory,
    /// This side's view of the memory, where it is not coherent; then `memory` are its words.
    view: Option<SharedMemory<Flushed>>,
}

/// All pages are there from the start: no transfer meets a fault.
const POPULATED: MapOptions = MapOptions { address: None, alignment_bytes: 0, populate: true };

impl PoolMemory {
    /// Memory for a new pool.
    pub(super) fn create(domain: &Domain, options: &PoolOptions, layout: Layout) -> Result<Self, Error> {
        let region = RegionOptions::new(layout.pool_bytes());
        let region = match &options.node {
            Some(node) => region.in_window_of(node),
            None => region,
        };
        Self::map(domain.create_region(&region)?.into_capability(), layout)
    }

    /// Memory of this domain alone, for a pool whose content is copied.
    pub(super) fn of_copies(domain: &Domain, layout: Layout) -> Result<Self, Error> {
        Self::map(domain.create_region(&RegionOptions::new(layout.pool_bytes()))?.into_capability(), layout)
    }

    /// That of a capability, whose holder may have split it off for pools.
    pub(super) fn map(capability: Capability, layout: Layout) -> Result<Self, Error> {
        let mapping = capability.map_as(Rights::READ_WRITE, POPULATED, true)?;
        let memory = mapping.memory().filter(|memory| memory.len_bytes() as u64 >= layout.pool_bytes());
        let memory = memory.ok_or_else(|| {
            let what = "map a pool whose region is a file, or shorter than the pool";
            Error::from(tombolo_platform::OsError::new(what, Errno::INVAL))
        })?;
        let view = mapping.flushed_memory()?;
        let memory = view.as_ref().map_or(memory, |view| view.clone().with_caches(Coherent));
        Ok(PoolMemory { capability, mapping, memory, view })
    }

    /// That of a pool that a peer offers, who has to have granted the right to it.
    pub(super) fn take_up(domain: &Domain, peer: DomainId, offer: &Offer) -> Result<Self, Error> {
        let capability = domain.take_up(CapabilityId(offer.capability), peer.into(), false)?;
        Self::map(capability, offer.layout)
    }

    /// A right for a peer, and what takes it back with everything that comes of it.
    pub(super) fn lend(&self, peer: DomainId, may_forward: bool) -> Result<(u64, Capability), Error> {
        let rights = Rights::READ_WRITE;
        let lent = self.capability.derive(None, rights | Rights::GRANT)?;
        let rights = if may_forward { rights | Rights::GRANT } else { rights };
        let granted = lent.grant(peer, rights)?;
        Ok((granted.id.0, lent))
    }

    /// The memory.
    pub(super) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// This side's view of the memory, where it is not coherent.
    #[inline]
    pub(super) fn view(&self) -> Option<&SharedMemory<Flushed>> {
        self.view.as_ref()
    }

    /// Whether it was taken away.
    pub(super) fn is_revoked(&self) -> bool {
        self.mapping.is_revoked()
    }

    /// That it was not.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.mapping.check()
    }
}

/// Takes back what was lent, from everybody who has it.
pub(super) fn take_back(lent: &Capability, timeout: Duration) -> Result<(), Error> {
    lent.revoke_all(timeout).map(|_| ())
}

/// Why a pool that is offered is not taken, as the peer is told.
pub(super) fn veto_of(error: &Error) -> Veto {
    match error {
        Error::Monitor(Fault::Capability { fault: CapabilityFault::NotReachable { .. } }) => {
            Veto::Unreachable
        }
        Error::Os { errno, .. } if *errno == Errno::NOMEM.raw_os_error() => Veto::OutOfMemory,
        _ => Veto::Declined,
    }
}
