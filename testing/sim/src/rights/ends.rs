//! Ends of domains, losses of nodes and memory, and reuse of memory afterwards.

use tombolo_base::DomainId;
use tombolo_capability::{Backing, CapabilityId, RegionId};
use tombolo_monitor_core::root::ClientId;

use super::{Granted, Region, RightsModel, queue_hang_up};
use crate::maps::Mapped;

impl RightsModel {
    /// Removes an ended domain: deletes its capabilities and its foreign regions.
    pub fn domain_ended(&mut self, domain: DomainId) {
        self.gifts.remove(&domain);
        let held: Vec<CapabilityId> = self
            .capabilities
            .iter()
            .filter(|(_, record)| record.holder == domain)
            .map(|(id, _)| *id)
            .collect();
        held.into_iter().for_each(|capability| self.delete(capability));
        let foreign = |region: &Region| region.maker == domain && region.backing == Backing::Foreign;
        let lost: Vec<RegionId> =
            self.regions.iter().filter(|(_, region)| foreign(region)).map(|(id, _)| *id).collect();
        lost.into_iter().for_each(|region| self.region_lost(region));
        self.complete_what_can_be();
    }

    /// Removes a lost node with its mappings and its regions.
    pub fn node_lost(&mut self, node: u16) {
        let there = |granted: &Granted| granted.holder.node().0 == node;
        let gone: Vec<u64> =
            self.granted.iter().filter(|(_, granted)| there(granted)).map(|(number, _)| *number).collect();
        for number in gone {
            if let Some(mapped) = self.maps.mapped_as(number).copied() {
                self.fail(format!(
                    "node {node} is lost, and a process there has something mapped: {mapped:?}"
                ));
            }
            self.remove_mapping(number);
        }
        let lost: Vec<RegionId> =
            self.regions.keys().copied().filter(|region| region.node().0 == node).collect();
        lost.into_iter().for_each(|region| self.region_lost(region));
        self.complete_what_can_be();
    }

    /// Removes a lost region. Its memory is never used again, so processes may still have it mapped.
    pub(super) fn region_lost(&mut self, region: RegionId) {
        self.regions.remove(&region);
        self.capabilities.retain(|_, record| record.region != region);
        self.drop_unused_parts();
        let gone: Vec<u64> = self
            .granted
            .iter()
            .filter(|(_, granted)| granted.region == region)
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            if let Some(granted) = self.granted.get_mut(&number) {
                queue_hang_up(&mut self.hang_ups, number, granted);
            }
            self.revocations.iter_mut().for_each(|open| {
                open.mapped.remove(&number);
            });
            self.remove_mapping(number);
        }
    }

    /// Removes a disconnected client, which no longer expects replies.
    pub fn client_disconnected(&mut self, client: ClientId) {
        self.expected.retain(|(of, _), _| *of != client);
        for revocation in &mut self.revocations {
            revocation.asked.take_if(|(of, _)| *of == client);
        }
        self.revocations.retain(|open| !open.complete || open.asked.is_some());
    }

    /// Records the result of a seal by the agent.
    pub fn on_region_sealed(&mut self, region: RegionId, done: bool) {
        if let Some(region) = self.regions.get_mut(&region)
            && let Some(seal) = region.sealing.take()
            && done
        {
            region.seal = seal;
        }
    }

    /// Checks that a region is not mapped for writing when its kernel freezes it.
    pub fn on_region_frozen(&mut self, region: RegionId) {
        let writable = self.maps.of(region).find(|mapped| mapped.writable).copied();
        if let Some(mapped) = writable {
            self.fail(format!("region {region} is frozen while it is mapped for writing: {mapped:?}"));
        }
    }

    /// Records that a range of a node's window is cleared before it is lent.
    pub fn on_range_cleared(&mut self, node: u16, generation: u16, first: u64, length_bytes: u64) {
        self.cleared = Some((node, first, length_bytes));
        self.on_range_lent(node, generation, first, length_bytes);
    }

    /// Checks that a range of a node's window is neither mapped nor part of a region when it is lent to a
    /// domain.
    pub fn on_range_lent(&mut self, node: u16, generation: u16, first: u64, length_bytes: u64) {
        let end = first + length_bytes;
        if let Some(mapped) = self.maps.in_window(node, generation, first, end).copied() {
            self.fail(format!(
                "bytes {first}..{end} of node {node}'s window are lent while mapped: {mapped:?}"
            ));
        }
        if let Some(region) = self.region_in(node, generation, first, length_bytes) {
            self.fail(format!(
                "bytes {first}..{end} of node {node}'s window are lent while they are region {region}"
            ));
        }
    }

    /// Finds a region that overlaps a range of a window.
    fn region_in(&self, node: u16, generation: u16, first: u64, length_bytes: u64) -> Option<RegionId> {
        let overlaps = |(id, region): &(&RegionId, &Region)| {
            let there = (id.node().0, id.generation().get()) == (node, generation);
            let begins = region.window_offset_bytes.filter(|_| there);
            begins.is_some_and(|begins| begins < first + length_bytes && first < begins + region.length_bytes)
        };
        self.regions.iter().find(overlaps).map(|(id, _)| *id)
    }

    /// Checks that the memory of a region is unused when its agent is told to free it.
    pub fn on_memory_freed(&mut self, region: RegionId) {
        if self.regions.contains_key(&region) {
            self.fail(format!("the memory of region {region} is freed while a domain has a right to it"));
        }
        let mapped = self.maps.of(region).next().copied();
        if let Some(mapped) = mapped {
            self.fail(format!("the memory of region {region} is let go while it is mapped: {mapped:?}"));
        }
    }

    /// Checks and records a mapping that a process makes.
    pub fn map(&mut self, number: u64, mapped: Mapped) {
        // The root may learn of a lost node or region before the process does.
        let Some(granted) = self.granted.get(&number) else { return };
        let fits = (granted.region, granted.extent, granted.holder)
            == (mapped.region, mapped.extent, mapped.holder)
            && (granted.writable || !mapped.writable);
        if !fits {
            self.fail(format!("{mapped:?} is mapped by right of {:?}", self.granted.get(&number)));
        }
        self.counts.mappings += 1;
        self.check_part_isolation(number, &mapped);
        if !self.maps.map(number, mapped) {
            self.fail(format!("mapping {number} is mapped twice"));
        }
    }
}
