//! Memory regions and the capabilities to them.
//!
//! Written by `tombolo idl compile` from interfaces/control/capabilities.tbl.

use tombolo_interface as rt;

/// The most holders that a fault lists.
pub const MAX_NAMED_HOLDERS: u64 = 256;

rt::number! {
    /// What holds the bytes of a region.
    pub enum Backing: u8;
    /// Memory of one kernel.
    Memory = 0,
    /// The window between the host and another node.
    Window = 1,
    /// A file on the host.
    File = 2,
    /// Memory that its domain had before; others can copy it but not map it.
    Foreign = 3,
    /// Nothing: it is a service, to which channels are opened.
    Service = 4,
}

rt::number! {
    /// What a capability is to. The parts that memory is split into have a kind each.
    pub enum Kind: u8;
    /// Memory that can be mapped or split into parts.
    Memory = 0,
    /// A part that can be mapped and not split.
    Frame = 1,
    /// A part for the buffers of a pool, mapped as that only.
    Pool = 2,
    /// A service.
    Service = 3,
}

rt::number! {
    /// A permanent limit on writing to a region, whatever rights a domain holds.
    pub enum Seal: u8;
    /// No limit.
    Open = 0,
    /// No further mapping may be writable.
    SoleWriter = 1,
    /// No domain can write to it.
    Frozen = 2,
}

rt::owned_record! {
    /// The id of a region: its node, the node's generation and an index, as in the id of a domain.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RegionId => RegionIdView<'m>, inline 8 / 8;
    /// Node in the top 16 bits, then generation, then index.
    bits @ 0: u64 => u64,
}

rt::owned_record! {
    /// The id of a capability. It grants nothing by itself: the root's table says which domain holds it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CapabilityId => CapabilityIdView<'m>, inline 8 / 8;
    /// Unique in the machine; never reused.
    number @ 0: u64 => u64,
}

rt::owned_record! {
    /// The operations that a capability allows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Rights => RightsView<'m>, inline 1 / 1;
    /// 1 for read, 2 for write, 4 for grant, 8 for opening channels to a service; other bits are invalid.
    bits @ 0: u8 => u8,
}

rt::owned_record! {
    /// A part of a region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Extent => ExtentView<'m>, inline 16 / 8;
    /// The offset of the first byte in the region.
    offset_bytes @ 0: u64 => u64,
    /// The number of bytes.
    length_bytes @ 8: u64 => u64,
}

rt::owned_record! {
    /// The kind of memory to allocate for a region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MemoryOptions => MemoryOptionsView<'m>, inline 16 / 8;
    /// The length of its huge pages; 0 for pages of the default length.
    huge_page_bytes @ 0: u64 => u64,
    /// The NUMA node to allocate on; the kernel's choice if absent.
    numa_node @ 8: Option<u16> => Option<u16>,
}

rt::owned_record! {
    /// A capability as its holder sees it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct CapabilityInfo => CapabilityInfoView<'m>, inline 96 / 8;
    /// The id.
    id @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    /// The region.
    region @ 8: crate::RegionId => RegionIdView<'m>,
    /// The part of the region that it covers.
    extent @ 16: crate::Extent => ExtentView<'m>,
    /// The operations that it allows.
    rights @ 32: crate::Rights => RightsView<'m>,
    /// The domain that holds it.
    holder @ 40: rt::DomainId => rt::Domain,
    /// The capability that it was derived from, if that still exists.
    parent @ 48: Option<crate::CapabilityId> => Option<CapabilityIdView<'m>>,
    /// It is being revoked and allows nothing.
    revoked @ 64: bool => bool,
    /// The domain that granted or gave it; absent once the holder has accepted it.
    granter @ 72: Option<rt::DomainId> => Option<rt::Domain>,
    /// What it is to.
    kind @ 88: Kind => Kind,
}

rt::owned_record! {
    /// A region, as listed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RegionInfo => RegionInfoView<'m>, inline 48 / 8;
    /// The id.
    id @ 0: crate::RegionId => RegionIdView<'m>,
    /// What holds its bytes.
    backing @ 8: Backing => Backing,
    /// The length.
    length_bytes @ 16: u64 => u64,
    /// The domain that created it.
    maker @ 24: rt::DomainId => rt::Domain,
    /// Its limit on writing.
    seal @ 32: Seal => Seal,
    /// The number of capabilities to it.
    capabilities @ 36: u32 => u32,
    /// The number of its mappings.
    mappings @ 40: u32 => u32,
}

