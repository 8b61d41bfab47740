//! Capability table, and the operations of domains on it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use tombolo_base::{ChannelId, DomainId, NodeId};

use crate::record::{
    CapabilityRecord, InTransit, Mappable, MappingRecord, Memory, NewRegion, PartId, PartRecord, Recipient,
    RegionRecord,
};
use crate::revoke::{Operation, Revocation, RevocationTimeouts, Revoked};
use crate::{Backing, CapabilityFault, CapabilityId, CapabilityInfo, Extent, Kind, RegionId, Rights, Seal};

/// Point in time, in nanoseconds from an arbitrary origin.
pub type Nanos = u64;

/// Action that the caller must perform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableAction {
    /// Ask the agent of a node to have a mapping removed.
    RequestUnmap {
        /// Node of the mapping.
        node: NodeId,
        /// Mapping to remove.
        mapping: ChannelId,
    },
    /// Kill a domain that did not unmap in time, if it can be killed.
    Kill {
        /// Domain to kill.
        domain: DomainId,
    },
    /// Answer the requester of a revocation.
    Answer {
        /// Id of the revocation.
        operation: Operation,
        /// Result of the revocation.
        outcome: Result<Revoked, CapabilityFault>,
    },
    /// Reuse the memory of a region, which no domain can reach any more.
    Freed {
        /// Region that was freed.
        region: RegionId,
        /// Location of its bytes.
        memory: Memory,
        /// Length in bytes.
        length_bytes: u64,
    },
}

/// Regions of a machine, the capabilities to them, and their mappings.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Table {
    pub(crate) regions: BTreeMap<RegionId, RegionRecord>,
    pub(crate) capabilities: BTreeMap<CapabilityId, CapabilityRecord>,
    /// Pairs of a capability and one derived from it.
    pub(crate) children: BTreeSet<(CapabilityId, CapabilityId)>,
    /// Pairs of a holder and a capability it holds.
    pub(crate) held: BTreeSet<(DomainId, CapabilityId)>,
    /// Number of existing capabilities that each domain created.
    pub(crate) charges: BTreeMap<DomainId, usize>,
    pub(crate) mappings: BTreeMap<ChannelId, MappingRecord>,
    /// Pairs of a capability and a mapping made with it.
    pub(crate) mapped: BTreeSet<(CapabilityId, ChannelId)>,
    pub(crate) parts: BTreeMap<PartId, PartRecord>,
    /// Parts by their region, the part that they were split from, and their offset.
    pub(crate) split: BTreeMap<(RegionId, Option<PartId>, u64), PartId>,
    pub(crate) revocations: BTreeMap<Operation, Revocation>,
    pub(crate) timeouts: RevocationTimeouts,
    pub(crate) last_region: u32,
    pub(crate) last_capability: u64,
    pub(crate) last_operation: u64,
    pub(crate) last_part: u64,
    pub(crate) actions: Vec<TableAction>,
}

/// Excludes the pending consequences, which a caller takes before comparing states.
impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.regions, &self.capabilities, &self.mappings, &self.parts, &self.revocations).hash(state);
        (self.last_region, self.last_capability, self.last_operation, self.last_part).hash(state);
    }
}

impl Table {
    /// Creates an empty table with these time limits for revocations.
    #[must_use]
    pub fn new(timeouts: RevocationTimeouts) -> Self {
        Table { timeouts, ..Table::default() }
    }

