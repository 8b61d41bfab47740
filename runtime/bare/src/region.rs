//! Regions of memory and the rights to them, as in `tombolo`: in windows, which are all the memory that a
//! board shares with other nodes.
//!
//! A program on a board reaches all of its window, and nothing but this crate keeps it to what it has mapped.
//! When a right is taken back, the program lets go at its next call of this crate, by itself, once it has
//! dropped what [`Mapping::memory`] gave it; if it does not in time, it is ended.

use alloc::borrow::ToOwned;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::cell::Cell;
use core::time::Duration;

use tombolo_base::coherence::{Caches, Flushed};
use tombolo_base::{ChannelId, DomainId, SharedMemory};
pub use tombolo_capability::{
    CapabilityFault, CapabilityId, CapabilityInfo, Extent, RegionId, Revoked, Rights,
};
use tombolo_control::{RegionMap, RegionPlace, Reply, Request};
use tombolo_platform_bare::{bytes, program};

use crate::domain::Domain;
use crate::error::{Error, Fault};
use crate::link::{ANSWER_TIMEOUT, Given, Link, unexpected};

/// What a region is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionOptions {
    length_bytes: u64,
    node: Option<String>,
    alignment_bytes: u64,
    coherent: bool,
}

impl RegionOptions {
    /// A region of `length_bytes`, rounded up to pages, in the window of the host and the board that the
    /// program runs on.
    #[must_use]
    pub fn new(length_bytes: u64) -> Self {
        RegionOptions { length_bytes, node: None, alignment_bytes: 0, coherent: false }
    }

    /// In the window of that name, or in the one that the board shares with that node. A board reaches the
    /// windows alone that it is in.
    #[must_use]
    pub fn in_window_of(mut self, name: &str) -> Self {
        self.node = Some(name.to_owned());
        self
    }

    /// From an offset in the window that is a multiple of this, a power of two; 0 for any page.
    #[must_use]
    pub fn alignment_bytes(mut self, alignment_bytes: u64) -> Self {
        self.alignment_bytes = alignment_bytes;
        self
    }

    /// Only where programs on both sides of the window see each other's stores without flushing caches:
    /// refused elsewhere.
    #[must_use]
    pub fn coherent(mut self) -> Self {
        self.coherent = true;
        self
    }
}

impl Domain {
    /// Makes a region, and returns the capability to all of it. It exists for as long as a domain holds a
    /// capability to it or has it mapped.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no such node, no room in the window, a limit of the machine.
    pub fn create_region(&self, options: &RegionOptions) -> Result<Capability, Error> {
        let RegionOptions { length_bytes, alignment_bytes, coherent, .. } = *options;
        let node = options.node.clone().unwrap_or_else(|| self.node_name().to_owned());
        let place = RegionPlace::Window { node, alignment_bytes, coherent };
        match self.link.ask(Request::RegionCreate { place, length_bytes }, ANSWER_TIMEOUT)? {
            Reply::RegionCreate { capability } => Ok(Capability::held(&self.link, capability)),
            other => Err(unexpected(&other)),
        }
    }

    /// A capability that this program was granted or given, by its id. To be taken up once: when the last
    /// copy of what is returned is dropped, the capability is let go.
    ///
    /// # Errors
    /// [`Error::Monitor`]: it is another domain's, or not there any more.
    pub fn capability(&self, id: CapabilityId) -> Result<Capability, Error> {
        let accept = Request::CapabilityAccept { capability: id, granter: None, whole: false };
        match self.link.ask(accept, ANSWER_TIMEOUT)? {
            Reply::CapabilityAccept { capability, .. } => Ok(Capability::held(&self.link, capability)),
            other => Err(unexpected(&other)),
        }
    }
}

/// A right to a part of a region, which this program holds. Cloning names the same one; when the last clone
/// and the last [`Mapping`] by it are dropped it is let go, and what was derived from it stays.
#[derive(Clone, Debug)]
pub struct Capability {
    held: Rc<Held>,
}

/// What is let go with the last who needs it.
#[derive(Debug)]
struct Held {
    link: Rc<Link>,
    info: CapabilityInfo,
    kept: Cell<bool>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.kept.get() {
            // If that cannot be said, the capability goes with the program.
            let _ = self.link.tell(Request::CapabilityDelete { capability: self.info.id });
        }
    }
}

