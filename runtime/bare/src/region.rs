//! Regions of memory and capabilities to them, as in `tombolo`. They are in windows, the only memory that a
//! board shares with other nodes.
//!
//! A program on a board can access its whole window; only this crate restricts it to what it has mapped.
//! After a revocation, the program releases the memory automatically at its next call into this crate, once
//! it has dropped what [`Mapping::memory`] returned. If it does not in time, it is killed.

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
use crate::link::{GrantedObjects, Link, REPLY_TIMEOUT, unexpected};

/// Options for creating a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionOptions {
    length_bytes: u64,
    node: Option<String>,
    alignment_bytes: u64,
    coherent: bool,
}

impl RegionOptions {
    /// Options for a region of `length_bytes` bytes, rounded up to pages, in the window between the host and
    /// the program's board.
    #[must_use]
    pub fn new(length_bytes: u64) -> Self {
        RegionOptions { length_bytes, node: None, alignment_bytes: 0, coherent: false }
    }

    /// Allocates the region in the window of that name, or in the one that the board shares with that node. A
    /// board can only reach the windows that it is part of.
    #[must_use]
    pub fn in_window_of(mut self, name: &str) -> Self {
        self.node = Some(name.to_owned());
        self
    }

    /// Sets the alignment of the offset in the window, a power of two; 0 for a page.
    #[must_use]
    pub fn alignment_bytes(mut self, alignment_bytes: u64) -> Self {
        self.alignment_bytes = alignment_bytes;
        self
    }

    /// Requires that programs on both sides of the window see each other's stores without flushing caches;
    /// fails where they do not.
    #[must_use]
    pub fn coherent(mut self) -> Self {
        self.coherent = true;
        self
    }
}

impl Domain {
    /// Creates a region, and returns the capability to all of it. The region exists while a domain holds a
    /// capability to it or has it mapped.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist, the window is full, or a limit of the machine is
    /// exceeded.
    pub fn create_region(&self, options: &RegionOptions) -> Result<Capability, Error> {
        let RegionOptions { length_bytes, alignment_bytes, coherent, .. } = *options;
        let node = options.node.clone().unwrap_or_else(|| self.node_name().to_owned());
        let place = RegionPlace::Window { node, alignment_bytes, coherent };
        match self.link.request(Request::RegionCreate { place, length_bytes }, REPLY_TIMEOUT)? {
            Reply::RegionCreate { capability } => Ok(Capability::new(&self.link, capability)),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes up a capability that was granted or given to this program, by its id. Take it up only once:
    /// dropping the last clone of the returned value releases the capability.
    ///
    /// # Errors
    /// [`Error::Monitor`] if it belongs to another domain or no longer exists.
    pub fn capability(&self, id: CapabilityId) -> Result<Capability, Error> {
        let accept = Request::CapabilityAccept { capability: id, granter: None, whole: false };
        match self.link.request(accept, REPLY_TIMEOUT)? {
            Reply::CapabilityAccept { capability, .. } => Ok(Capability::new(&self.link, capability)),
            other => Err(unexpected(&other)),
        }
    }
}

/// Right of this program to a part of a region. Clones refer to the same capability; it is released when the
/// last clone and the last [`Mapping`] made with it are dropped. Capabilities derived from it remain.
#[derive(Clone, Debug)]
pub struct Capability {
    state: Rc<CapabilityState>,
}

/// State shared by clones and mappings; dropping the last one releases the capability.
#[derive(Debug)]
struct CapabilityState {
    link: Rc<Link>,
    info: CapabilityInfo,
    is_deleted: Cell<bool>,
}

impl Drop for CapabilityState {
    fn drop(&mut self) {
        if !self.is_deleted.get() {
            // If this fails, the capability is released with the program.
            let _ = self.link.notify(Request::CapabilityDelete { capability: self.info.id });
        }
    }
}

impl Capability {
    fn new(link: &Rc<Link>, info: CapabilityInfo) -> Self {
        Capability {
            state: Rc::new(CapabilityState { link: Rc::clone(link), info, is_deleted: Cell::new(false) }),
        }
    }

    /// Id of the capability, which can be sent in any message. It is useless to domains that do not hold the
    /// capability.
    #[must_use]
    pub fn id(&self) -> CapabilityId {
        self.state.info.id
    }

    /// Region that it gives rights to.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.state.info.region
    }

    /// Part of the region that it covers.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.state.info.extent
    }

