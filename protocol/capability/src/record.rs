//! Records of regions, capabilities and mappings in the table.

use alloc::collections::BTreeSet;
use core::num::NonZeroU16;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};

use crate::{Backing, CapabilityId, Extent, Kind, RegionId, Rights, Seal};

/// Parameters of a region to be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewRegion {
    /// Node that owns the memory.
    pub node: NodeId,
    /// Generation of the node.
    pub generation: NonZeroU16,
    /// Domain that creates the region.
    pub maker: DomainId,
    /// Location of its bytes.
    pub memory: Memory,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Alignment of its parts, in bytes.
    pub unit_bytes: u64,
}

/// Location of the bytes of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// Memory of the kernel of the region's node.
    Kernel {
        /// Page size in bytes; 0 for the default.
        huge_page_bytes: u64,
    },
    /// Memory in a window.
    Window {
        /// Id of the window.
        window: WindowId,
        /// Offset in the window, in bytes.
        offset_bytes: u64,
    },
    /// A file of the kernel of the region's node.
    File,
    /// Memory of the domain that created the region.
    Foreign {
        /// Address in that domain.
        address: u64,
    },
    /// No memory, because it is a service.
    Service,
}

impl Memory {
    /// Returns the kind of memory.
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
    /// Seal that its kernel was asked to apply.
    pub(crate) sealing: Option<Seal>,
    pub(crate) capabilities: BTreeSet<CapabilityId>,
    pub(crate) mappings: BTreeSet<ChannelId>,
}

/// Id of a part of a region. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PartId(pub(crate) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    pub(crate) kind: Kind,
    /// Part that it was split from; `None` for the region.
    pub(crate) of: Option<PartId>,
    /// Number of capabilities, mappings and split parts that keep it alive.
    pub(crate) users: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CapabilityRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    pub(crate) kind: Kind,
    /// Part that the capability refers to; `None` for a region or service.
    pub(crate) part: Option<PartId>,
    pub(crate) rights: Rights,
    pub(crate) holder: DomainId,
    /// Domain that the capability is charged to: its creator, not its current holder.
    pub(crate) charged: DomainId,
    pub(crate) parent: Option<CapabilityId>,
    pub(crate) revoked: bool,
    /// Granting domain and channel, until its holder accepts it.
    pub(crate) in_transit: Option<InTransit>,
}

/// Recipient of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Domain that will hold it.
    pub holder: DomainId,
    /// Channel that will carry its number; 0 for none.
    pub channel: ChannelId,
}

impl From<DomainId> for Recipient {
    fn from(holder: DomainId) -> Self {
        Recipient { holder, channel: ChannelId(0) }
    }
}

/// Granter and channel of a capability in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InTransit {
    pub(crate) granter: DomainId,
    /// Channel that carries its number; 0 for none.
    pub(crate) channel: ChannelId,
}

impl InTransit {
    /// Returns `None` for a grant to itself without a channel; a domain may have a channel to itself.
    pub(crate) fn of(granter: DomainId, recipient: Recipient) -> Option<InTransit> {
        let Recipient { holder, channel } = recipient;
        (holder != granter || channel.0 != 0).then_some(InTransit { granter, channel })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MappingRecord {
    pub(crate) region: RegionId,
    pub(crate) extent: Extent,
    /// Part whose bytes are mapped.
    pub(crate) part: Option<PartId>,
    pub(crate) holder: DomainId,
    pub(crate) writable: bool,
    /// Capability that it was mapped with, or its nearest remaining ancestor.
    pub(crate) by: Option<CapabilityId>,
    /// Whether that capability is gone because its holder ended.
    pub(crate) orphan: bool,
    /// Whether its domain was asked to unmap it.
    pub(crate) unmap_requested: bool,
}

/// Parameters for mapping a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mappable {
    /// Region to map.
    pub region: RegionId,
    /// Part to map.
    pub extent: Extent,
    /// Access that the mapping permits.
    pub rights: Rights,
    /// Location of the region's bytes.
    pub memory: Memory,
}
