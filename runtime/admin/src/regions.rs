//! Regions of a machine, and the holders of capabilities to them.

use tombolo::Error;
use tombolo::control::{Reply, Request};
use tombolo_capability::{CapabilityInfo, RegionId, RegionInfo};
use tombolo_control::all_pages;

use crate::{Machine, unexpected};

impl Machine {
    /// Returns all regions of the machine, by number.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn regions(&self) -> Result<Vec<RegionInfo>, Error> {
        all_pages(|last: Option<&RegionInfo>| {
            let after = last.map_or(0, |last| last.id.to_bits());
            match self.ask(Request::Regions { after })? {
                Reply::Regions { regions, more } => Ok((regions, more)),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Returns the capabilities to a region, by number.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the region does not exist.
    pub fn holders(&self, region: RegionId) -> Result<Vec<CapabilityInfo>, Error> {
        all_pages(|last: Option<&CapabilityInfo>| {
            let after = last.map_or(0, |last| last.id.0);
            match self.ask(Request::Holders { region, after })? {
                Reply::Holders { capabilities, more } => Ok((capabilities, more)),
                other => Err(unexpected(&other)),
            }
        })
    }
}
