//! Parts: ranges that memory is split into.
//!
//! Parts that are split from the same memory do not overlap. Those of a part of kind [`Kind::Memory`] lie
//! inside it and are split from it, so parts form a tree whose root is the region.
//!
//! **Invariant:** no byte is mapped at the same time through a capability to a part and through one to the
//! memory that the part was split from.
//!
//! A part exists as long as a domain holds a capability to it or has it mapped, or a part of it exists.
//! Afterwards its bytes belong to the memory again.

use alloc::vec::Vec;

use tombolo_base::DomainId;

use crate::record::{CapabilityRecord, MappingRecord, PartId, PartRecord};
use crate::table::Table;
use crate::{Backing, CapabilityFault, CapabilityId, CapabilityInfo, Extent, Kind, RegionId, Rights};

impl Table {
    /// Splits memory into parts of a kind, and gives the holder a capability to each, with the rights of the
    /// split one. Extents are relative to its start. Requires the rights to read and write.
    ///
    /// # Errors
    /// [`CapabilityFault::Split`] with the conflicting part, or [`CapabilityFault::InUse`] with the
    /// conflicting mapping. Nothing has changed.
    pub fn split(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        kind: Kind,
        extents: &[Extent],
    ) -> Result<Vec<CapabilityInfo>, CapabilityFault> {
        let record = *self.record_with_rights(by, capability, Rights::READ_WRITE)?;
        if record.kind != Kind::Memory {
            return Err(CapabilityFault::WrongKind { capability, kind: record.kind, needed: Kind::Memory });
        }
        if kind == Kind::Service {
            return Err(CapabilityFault::WrongKind { capability, kind: Kind::Memory, needed: kind });
        }
        self.check_splittable(record.region)?;
        let mut wanted = Vec::with_capacity(extents.len());
        for extent in extents {
            wanted.push(self.part_of(&record, *extent)?);
        }
        self.check_no_conflict(&record, &wanted, kind)?;
        Ok(wanted.into_iter().map(|extent| self.insert_part(by, capability, record, extent, kind)).collect())
    }

    /// Checks that the memory may be split. Memory that its domain had before is not mapped through the
    /// table, so the table cannot enforce the separation.
    fn check_splittable(&self, region: RegionId) -> Result<(), CapabilityFault> {
        let backing = self.regions.get(&region).map(|record| record.memory.backing());
        match backing {
            Some(Backing::Memory | Backing::Window | Backing::File) => Ok(()),
            backing => {
                Err(CapabilityFault::CannotSplit { region, backing: backing.unwrap_or(Backing::Foreign) })
            }
        }
    }

    /// Checks that parts with these extents overlap neither each other nor existing parts or mappings.
    fn check_no_conflict(
        &self,
        record: &CapabilityRecord,
        wanted: &[Extent],
        kind: Kind,
    ) -> Result<(), CapabilityFault> {
        let region = record.region;
        let mut sorted = wanted.to_vec();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            if pair[0].overlaps(pair[1]) {
                return Err(CapabilityFault::Split { region, extent: pair[1], part: pair[0], kind });
            }
        }
        for extent in sorted {
            self.check_not_split(region, record.part, extent)?;
            if !tombolo_base::canary!("table forgets what is mapped when it splits") {
                self.check_not_mapped(region, record.part, extent)?;
            }
        }
        Ok(())
    }

    /// Checks that no part that was split from `of` has bytes of an extent.
    pub(crate) fn check_not_split(
        &self,
        region: RegionId,
        of: Option<PartId>,
        extent: Extent,
    ) -> Result<(), CapabilityFault> {
        let end_bytes = extent.end_bytes().unwrap_or(u64::MAX);
        // Parts of one memory do not overlap: the last that begins before the end also ends last.
        let last = self.split.range((region, of, 0)..(region, of, end_bytes)).next_back();
        let part = last.and_then(|(_, id)| self.parts.get(id));
        match part.filter(|part| part.extent.overlaps(extent)) {
            Some(part) => Err(CapabilityFault::Split { region, extent, part: part.extent, kind: part.kind }),
            None => Ok(()),
        }
    }

    /// Checks that no domain has bytes of an extent mapped as bytes of `of`.
    fn check_not_mapped(
        &self,
        region: RegionId,
        of: Option<PartId>,
        extent: Extent,
    ) -> Result<(), CapabilityFault> {
        let conflicting = |mapping: &&MappingRecord| mapping.part == of && mapping.extent.overlaps(extent);
        let mappings = self.regions.get(&region).into_iter().flat_map(|region| &region.mappings);
        match mappings.filter_map(|mapping| self.mappings.get(mapping)).find(conflicting) {
            Some(mapping) => {
                let MappingRecord { extent: mapped, holder, .. } = *mapping;
                Err(CapabilityFault::InUse { region, extent, mapped, holder })
            }
            None => Ok(()),
        }
    }

    fn insert_part(
        &mut self,
        by: DomainId,
        parent: CapabilityId,
        record: CapabilityRecord,
        extent: Extent,
        kind: Kind,
    ) -> CapabilityInfo {
        self.last_part += 1;
        let id = PartId(self.last_part);
        let CapabilityRecord { region, part: of, .. } = record;
        self.parts.insert(id, PartRecord { region, extent, kind, of, users: 0 });
        self.split.insert((region, of, extent.offset_bytes), id);
        self.acquire_part(of);
        self.insert(CapabilityRecord {
            extent,
            kind,
            part: Some(id),
            holder: by,
            charged: by,
            parent: Some(parent),
            in_transit: None,
            ..record
        })
    }

    /// Adds a user that keeps a part alive.
    pub(crate) fn acquire_part(&mut self, part: Option<PartId>) {
        if let Some(record) = part.and_then(|part| self.parts.get_mut(&part)) {
            record.users += 1;
        }
    }

    /// Removes a user of a part. Without users the part is removed, and with it possibly the part that it was
    /// split from.
    pub(crate) fn release_part(&mut self, part: Option<PartId>) {
        let mut next = part;
        while let Some(id) = next {
            let Some(record) = self.parts.get_mut(&id) else { return };
            record.users -= 1;
            if record.users > 0 {
                return;
            }
            let PartRecord { region, extent, of, .. } = *record;
            self.parts.remove(&id);
            self.split.remove(&(region, of, extent.offset_bytes));
            next = of;
        }
    }
}