    /// Returns the actions pending since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<TableAction> {
        core::mem::take(&mut self.actions)
    }

    /// Returns the id for the next region of a node, never reused; `None` if ids are exhausted.
    pub fn new_region_id(&mut self, node: NodeId, generation: core::num::NonZeroU16) -> Option<RegionId> {
        self.last_region = self.last_region.checked_add(1)?;
        Some(RegionId::new(node, generation, self.last_region))
    }

    /// Adds a region with this id, and a capability to all of it for its creator.
    pub fn create(&mut self, id: RegionId, new: NewRegion) -> CapabilityInfo {
        self.create_with(id, new, Rights::ALL)
    }

    /// Like [`create`](Self::create) with limited rights, for memory that cannot be written.
    pub fn create_with(&mut self, id: RegionId, new: NewRegion, rights: Rights) -> CapabilityInfo {
        let NewRegion { maker, memory, length_bytes, unit_bytes, .. } = new;
        let kind = if memory == Memory::Service { Kind::Service } else { Kind::Memory };
        self.regions.insert(
            id,
            RegionRecord {
                maker,
                memory,
                length_bytes,
                unit_bytes,
                seal: Seal::Open,
                sealing: None,
                capabilities: BTreeSet::new(),
                mappings: BTreeSet::new(),
            },
        );
        self.insert(CapabilityRecord {
            region: id,
            extent: Extent::new(0, length_bytes),
            kind,
            part: None,
            rights,
            holder: maker,
            charged: maker,
            parent: None,
            revoked: false,
            in_transit: None,
        })
    }

    pub(crate) fn insert(&mut self, record: CapabilityRecord) -> CapabilityInfo {
        self.last_capability += 1;
        let id = CapabilityId(self.last_capability);
        if let Some(parent) = record.parent {
            self.children.insert((parent, id));
        }
        self.held.insert((record.holder, id));
        self.acquire_part(record.part);
        *self.charges.entry(record.charged).or_default() += 1;
        if let Some(region) = self.regions.get_mut(&record.region) {
            region.capabilities.insert(id);
        }
        self.capabilities.insert(id, record);
        record.info(id)
    }

    /// Returns a capability that `by` holds and that is not being revoked.
    pub(crate) fn usable_record(
        &self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<&CapabilityRecord, CapabilityFault> {
        let record = self.capabilities.get(&capability).ok_or(CapabilityFault::Gone { capability })?;
        if record.holder != by {
            return Err(CapabilityFault::NotYours { capability });
        }
        if record.revoked {
            return Err(CapabilityFault::Revoked { capability });
        }
        Ok(record)
    }

    pub(crate) fn record_with_rights(
        &self,
        by: DomainId,
        capability: CapabilityId,
        needed: Rights,
    ) -> Result<&CapabilityRecord, CapabilityFault> {
        let record = self.usable_record(by, capability)?;
        if !record.rights.contains(needed) && !tombolo_base::canary!("table lets rights grow") {
            return Err(CapabilityFault::Lacks { capability, needed, given: record.rights });
        }
        Ok(record)
    }

    /// Derives a capability from one that `by` holds: to a part of its bytes, relative to their start, with a
    /// subset of its rights. Another holder requires the right to grant; the new capability is then in
    /// transit, over a channel if one is given, until it is [accepted](Self::accept).
    ///
    /// # Errors
    /// The capability does not permit it. Nothing has changed.
    pub fn derive(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        extent: Option<Extent>,
        rights: Rights,
        to: impl Into<Recipient>,
    ) -> Result<CapabilityInfo, CapabilityFault> {
        let Recipient { holder, channel } = to.into();
        let to_grant = if holder == by { Rights::NONE } else { Rights::GRANT };
        let record = *self.record_with_rights(by, capability, rights | to_grant)?;
        let part = match extent {
            None => record.extent,
            Some(_) if tombolo_base::canary!("table narrows no part") => record.extent,
            Some(extent) => self.part_of(&record, extent)?,
        };
        Ok(self.insert(CapabilityRecord {
            extent: part,
            rights,
            holder,
            charged: by,
            parent: Some(capability),
            in_transit: InTransit::of(by, Recipient { holder, channel }),
            ..record
        }))
    }

    pub(crate) fn part_of(
        &self,
        record: &CapabilityRecord,
        extent: Extent,
    ) -> Result<Extent, CapabilityFault> {
        let available_bytes = record.extent.length_bytes;
        let bad = CapabilityFault::BadExtent { extent, available_bytes };
        let part = record.extent.part(extent).ok_or(bad)?;
        let (unit_bytes, all_bytes) = self
            .regions
            .get(&record.region)
            .map_or((1, 0), |region| (region.unit_bytes, region.length_bytes));
        let at_end = part.end_bytes() == Some(all_bytes);
        if !part.offset_bytes.is_multiple_of(unit_bytes)
            || !(at_end || part.length_bytes.is_multiple_of(unit_bytes))
        {
            return Err(CapabilityFault::Unaligned { extent, unit_bytes });
        }
        Ok(part)
    }

    /// Transfers a capability to another holder. Capabilities derived from it remain, and the old holder's
    /// mappings are removed. It is in transit until it is [accepted](Self::accept).
    ///
    /// # Errors
    /// The capability does not permit it. Nothing has changed.
    pub fn give(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        to: impl Into<Recipient>,
    ) -> Result<CapabilityInfo, CapabilityFault> {
        self.record_with_rights(by, capability, Rights::GRANT)?;
        let Recipient { holder, channel } = to.into();
        let in_transit = InTransit::of(by, Recipient { holder, channel });
        self.set_holder(capability, holder, in_transit)
    }

    pub(crate) fn set_holder(
        &mut self,
        capability: CapabilityId,
        to: DomainId,
        in_transit: Option<InTransit>,
    ) -> Result<CapabilityInfo, CapabilityFault> {
        if self.capabilities.get(&capability).is_some_and(|record| record.holder != to) {
            self.unmap_for_holder(capability);
        }
        let record = self.capabilities.get_mut(&capability).ok_or(CapabilityFault::Gone { capability })?;
        self.held.remove(&(record.holder, capability));
        self.held.insert((to, capability));
        (record.holder, record.in_transit) = (to, in_transit);
        Ok(record.info(capability))
    }

    /// Removes the holder's mappings made with a capability that it is about to lose.
    pub(crate) fn unmap_for_holder(&mut self, capability: CapabilityId) {
        let mappings: Vec<ChannelId> = self.mapped_by(capability).collect();
        for mapping in mappings {
            self.request_unmap(mapping);
            if let Some(mapping) = self.mappings.get_mut(&mapping) {
                mapping.orphan = true;
            }
        }
    }

    pub(crate) fn mapped_by(&self, capability: CapabilityId) -> impl Iterator<Item = ChannelId> {
        let of = (capability, ChannelId(0))..=(capability, ChannelId(u64::MAX));
        self.mapped.range(of).map(|(_, mapping)| *mapping)
    }

    pub(crate) fn children_of(&self, capability: CapabilityId) -> impl Iterator<Item = CapabilityId> {
        let of = (capability, CapabilityId(0))..=(capability, CapabilityId(u64::MAX));
        self.children.range(of).map(|(_, child)| *child)
    }

    /// Deletes a capability and the holder's mappings made with it. Capabilities derived from it become
    /// children of its parent.
    ///
    /// # Errors
    /// The capability does not permit it. Nothing has changed.
    pub fn delete(&mut self, by: DomainId, capability: CapabilityId) -> Result<(), CapabilityFault> {
        let region = self.usable_record(by, capability)?.region;
        self.unmap_for_holder(capability);
        self.remove(capability);
        self.free_if_unused(region);
        Ok(())
    }

    /// Removes a capability. Its children and mappings pass to its parent.
    pub(crate) fn remove(&mut self, capability: CapabilityId) {
        let Some(record) = self.capabilities.remove(&capability) else { return };
        self.held.remove(&(record.holder, capability));
        if let Some(charge) = self.charges.get_mut(&record.charged) {
            *charge -= 1;
            if *charge == 0 {
                self.charges.remove(&record.charged);
            }
        }
        if let Some(region) = self.regions.get_mut(&record.region) {
            region.capabilities.remove(&capability);
        }
        if let Some(parent) = record.parent {
            self.children.remove(&(parent, capability));
        }
        let children: Vec<CapabilityId> = self.children_of(capability).collect();
        for child in children {
            self.children.remove(&(capability, child));
            if let Some(child) = self.capabilities.get_mut(&child) {
                child.parent = record.parent;
            }
            self.children.extend(record.parent.map(|parent| (parent, child)));
        }
        let mappings: Vec<ChannelId> = self.mapped_by(capability).collect();
        for mapping in mappings {
            self.mapped.remove(&(capability, mapping));
            self.mapped.extend(record.parent.map(|parent| (parent, mapping)));
            if let Some(mapping) = self.mappings.get_mut(&mapping) {
                (mapping.by, mapping.orphan) = (record.parent, true);
            }
        }
        self.release_part(record.part);
    }

    pub(crate) fn free_if_unused(&mut self, id: RegionId) {
        let unmapped = |region: &RegionRecord| {
            region.mappings.is_empty() || tombolo_base::canary!("table frees what is mapped")
        };
        let unused = |region: &RegionRecord| region.capabilities.is_empty() && unmapped(region);
        if self.regions.get(&id).is_some_and(unused)
            && let Some(region) = self.regions.remove(&id)
        {
            let RegionRecord { memory, length_bytes, .. } = region;
            self.actions.push(TableAction::Freed { region: id, memory, length_bytes });
        }
    }

    /// Returns the parameters for mapping a capability, for reading or for reading and writing, with `pool`
    /// as the buffers of a pool. `reaches` returns whether its holder can reach the memory of a region.
    ///
    /// # Errors
    /// The capability does not permit it. Nothing has changed.
    pub fn mappable(
        &self,
        by: DomainId,
        capability: CapabilityId,
        rights: Rights,
        pool: bool,
        reaches: impl FnOnce(RegionId, Memory) -> bool,
    ) -> Result<Mappable, CapabilityFault> {
        let rights = Rights::READ | (rights & Rights::WRITE);
        let record = self.record_with_rights(by, capability, rights)?;
        match (record.kind, pool) {
            (Kind::Pool, false) => {
                return Err(CapabilityFault::WrongKind { capability, kind: Kind::Pool, needed: Kind::Frame });
            }
            (kind @ (Kind::Frame | Kind::Service), true) => {
                return Err(CapabilityFault::WrongKind { capability, kind, needed: Kind::Pool });
            }
            _ => self.check_not_split(record.region, record.part, record.extent)?,
        }
        let region = self.regions.get(&record.region).ok_or(CapabilityFault::Gone { capability })?;
        let seal = region.sealing.unwrap_or(region.seal);
        if rights.contains(Rights::WRITE) && seal != Seal::Open {
            return Err(CapabilityFault::Sealed { region: record.region, seal });
        }
        if !reaches(record.region, region.memory) {
            return Err(CapabilityFault::NotReachable { region: record.region, from: by });
        }
        Ok(Mappable { region: record.region, extent: record.extent, rights, memory: region.memory })
    }

    /// Records a mapping by the holder of a capability, under a number that is never reused.
    pub fn map(&mut self, capability: CapabilityId, mappable: &Mappable, mapping: ChannelId) {
        let Some(record) = self.capabilities.get(&capability).copied() else { return };
        let forgotten = tombolo_base::canary!("table gives a part back while it is mapped");
        let part = record.part.filter(|_| !forgotten);
        self.mappings.insert(
            mapping,
            MappingRecord {
                region: mappable.region,
                extent: record.extent,
                part,
                holder: record.holder,
                writable: mappable.rights.contains(Rights::WRITE),
                by: Some(capability),
                orphan: false,
                unmap_requested: false,
            },
        );
        self.acquire_part(part);
        self.mapped.insert((capability, mapping));
        if let Some(region) = self.regions.get_mut(&mappable.region) {
            region.mappings.insert(mapping);
        }
    }

    /// Starts to seal the region of a capability; [`complete_seal`](Self::complete_seal) must follow. From
    /// now on it cannot be mapped for writing.
    ///
    /// # Errors
    /// [`CapabilityFault::Mapped`] when a domain has a writable mapping that the seal forbids. Nothing has
    /// changed.
    pub fn seal(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        seal: Seal,
    ) -> Result<RegionId, CapabilityFault> {
        let record = self.record_with_rights(by, capability, Rights::WRITE)?;
        let (id, extent) = (record.region, record.extent);
        self.check_not_split(id, None, extent)?;
        let region = self.regions.get(&id).ok_or(CapabilityFault::Gone { capability })?;
        if region.memory.backing() != Backing::Memory {
            return Err(CapabilityFault::CannotSeal { region: id, backing: region.memory.backing() });
        }
        if extent.length_bytes != region.length_bytes {
            return Err(CapabilityFault::BadExtent { extent, available_bytes: region.length_bytes });
        }
        if let Some(seal) = region.sealing {
            return Err(CapabilityFault::Sealed { region: id, seal });
        }
        if region.seal == Seal::Frozen {
            return Err(CapabilityFault::Sealed { region: id, seal: region.seal });
        }
        let writes = |mapping: &&ChannelId| self.mappings.get(mapping).is_some_and(|record| record.writable);
        let own = |mapping: &&ChannelId| self.mappings.get(mapping).is_some_and(|record| record.holder == by);
        let writable = region.mappings.iter().filter(writes);
        let conflicting = match seal {
            Seal::Open => 0,
            Seal::SoleWriter => writable.filter(|mapping| !own(mapping)).count(),
            Seal::Frozen => writable.count(),
        };
        if conflicting > 0 {
            return Err(CapabilityFault::Mapped { region: id, mappings: conflicting as u32 });
        }
        if let Some(region) = self.regions.get_mut(&id) {
            region.sealing = Some(seal);
        }
        Ok(id)
    }

    /// Records whether the kernel of a region applied the requested seal.
    pub fn complete_seal(&mut self, region: RegionId, done: bool) {
        if let Some(region) = self.regions.get_mut(&region)
            && let Some(seal) = region.sealing.take()
            && done
        {
            region.seal = seal;
        }
    }
}
