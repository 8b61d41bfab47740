//! Services: targets of channels. A capability to a service is the right to open a channel to it, with or
//! without a name.

use core::num::NonZeroU16;

use tombolo_base::DomainId;

use crate::record::{Memory, NewRegion};
use crate::table::Table;
use crate::{CapabilityFault, CapabilityId, CapabilityInfo, RegionId, Rights};

impl Table {
    /// Adds a service of a domain, and a capability to it for that domain. Returns `None` if ids are
    /// exhausted.
    pub fn create_service(&mut self, maker: DomainId, generation: NonZeroU16) -> Option<CapabilityInfo> {
        let node = maker.node();
        let id = self.new_region_id(node, generation)?;
        let memory = Memory::Service;
        let new = NewRegion { node, generation, maker, memory, length_bytes: 0, unit_bytes: 1 };
        Some(self.create_with(id, new, Rights::CONNECT | Rights::GRANT))
    }

    /// Returns the service that `by` may open a channel to with a capability.
    ///
    /// # Errors
    /// The capability does not permit it.
    pub fn connectable(&self, by: DomainId, capability: CapabilityId) -> Result<RegionId, CapabilityFault> {
        self.record_with_rights(by, capability, Rights::CONNECT).map(|record| record.region)
    }

    /// Removes a service that has ended, and the capabilities to it.
    pub fn service_lost(&mut self, service: RegionId) {
        if self.regions.get(&service).is_some_and(|record| record.memory == Memory::Service) {
            self.region_lost(service);
            self.commit_ready();
        }
    }
}
