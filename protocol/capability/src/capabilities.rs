//! Regions of memory, and the rights to them.
//!
//! Written by `tombolo idl compile` from interfaces/control/capabilities.tbl.

use tombolo_interface as rt;

/// The most holders that an answer names.
pub const MAX_NAMED_HOLDERS: u64 = 256;

rt::number! {
    /// Where the bytes of a region are.
    pub enum Backing: u8;
    /// In memory of one kernel.
    Memory = 0,
    /// In the window between the host and another node.
    Window = 1,
    /// In a file of the host.
    File = 2,
    /// In memory that a domain had already: others reach it by copying alone.
    Foreign = 3,
}

rt::number! {
    /// What nobody can do with a region any more, whatever rights they hold.
    pub enum Seal: u8;
    /// Nothing is ruled out.
    Open = 0,
    /// Nobody can map it for writing who has not yet.
    SoleWriter = 1,
    /// Nobody can write to it.
    Frozen = 2,
}

rt::owned_record! {
    /// A region: node, generation of the node and index, as ids of domains have them.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RegionId => RegionIdView<'m>, inline 8 / 8;
    /// Node in the top 16 bits, then generation, then index.
    bits @ 0: u64 => u64,
}

rt::owned_record! {
    /// A capability of the machine. It says nothing by itself: who shows it must be its holder in the root's table.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CapabilityId => CapabilityIdView<'m>, inline 8 / 8;
    /// Given out once.
    number @ 0: u64 => u64,
}

rt::owned_record! {
    /// What may be done.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Rights => RightsView<'m>, inline 1 / 1;
    /// 1 to read, 2 to write, 4 to grant; no others.
    bits @ 0: u8 => u8,
}

rt::owned_record! {
    /// A part of a region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Extent => ExtentView<'m>, inline 16 / 8;
    /// First byte.
    offset_bytes @ 0: u64 => u64,
    /// How many.
    length_bytes @ 8: u64 => u64,
}

rt::owned_record! {
    /// What the memory of a region is made of.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MemoryOptions => MemoryOptionsView<'m>, inline 16 / 8;
    /// Length of its pages; 0 for those that the kernel has anyway.
    huge_page_bytes @ 0: u64 => u64,
    /// Whose memory of those of its node, where a node has several.
    numa_node @ 8: Option<u16> => Option<u16>,
}

rt::owned_record! {
    /// A capability as its holder sees it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct CapabilityInfo => CapabilityInfoView<'m>, inline 88 / 8;
    /// Its id.
    id @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    /// Of which region.
    region @ 8: crate::RegionId => RegionIdView<'m>,
    /// Which part of that.
    extent @ 16: crate::Extent => ExtentView<'m>,
    /// What may be done.
    rights @ 32: crate::Rights => RightsView<'m>,
    /// Whose it is.
    holder @ 40: rt::DomainId => rt::Domain,
    /// What it was derived from, if that is still there.
    parent @ 48: Option<crate::CapabilityId> => Option<CapabilityIdView<'m>>,
    /// It is being revoked, and good for nothing.
    revoked @ 64: bool => bool,
    /// Who granted or gave it, as long as its holder has not taken it up.
    granter @ 72: Option<rt::DomainId> => Option<rt::Domain>,
}

rt::owned_record! {
    /// A region, for lists.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RegionInfo => RegionInfoView<'m>, inline 48 / 8;
    /// Its id.
    id @ 0: crate::RegionId => RegionIdView<'m>,
    /// Where its bytes are.
    backing @ 8: Backing => Backing,
    /// Its length.
    length_bytes @ 16: u64 => u64,
    /// Who made it.
    maker @ 24: rt::DomainId => rt::Domain,
    /// What is ruled out.
    seal @ 32: Seal => Seal,
    /// Capabilities to it.
    capabilities @ 36: u32 => u32,
    /// Places where it is mapped.
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
    /// What is needed.
    needed @ 8 => RightsView<'m>,
    /// What it gives.
    given @ 9 => RightsView<'m>,
}

