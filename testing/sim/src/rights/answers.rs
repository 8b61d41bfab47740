//! Checks of replies.

use std::collections::BTreeSet;

use tombolo_base::DomainId;
use tombolo_capability::{
    Backing, CapabilityFault, CapabilityId, CapabilityInfo, Extent, Kind, PAGE_BYTES, RegionId, RegionInfo,
    Rights, Seal,
};
use tombolo_control::{Fault, RegionMap, RegionPlace, Reply, Request};
use tombolo_monitor_core::root::ClientId;

use super::{Capability, Expected, Granted, PAGE, Region, RightsModel};

impl RightsModel {
    /// Checks a reply to a client. `number` identifies the mapping, if one was granted.
    pub fn check_reply(
        &mut self,
        (client, request): (ClientId, u32),
        by: DomainId,
        asked: &Request,
        (reply, number): (&Reply, u64),
        lives: impl Fn(DomainId) -> bool,
    ) {
        let expected = self.expected.remove(&(client, request));
        let right = match (asked, expected) {
            (_, Some(expected)) => self.is_as_expected(&expected, reply),
            (Request::CapabilityRevoke { .. }, None) => self.revocation_answered((client, request), reply),
            (Request::RegionCreate { place, length_bytes }, None) => match reply {
                Reply::RegionCreate { capability } => self.created(by, place, *length_bytes, capability),
                Reply::Failed { .. } => Ok(()),
                _ => Err("it is no answer".to_owned()),
            },
            (Request::CapabilityDerive { holder: Some(holder), .. }, None) if !lives(*holder) => {
                let fault = Fault::NoSuchDomain { domain: *holder };
                let limit = matches!(reply, Reply::Failed { fault: Fault::Limit { .. } });
                if limit || *reply == (Reply::Failed { fault }) {
                    Ok(())
                } else {
                    Err(format!("{holder} is dead"))
                }
            }
            (Request::CapabilityDerive { .. }, None) => self.derived(by, asked, reply),
            (Request::CapabilitySplit { capability, kind, parts }, None) => {
                self.split(by, *capability, (*kind, parts), reply)
            }
            (Request::Spawn { spawn }, None) => self.start_answered(by, &spawn.given, reply),
            (Request::RegionMap { capability, rights, pool }, None) => {
                self.mapping_granted(by, *capability, (*rights, *pool), reply, number)
            }
            (Request::CapabilityShow { capability }, None) => self.shown(by, *capability, reply),
            (Request::Capabilities { after }, None) => self.listed(by, *after, reply),
            (Request::Regions { after }, None) => self.regions_listed(*after, reply),
            _ => Ok(()),
        };
        self.count(reply);
        if let Err(why) = right {
            self.fail(format!("{by} asked for {asked:?} and was answered {reply:?}, but {why}"));
        }
    }

    fn count(&mut self, reply: &Reply) {
        match reply {
            Reply::RegionCreate { .. } => self.counts.regions += 1,
            Reply::CapabilityDerive { .. } => self.counts.rights += 1,
            Reply::CapabilitySplit { capabilities } => self.counts.parts += capabilities.len() as u64,
            Reply::CapabilityRevoke { killed, .. } => {
                self.counts.revoked += 1;
                self.counts.killed += killed.len() as u64;
            }
            Reply::Failed { fault: Fault::Capability { fault: CapabilityFault::StillHeld { .. } } } => {
                self.counts.still_held += 1;
            }
            Reply::Failed { fault: Fault::Capability { .. } } => self.counts.refused += 1,
            _ => {}
        }
    }

