//! Regions: memory with an owner, and capabilities to it.
//!
//! The domain that creates a [`Region`] holds a capability to all of it. Further capabilities, with fewer
//! rights or to a part, are derived from a [`Capability`] and granted to domains on any node; their ids can
//! be sent in any message. The holder of a capability maps the memory and accesses it through a [`Mapping`],
//! until that is dropped or the right is revoked. After a revocation the next access returns
//! [`Error::Revoked`]; it never reaches memory that belongs to others.
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::{Domain, Error};
//! use tombolo::region::{RegionOptions, Rights};
//!
//! fn main() -> Result<(), Error> {
//!     let domain = Domain::attach()?;
//!     let mut channel = domain.connect("reader")?;
//!     let region = domain.create_region(&RegionOptions::new(1 << 20))?;
//!     region.map(Rights::READ_WRITE)?.write(0, b"a megabyte, not copied")?;
//!     let granted = region.grant(channel.peer(), Rights::READ)?;
//!     channel.send(&granted.id.0.to_le_bytes())?;
//!     // ... until the other has had it for long enough.
//!     region.revoke(Duration::from_secs(10))?;
//!     Ok(())
//! }
//! ```

mod capability;
mod mapping;
pub(crate) mod passing;
mod service;

use std::os::fd::{AsFd, BorrowedFd};

pub use tombolo_base::coherence::Flushed;
pub use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_capability::MemoryOptions;
pub use tombolo_capability::{
    Backing, CapabilityFault, CapabilityId, CapabilityInfo, Extent, Kind, RegionId, RegionInfo, Revoked,
    Rights, Seal,
};
pub use tombolo_control::ForeignPlace;
use tombolo_control::{RegionPlace, Reply, Request, all_pages};
pub use tombolo_engine::Location;

use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::ANSWER_TIMEOUT;
use crate::monitor::unexpected;

pub use capability::{Capability, Shown};
pub use mapping::{MapOptions, Mapping, RegionFile};
pub use passing::{FarEnd, Granted, Right};

/// Region created by this program, with the capability to all of it.
#[derive(Clone, Debug)]
pub struct Region {
    capability: Capability,
}

impl Region {
    /// Returns the capability to all of it.
    #[must_use]
    pub fn into_capability(self) -> Capability {
        self.capability
    }

    /// Length of the region in bytes: the requested length, rounded up to pages.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.capability.extent().length_bytes
    }
}

/// A region has the operations of the capability to all of it.
impl std::ops::Deref for Region {
    type Target = Capability;

    fn deref(&self) -> &Capability {
        &self.capability
    }
}

/// Options for creating a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionOptions {
    length_bytes: u64,
    node: Option<String>,
    window: bool,
    alignment_bytes: u64,
    coherent: bool,
    memory: MemoryOptions,
}

impl RegionOptions {
    /// Options for a region of `length_bytes` bytes, rounded up to pages, in memory of this program's node.
    #[must_use]
    pub fn new(length_bytes: u64) -> Self {
        let memory = MemoryOptions { huge_page_bytes: 0, numa_node: None };
        RegionOptions { length_bytes, node: None, window: false, alignment_bytes: 0, coherent: false, memory }
    }

