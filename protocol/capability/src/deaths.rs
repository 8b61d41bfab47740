//! Unmapping, and deaths of domains and nodes.

use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};

use crate::record::Memory;
use crate::table::{Table, TableAction};
use crate::{CapabilityId, RegionId};

/// Region in a window, and its mappings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowRegion {
    /// Offset of the region in the window, in bytes.
    pub offset_bytes: u64,
    /// Length of the region, in bytes.
    pub length_bytes: u64,
    /// Mappings of the region, with the nodes of their holders.
    pub mappings: Vec<(NodeId, ChannelId)>,
}

impl Table {
    /// Handles a report of a node's agent that a mapping there is gone: its domain unmapped it or is dead.
    /// Returns false for an unknown mapping, or one on another node.
    pub fn mapping_released(&mut self, node: NodeId, mapping: ChannelId) -> bool {
        let is_known = self.mappings.get(&mapping).is_some_and(|record| record.holder.node() == node);
        if is_known {
            self.unmap(mapping);
            self.commit_ready();
        }
        is_known
    }

    fn unmap(&mut self, mapping: ChannelId) {
        let Some(record) = self.mappings.remove(&mapping) else { return };
        if let Some(by) = record.by {
            self.mapped.remove(&(by, mapping));
        }
        if let Some(region) = self.regions.get_mut(&record.region) {
            region.mappings.remove(&mapping);
        }
        self.release_part(record.part);
        for revocation in self.revocations.values_mut() {
            revocation.pending.remove(&mapping);
        }
        self.free_if_unused(record.region);
    }

    pub(crate) fn request_unmap(&mut self, mapping: ChannelId) {
        if let Some(record) = self.mappings.get_mut(&mapping)
            && !record.unmap_requested
        {
            record.unmap_requested = true;
            if tombolo_base::canary!("table hangs up no mapping") {
                return;
            }
            let node = record.holder.node();
            self.actions.push(TableAction::RequestUnmap { node, mapping });
        }
    }

    /// Removes everything held by a domain that is no longer known. That is no evidence that its mappings are
    /// gone: its process may be alive, if it was not started by the monitor. It is asked to unmap.
    pub fn domain_ended(&mut self, domain: DomainId) {
        let of = (domain, CapabilityId(0))..=(domain, CapabilityId(u64::MAX));
        let held: Vec<CapabilityId> = self.held.range(of).map(|(_, capability)| *capability).collect();
        for capability in held {
            let region = self.capabilities.get(&capability).map(|record| record.region);
            self.unmap_for_holder(capability);
            self.remove(capability);
            region.inspect(|region| self.free_if_unused(*region));
        }
        self.commit_ready();
    }

    /// Handles the death of a node: nothing is mapped there any more, and its own memory is gone. Domains
    /// that have mapped it are notified; the memory behind their mappings is not reused.
    pub fn node_lost(&mut self, node: NodeId) {
        let is_on_node = |holder: DomainId| holder.node() == node;
        let mappings: Vec<ChannelId> = self
            .mappings
            .iter()
            .filter(|(_, record)| is_on_node(record.holder))
            .map(|(mapping, _)| *mapping)
            .collect();
        mappings.into_iter().for_each(|mapping| self.unmap(mapping));
        let regions: Vec<RegionId> = self.regions.keys().copied().filter(|id| id.node() == node).collect();
        regions.into_iter().for_each(|region| self.region_lost(region));
        self.commit_ready();
    }

    /// Returns the regions in a window.
    #[must_use]
    pub fn regions_in_window(&self, id: WindowId) -> Vec<WindowRegion> {
        let holder = |mapping: &ChannelId| Some((self.mappings.get(mapping)?.holder.node(), *mapping));
        let located = self.regions.values().filter_map(|region| match region.memory {
            Memory::Window { window, offset_bytes } if window == id => Some((offset_bytes, region)),
            _ => None,
        });
        located
            .map(|(offset_bytes, region)| WindowRegion {
                offset_bytes,
                length_bytes: region.length_bytes,
                mappings: region.mappings.iter().filter_map(holder).collect(),
            })
            .collect()
    }

    pub(crate) fn region_lost(&mut self, id: RegionId) {
        let Some(region) = self.regions.get(&id) else { return };
        let mappings: Vec<ChannelId> = region.mappings.iter().copied().collect();
        let capabilities: Vec<CapabilityId> = region.capabilities.iter().copied().collect();
        for mapping in mappings {
            self.request_unmap(mapping);
            self.unmap(mapping);
        }
        for capability in capabilities {
            self.remove(capability);
        }
        self.free_if_unused(id);
    }

    /// Removes regions of memory that a domain had before registering it, which is gone with the domain, and
    /// its services. Call after [`domain_ended`](Self::domain_ended).
    pub fn foreign_lost(&mut self, maker: DomainId) {
        let regions: Vec<RegionId> = self
            .regions
            .iter()
            .filter(|(_, region)| {
                region.maker == maker && matches!(region.memory, Memory::Foreign { .. } | Memory::Service)
            })
            .map(|(id, _)| *id)
            .collect();
        regions.into_iter().for_each(|region| self.region_lost(region));
        self.commit_ready();
    }
}