    fn is_as_expected(&self, expected: &Expected, reply: &Reply) -> Result<(), String> {
        let wrong = || Err(format!("what is to come of it is {expected:?}"));
        let fault = match reply {
            Reply::Failed { fault } => Some(fault),
            _ => None,
        };
        match expected {
            Expected::Refused(refused) => match fault {
                Some(Fault::Capability { fault }) if fault == refused => Ok(()),
                _ => wrong(),
            },
            Expected::NoSuchDomain(domain) => match fault {
                Some(Fault::NoSuchDomain { domain: found }) if found == domain => Ok(()),
                _ => wrong(),
            },
            Expected::NotGiven(asked) => match fault {
                Some(Fault::NotGiven { name, .. }) if name == asked => Ok(()),
                _ => wrong(),
            },
            Expected::Sealed(region) => match fault {
                // The kernel of the region failed to seal it, or its node is down.
                Some(Fault::System { .. } | Fault::NodeDown { .. }) => Ok(()),
                None if self.regions.get(region).is_none_or(|region| region.seal != Seal::Open) => Ok(()),
                _ => wrong(),
            },
            Expected::Done(capability) => match (reply, capability) {
                (Reply::Done, None) => Ok(()),
                (Reply::CapabilityTakeBack { capability: shown }, Some(capability)) => {
                    self.is_info(*capability, shown)
                }
                (
                    Reply::CapabilityAccept { capability: shown, region, .. }
                    | Reply::Given { capability: shown, region, .. },
                    Some(capability),
                ) => self.is_info(*capability, shown).and_then(|()| self.is_region(region)),
                _ => wrong(),
            },
        }
    }

    pub(super) fn info(&self, id: CapabilityId) -> Option<CapabilityInfo> {
        let record = self.capabilities.get(&id)?;
        let Capability { region, extent, kind, rights, holder, parent, revoked, in_transit, .. } = *record;
        let granter = in_transit.map(|(granter, _)| granter);
        Some(CapabilityInfo { id, region, extent, rights, holder, parent, revoked, granter, kind })
    }

    fn region_info(&self, id: RegionId) -> Option<RegionInfo> {
        let Region { backing, length_bytes, maker, seal, .. } = *self.regions.get(&id)?;
        let capabilities = self.capabilities.values().filter(|record| record.region == id).count() as u32;
        let mappings = self.granted.values().filter(|granted| granted.region == id).count() as u32;
        Some(RegionInfo { id, backing, length_bytes, maker, seal, capabilities, mappings })
    }

    pub(super) fn is_info(&self, id: CapabilityId, shown: &CapabilityInfo) -> Result<(), String> {
        let real = self.info(id);
        if real.as_ref() == Some(shown) { Ok(()) } else { Err(format!("it is {real:?}")) }
    }

    pub(super) fn is_region(&self, shown: &RegionInfo) -> Result<(), String> {
        let real = self.region_info(shown.id);
        if real.as_ref() == Some(shown) { Ok(()) } else { Err(format!("the region is {real:?}")) }
    }

    pub(super) fn is_refused(fault: &CapabilityFault, reply: &Reply) -> Result<(), String> {
        match reply {
            Reply::Failed { fault: Fault::Capability { fault: found } } if found == fault => Ok(()),
            Reply::Failed { fault: Fault::Limit { .. } } => Ok(()),
            _ => Err(format!("it has to be refused: {fault}")),
        }
    }

    pub(super) fn new_id(&mut self, id: CapabilityId) -> Result<(), String> {
        let fresh = id.0 > self.newest_capability;
        self.newest_capability = self.newest_capability.max(id.0);
        if fresh { Ok(()) } else { Err("its number was given out before".to_owned()) }
    }

