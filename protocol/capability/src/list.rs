//! Queries of the table.

use core::ops::Bound;

use tombolo_base::{ChannelId, DomainId};

use crate::record::{CapabilityRecord, Memory, RegionRecord};
use crate::table::Table;
use crate::{CapabilityFault, CapabilityId, CapabilityInfo, RegionId, RegionInfo};

impl CapabilityRecord {
    pub(crate) fn info(&self, id: CapabilityId) -> CapabilityInfo {
        let CapabilityRecord { region, extent, kind, rights, holder, parent, revoked, in_transit, .. } =
            *self;
        let granter = in_transit.map(|transit| transit.granter);
        CapabilityInfo { id, region, extent, rights, holder, parent, revoked, granter, kind }
    }
}

impl RegionRecord {
    fn info(&self, id: RegionId) -> RegionInfo {
        RegionInfo {
            id,
            backing: self.memory.backing(),
            length_bytes: self.length_bytes,
            maker: self.maker,
            seal: self.seal,
            capabilities: self.capabilities.len() as u32,
            mappings: self.mappings.len() as u32,
        }
    }
}

impl Table {
    /// Returns a capability that `by` holds, its region, and the location of its bytes.
    ///
    /// # Errors
    /// It is gone, held by another domain, or being revoked.
    pub fn show(
        &self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<(CapabilityInfo, RegionInfo, Memory), CapabilityFault> {
        let record = self.usable_record(by, capability)?;
        let region = self.regions.get(&record.region).ok_or(CapabilityFault::Gone { capability })?;
        Ok((record.info(capability), region.info(record.region), region.memory))
    }

    /// Returns the capabilities that a domain holds with numbers above `after`, in order.
    pub fn held_by(&self, domain: DomainId, after: CapabilityId) -> impl Iterator<Item = CapabilityInfo> {
        let of = (Bound::Excluded((domain, after)), Bound::Included((domain, CapabilityId(u64::MAX))));
        self.held.range(of).filter_map(|(_, id)| Some(self.capabilities.get(id)?.info(*id)))
    }

    /// Returns the capabilities to a region with numbers above `after`, in order, for all holders.
    pub fn capabilities_to(
        &self,
        region: RegionId,
        after: CapabilityId,
    ) -> impl Iterator<Item = CapabilityInfo> {
        let all = self.regions.get(&region).into_iter().flat_map(|region| &region.capabilities);
        let listed = all.copied().filter(move |id| *id > after);
        listed.filter_map(|id| Some(self.capabilities.get(&id)?.info(id)))
    }

    /// Returns the regions whose id bits are above `after`, in order.
    pub fn regions(&self, after: u64) -> impl Iterator<Item = RegionInfo> {
        let listed = self.regions.iter().filter(move |(id, _)| id.to_bits() > after);
        listed.map(|(id, region)| region.info(*id))
    }

    /// Returns the number and total size in bytes of existing regions that a domain created, without memory
    /// that it had before registering it.
    #[must_use]
    pub fn regions_of(&self, maker: DomainId) -> (usize, u64) {
        let created = self.regions.values().filter(|region| region.maker == maker);
        created.fold((0, 0), |(count, bytes), region| match region.memory {
            Memory::Kernel { .. } | Memory::Window { .. } => (count + 1, bytes + region.length_bytes),
            Memory::File | Memory::Foreign { .. } | Memory::Service => (count + 1, bytes),
        })
    }

    /// Returns the number of existing capabilities that a domain created, for all holders.
    #[must_use]
    pub fn capabilities_of(&self, maker: DomainId) -> usize {
        self.charges.get(&maker).copied().unwrap_or(0)
    }

    /// Returns the number of mappings of all regions.
    #[must_use]
    pub fn mappings(&self) -> usize {
        self.mappings.len()
    }

    /// Returns the number of mappings of a domain.
    #[must_use]
    pub fn mappings_of(&self, domain: DomainId) -> usize {
        self.mappings.values().filter(|record| record.holder == domain).count()
    }

    /// Whether a mapping is in the table.
    #[must_use]
    pub fn is_mapped(&self, mapping: ChannelId) -> bool {
        self.mappings.contains_key(&mapping)
    }

    /// Returns the sizes of all tables, by content, for leak checks. They must return to their initial values
    /// once all domains are gone.
    #[must_use]
    pub fn resource_counts(&self) -> [(&'static str, usize); 6] {
        [
            ("regions", self.regions.len()),
            ("capabilities", self.capabilities.len()),
            ("mappings", self.mappings.len()),
            ("revocations", self.revocations.len()),
            ("actions of regions", self.actions.len()),
            ("parts of regions", self.parts.len()),
        ]
    }
}
