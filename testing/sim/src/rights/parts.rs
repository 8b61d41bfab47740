//! Parts that memory is split into. Parts do not overlap, and no bytes are mapped as two parts at once.

use std::collections::BTreeSet;

use tombolo_base::DomainId;
use tombolo_capability::{Backing, CapabilityFault, CapabilityId, Extent, Kind, RegionId, Rights};
use tombolo_control::{Fault, Reply};

use super::{Capability, RightsModel};
use crate::maps::Mapped;

/// One part of a split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    region: RegionId,
    extent: Extent,
    kind: Kind,
    /// Number of the part that it was split from; `None` for the region.
    of: Option<u64>,
}

fn overlap(one: Extent, other: Extent) -> bool {
    let end = |extent: Extent| extent.offset_bytes.saturating_add(extent.length_bytes);
    one.offset_bytes < end(other) && other.offset_bytes < end(one)
}

impl RightsModel {
    /// Checks the reply to a split, which creates all parts or none, and records the parts.
    pub(super) fn split(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        (kind, asked): (Kind, &[Extent]),
        reply: &Reply,
    ) -> Result<(), String> {
        let (from, extents) = match self.may_be_split(by, capability, kind, asked) {
            Ok(made) => made,
            Err(fault) => return Self::is_refused(&fault, reply),
        };
        let infos = match reply {
            Reply::CapabilitySplit { capabilities } => capabilities,
            Reply::Failed { fault: Fault::Limit { .. } } => return Ok(()),
            _ => return Err("nothing speaks against it".to_owned()),
        };
        if infos.len() != extents.len() {
            return Err(format!("it is to have {} parts", extents.len()));
        }
        for (info, extent) in infos.iter().zip(extents) {
            self.new_id(info.id)?;
            self.parts_ever += 1;
            let number = self.parts_ever;
            let part = Part { region: from.region, extent, kind, of: from.part };
            if let Some(other) = self.overlapped(part.region, part.of, extent).next() {
                return Err(format!("{part:?} overlaps {other:?}"));
            }
            self.parts.insert(number, part);
            let mut line = from.line.clone();
            line.insert(info.id);
            let (parent, part) = (Some(capability), Some(number));
            let record =
                Capability { extent, kind, part, holder: by, parent, line, in_transit: None, ..from.clone() };
            self.capabilities.insert(info.id, record);
        }
        infos.iter().try_for_each(|info| self.is_info(info.id, info))
    }

    fn may_be_split(
        &self,
        by: DomainId,
        capability: CapabilityId,
        kind: Kind,
        asked: &[Extent],
    ) -> Result<(Capability, Vec<Extent>), CapabilityFault> {
        let record = self.with_right(by, capability, Rights::READ_WRITE)?;
        let region = record.region;
        match (record.kind, kind) {
            (Kind::Memory, Kind::Service) => {
                let (kind, needed) = (Kind::Memory, Kind::Service);
                return Err(CapabilityFault::WrongKind { capability, kind, needed });
            }
            (Kind::Memory, _) => {}
            (kind, _) => return Err(CapabilityFault::WrongKind { capability, kind, needed: Kind::Memory }),
        }
        let backing = self.regions.get(&region).map_or(Backing::Foreign, |region| region.backing);
        if backing == Backing::Foreign {
            return Err(CapabilityFault::CannotSplit { region, backing });
        }
        let parts = |extent: &Extent| self.part_of(record, Some(*extent));
        let wanted = asked.iter().map(parts).collect::<Result<Vec<Extent>, _>>()?;
        let mut sorted = wanted.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| overlap(pair[0], pair[1])) {
            return Err(CapabilityFault::Split { region, extent: pair[1], part: pair[0], kind });
        }
        for extent in sorted {
            self.is_not_split(region, record.part, extent)?;
            let in_the_way = |granted: &&super::Granted| {
                granted.region == region && granted.part == record.part && overlap(granted.extent, extent)
            };
            if let Some(granted) = self.granted.values().find(in_the_way) {
                let (mapped, holder) = (granted.extent, granted.holder);
                return Err(CapabilityFault::InUse { region, extent, mapped, holder });
            }
        }
        Ok((record.clone(), wanted))
    }

    fn overlapped(&self, region: RegionId, of: Option<u64>, extent: Extent) -> impl Iterator<Item = &Part> {
        let fits = move |part: &&Part| part.region == region && part.of == of && overlap(part.extent, extent);
        self.parts.values().filter(fits)
    }

    /// Checks that no bytes of `extent` were split off. The fault names the last of several parts.
    pub(super) fn is_not_split(
        &self,
        region: RegionId,
        of: Option<u64>,
        extent: Extent,
    ) -> Result<(), CapabilityFault> {
        let last = self.overlapped(region, of, extent).max_by_key(|part| part.extent.offset_bytes);
        match last {
            Some(part) => Err(CapabilityFault::Split { region, extent, part: part.extent, kind: part.kind }),
            None => Ok(()),
        }
    }

    /// Checks that the kind of the memory fits the mapping, a pool or not.
    pub(super) fn is_of_kind(
        capability: CapabilityId,
        kind: Kind,
        pool: bool,
    ) -> Result<(), CapabilityFault> {
        let needed = match (kind, pool) {
            (Kind::Pool, false) => Kind::Frame,
            (Kind::Frame | Kind::Service, true) => Kind::Pool,
            _ => return Ok(()),
        };
        Err(CapabilityFault::WrongKind { capability, kind, needed })
    }

    /// Drops each part that no capability, granted mapping or part of it refers to.
    pub(super) fn drop_unused_parts(&mut self) {
        loop {
            let rights = self.capabilities.values().filter_map(|record| record.part);
            let mapped = self.granted.values().filter_map(|granted| granted.part);
            let of = self.parts.values().filter_map(|part| part.of);
            let used: BTreeSet<u64> = rights.chain(mapped).chain(of).collect();
            let before = self.parts.len();
            self.parts.retain(|number, _| used.contains(number));
            if self.parts.len() == before {
                return;
            }
        }
    }

    /// Lists a part and its ancestors, the region (`None`) last.
    fn ancestors_of(&self, part: Option<u64>) -> Vec<Option<u64>> {
        let mut line = vec![part];
        while let Some(part) = line.last().copied().flatten() {
            line.push(self.parts.get(&part).and_then(|part| part.of));
        }
        line
    }

    /// Checks that no bytes of a new mapping are mapped as an ancestor or a descendant of its part. Counts
    /// every real mapping, even if the root no longer knows of it.
    pub(super) fn check_part_isolation(&mut self, number: u64, mapped: &Mapped) {
        let Some(part) = self.granted.get(&number).map(|granted| granted.part) else { return };
        let line = self.ancestors_of(part);
        let other = self.granted.iter().find(|(other, granted)| {
            let theirs = self.maps.mapped_as(**other);
            theirs
                .is_some_and(|theirs| theirs.region == mapped.region && overlap(theirs.extent, mapped.extent))
                && granted.part != part
                && (line.contains(&granted.part) || self.ancestors_of(granted.part).contains(&part))
        });
        if let Some((other, granted)) = other {
            let what = format!("{mapped:?} is mapped as part {part:?}, and {other} as {granted:?}");
            self.fail(what);
        }
    }
}