    fn created(
        &mut self,
        by: DomainId,
        place: &RegionPlace,
        asked_bytes: u64,
        info: &CapabilityInfo,
    ) -> Result<(), String> {
        let cleared = self.cleared.take();
        let (backing, unit_bytes) = match place {
            RegionPlace::Memory { options, .. } => (Backing::Memory, options.huge_page_bytes.max(PAGE_BYTES)),
            RegionPlace::Window { .. } => (Backing::Window, PAGE_BYTES),
            RegionPlace::File => (Backing::File, PAGE_BYTES),
            RegionPlace::Foreign { .. } => (Backing::Foreign, 1),
        };
        let whole = matches!(backing, Backing::Memory | Backing::Window);
        let length_bytes = if whole { asked_bytes.next_multiple_of(unit_bytes) } else { asked_bytes };
        let window_offset_bytes = match (backing, cleared) {
            (Backing::Window, Some((node, first, lent_bytes))) => {
                if node != info.region.node().0 || lent_bytes < length_bytes {
                    return Err("the range that was cleared is another".to_owned());
                }
                Some(first)
            }
            (Backing::Window, None) => return Err("nothing was cleared for it".to_owned()),
            _ => None,
        };
        self.new_id(info.id)?;
        if !self.regions_ever.insert(info.region.index()) {
            return Err("the region's number was given out before".to_owned());
        }
        let rights = match (backing, info.rights) {
            (Backing::File, rights) if rights == Rights::READ | Rights::GRANT => rights,
            _ => Rights::ALL,
        };
        let extent = Extent::new(0, length_bytes);
        let region = info.region;
        let record = Capability {
            region,
            extent,
            kind: Kind::Memory,
            part: None,
            rights,
            holder: by,
            parent: None,
            line: BTreeSet::from([info.id]),
            revoked: false,
            in_transit: None,
        };
        self.capabilities.insert(info.id, record);
        let (seal, sealing) = (Seal::Open, None);
        let record =
            Region { backing, length_bytes, unit_bytes, maker: by, seal, sealing, window_offset_bytes };
        self.regions.insert(region, record);
        self.is_info(info.id, info)
    }

    fn derived(&mut self, by: DomainId, asked: &Request, reply: &Reply) -> Result<(), String> {
        let Request::CapabilityDerive { capability, extent, rights, holder, channel } = asked else {
            return Ok(());
        };
        let holder = holder.unwrap_or(by);
        let needed = if holder == by { *rights } else { *rights | Rights::GRANT };
        let made = self
            .with_right(by, *capability, needed)
            .and_then(|record| Ok((record.clone(), self.part_of(record, *extent)?)));
        let (from, extent) = match made {
            Ok(made) => made,
            Err(fault) => return Self::is_refused(&fault, reply),
        };
        let info = match reply {
            Reply::CapabilityDerive { capability } => capability,
            Reply::Failed { fault: Fault::Limit { .. } } => return Ok(()),
            _ => return Err("nothing speaks against it".to_owned()),
        };
        self.new_id(info.id)?;
        let mut line = from.line.clone();
        line.insert(info.id);
        let in_transit = (holder != by || channel.0 != 0).then_some((by, *channel));
        let (parent, rights) = (Some(*capability), *rights);
        let record = Capability { extent, rights, holder, parent, line, revoked: false, in_transit, ..from };
        self.capabilities.insert(info.id, record);
        self.is_info(info.id, info)
    }

    pub(super) fn part_of(
        &self,
        record: &Capability,
        asked: Option<Extent>,
    ) -> Result<Extent, CapabilityFault> {
        let Some(extent) = asked else { return Ok(record.extent) };
        let available_bytes = record.extent.length_bytes;
        let end = extent.offset_bytes.checked_add(extent.length_bytes);
        if extent.length_bytes == 0 || end.is_none_or(|end| end > available_bytes) {
            return Err(CapabilityFault::BadExtent { extent, available_bytes });
        }
        let part = Extent::new(record.extent.offset_bytes + extent.offset_bytes, extent.length_bytes);
        let (unit_bytes, all) = self
            .regions
            .get(&record.region)
            .map_or((1, 0), |region| (region.unit_bytes, region.length_bytes));
        let end = part.offset_bytes + part.length_bytes;
        let between_pages = |byte: u64| byte.is_multiple_of(unit_bytes);
        if between_pages(part.offset_bytes) && (end == all || between_pages(part.length_bytes)) {
            Ok(part)
        } else {
            Err(CapabilityFault::Unaligned { extent, unit_bytes })
        }
    }

