//! Capabilities: rights to regions and services.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo_base::{ChannelId, DomainId};
use tombolo_capability::{
    CapabilityId, CapabilityInfo, Extent, Kind, RegionId, RegionInfo, Revoked, Rights, Seal,
};
use tombolo_control::{ForeignPlace, Reply, Request};

use super::mapping::{MapOptions, Mapping, RegionFile};
use crate::error::Error;
use crate::monitor::unexpected;
use crate::monitor::{ANSWER_TIMEOUT, MonitorLink};

/// Right of this program to a part of a region, or to a service. Clones refer to the same capability; it is
/// released when the last clone and the last [`Mapping`] made with it are dropped. Capabilities derived from
/// it remain.
#[derive(Clone, Debug)]
pub struct Capability {
    held: Arc<Held>,
}

/// State shared by clones and mappings; dropping the last one releases the capability.
#[derive(Debug)]
pub(super) struct Held {
    link: Arc<MonitorLink>,
    info: CapabilityInfo,
    kept: AtomicBool,
}

impl Held {
    pub(super) fn id(&self) -> CapabilityId {
        self.info.id
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            // If the monitor is gone, so is the capability.
            let _ = self.link.notify(Request::CapabilityDelete { capability: self.info.id });
        }
    }
}

/// Current state of a capability and its region, from [`Capability::show`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The capability itself.
    pub capability: CapabilityInfo,
    /// The region that it refers to.
    pub region: RegionInfo,
    /// Location of the bytes, if they are memory of a program on the host and the caller runs there too.
    pub foreign: Option<ForeignPlace>,
}

impl Capability {
    pub(super) fn from_info(link: Arc<MonitorLink>, info: CapabilityInfo) -> Self {
        Capability { held: Arc::new(Held { link, info, kept: false.into() }) }
    }

    /// Id of the capability, which can be sent in any message. It is useless to domains that do not hold the
    /// capability.
    #[must_use]
    pub fn id(&self) -> CapabilityId {
        self.held.info.id
    }

