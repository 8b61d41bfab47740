//! Capabilities in transit, that is, granted and not yet accepted.
//!
//! A message carries the number of a capability, and any message can carry any number. To prevent a confused
//! deputy, the receiver of a number states from which domain it came, and accepts only a capability that that
//! domain granted to it, once.

use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId};

use crate::table::Table;
use crate::{CapabilityFault, CapabilityId, CapabilityInfo};

impl Table {
    /// Accepts, for the holder, a capability that `granter` granted or gave to it; without a `granter`, from
    /// any domain, and also one accepted before. With `whole` it must cover its whole region.
    ///
    /// # Errors
    /// [`CapabilityFault::TakenUp`], [`CapabilityFault::NotFrom`], [`CapabilityFault::BadExtent`] for a part,
    /// or it is gone, held by another domain or being revoked. Nothing has changed.
    pub fn accept(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        granter: Option<DomainId>,
        whole: bool,
    ) -> Result<(), CapabilityFault> {
        let record = *self.usable_record(by, capability)?;
        if tombolo_base::canary!("table changes what it refuses")
            && let Some(record) = self.capabilities.get_mut(&capability)
        {
            record.in_transit = None;
        }
        if let Some(domain) = granter {
            let transit = record.in_transit.ok_or(CapabilityFault::TakenUp { capability })?;
            if transit.granter != domain {
                return Err(CapabilityFault::NotFrom { capability, domain });
            }
        }
        let available_bytes = self.regions.get(&record.region).map_or(0, |region| region.length_bytes);
        if whole && record.extent.length_bytes != available_bytes {
            return Err(CapabilityFault::BadExtent { extent: record.extent, available_bytes });
        }
        if let Some(record) = self.capabilities.get_mut(&capability) {
            record.in_transit = None;
        }
        Ok(())
    }

    /// Takes a capability back for the domain that granted or gave it, which becomes its holder.
    ///
    /// # Errors
    /// [`CapabilityFault::TakenUp`] when its holder has accepted it; [`CapabilityFault::NotYours`] when
    /// another domain granted it; or it is gone or being revoked. Nothing has changed.
    pub fn take_back(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
    ) -> Result<CapabilityInfo, CapabilityFault> {
        let record = self.capabilities.get(&capability).ok_or(CapabilityFault::Gone { capability })?;
        match record.in_transit {
            None => return Err(CapabilityFault::TakenUp { capability }),
            Some(transit) if transit.granter != by => return Err(CapabilityFault::NotYours { capability }),
            Some(_) if record.revoked => return Err(CapabilityFault::Revoked { capability }),
            Some(_) => {}
        }
        self.set_holder(capability, by, None)
    }

    /// Deletes capabilities in transit to a domain over a channel that has ended. Only the holder can know
    /// that nothing more will arrive: messages sent before the death of the sender are still received after
    /// it.
    pub fn drop_in_transit(&mut self, by: DomainId, channel: ChannelId, granter: DomainId) {
        let of = (by, CapabilityId(0))..=(by, CapabilityId(u64::MAX));
        let lost = |id: &CapabilityId| {
            let record = self.capabilities.get(id).filter(|record| !record.revoked);
            record
                .and_then(|record| record.in_transit)
                .is_some_and(|transit| (transit.granter, transit.channel) == (granter, channel))
        };
        let lost: Vec<CapabilityId> = self.held.range(of).map(|(_, id)| *id).filter(lost).collect();
        for capability in lost {
            // It is held and not revoked, as a deletion requires.
            let _ = self.delete(by, capability);
        }
    }
}