    fn mapping_granted(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        (rights, pool): (Rights, bool),
        reply: &Reply,
        number: u64,
    ) -> Result<(), String> {
        let writable = rights.contains(Rights::WRITE);
        let needed = if writable { Rights::READ_WRITE } else { Rights::READ };
        let from = match self.mappable(by, capability, needed, pool) {
            Ok(from) => from,
            Err(fault) => return Self::is_refused(&fault, reply),
        };
        let map = match reply {
            Reply::RegionMap { map } => map,
            Reply::Failed { fault: Fault::Limit { .. } } => return Ok(()),
            _ => return Err("nothing speaks against it".to_owned()),
        };
        let Some(region) = self.regions.get(&from.region) else {
            return Err("its region is gone".to_owned());
        };
        let RegionMap { region: of, extent, rights, file_offset_bytes, backing, .. } = *map;
        let begins = region.window_offset_bytes.unwrap_or(0) + from.extent.offset_bytes;
        if (of, extent, rights, backing) != (from.region, from.extent, needed, region.backing)
            || file_offset_bytes != begins
        {
            return Err(format!("the right is to {} of {} from {begins} on", from.extent, from.region));
        }
        let granted = Granted {
            region: from.region,
            extent: from.extent,
            part: from.part,
            writable,
            holder: by,
            by: capability,
            line: from.line,
            orphan: false,
            told: false,
        };
        match self.granted.insert(number, granted) {
            Some(_) => Err(format!("its number {number} is another mapping's")),
            None => Ok(()),
        }
    }

    pub(super) fn mappable(
        &self,
        by: DomainId,
        capability: CapabilityId,
        needed: Rights,
        pool: bool,
    ) -> Result<Capability, CapabilityFault> {
        let record = self.with_right(by, capability, needed)?;
        Self::is_of_kind(capability, record.kind, pool)?;
        let id = record.region;
        self.is_not_split(id, record.part, record.extent)?;
        let region = self.regions.get(&id).ok_or(CapabilityFault::Gone { capability })?;
        let seal = region.sealing.unwrap_or(region.seal);
        if needed.contains(Rights::WRITE) && seal != Seal::Open {
            return Err(CapabilityFault::Sealed { region: id, seal });
        }
        let kernel = self.kernel_of(by.node().0);
        let reaches = match region.backing {
            Backing::Memory | Backing::File => kernel == id.node().0,
            Backing::Window => kernel == 0 || kernel == id.node().0,
            Backing::Foreign | Backing::Service => false,
        };
        if reaches { Ok(record.clone()) } else { Err(CapabilityFault::NotReachable { region: id, from: by }) }
    }

    fn shown(&self, by: DomainId, capability: CapabilityId, reply: &Reply) -> Result<(), String> {
        match (self.usable(by, capability), reply) {
            (Err(fault), reply) => Self::is_refused(&fault, reply),
            (Ok(_), Reply::CapabilityShow { capability: shown, region, .. }) => {
                self.is_info(capability, shown).and_then(|()| self.is_region(region))
            }
            (Ok(_), _) => Err("it is there".to_owned()),
        }
    }

    fn listed(&self, by: DomainId, after: u64, reply: &Reply) -> Result<(), String> {
        let theirs = self.capabilities.iter().filter(|(id, record)| record.holder == by && id.0 > after);
        let mut rest = theirs.filter_map(|(id, _)| self.info(*id));
        let page: Vec<CapabilityInfo> = rest.by_ref().take(PAGE).collect();
        let right = Reply::Capabilities { capabilities: page, more: rest.next().is_some() };
        if *reply == right { Ok(()) } else { Err(format!("it is {right:?}")) }
    }

    fn regions_listed(&self, after: u64, reply: &Reply) -> Result<(), String> {
        let mut rest = self.regions.keys().filter(|id| id.to_bits() > after);
        let page: Vec<RegionInfo> = rest.by_ref().take(PAGE).filter_map(|id| self.region_info(*id)).collect();
        let right = Reply::Regions { regions: page, more: rest.next().is_some() };
        if *reply == right { Ok(()) } else { Err(format!("it is {right:?}")) }
    }
}
