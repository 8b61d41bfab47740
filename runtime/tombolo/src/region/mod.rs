//! Regions: memory with an owner, and the rights to it.
//!
//! The domain that makes a [`Region`] holds a capability to all of it. From a [`Capability`] others are
//! derived, with fewer rights or to a part, and granted to other domains, of whatever node; their ids travel
//! in any message. The holder of one maps the memory, and works in it through a [`Mapping`], until that is
//! dropped, or the right is taken back: then the next access ends in [`Error::Revoked`], and never in what
//! others have there.
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

/// A region that this program made: the capability to all of it.
#[derive(Clone, Debug)]
pub struct Region {
    capability: Capability,
}

impl Region {
    /// The capability to all of it.
    #[must_use]
    pub fn into_capability(self) -> Capability {
        self.capability
    }

    /// How many bytes it has: what was asked for, rounded up to pages.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.capability.extent().length_bytes
    }
}

/// What can be done with a region is what can be done with the capability to all of it.
impl std::ops::Deref for Region {
    type Target = Capability;

    fn deref(&self) -> &Capability {
        &self.capability
    }
}

/// What a region is to be.
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
    /// A region of `length_bytes`, rounded up to pages, in memory of the node of this program.
    #[must_use]
    pub fn new(length_bytes: u64) -> Self {
        let memory = MemoryOptions { huge_page_bytes: 0, numa_node: None };
        RegionOptions { length_bytes, node: None, window: false, alignment_bytes: 0, coherent: false, memory }
    }

    /// In memory of that node. Only programs that run on its kernel reach that: for foreign programs on the
    /// host's kernel it is the host's.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        (self.node, self.window) = (Some(node.to_owned()), false);
        self
    }

    /// In the window through which this program's node and that one reach each other, or else in that
    /// between the host and that node: programs of both reach it. The name of a `[[window]]` is that window,
    /// which all its nodes reach. Programs on the host's kernel reach what the host does.
    #[must_use]
    pub fn in_window_of(mut self, node: &str) -> Self {
        (self.node, self.window) = (Some(node.to_owned()), true);
        self
    }

    /// From an offset in the window that is a multiple of this, a power of two, as a device may want it; 0
    /// for any page. Memory of a kernel has no offset that anybody sees: [`MapOptions::alignment_bytes`]
    /// aligns where a program has it.
    #[must_use]
    pub fn alignment_bytes(mut self, alignment_bytes: u64) -> Self {
        self.alignment_bytes = alignment_bytes;
        self
    }

    /// Only where programs on both sides of the window see each other's stores without flushing caches:
    /// refused elsewhere. Those on one kernel always do.
    #[must_use]
    pub fn coherent(mut self) -> Self {
        self.coherent = true;
        self
    }

    /// In pages of that length, a power of two that the node's processor has and its kernel has reserved. Not
    /// in a window.
    #[must_use]
    pub fn huge_pages(mut self, page_bytes: u64) -> Self {
        self.memory.huge_page_bytes = page_bytes;
        self
    }

    /// In the memory of that NUMA node of the node. Not in a window.
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
    /// Makes a region. It exists for as long as a domain holds a capability to it or has it mapped.
    ///
    /// # Errors
    /// [`Error::Monitor`]: no such node, no room in its window, a limit of the machine, memory that cannot be
    /// had.
    pub fn create_region(&self, options: &RegionOptions) -> Result<Region, Error> {
        self.make_region(options.place(self.node_name()), options.length_bytes, &[])
    }

    /// Makes a region of the first `length_bytes` of a file of the host, which other programs on the host's
    /// kernel may map: for reading, and for writing if the file was opened for both.
    ///
    /// What is read of it is read from the file, so that a file that becomes shorter is an error and no
    /// fault.
    ///
    /// # Errors
    /// As [`create_region`](Self::create_region); a file that is shorter, or no file.
    pub fn region_of_file(&self, file: impl AsFd, length_bytes: u64) -> Result<Region, Error> {
        self.make_region(RegionPlace::File, length_bytes, &[file.as_fd()])
    }

    /// Registers memory that this program has already, from `address` on, as a region. Others cannot map it:
    /// who is granted a capability learns where it is ([`Capability::show`]), for an engine that copies
    /// between processes. What lies there is this program's to keep there, for as long as the region is.
    ///
    /// # Errors
    /// As [`create_region`](Self::create_region).
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
                Ok(Region { capability: Capability::held(self.link.clone(), capability) })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// A capability that this program was granted or given, by its id, from any domain; what came in a
    /// message is better [accepted](Self::accept). To be taken up once: when the last copy of what is
    /// returned is dropped, the capability is let go.
    ///
    /// # Errors
    /// [`Error::Monitor`]: it is another domain's, or not there any more.
    pub fn capability(&self, id: CapabilityId) -> Result<Capability, Error> {
        let accept = Request::CapabilityAccept { capability: id, granter: None, whole: false };
        self.accept_any(accept)
    }

    /// All capabilities that this program holds.
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
