//! Rights to regions.

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

/// A right to a part of a region, which this program holds. Cloning names the same one; when the last clone
/// and the last [`Mapping`] by it are dropped it is let go, and what was derived from it stays.
#[derive(Clone, Debug)]
pub struct Capability {
    held: Arc<Held>,
}

/// What is let go with the last who needs it.
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
            let _ = self.link.tell(Request::CapabilityDelete { capability: self.info.id });
        }
    }
}

/// What a capability is to, as the machine has it now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The capability.
    pub capability: CapabilityInfo,
    /// The region.
    pub region: RegionInfo,
    /// Where its bytes are, if they are in memory of a program on the host, for one that runs there too.
    pub foreign: Option<ForeignPlace>,
}

impl Capability {
    pub(super) fn held(link: Arc<MonitorLink>, info: CapabilityInfo) -> Self {
        Capability { held: Arc::new(Held { link, info, kept: false.into() }) }
    }

    /// Its id, which may travel in any message. It says nothing to those who do not hold it.
    #[must_use]
    pub fn id(&self) -> CapabilityId {
        self.held.info.id
    }

    /// The region that it gives rights to.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.held.info.region
    }

    /// Which part of the region.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.held.info.extent
    }

    /// What may be done.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.held.info.rights
    }

    /// What it is to: memory, a part of memory that is for one use, or a service.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.held.info.kind
    }

    fn ask(&self, request: Request) -> Result<Reply, Error> {
        Ok(self.held.link.ask(request, ANSWER_TIMEOUT)?.0)
    }

    /// Derives another for this program: to `extent`, counted from the start of this one's part, or to all of
    /// that, with those of the rights.
    ///
    /// # Errors
    /// [`Error::Monitor`]: it does not lie inside, does not begin and end between pages, or the rights are
    /// not there.
    pub fn derive(&self, extent: Option<Extent>, rights: Rights) -> Result<Capability, Error> {
        let info = self.derived(extent, rights, None)?;
        Ok(Capability::held(self.held.link.clone(), info))
    }

    /// Splits the memory into parts that do not overlap, each for one use: [`Kind::Frame`] is mapped,
    /// [`Kind::Pool`] is mapped by a [pool](crate::Domain::create_pool_in) alone, [`Kind::Memory`] can be
    /// split again. Extents are counted from the start of this one's part. Takes the rights to read and
    /// write.
    ///
    /// As long as a domain holds a capability to a part, or has it mapped, its bytes can be reached by that
    /// part alone: this capability, and others to the same memory, can neither be mapped where they contain
    /// bytes of it nor split again there. [Revoking](Self::revoke) takes all parts back.
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
    /// [`Error::Monitor`] with a [`CapabilityFault`](tombolo_capability::CapabilityFault) that names the
    /// bytes in conflict: `Split` if they overlap a part that is there, `InUse` if a domain has them mapped.
    /// Nothing has changed then.
    pub fn split(&self, kind: Kind, parts: &[Extent]) -> Result<Vec<Capability>, Error> {
        let (capability, parts) = (self.id(), parts.to_vec());
        match self.ask(Request::CapabilitySplit { capability, kind, parts })? {
            Reply::CapabilitySplit { capabilities } => {
                let held = |info| Capability::held(self.held.link.clone(), info);
                Ok(capabilities.into_iter().map(held).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Derives another for `domain`, which takes it up by its id
    /// ([`Domain::capability`](crate::Domain::capability)).
    ///
    /// # Errors
    /// As [`derive`](Self::derive); this one does not give the right to grant, or there is no such domain.
    pub fn grant(&self, domain: DomainId, rights: Rights) -> Result<CapabilityInfo, Error> {
        self.derived(None, rights, Some(domain))
    }

    /// As [`grant`](Self::grant), to a part, counted from the start of this one's.
    ///
    /// # Errors
    /// As [`derive`](Self::derive) and [`grant`](Self::grant).
    pub fn grant_part(
        &self,
        domain: DomainId,
        extent: Extent,
        rights: Rights,
    ) -> Result<CapabilityInfo, Error> {
        self.derived(Some(extent), rights, Some(domain))
    }

    fn derived(
        &self,
        extent: Option<Extent>,
        rights: Rights,
        holder: Option<DomainId>,
    ) -> Result<CapabilityInfo, Error> {
        self.derived_for(extent, rights, holder, ChannelId(0))
    }

    pub(super) fn derived_for(
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

    /// Hands it over: `domain` holds it from now on, and what was derived from it stays so. Where this
    /// program has it mapped it is let go. What comes back is its id, which has not changed.
    ///
    /// # Errors
    /// As [`grant`](Self::grant); it is still this program's then.
    pub fn give(&self, domain: DomainId) -> Result<CapabilityId, Error> {
        self.give_over(domain, ChannelId(0))
    }

    pub(super) fn give_over(&self, holder: DomainId, channel: ChannelId) -> Result<CapabilityId, Error> {
        self.ask(Request::CapabilityGive { capability: self.id(), holder, channel })?;
        Ok(self.keep())
    }

    /// It is not let go when the last clone is dropped, but with this program. Others of this program may
    /// take it up by its id, which comes back.
    pub fn keep(&self) -> CapabilityId {
        self.held.kept.store(true, Ordering::Relaxed);
        self.id()
    }

    /// What it is to, as the machine has it now.
    ///
    /// # Errors
    /// [`Error::Monitor`]: it was revoked.
    pub fn show(&self) -> Result<Shown, Error> {
        match self.ask(Request::CapabilityShow { capability: self.id() })? {
            Reply::CapabilityShow { capability, region, foreign } => {
                Ok(Shown { capability, region, foreign })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Maps its part of the region: with [`Rights::READ`], or with [`Rights::READ_WRITE`].
    ///
    /// # Errors
    /// [`Error::Monitor`]: the rights are not there, the region is sealed, it was revoked, or its bytes are
    /// not reachable from this node, so that they have to be copied.
    pub fn map(&self, rights: Rights) -> Result<Mapping, Error> {
        self.map_with(rights, MapOptions::default())
    }

    /// As [`map`](Self::map), at an address or with all pages there from the start.
    ///
    /// # Errors
    /// As [`map`](Self::map); something is mapped at that address.
    pub fn map_with(&self, rights: Rights, options: MapOptions) -> Result<Mapping, Error> {
        self.map_as(rights, options, false)
    }

    /// As [`map_with`](Self::map_with), as the buffers of a pool or as plain bytes.
    pub(crate) fn map_as(&self, rights: Rights, options: MapOptions, pool: bool) -> Result<Mapping, Error> {
        let request = Request::RegionMap { capability: self.id(), rights, pool };
        match self.held.link.ask(request, ANSWER_TIMEOUT)? {
            (Reply::RegionMap { map }, fds) => Mapping::new(self.held.clone(), &map, fds, options),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// As [`map`](Self::map), whatever kind of memory it is, the buffers of a pool too: for a program that
    /// copies there for others, and knows nothing of what is there.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_to_copy(&self, rights: Rights) -> Result<Mapping, Error> {
        self.map_as(rights, MapOptions::default(), self.kind() == Kind::Pool)
    }

    /// Its part of the region as a file that this program maps by itself.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn file(&self, rights: Rights) -> Result<RegionFile, Error> {
        let request = Request::RegionMap { capability: self.id(), rights, pool: false };
        match self.held.link.ask(request, ANSWER_TIMEOUT)? {
            (Reply::RegionMap { map }, fds) => RegionFile::new(self.held.clone(), &map, fds),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Takes back everything that was derived from it, wherever it went, and waits until no domain can reach
    /// the memory by that any more. Domains that have it mapped are told to let go, which those that stand on
    /// this crate do by themselves, whatever they are doing; one that does not in time (`revoke_ms` in the
    /// machine file) is killed if the machine started it.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`CapabilityFault::StillHeld`](tombolo_capability::CapabilityFault::StillHeld)
    /// when some have not let go even so: a virtual machine that does not answer, or a program that the
    /// machine did not start. Their rights are gone, and the memory is not given out again until they let go
    /// or are dead. [`Error::TimedOut`] when `timeout` is shorter than that takes; the revocation goes on.
    pub fn revoke(&self, timeout: Duration) -> Result<Revoked, Error> {
        self.revoked(false, timeout)
    }

    /// As [`revoke`](Self::revoke), and this one too.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
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

    /// Keeps all domains from writing to the region, whatever rights they hold, this program included. The
    /// kernel checks and keeps that. Takes a capability to all of the region, with the right to write.
    ///
    /// # Errors
    /// [`Error::Monitor`] while a domain has it mapped for writing, and for a region that is not in memory of
    /// a kernel.
    pub fn freeze(&self) -> Result<(), Error> {
        self.ask(Request::RegionSeal { capability: self.id(), seal: Seal::Frozen }).map(|_| ())
    }

    /// Keeps all domains from mapping the region for writing. A mapping for writing that exists, which only
    /// this program may have, stays.
    ///
    /// # Errors
    /// As [`freeze`](Self::freeze); another has it mapped for writing.
    pub fn seal_to_sole_writer(&self) -> Result<(), Error> {
        self.ask(Request::RegionSeal { capability: self.id(), seal: Seal::SoleWriter }).map(|_| ())
    }
}