rt::record_view! {
    CapabilityFaultGone => CapabilityFaultGoneView<'m>, inline 8 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
}

rt::record_view! {
    CapabilityFaultNotYours => CapabilityFaultNotYoursView<'m>, inline 8 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
}

rt::record_view! {
    CapabilityFaultRevoked => CapabilityFaultRevokedView<'m>, inline 8 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
}

rt::record_view! {
    CapabilityFaultLacks => CapabilityFaultLacksView<'m>, inline 16 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
    /// The rights that the operation needs.
    needed @ 8 => RightsView<'m>,
    /// The rights that the capability has.
    given @ 9 => RightsView<'m>,
}

rt::record_view! {
    CapabilityFaultBadExtent => CapabilityFaultBadExtentView<'m>, inline 24 / 8;
    /// The part that was requested.
    extent @ 0 => ExtentView<'m>,
    /// The number of bytes that are available.
    available_bytes @ 16 => u64,
}

rt::record_view! {
    CapabilityFaultUnaligned => CapabilityFaultUnalignedView<'m>, inline 24 / 8;
    /// The part that was requested.
    extent @ 0 => ExtentView<'m>,
    /// Offset and length must be multiples of this many bytes.
    unit_bytes @ 16 => u64,
}

rt::record_view! {
    CapabilityFaultNotReachable => CapabilityFaultNotReachableView<'m>, inline 16 / 8;
    /// The region.
    region @ 0 => RegionIdView<'m>,
    /// The domain that made the request.
    from @ 8 => rt::Domain,
}

rt::record_view! {
    CapabilityFaultMapped => CapabilityFaultMappedView<'m>, inline 16 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// The number of mappings.
    mappings @ 8 => u32,
}

rt::record_view! {
    CapabilityFaultSealed => CapabilityFaultSealedView<'m>, inline 16 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// `seal`.
    seal @ 8 => Seal,
}

rt::record_view! {
    CapabilityFaultCannotSeal => CapabilityFaultCannotSealView<'m>, inline 16 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// What holds its bytes.
    backing @ 8 => Backing,
}

rt::record_view! {
    CapabilityFaultStillHeld => CapabilityFaultStillHeldView<'m>, inline 16 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
    /// Those domains, at most `MAX_NAMED_HOLDERS` of them.
    holders @ 8 => rt::List<'m, rt::Domain, 256>,
}

rt::record_view! {
    CapabilityFaultTakenUp => CapabilityFaultTakenUpView<'m>, inline 8 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
}

rt::record_view! {
    CapabilityFaultNotFrom => CapabilityFaultNotFromView<'m>, inline 16 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
    /// The domain named, which did not grant it.
    domain @ 8 => rt::Domain,
}

rt::record_view! {
    CapabilityFaultSplit => CapabilityFaultSplitView<'m>, inline 48 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// The bytes of the region that were requested.
    extent @ 8 => ExtentView<'m>,
    /// The part that they overlap.
    part @ 24 => ExtentView<'m>,
    /// What the part is.
    kind @ 40 => Kind,
}

rt::record_view! {
    CapabilityFaultInUse => CapabilityFaultInUseView<'m>, inline 48 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// The bytes of the region that were requested.
    extent @ 8 => ExtentView<'m>,
    /// The bytes that are mapped.
    mapped @ 24 => ExtentView<'m>,
    /// The domain that has mapped them.
    holder @ 40 => rt::Domain,
}

rt::record_view! {
    CapabilityFaultCannotSplit => CapabilityFaultCannotSplitView<'m>, inline 16 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// What holds its bytes.
    backing @ 8 => Backing,
}

rt::record_view! {
    CapabilityFaultWrongKind => CapabilityFaultWrongKindView<'m>, inline 16 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
    /// What it is to.
    kind @ 8 => Kind,
    /// What it would have to be to.
    needed @ 9 => Kind,
}

