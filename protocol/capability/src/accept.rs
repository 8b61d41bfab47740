//! Rights that are on their way: granted, and not taken up.
//!
//! A message brings the number of a capability, and any message can bring any number. So that nobody is talked into using a
//! right of its own for somebody else, whoever receives a number says who it came from, and takes up only what that domain
//! granted to it, once.

use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId};

use crate::table::Table;
use crate::{CapabilityFault, CapabilityId, CapabilityInfo};

impl Table {
    /// Its holder takes a capability up that `granter` granted or gave it. Without a `granter` whoever did, and what has been
    /// taken up before too. `whole`: it has to be to all of a region.
    ///
    /// # Errors
    /// [`CapabilityFault::TakenUp`], [`CapabilityFault::NotFrom`], [`CapabilityFault::BadExtent`] for a part; it is gone,
    /// another's or being revoked. Nothing has changed.
    pub fn accept(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        granter: Option<DomainId>,
        whole: bool,
    ) -> Result<(), CapabilityFault> {
        let record = *self.usable(by, capability)?;
        if tombolo_base::canary!("table changes what it refuses")
            && let Some(record) = self.capabilities.get_mut(&capability)
        {
            record.on_its_way = None;
        }
        if let Some(domain) = granter {
            let way = record.on_its_way.ok_or(CapabilityFault::TakenUp { capability })?;
            if way.granter != domain {
                return Err(CapabilityFault::NotFrom { capability, domain });
            }
        }
        let available_bytes = self.regions.get(&record.region).map_or(0, |region| region.length_bytes);
        if whole && record.extent.length_bytes != available_bytes {
            return Err(CapabilityFault::BadExtent { extent: record.extent, available_bytes });
        }
        if let Some(record) = self.capabilities.get_mut(&capability) {
            record.on_its_way = None;
        }
        Ok(())
    }

    /// Who granted or gave a capability takes it back, and holds it from then on.
    ///
    /// # Errors
    /// [`CapabilityFault::TakenUp`] when its holder has it; [`CapabilityFault::NotYours`] when somebody else granted it; it is
    /// gone or being revoked. Nothing has changed.
    pub fn take_back(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<CapabilityInfo, CapabilityFault> {
        let record = self.capabilities.get(&capability).ok_or(CapabilityFault::Gone { capability })?;
        match record.on_its_way {
            None => return Err(CapabilityFault::TakenUp { capability }),
            Some(way) if way.granter != by => return Err(CapabilityFault::NotYours { capability }),
            Some(_) if record.revoked => return Err(CapabilityFault::Revoked { capability }),
            Some(_) => {}
        }
        self.pass_on(capability, by, None)
    }

    /// What was on its way to a domain over a channel that is no more is let go. Only its holder can know that nothing will
    /// come: what was sent before the end of its sender is received after it.
    pub fn forget(&mut self, by: DomainId, channel: ChannelId, granter: DomainId) {
        let of = (by, CapabilityId(0))..=(by, CapabilityId(u64::MAX));
        let lost = |id: &CapabilityId| {
            let record = self.capabilities.get(id).filter(|record| !record.revoked);
            record
                .and_then(|record| record.on_its_way)
                .is_some_and(|way| (way.granter, way.channel) == (granter, channel))
        };
        let lost: Vec<CapabilityId> = self.held.range(of).map(|(_, id)| *id).filter(lost).collect();
        for capability in lost {
            // It is held and not revoked: that is all that a deletion takes.
            let _ = self.delete(by, capability);
        }
    }
}