    /// Rights that it gives.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.state.info.rights
    }

    /// Derives a capability for this program with a subset of the rights: to `extent`, relative to the start
    /// of this one's part, or to all of that part.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the extent is not inside or not aligned to pages, or this capability lacks the
    /// rights.
    pub fn derive(&self, extent: Option<Extent>, rights: Rights) -> Result<Capability, Error> {
        Ok(Capability::new(&self.state.link, self.request_derive(extent, rights, None)?))
    }

    /// Derives a capability for `domain`, which takes it up by its id.
    ///
    /// # Errors
    /// Same as [`derive`](Self::derive); also if this capability lacks the right to grant, or the domain does
    /// not exist.
    pub fn grant(&self, domain: DomainId, rights: Rights) -> Result<CapabilityInfo, Error> {
        self.request_derive(None, rights, Some(domain))
    }

    fn request_derive(
        &self,
        extent: Option<Extent>,
        rights: Rights,
        holder: Option<DomainId>,
    ) -> Result<CapabilityInfo, Error> {
        let (capability, channel) = (self.id(), ChannelId(0));
        let derive = Request::CapabilityDerive { capability, extent, rights, holder, channel };
        match self.state.link.request(derive, REPLY_TIMEOUT)? {
            Reply::CapabilityDerive { capability } => Ok(capability),
            other => Err(unexpected(&other)),
        }
    }

    /// Maps its part of the region, with [`Rights::READ`] or [`Rights::READ_WRITE`].
    ///
    /// # Errors
    /// [`Error::Monitor`] if the rights are missing, the capability was revoked, or its bytes are in no
    /// window of this board.
    pub fn map(&self, rights: Rights) -> Result<Mapping, Error> {
        let request = Request::RegionMap { capability: self.id(), rights, pool: false };
        match self.state.link.request_with_objects(request, REPLY_TIMEOUT)? {
            (Reply::RegionMap { map }, objects) => Mapping::new(&self.state, &map, objects),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Revokes everything that was derived from this capability, in every domain, and waits until no domain
    /// can reach the memory through it.
    ///
    /// # Errors
    /// [`Error::Monitor`] with [`CapabilityFault::StillHeld`] if a domain still has the memory mapped.
    /// [`Error::TimedOut`] if `timeout` is too short; the revocation continues.
    pub fn revoke(&self, timeout: Duration) -> Result<Revoked, Error> {
        self.request_revoke(false, timeout)
    }

    /// Like [`revoke`](Self::revoke), and revokes this capability as well.
    ///
    /// # Errors
    /// Same as [`revoke`](Self::revoke).
    pub fn revoke_all(&self, timeout: Duration) -> Result<Revoked, Error> {
        let revoked = self.request_revoke(true, timeout)?;
        self.state.is_deleted.set(true);
        Ok(revoked)
    }

    fn request_revoke(&self, itself: bool, timeout: Duration) -> Result<Revoked, Error> {
        let request = Request::CapabilityRevoke { capability: self.id(), itself };
        match self.state.link.request(request, timeout)? {
            Reply::CapabilityRevoke { removed, killed } => Ok(Revoked { removed, killed }),
            other => Err(unexpected(&other)),
        }
    }
}

/// Mapped part of a region. Other domains may write to it at any time, so bytes are copied in and out; a
/// successful access has accessed the region.
#[derive(Debug)]
pub struct Mapping {
    state: Rc<CapabilityState>,
    lifeline: ChannelId,
    extent: Extent,
    writable: bool,
    /// Cache maintenance operations, for memory that is not coherent.
    caches: Option<Caches>,
}

impl Mapping {
    fn new(state: &Rc<CapabilityState>, map: &RegionMap, objects: GrantedObjects) -> Result<Mapping, Error> {
        let GrantedObjects { lifeline, window } = objects;
        let RegionMap { extent, rights, file_offset_bytes, caches, .. } = *map;
        let users: Arc<()> = Arc::default();
        let memory = window.and_then(|window| {
            program::window(window, file_offset_bytes, extent.length_bytes, Arc::clone(&users))
        });
        let Some(memory) = memory else {
            state.link.release(lifeline);
            return Err(Error::MonitorProtocol("a region without a place in a window".to_string()));
        };
        state.link.map(lifeline, memory, users);
        let writable = rights.contains(Rights::WRITE);
        Ok(Mapping { state: Rc::clone(state), lifeline, extent, writable, caches })
    }

    /// Part of the region that is mapped.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Length of the mapping, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.extent.length_bytes as usize
    }

    /// Whether the mapping is writable.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Fails if the right was revoked, as far as the monitor has reported. If it returns `Ok`, earlier reads
    /// returned bytes of the region, and earlier writes have reached it.
    ///
    /// # Errors
    /// [`Error::Revoked`]; [`Error::MonitorProtocol`].
    pub fn check(&self) -> Result<(), Error> {
        self.reach().map(drop)
    }

    /// Returns the memory, after handling the monitor's messages.
    fn reach(&self) -> Result<SharedMemory, Error> {
        self.state.link.process_messages()?;
        let revoked = Error::Revoked { region: self.state.info.region };
        self.state.link.mapped(self.lifeline).ok_or(revoked)
    }

    /// Copies bytes from `offset_bytes` within the mapping into `target`.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::OutOfRange`]. The contents of `target` are then undefined.
    pub fn read(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), Error> {
        Ok(bytes::read(&self.reach()?, offset_bytes, target)?)
    }

    /// Copies `source` to `offset_bytes` within the mapping. No other bytes are touched: two writers may
    /// write adjacent bytes concurrently.
    ///
    /// # Errors
    /// [`Error::Revoked`], [`Error::OutOfRange`]; [`Error::Monitor`] if it is not mapped for writing.
    pub fn write(&self, offset_bytes: usize, source: &[u8]) -> Result<(), Error> {
        if !self.writable {
            let (capability, needed, given) = (self.state.info.id, Rights::WRITE, Rights::READ);
            let fault = CapabilityFault::Lacks { capability, needed, given };
            return Err(Fault::Capability { fault }.into());
        }
        Ok(bytes::write(&self.reach()?, offset_bytes, source)?)
    }

    /// Returns the memory as words, if it is mapped for writing and the right was not revoked. A revocation
    /// waits until the returned value and its clones are dropped, and a program that keeps them is killed.
    #[must_use]
    pub fn memory(&self) -> Option<SharedMemory> {
        self.reach().ok().filter(|_| self.writable)
    }

    /// Returns this program's view of memory that is not coherent, whose loads and stores need write-backs
    /// and invalidations; `None` if the memory is coherent, or [`memory`](Self::memory) returns `None`. Each
    /// call creates a view; it keeps the mapping like `memory`. A program that uses a view must access the
    /// memory only through it.
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
        self.state.link.unmap(self.lifeline);
    }
}
