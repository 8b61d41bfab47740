//! What the table knows of a region, a capability and a mapping.

use alloc::collections::BTreeSet;
use core::num::NonZeroU16;

use tombolo_base::{ChannelId, DomainId, NodeId};

use crate::{Backing, CapabilityId, Extent, RegionId, Rights, Seal};

/// A region to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRegion {
    /// The node whose memory it is.
    pub node: NodeId,
    /// In which generation of the node it is made.
    pub generation: NonZeroU16,
    /// Who makes it.
    pub maker: DomainId,
    /// Where its bytes are.
    pub memory: Memory,
    /// How many there are.
    pub length_bytes: u64,
    /// What parts of it begin and end at a multiple of, in bytes.
    pub unit_bytes: u64,
}

/// Where the bytes of a region are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// In memory of the kernel of the region's node.
    Kernel {
        /// Length of its pages; 0 for those that the kernel has anyway.
        huge_page_bytes: u64,
    },
    /// In the window of the region's node.
    Window {
        /// First byte, in the window.
        offset_bytes: u64,
    },
    /// In a file, of the kernel of the region's node.
    File,
    /// In memory of its maker.
    Foreign {
        /// Where, in its maker's address space.
        address: u64,
    },
}

impl Memory {
    /// Its kind.
    #[must_use]
    pub const fn backing(self) -> Backing {
        match self {
            Memory::Kernel { .. } => Backing::Memory,
            Memory::Window { .. } => Backing::Window,
            Memory::File => Backing::File,
            Memory::Foreign { .. } => Backing::Foreign,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RegionRecord {
    pub(crate) maker: DomainId,
    pub(crate) memory: Memory,
    pub(crate) length_bytes: u64,
    pub(crate) unit_bytes: u64,
    pub(crate) seal: Seal,
    /// What its kernel is asked to seal it with.
    pub(crate) sealing: Option<Seal>,
    pub(crate) capabilities: BTreeSet<CapabilityId>,
    pub(crate) mappings: BTreeSet<ChannelId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CapabilityRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    pub(crate) rights: Rights,
    pub(crate) holder: DomainId,
    /// Whose account it is on: who made it, whoever holds it now.
    pub(crate) charged: DomainId,
    pub(crate) parent: Option<CapabilityId>,
    pub(crate) revoked: bool,
    /// Who granted it, and over which channel, as long as its holder has not taken it up.
    pub(crate) on_its_way: Option<OnItsWay>,
}

/// For whom a capability is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who will hold it.
    pub holder: DomainId,
    /// The channel that will bring its number there; 0 for none.
    pub channel: ChannelId,
}

impl From<DomainId> for Way {
    fn from(holder: DomainId) -> Self {
        Way { holder, channel: ChannelId(0) }
    }
}

/// How a capability comes to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OnItsWay {
    pub(crate) granter: DomainId,
    /// What will bring its number; 0 for none.
    pub(crate) channel: ChannelId,
}

impl OnItsWay {
    /// Also a domain may have a channel to itself.
    pub(crate) fn of(granter: DomainId, way: Way) -> Option<OnItsWay> {
        let Way { holder, channel } = way;
        (holder != granter || channel.0 != 0).then_some(OnItsWay { granter, channel })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MappingRecord {
    pub(crate) region: RegionId,
    pub(crate) holder: DomainId,
    pub(crate) writable: bool,
    /// By which right; the nearest that is left above it, when that itself is gone.
    pub(crate) by: Option<CapabilityId>,
    /// The right itself is gone, with its holder.
    pub(crate) orphan: bool,
    /// Its domain has been told to let go.
    pub(crate) hung_up: bool,
}

/// What it takes to map a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mappable {
    /// Of which region.
    pub region: RegionId,
    /// Which part.
    pub extent: Extent,
    /// What may be done with it.
    pub rights: Rights,
    /// Where the region's bytes are.
    pub memory: Memory,
}