rt::owned_union! {
    /// Why an operation on capabilities failed. Nothing has changed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum CapabilityFault => 'm CapabilityFaultView<'m>;
    /// The capability does not exist, or no longer exists.
    1 => Gone {
        record: CapabilityFaultGoneView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// Another domain holds the capability.
    2 => NotYours {
        record: CapabilityFaultNotYoursView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// The capability is being revoked.
    3 => Revoked {
        record: CapabilityFaultRevokedView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// The capability lacks the right.
    4 => Lacks {
        record: CapabilityFaultLacksView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The rights that the operation needs.
        needed @ 8: crate::Rights => RightsView<'m>,
        /// The rights that the capability has.
        given @ 9: crate::Rights => RightsView<'m>,
    },
    /// The part is empty or does not lie inside what is available.
    5 => BadExtent {
        record: CapabilityFaultBadExtentView<'m>, inline 24;
        /// The part that was requested.
        extent @ 0: crate::Extent => ExtentView<'m>,
        /// The number of bytes that are available.
        available_bytes @ 16: u64 => u64,
    },
    /// The part does not begin and end on page boundaries.
    6 => Unaligned {
        record: CapabilityFaultUnalignedView<'m>, inline 24;
        /// The part that was requested.
        extent @ 0: crate::Extent => ExtentView<'m>,
        /// Offset and length must be multiples of this many bytes.
        unit_bytes @ 16: u64 => u64,
    },
    /// The domain cannot reach the bytes from its node.
    7 => NotReachable {
        record: CapabilityFaultNotReachableView<'m>, inline 16;
        /// The region.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The domain that made the request.
        from @ 8: rt::DomainId => rt::Domain,
    },
    /// The region is still mapped.
    8 => Mapped {
        record: CapabilityFaultMappedView<'m>, inline 16;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The number of mappings.
        mappings @ 8: u32 => u32,
    },
    /// The region is sealed.
    9 => Sealed {
        record: CapabilityFaultSealedView<'m>, inline 16;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// `seal`.
        seal @ 8: Seal => Seal,
    },
    /// The region cannot be sealed.
    10 => CannotSeal {
        record: CapabilityFaultCannotSealView<'m>, inline 16;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// What holds its bytes.
        backing @ 8: Backing => Backing,
    },
    /// The capability is revoked, but domains still have the memory mapped.
    11 => StillHeld {
        record: CapabilityFaultStillHeldView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Those domains, at most `MAX_NAMED_HOLDERS` of them.
        holders @ 8: rt::Vec<rt::DomainId> => rt::List<'m, rt::Domain, 256>,
    },
    /// The holder has accepted the capability before, or created it itself.
    12 => TakenUp {
        record: CapabilityFaultTakenUpView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// The capability was granted by another domain than the one named.
    13 => NotFrom {
        record: CapabilityFaultNotFromView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// The domain named, which did not grant it.
        domain @ 8: rt::DomainId => rt::Domain,
    },
    /// The bytes are those of a part that the memory was split into.
    14 => Split {
        record: CapabilityFaultSplitView<'m>, inline 48;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The bytes of the region that were requested.
        extent @ 8: crate::Extent => ExtentView<'m>,
        /// The part that they overlap.
        part @ 24: crate::Extent => ExtentView<'m>,
        /// What the part is.
        kind @ 40: Kind => Kind,
    },
    /// The bytes are mapped by a capability to memory that they would be split from.
    15 => InUse {
        record: CapabilityFaultInUseView<'m>, inline 48;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// The bytes of the region that were requested.
        extent @ 8: crate::Extent => ExtentView<'m>,
        /// The bytes that are mapped.
        mapped @ 24: crate::Extent => ExtentView<'m>,
        /// The domain that has mapped them.
        holder @ 40: rt::DomainId => rt::Domain,
    },
    /// The capability is to something of another kind.
    16 => WrongKind {
        record: CapabilityFaultWrongKindView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// What it is to.
        kind @ 8: Kind => Kind,
        /// What it would have to be to.
        needed @ 9: Kind => Kind,
    },
    /// The region cannot be split.
    17 => CannotSplit {
        record: CapabilityFaultCannotSplitView<'m>, inline 16;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// What holds its bytes.
        backing @ 8: Backing => Backing,
    },
}
