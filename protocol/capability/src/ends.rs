//! What lets go, and what dies.

use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId, NodeId};

use crate::record::Memory;
use crate::table::{Consequence, Table};
use crate::{CapabilityId, RegionId};

impl Table {
    /// The agent of a node says that a mapping there is gone: its domain let go or is dead. False for one that is not, or
    /// is on another node.
    pub fn released(&mut self, node: NodeId, mapping: ChannelId) -> bool {
        let there = self.mappings.get(&mapping).is_some_and(|record| record.holder.node() == node);
        if there {
            self.unmap(mapping);
            self.commit_what_can_be();
        }
        there
    }

    fn unmap(&mut self, mapping: ChannelId) {
        let Some(record) = self.mappings.remove(&mapping) else { return };
        if let Some(by) = record.by {
            self.mapped.remove(&(by, mapping));
        }
        if let Some(region) = self.regions.get_mut(&record.region) {
            region.mappings.remove(&mapping);
        }
        for revocation in self.revocations.values_mut() {
            revocation.pending.remove(&mapping);
        }
        self.free_if_unused(record.region);
    }

    pub(crate) fn hang_up(&mut self, mapping: ChannelId) {
        if let Some(record) = self.mappings.get_mut(&mapping)
            && !record.hung_up
        {
            record.hung_up = true;
            if tombolo_base::canary!("table tells nobody to let go") {
                return;
            }
            let node = record.holder.node();
            self.consequences.push(Consequence::HangUp { node, mapping });
        }
    }

    /// A domain is known no more: what it held vanishes. That nothing of it is mapped any more is not known by that: its
    /// process may live on, as one does that came by itself. It is told to let go.
    pub fn domain_ended(&mut self, domain: DomainId) {
        let of = (domain, CapabilityId(0))..=(domain, CapabilityId(u64::MAX));
        let held: Vec<CapabilityId> = self.held.range(of).map(|(_, capability)| *capability).collect();
        for capability in held {
            let region = self.capabilities.get(&capability).map(|record| record.region);
            self.unmap_own(capability);
            self.remove(capability);
            region.inspect(|region| self.free_if_unused(*region));
        }
        self.commit_what_can_be();
    }

    /// A node is dead: nothing is mapped there any more, and the memory that was its own is gone, whoever else had it
    /// mapped. They are told; their part of it is nobody's and will be nobody else's.
    pub fn node_lost(&mut self, node: NodeId) {
        let there = |holder: DomainId| holder.node() == node;
        let mappings: Vec<ChannelId> = self
            .mappings
            .iter()
            .filter(|(_, record)| there(record.holder))
            .map(|(mapping, _)| *mapping)
            .collect();
        mappings.into_iter().for_each(|mapping| self.unmap(mapping));
        let regions: Vec<RegionId> = self.regions.keys().copied().filter(|id| id.node() == node).collect();
        regions.into_iter().for_each(|region| self.region_lost(region));
        self.commit_what_can_be();
    }

    fn region_lost(&mut self, id: RegionId) {
        let Some(region) = self.regions.get(&id) else { return };
        let mappings: Vec<ChannelId> = region.mappings.iter().copied().collect();
        let capabilities: Vec<CapabilityId> = region.capabilities.iter().copied().collect();
        for mapping in mappings {
            self.hang_up(mapping);
            self.unmap(mapping);
        }
        for capability in capabilities {
            self.remove(capability);
        }
        self.free_if_unused(id);
    }

    /// The memory that a domain had before it was registered is gone with the domain: regions of it are, too. To be told
    /// after [`domain_ended`](Self::domain_ended).
    pub fn foreign_lost(&mut self, maker: DomainId) {
        let theirs: Vec<RegionId> = self
            .regions
            .iter()
            .filter(|(_, region)| region.maker == maker && matches!(region.memory, Memory::Foreign { .. }))
            .map(|(id, _)| *id)
            .collect();
        theirs.into_iter().for_each(|region| self.region_lost(region));
        self.commit_what_can_be();
    }
}