    /// Region that it gives rights to.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.held.info.region
    }

    /// Part of the region that it covers.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.held.info.extent
    }

    /// Rights that it gives.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.held.info.rights
    }

    /// Kind of its object: memory, a part of memory for one use, or a service.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.held.info.kind
    }

    fn ask(&self, request: Request) -> Result<Reply, Error> {
        Ok(self.held.link.ask(request, ANSWER_TIMEOUT)?.0)
    }

    /// Derives a capability for this program with a subset of the rights: to `extent`, relative to the start
    /// of this one's part, or to all of that part.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the extent is not inside or not aligned to pages, or this capability lacks the
    /// rights.
    pub fn derive(&self, extent: Option<Extent>, rights: Rights) -> Result<Capability, Error> {
        let info = self.derive_for(extent, rights, None)?;
        Ok(Capability::from_info(self.held.link.clone(), info))
    }

    /// Splits the memory into parts that do not overlap, each for one use: a [`Kind::Frame`] is mapped, a
    /// [`Kind::Pool`] is mapped only as a [pool](crate::Domain::create_pool_in), a [`Kind::Memory`] can be
    /// split again. Extents are relative to the start of this capability's part. Needs the rights to read and
    /// write.
    ///
    /// While a domain holds a capability to a part, or has it mapped, its bytes can be reached only through
    /// that part: this capability and others to the same memory cannot be mapped or split where they include
    /// bytes of it. [Revoking](Self::revoke) this capability takes all parts back.
    ///
    /// ```no_run
    /// # use tombolo::{Domain, Error};
    /// # use tombolo::region::{Extent, Kind, RegionOptions};
    /// # fn main() -> Result<(), Error> {
    /// # let domain = Domain::attach()?;
    /// let memory = domain.create_region(&RegionOptions::new(1 << 20))?.into_capability();
    /// let halves = [Extent::new(0, 1 << 19), Extent::new(1 << 19, 1 << 19)];
    /// let frames = memory.split(Kind::Frame, &halves)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Monitor`] with a [`CapabilityFault`](tombolo_capability::CapabilityFault) that contains the
    /// bytes in conflict: `Split` if they overlap an existing part, `InUse` if a domain has them mapped.
    /// Nothing has changed then.
    pub fn split(&self, kind: Kind, parts: &[Extent]) -> Result<Vec<Capability>, Error> {
        let (capability, parts) = (self.id(), parts.to_vec());
        match self.ask(Request::CapabilitySplit { capability, kind, parts })? {
            Reply::CapabilitySplit { capabilities } => {
                let held = |info| Capability::from_info(self.held.link.clone(), info);
                Ok(capabilities.into_iter().map(held).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Derives a capability for `domain`, which takes it up by its id
    /// ([`Domain::capability`](crate::Domain::capability)).
    ///
    /// # Errors
    /// Same as [`derive`](Self::derive); also if this capability lacks the right to grant, or the domain does
    /// not exist.
    pub fn grant(&self, domain: DomainId, rights: Rights) -> Result<CapabilityInfo, Error> {
        self.derive_for(None, rights, Some(domain))
    }

    /// Like [`grant`](Self::grant), for a part relative to the start of this capability's own.
    ///
    /// # Errors
    /// Same as [`derive`](Self::derive) and [`grant`](Self::grant).
    pub fn grant_part(
        &self,
        domain: DomainId,
        extent: Extent,
        rights: Rights,
    ) -> Result<CapabilityInfo, Error> {
        self.derive_for(Some(extent), rights, Some(domain))
    }

    fn derive_for(
        &self,
        extent: Option<Extent>,
        rights: Rights,
        holder: Option<DomainId>,
    ) -> Result<CapabilityInfo, Error> {
        self.derive_for_channel(extent, rights, holder, ChannelId(0))
    }

    pub(super) fn derive_for_channel(
        &self,
        extent: Option<Extent>,
        rights: Rights,
        holder: Option<DomainId>,
        channel: ChannelId,
    ) -> Result<CapabilityInfo, Error> {
        let capability = self.id();
        match self.ask(Request::CapabilityDerive { capability, extent, rights, holder, channel })? {
            Reply::CapabilityDerive { capability } => Ok(capability),
            other => Err(unexpected(&other)),
        }
    }

    /// Transfers the capability to `domain`. Capabilities derived from it stay derived. This program's
    /// mappings of it are removed. Returns the id, which does not change.
    ///
    /// # Errors
    /// Same as [`grant`](Self::grant); the capability then still belongs to this program.
    pub fn give(&self, domain: DomainId) -> Result<CapabilityId, Error> {
        self.give_over_channel(domain, ChannelId(0))
    }

    pub(super) fn give_over_channel(
        &self,
        holder: DomainId,
        channel: ChannelId,
    ) -> Result<CapabilityId, Error> {
        self.ask(Request::CapabilityGive { capability: self.id(), holder, channel })?;
        Ok(self.keep())
    }

    /// Keeps the capability until this program ends, even if all clones are dropped. Returns the id, with
    /// which other code of this program can take it up.
    pub fn keep(&self) -> CapabilityId {
        self.held.kept.store(true, Ordering::Relaxed);
        self.id()
    }

    /// Queries the current state of the capability and its region.
    ///
    /// # Errors
    /// [`Error::Monitor`] if it was revoked.
    pub fn show(&self) -> Result<Shown, Error> {
        match self.ask(Request::CapabilityShow { capability: self.id() })? {
            Reply::CapabilityShow { capability, region, foreign } => {
                Ok(Shown { capability, region, foreign })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Maps its part of the region, with [`Rights::READ`] or [`Rights::READ_WRITE`].
    ///
    /// # Errors
    /// [`Error::Monitor`] if the rights are missing, the region is sealed, the capability was revoked, or the
    /// bytes are not reachable from this node and have to be copied.
    pub fn map(&self, rights: Rights) -> Result<Mapping, Error> {
        self.map_with(rights, MapOptions::default())
    }

    /// Like [`map`](Self::map), at a given address or with all pages populated.
    ///
    /// # Errors
    /// Same as [`map`](Self::map); also if the address range is occupied.
    pub fn map_with(&self, rights: Rights, options: MapOptions) -> Result<Mapping, Error> {
        self.map_as(rights, options, false)
    }

    /// Like [`map_with`](Self::map_with), as the buffers of a pool or as plain bytes.
    pub(crate) fn map_as(&self, rights: Rights, options: MapOptions, pool: bool) -> Result<Mapping, Error> {
        let request = Request::RegionMap { capability: self.id(), rights, pool };
        match self.held.link.ask(request, ANSWER_TIMEOUT)? {
            (Reply::RegionMap { map }, fds) => Mapping::new(self.held.clone(), &map, fds, options),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Like [`map`](Self::map), for any kind of memory, including the buffers of a pool. For programs that
    /// copy on behalf of others and do not interpret the contents.
    ///
    /// # Errors
    /// Same as [`map`](Self::map).
    pub fn map_to_copy(&self, rights: Rights) -> Result<Mapping, Error> {
        self.map_as(rights, MapOptions::default(), self.kind() == Kind::Pool)
    }

    /// Returns its part of the region as a file that the program maps itself.
    ///
    /// # Errors
    /// Same as [`map`](Self::map).
    pub fn file(&self, rights: Rights) -> Result<RegionFile, Error> {
        let request = Request::RegionMap { capability: self.id(), rights, pool: false };
        match self.held.link.ask(request, ANSWER_TIMEOUT)? {
            (Reply::RegionMap { map }, fds) => RegionFile::new(self.held.clone(), &map, fds),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Revokes everything that was derived from this capability, in every domain, and waits until no domain
    /// can reach the memory through it. Domains that have it mapped are told to unmap it; programs that use
    /// this crate do so automatically, at any time. A domain that has not unmapped it after `revoke_ms` (in
    /// the machine file) is killed if the machine started it.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`CapabilityFault::StillHeld`](tombolo_capability::CapabilityFault::StillHeld)
    /// if a domain still has the memory mapped: a virtual machine that does not respond, or a program that
    /// the machine did not start. Its rights are revoked, and the memory is not reused until it unmaps the
    /// memory or is dead. [`Error::TimedOut`] if `timeout` is too short; the revocation continues.
    pub fn revoke(&self, timeout: Duration) -> Result<Revoked, Error> {
        self.revoked(false, timeout)
    }

    /// Like [`revoke`](Self::revoke), and revokes this capability as well.
    ///
    /// # Errors
    /// Same as [`revoke`](Self::revoke).
    pub fn revoke_all(&self, timeout: Duration) -> Result<Revoked, Error> {
        let revoked = self.revoked(true, timeout)?;
        self.keep();
        Ok(revoked)
    }

    fn revoked(&self, itself: bool, timeout: Duration) -> Result<Revoked, Error> {
        let request = Request::CapabilityRevoke { capability: self.id(), itself };
        match self.held.link.ask(request, timeout)?.0 {
            Reply::CapabilityRevoke { removed, killed } => Ok(Revoked { removed, killed }),
            other => Err(unexpected(&other)),
        }
    }

    /// Prevents all domains, including this one, from writing to the region, with any rights. The kernel
    /// checks and enforces this. Needs a capability to the whole region with the right to write.
    ///
    /// # Errors
    /// [`Error::Monitor`] while a domain has the region mapped for writing, or if it is not in memory of a
    /// kernel.
    pub fn freeze(&self) -> Result<(), Error> {
        self.ask(Request::RegionSeal { capability: self.id(), seal: Seal::Frozen }).map(|_| ())
    }

    /// Prevents all domains from mapping the region for writing. An existing writable mapping, which only
    /// this program may have, remains.
    ///
    /// # Errors
    /// Same as [`freeze`](Self::freeze); also if another domain has it mapped for writing.
    pub fn seal_to_sole_writer(&self) -> Result<(), Error> {
        self.ask(Request::RegionSeal { capability: self.id(), seal: Seal::SoleWriter }).map(|_| ())
    }
}
