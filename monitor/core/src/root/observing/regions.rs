//! Snapshot of regions.
//!
//! Changes of regions and capabilities are not tracked individually: after any change all are examined, at a
//! rate that bounds the cost.

use std::collections::BTreeMap;

use tombolo_capability::RegionInfo;
use tombolo_control::RegionId;

use super::versions::PartKey;
use crate::root::{Core, Nanos};

/// Minimum time between two snapshots.
const PERIOD_NS: Nanos = 1_000_000_000;

/// Additional time between snapshots per region: at least a hundred times the cost of examining one.
const PERIOD_PER_REGION_NS: Nanos = 60_000;

/// Last snapshot of the machine's regions.
#[derive(Debug, Default)]
pub(in crate::root) struct RegionSnapshots {
    seen: BTreeMap<RegionId, RegionInfo>,
    /// Whether a region has changed since.
    changed: bool,
    not_before: Nanos,
}

impl RegionSnapshots {
    pub(super) fn get(&self, region: RegionId) -> Option<&RegionInfo> {
        self.seen.get(&region)
    }

    /// Records that regions have changed.
    pub(in crate::root) fn changed(&mut self) {
        self.changed = true;
    }
}

impl Core {
    /// Returns the time of the next snapshot; `None` if there are no regions, and were none.
    pub(super) fn regions_due(&self) -> Option<Nanos> {
        let regions = &self.observing.regions;
        let any = !regions.seen.is_empty() || self.regions.table.regions(0).next().is_some();
        (regions.changed && any).then_some(regions.not_before)
    }

    pub(super) fn update_regions(&mut self, now: Nanos) {
        if self.regions_due().is_none_or(|at| at > now) {
            return;
        }
        let (seen, versions) = (&mut self.observing.regions.seen, &mut self.observing.versions);
        let mut before = std::mem::take(seen);
        for info in self.regions.table.regions(0) {
            if before.remove(&info.id).as_ref() != Some(&info) {
                versions.mark_changed(PartKey::Region(info.id));
            }
            seen.insert(info.id, info);
        }
        before.into_keys().for_each(|region| versions.mark_removed(PartKey::Region(region)));
        let period_ns = PERIOD_NS.max(PERIOD_PER_REGION_NS * seen.len() as Nanos);
        self.observing.regions.changed = false;
        self.observing.regions.not_before = now.saturating_add(period_ns);
    }
}