impl Capability {
    fn held(link: &Rc<Link>, info: CapabilityInfo) -> Self {
        Capability { held: Rc::new(Held { link: Rc::clone(link), info, kept: Cell::new(false) }) }
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

    /// Derives another for this program: to `extent`, counted from the start of this one's part, or to all of
    /// that, with those of the rights.
    ///
    /// # Errors
    /// [`Error::Monitor`]: it does not lie inside, does not begin and end between pages, or the rights are
    /// not there.
    pub fn derive(&self, extent: Option<Extent>, rights: Rights) -> Result<Capability, Error> {
        Ok(Capability::held(&self.held.link, self.derived(extent, rights, None)?))
    }

    /// Derives another for `domain`, which takes it up by its id.
    ///
    /// # Errors
    /// As [`derive`](Self::derive); this one does not give the right to grant, or there is no such domain.
    pub fn grant(&self, domain: DomainId, rights: Rights) -> Result<CapabilityInfo, Error> {
        self.derived(None, rights, Some(domain))
    }

    fn derived(
        &self,
        extent: Option<Extent>,
        rights: Rights,
        holder: Option<DomainId>,
    ) -> Result<CapabilityInfo, Error> {
        let (capability, channel) = (self.id(), ChannelId(0));
        let derive = Request::CapabilityDerive { capability, extent, rights, holder, channel };
        match self.held.link.ask(derive, ANSWER_TIMEOUT)? {
            Reply::CapabilityDerive { capability } => Ok(capability),
            other => Err(unexpected(&other)),
        }
    }

    /// Maps its part of the region: with [`Rights::READ`], or with [`Rights::READ_WRITE`].
    ///
    /// # Errors
    /// [`Error::Monitor`]: the rights are not there, it was revoked, or its bytes are in no window of this
    /// board.
    pub fn map(&self, rights: Rights) -> Result<Mapping, Error> {
        let request = Request::RegionMap { capability: self.id(), rights, pool: false };
        match self.held.link.ask_and_get(request, ANSWER_TIMEOUT)? {
            (Reply::RegionMap { map }, given) => Mapping::new(&self.held, &map, given),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Takes back everything that was derived from it, wherever it went, and waits until no domain can reach
    /// the memory by that any more.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`CapabilityFault::StillHeld`] when some have not let go even so.
    /// [`Error::TimedOut`] when `timeout` is shorter than that takes; the revocation goes on.
    pub fn revoke(&self, timeout: Duration) -> Result<Revoked, Error> {
        self.revoked(false, timeout)
    }

    /// As [`revoke`](Self::revoke), and this one too.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub fn revoke_all(&self, timeout: Duration) -> Result<Revoked, Error> {
        let revoked = self.revoked(true, timeout)?;
        self.held.kept.set(true);
        Ok(revoked)
    }

    fn revoked(&self, itself: bool, timeout: Duration) -> Result<Revoked, Error> {
        let request = Request::CapabilityRevoke { capability: self.id(), itself };
        match self.held.link.ask(request, timeout)? {
            Reply::CapabilityRevoke { removed, killed } => Ok(Revoked { removed, killed }),
            other => Err(unexpected(&other)),
        }
    }
}

/// A part of a region that is mapped. Others may write to it at any time, so bytes are copied out and in;
/// what an access returned was the region's.
#[derive(Debug)]
pub struct Mapping {
    held: Rc<Held>,
    lifeline: ChannelId,
    extent: Extent,
    writable: bool,
    /// How its lines reach others, where the memory is not coherent.
    caches: Option<Caches>,
}

impl Mapping {
    fn new(held: &Rc<Held>, map: &RegionMap, given: Given) -> Result<Mapping, Error> {
        let Given { lifeline, window } = given;
        let RegionMap { extent, rights, file_offset_bytes, caches, .. } = *map;
        let users: Arc<()> = Arc::default();
        let memory = window.and_then(|window| {
            program::window(window, file_offset_bytes, extent.length_bytes, Arc::clone(&users))
        });
        let Some(memory) = memory else {
            held.link.release(lifeline);
            return Err(Error::MonitorProtocol("a region without a place in a window".to_string()));
        };
        held.link.map(lifeline, memory, users);
        let writable = rights.contains(Rights::WRITE);
        Ok(Mapping { held: Rc::clone(held), lifeline, extent, writable, caches })
    }

    /// Which part of the region.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.extent.length_bytes as usize
    }

    /// Whether it can be written to.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// That the right to it has not been taken back, as far as the monitor has told: what was read before is
    /// the region's, what was written before has arrived.
    ///
    /// # Errors
    /// [`Error::Revoked`]; [`Error::MonitorProtocol`].
    pub fn check(&self) -> Result<(), Error> {
        self.reach().map(drop)
    }

    /// The memory, after a look at what the monitor says.
    fn reach(&self) -> Result<SharedMemory, Error> {
        self.held.link.listen()?;
        let revoked = Error::Revoked { region: self.held.info.region };
        self.held.link.mapped(self.lifeline).ok_or(revoked)
    }

    /// Copies bytes out, from `offset_bytes` of what is mapped on.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::OutOfRange`]. What `target` holds then means nothing.
    pub fn read(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), Error> {
        Ok(bytes::read(&self.reach()?, offset_bytes, target)?)
    }

    /// Copies bytes in, and touches no other: two may write next to each other at once.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::OutOfRange`]; [`Error::Monitor`] where it is not mapped for writing.
    pub fn write(&self, offset_bytes: usize, source: &[u8]) -> Result<(), Error> {
        if !self.writable {
            let (capability, needed, given) = (self.held.info.id, Rights::WRITE, Rights::READ);
            let fault = CapabilityFault::Lacks { capability, needed, given };
            return Err(Fault::Capability { fault }.into());
        }
        Ok(bytes::write(&self.reach()?, offset_bytes, source)?)
    }

    /// The memory in words, of what is mapped for writing and whose right has not been taken back. A
    /// revocation waits until it and its clones are dropped, and a program that keeps them is ended.
    #[must_use]
    pub fn memory(&self) -> Option<SharedMemory> {
        self.reach().ok().filter(|_| self.writable)
    }

    /// This program's view of memory that is not coherent, whose loads and stores take write-backs and
    /// invalidations; `None` where the memory is coherent, and where [`memory`](Self::memory) has none. The
    /// view is made by each call, and lives as `memory` does. Who has one works in nothing else.
    ///
    /// # Errors
    /// [`Error::NoCacheInstructions`].
    pub fn flushed_memory(&self) -> Result<Option<SharedMemory<Flushed>>, Error> {
        let (Some(caches), Some(memory)) = (self.caches, self.memory()) else { return Ok(None) };
        Ok(Some(caches.view(memory)?))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.held.link.let_go(self.lifeline);
    }
}