rt::record_view! {
    CapabilityFaultBadExtent => CapabilityFaultBadExtentView<'m>, inline 24 / 8;
    /// What was asked for.
    extent @ 0 => ExtentView<'m>,
    /// How many bytes there are.
    available_bytes @ 16 => u64,
}

rt::record_view! {
    CapabilityFaultUnaligned => CapabilityFaultUnalignedView<'m>, inline 24 / 8;
    /// What was asked for.
    extent @ 0 => ExtentView<'m>,
    /// What both must be a multiple of, in bytes.
    unit_bytes @ 16 => u64,
}

rt::record_view! {
    CapabilityFaultNotReachable => CapabilityFaultNotReachableView<'m>, inline 16 / 8;
    /// Of which region.
    region @ 0 => RegionIdView<'m>,
    /// Who asked.
    from @ 8 => rt::Domain,
}

rt::record_view! {
    CapabilityFaultMapped => CapabilityFaultMappedView<'m>, inline 16 / 8;
    /// `region`.
    region @ 0 => RegionIdView<'m>,
    /// How often.
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
    /// Where its bytes are.
    backing @ 8 => Backing,
}

rt::record_view! {
    CapabilityFaultStillHeld => CapabilityFaultStillHeldView<'m>, inline 16 / 8;
    /// `capability`.
    capability @ 0 => CapabilityIdView<'m>,
    /// Who; the first of them.
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
    /// Who did not grant it.
    domain @ 8 => rt::Domain,
}

rt::owned_union! {
    /// Why something about capabilities could not be done. Nothing has changed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum CapabilityFault => 'm CapabilityFaultView<'m>;
    /// It is not, or not any more.
    1 => Gone {
        record: CapabilityFaultGoneView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// It is another domain's.
    2 => NotYours {
        record: CapabilityFaultNotYoursView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// It is being revoked.
    3 => Revoked {
        record: CapabilityFaultRevokedView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// It does not give the right.
    4 => Lacks {
        record: CapabilityFaultLacksView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// What is needed.
        needed @ 8: crate::Rights => RightsView<'m>,
        /// What it gives.
        given @ 9: crate::Rights => RightsView<'m>,
    },
    /// A part that does not lie inside, or is empty.
    5 => BadExtent {
        record: CapabilityFaultBadExtentView<'m>, inline 24;
        /// What was asked for.
        extent @ 0: crate::Extent => ExtentView<'m>,
        /// How many bytes there are.
        available_bytes @ 16: u64 => u64,
    },
    /// A part that does not begin and end between pages.
    6 => Unaligned {
        record: CapabilityFaultUnalignedView<'m>, inline 24;
        /// What was asked for.
        extent @ 0: crate::Extent => ExtentView<'m>,
        /// What both must be a multiple of, in bytes.
        unit_bytes @ 16: u64 => u64,
    },
    /// The bytes cannot be reached from there.
    7 => NotReachable {
        record: CapabilityFaultNotReachableView<'m>, inline 16;
        /// Of which region.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// Who asked.
        from @ 8: rt::DomainId => rt::Domain,
    },
    /// It is mapped.
    8 => Mapped {
        record: CapabilityFaultMappedView<'m>, inline 16;
        /// `region`.
        region @ 0: crate::RegionId => RegionIdView<'m>,
        /// How often.
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
        /// Where its bytes are.
        backing @ 8: Backing => Backing,
    },
    /// It is revoked, but some have not let go of the memory.
    11 => StillHeld {
        record: CapabilityFaultStillHeldView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Who; the first of them.
        holders @ 8: rt::Vec<rt::DomainId> => rt::List<'m, rt::Domain, 256>,
    },
    /// Its holder has taken it up already, or made it itself.
    12 => TakenUp {
        record: CapabilityFaultTakenUpView<'m>, inline 8;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
    },
    /// It was granted by somebody else.
    13 => NotFrom {
        record: CapabilityFaultNotFromView<'m>, inline 16;
        /// `capability`.
        capability @ 0: crate::CapabilityId => CapabilityIdView<'m>,
        /// Who did not grant it.
        domain @ 8: rt::DomainId => rt::Domain,
    },
}
