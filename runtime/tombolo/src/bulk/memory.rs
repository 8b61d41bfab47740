//! Memory of a pool with full trust: a region that each domain maps once.

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

/// Memory of a pool, with the capability for it.
#[derive(Debug)]
pub(super) struct PoolMemory {
    capability: Capability,
    mapping: Mapping,
    memory: SharedMemory,
    /// This node's view of memory that is not coherent; `memory` then refers to the same words.
    view: Option<SharedMemory<Flushed>>,
}

/// Populates all pages up front, so that no transfer takes a page fault.
const POPULATED: MapOptions = MapOptions { address: None, alignment_bytes: 0, populate: true };

impl PoolMemory {
    /// Creates memory for a new pool.
    pub(super) fn create(domain: &Domain, options: &PoolOptions, layout: Layout) -> Result<Self, Error> {
        let region = RegionOptions::new(layout.pool_bytes());
        let region = match &options.node {
            Some(node) => region.in_window_of(node),
            None => region,
        };
        Self::map(domain.create_region(&region)?.into_capability(), layout)
    }

    /// Creates memory of this domain alone, for a pool whose contents are copied.
    pub(super) fn create_for_copies(domain: &Domain, layout: Layout) -> Result<Self, Error> {
        Self::map(domain.create_region(&RegionOptions::new(layout.pool_bytes()))?.into_capability(), layout)
    }

    /// Maps the memory of a capability, which its holder may have split off for pools.
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

    /// Takes up and maps the memory of a pool that a peer offers; the peer must have granted the capability.
    pub(super) fn map_offered(domain: &Domain, peer: DomainId, offer: &Offer) -> Result<Self, Error> {
        let capability = domain.accept_capability(CapabilityId(offer.capability), peer.into(), false)?;
        Self::map(capability, offer.layout)
    }

    /// Derives and grants a right to the memory for a peer. Returns its id and the capability whose
    /// revocation takes it back with everything derived from it.
    pub(super) fn lend(&self, peer: DomainId, may_forward: bool) -> Result<(u64, Capability), Error> {
        let rights = Rights::READ_WRITE;
        let lent = self.capability.derive(None, rights | Rights::GRANT)?;
        let rights = if may_forward { rights | Rights::GRANT } else { rights };
        let granted = lent.grant(peer, rights)?;
        Ok((granted.id.0, lent))
    }

    pub(super) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// This node's view of the memory, if it is not coherent.
    #[inline]
    pub(super) fn view(&self) -> Option<&SharedMemory<Flushed>> {
        self.view.as_ref()
    }

    /// Whether the memory was revoked.
    pub(super) fn is_revoked(&self) -> bool {
        self.mapping.is_revoked()
    }

    /// Fails if the memory was revoked.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.mapping.check()
    }
}

/// Revokes a lent right from every domain that has it.
pub(super) fn take_back(lent: &Capability, timeout: Duration) -> Result<(), Error> {
    lent.revoke_all(timeout).map(|_| ())
}

/// Returns the reason for refusing an offered pool, as sent to the peer.
pub(super) fn veto_reason(error: &Error) -> Veto {
    match error {
        Error::Monitor(Fault::Capability { fault: CapabilityFault::NotReachable { .. } }) => {
            Veto::Unreachable
        }
        Error::Os { errno, .. } if *errno == Errno::NOMEM.raw_os_error() => Veto::OutOfMemory,
        _ => Veto::Declined,
    }
}