    /// Allocates the region in memory of this node. Only programs on the node's kernel can reach it; foreign
    /// programs on the host's kernel share the memory of the host.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        (self.node, self.window) = (Some(node.to_owned()), false);
        self
    }

    /// Allocates the region in the window between this program's node and the given one, or else in that
    /// between the host and the given node; programs of both can reach it. The name of a `[[window]]` selects
    /// that window, which all its nodes can reach. Programs on the host's kernel can reach what the host can.
    #[must_use]
    pub fn in_window_of(mut self, node: &str) -> Self {
        (self.node, self.window) = (Some(node.to_owned()), true);
        self
    }

    /// Sets the alignment of the offset in the window, a power of two, for example for a device; 0 for a
    /// page. Memory of a kernel has no visible offset: [`MapOptions::alignment_bytes`] aligns the address in
    /// a program.
    #[must_use]
    pub fn alignment_bytes(mut self, alignment_bytes: u64) -> Self {
        self.alignment_bytes = alignment_bytes;
        self
    }

    /// Requires that programs on both sides of the window see each other's stores without flushing caches;
    /// fails where they do not. Programs on one kernel always do.
    #[must_use]
    pub fn coherent(mut self) -> Self {
        self.coherent = true;
        self
    }

    /// Sets the page size, a power of two that the node's processor supports and its kernel has reserved. Not
    /// for windows.
    #[must_use]
    pub fn huge_pages(mut self, page_bytes: u64) -> Self {
        self.memory.huge_page_bytes = page_bytes;
        self
    }

    /// Allocates the region on this NUMA node of the node. Not for windows.
    #[must_use]
    pub fn numa_node(mut self, numa_node: u16) -> Self {
        self.memory.numa_node = Some(numa_node);
        self
    }

    fn place(&self, own_node: &str) -> RegionPlace {
        let node = self.node.clone().unwrap_or_else(|| own_node.to_owned());
        if self.window {
            let RegionOptions { alignment_bytes, coherent, .. } = *self;
            RegionPlace::Window { node, alignment_bytes, coherent }
        } else {
            RegionPlace::Memory { node, options: self.memory }
        }
    }
}

impl Domain {
    /// Creates a region. It exists while a domain holds a capability to it or has it mapped.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist, its window is full, a limit of the machine is exceeded,
    /// or the memory cannot be allocated.
    pub fn create_region(&self, options: &RegionOptions) -> Result<Region, Error> {
        self.make_region(options.place(self.node_name()), options.length_bytes, &[])
    }

    /// Creates a region from the first `length_bytes` bytes of a file of the host. Other programs on the
    /// host's kernel can map it for reading, and for writing if the file was opened for both.
    ///
    /// Reads access the file rather than mapped memory, so that a file that becomes shorter causes an error
    /// instead of a fault.
    ///
    /// # Errors
    /// Same as [`create_region`](Self::create_region); also for a file that is shorter, or not a regular
    /// file.
    pub fn region_of_file(&self, file: impl AsFd, length_bytes: u64) -> Result<Region, Error> {
        self.make_region(RegionPlace::File, length_bytes, &[file.as_fd()])
    }

    /// Registers existing memory of this program, starting at `address`, as a region. Other domains cannot
    /// map it, but a domain with a capability learns its location ([`Capability::show`]), for an engine that
    /// copies between processes. This program must keep the memory mapped while the region exists.
    ///
    /// # Errors
    /// Same as [`create_region`](Self::create_region).
    pub fn register_memory(&self, address: *const u8, length_bytes: u64) -> Result<Region, Error> {
        self.make_region(RegionPlace::Foreign { address: address.addr() as u64 }, length_bytes, &[])
    }

    fn make_region(
        &self,
        place: RegionPlace,
        length_bytes: u64,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Region, Error> {
        let create = Request::RegionCreate { place, length_bytes };
        match self.link.ask_with(create, fds, ANSWER_TIMEOUT)?.0 {
            Reply::RegionCreate { capability } => {
                Ok(Region { capability: Capability::from_info(self.link.clone(), capability) })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Takes up a capability that any domain granted or gave to this program, by its id. For one that arrived
    /// in a message, prefer [`accept`](Self::accept). Take it up only once: dropping the last clone of the
    /// returned value releases the capability.
    ///
    /// # Errors
    /// [`Error::Monitor`] if it belongs to another domain or no longer exists.
    pub fn capability(&self, id: CapabilityId) -> Result<Capability, Error> {
        let accept = Request::CapabilityAccept { capability: id, granter: None, whole: false };
        self.accept_any(accept)
    }

    /// Returns all capabilities that this program holds.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn capabilities(&self) -> Result<Vec<CapabilityInfo>, Error> {
        all_pages(|last: Option<&CapabilityInfo>| {
            let after = last.map_or(0, |last| last.id.0);
            match self.link.ask(Request::Capabilities { after }, ANSWER_TIMEOUT)?.0 {
                Reply::Capabilities { capabilities, more } => Ok((capabilities, more)),
                other => Err(unexpected(&other)),
            }
        })
    }
}
