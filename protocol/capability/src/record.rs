//! The table's records of regions, capabilities and mappings.

use alloc::collections::BTreeSet;
use core::num::NonZeroU16;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};

use crate::{Backing, CapabilityId, Extent, Kind, RegionId, Rights, Seal};

/// A region to be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRegion {
    /// The node that owns the memory.
    pub node: NodeId,
    /// The generation of the node.
    pub generation: NonZeroU16,
    /// The domain that creates it.
    pub maker: DomainId,
    /// Where its bytes are.
    pub memory: Memory,
    /// The length in bytes.
    pub length_bytes: u64,
    /// The alignment of its parts, in bytes.
    pub unit_bytes: u64,
}

/// Where the bytes of a region are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// Memory of the kernel of the region's node.
    Kernel {
        /// The page size in bytes; 0 for the default.
        huge_page_bytes: u64,
    },
    /// In a window.
    Window {
        /// Which one.
        window: WindowId,
        /// The offset in the window.
        offset_bytes: u64,
    },
    /// A file of the kernel of the region's node.
    File,
    /// Memory of the domain that created the region.
    Foreign {
        /// The address in that domain.
        address: u64,
    },
    /// No memory: it is a service.
    Service,
}

impl Memory {
    /// The kind of memory.
    #[must_use]
    pub const fn backing(self) -> Backing {
        match self {
            Memory::Kernel { .. } => Backing::Memory,
            Memory::Window { .. } => Backing::Window,
            Memory::File => Backing::File,
            Memory::Foreign { .. } => Backing::Foreign,
            Memory::Service => Backing::Service,
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
    /// The seal that its kernel was asked to apply.
    pub(crate) sealing: Option<Seal>,
    pub(crate) capabilities: BTreeSet<CapabilityId>,
    pub(crate) mappings: BTreeSet<ChannelId>,
}

/// A part of a region. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PartId(pub(crate) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    pub(crate) kind: Kind,
    /// The part that it was split from; `None` for the region.
    pub(crate) of: Option<PartId>,
    /// What keeps it: capabilities, mappings, and parts that were split from it.
    pub(crate) users: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CapabilityRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    pub(crate) kind: Kind,
    /// The part that it is to; `None` for a region or service.
    pub(crate) part: Option<PartId>,
    pub(crate) rights: Rights,
    pub(crate) holder: DomainId,
    /// The domain whose account it is on: its creator, not its current holder.
    pub(crate) charged: DomainId,
    pub(crate) parent: Option<CapabilityId>,
    pub(crate) revoked: bool,
    /// Who granted it and over which channel, until its holder accepts it.
    pub(crate) in_transit: Option<InTransit>,
}

/// The recipient of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The domain that will hold it.
    pub holder: DomainId,
    /// The channel that will carry its number; 0 for none.
    pub channel: ChannelId,
}

impl From<DomainId> for Way {
    fn from(holder: DomainId) -> Self {
        Way { holder, channel: ChannelId(0) }
    }
}

/// How a capability in transit reaches its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InTransit {
    pub(crate) granter: DomainId,
    /// The channel that carries its number; 0 for none.
    pub(crate) channel: ChannelId,
}

impl InTransit {
    /// `None` for a grant to itself without a channel; a domain may have a channel to itself.
    pub(crate) fn of(granter: DomainId, way: Way) -> Option<InTransit> {
        let Way { holder, channel } = way;
        (holder != granter || channel.0 != 0).then_some(InTransit { granter, channel })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MappingRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    /// The part whose bytes these are mapped as.
    pub(crate) part: Option<PartId>,
    pub(crate) holder: DomainId,
    pub(crate) writable: bool,
    /// The capability it was mapped with, or the nearest one left above that.
    pub(crate) by: Option<CapabilityId>,
    /// Whether that capability is gone because its holder ended.
    pub(crate) orphan: bool,
    /// Whether its domain was told to unmap it.
    pub(crate) hung_up: bool,
}

/// The parameters for mapping a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mappable {
    /// The region to map.
    pub region: RegionId,
    /// The part to map.
    pub extent: Extent,
    /// The access that the mapping permits.
    pub rights: Rights,
    /// Where the region's bytes are.
    pub memory: Memory,
}
