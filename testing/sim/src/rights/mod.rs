//! Reference model of regions and capabilities, after `docs/specs/capability.md`, and the mappings that
//! processes really have.
//!
//! The model observes requests and replies. A reply or fault that it does not expect is a failure; so is a
//! refused request that changed something, which the listings of domains reveal. The model favors simplicity
//! over speed.

mod answers;
mod ends;
mod gifts;
mod parts;
mod revoking;

use std::collections::{BTreeMap, BTreeSet};

use tombolo_base::{ChannelId, DomainId};
use tombolo_capability::{Backing, CapabilityFault, CapabilityId, Extent, Kind, RegionId, Rights, Seal};
use tombolo_control::Request;
use tombolo_monitor_core::root::ClientId;

use crate::maps::Maps;

/// Maximum number of entries in one reply to a listing.
const PAGE: usize = 100;

/// Tolerance after a deadline, in nanoseconds: a root whose clock was set back must first be woken.
const SLACK_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Region {
    backing: Backing,
    length_bytes: u64,
    unit_bytes: u64,
    maker: DomainId,
    seal: Seal,
    sealing: Option<Seal>,
    /// Offset in the window, if the region is in one.
    window_offset_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
struct Capability {
    region: RegionId,
    extent: Extent,
    kind: Kind,
    /// Number of the part that it refers to; `None` for the whole region.
    part: Option<u64>,
    rights: Rights,
    holder: DomainId,
    parent: Option<CapabilityId>,
    /// This capability and all its ancestors, deleted ones included.
    line: BTreeSet<CapabilityId>,
    revoked: bool,
    /// Granter and channel, until the capability is accepted.
    in_transit: Option<(DomainId, ChannelId)>,
}

/// A mapping that the root granted and whose removal it has not been told of.
#[derive(Clone, Debug)]
struct Granted {
    region: RegionId,
    extent: Extent,
    /// Number of the part that it was mapped as.
    part: Option<u64>,
    writable: bool,
    holder: DomainId,
    by: CapabilityId,
    line: BTreeSet<CapabilityId>,
    /// The capability was deleted, or passed on to another holder.
    orphan: bool,
    /// The holder was told to unmap it.
    told: bool,
}

#[derive(Debug)]
struct Revocation {
    /// Node of the requester and a serial number; revocations that are ready complete in this order.
    number: (u16, u64),
    /// Client and request that wait for the reply, as long as the client is connected.
    asked: Option<(ClientId, u32)>,
    capability: CapabilityId,
    marked: BTreeSet<CapabilityId>,
    /// All mappings made under the revoked capabilities.
    mapped: BTreeSet<u64>,
    /// Those of them that are not known to be gone.
    pending: BTreeSet<u64>,
    holders: BTreeSet<DomainId>,
    /// Time of the request, and the time on the root's clock.
    at: (u64, u64),
    jumped_back_ns: u64,
    removed: u32,
    complete: bool,
    answered: bool,
}

/// The expected answer to a request.
#[derive(Debug)]
enum Expected {
    Done(Option<CapabilityId>),
    Sealed(RegionId),
    Refused(CapabilityFault),
    NoSuchDomain(DomainId),
    /// The domain was not started with a capability of this name.
    NotGiven(String),
}

/// Counters of memory operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Regions that were created.
    pub regions: u64,
    /// Capabilities that were derived or granted.
    pub rights: u64,
    /// Parts that memory was split into.
    pub parts: u64,
    /// Capabilities given to programs at their start.
    pub gifts: u64,
    /// Mappings that processes made.
    pub mappings: u64,
    /// Revocations that completed in time.
    pub revoked: u64,
    /// Revocations after which a domain still held the memory.
    pub still_held: u64,
    /// Domains that were killed because they did not let go.
    pub killed: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.regions += other.regions;
        self.rights += other.rights;
        self.parts += other.parts;
        self.gifts += other.gifts;
        self.mappings += other.mappings;
        self.revoked += other.revoked;
        self.still_held += other.still_held;
        self.killed += other.killed;
        self.refused += other.refused;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { regions, rights, parts, gifts, mappings, revoked, still_held, killed, refused } = self;
        write!(
            f,
            "{regions} regions, {rights} rights passed on, {parts} parts, {gifts} rights given at a start, {mappings} mappings, {revoked} revocations, {still_held} more \
             that some did not obey, {killed} killed for it, {refused} requests about memory refused"
        )
    }
}

/// Reference model of capabilities for memory.
#[derive(Debug, Default)]
pub struct RightsModel {
    /// Real mappings of the processes.
    pub maps: Maps,
    /// Counters of memory operations.
    pub counts: Counts,
    regions: BTreeMap<RegionId, Region>,
    capabilities: BTreeMap<CapabilityId, Capability>,
    granted: BTreeMap<u64, Granted>,
    parts: BTreeMap<u64, parts::Part>,
    parts_ever: u64,
    /// Names and numbers of the capabilities that each living domain was started with.
    gifts: BTreeMap<DomainId, Vec<(String, CapabilityId)>>,
    revocations: Vec<Revocation>,
    revocations_ever: u64,
    expected: BTreeMap<(ClientId, u32), Expected>,
    newest_capability: u64,
    regions_ever: BTreeSet<u32>,
    /// Range of a window that was cleared last: node, offset and length in bytes.
    cleared: Option<(u16, u64, u64)>,
    /// Nodes that have a window.
    windowed: BTreeSet<u16>,
    /// Time that a domain has to unmap, in nanoseconds.
    unmap_timeout_ns: u64,
    now: u64,
    root_clock: u64,
    jumped_back_ns: u64,
    /// Requests that must be answered now.
    due: Vec<(ClientId, u32)>,
    /// Hang-ups that must be sent now: node and mapping.
    hang_ups: Vec<(u16, u64)>,
    failure: Option<String>,
}

impl RightsModel {
    /// Creates the model of a machine. `windowed` are the nodes with a window, `unmap_timeout_ns` is the time
    /// to unmap.
    #[must_use]
    pub fn new(windowed: BTreeSet<u16>, unmap_timeout_ns: u64) -> Self {
        RightsModel { windowed, unmap_timeout_ns, ..RightsModel::default() }
    }

    /// Takes the first failure, if there was one.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Takes the requests that must be answered now.
    pub fn take_due_answers(&mut self) -> Vec<(ClientId, u32)> {
        std::mem::take(&mut self.due)
    }

    /// Takes the hang-ups that must be sent now: node and mapping.
    pub fn take_hang_ups(&mut self) -> Vec<(u16, u64)> {
        std::mem::take(&mut self.hang_ups)
    }

    fn fail(&mut self, what: impl Into<String>) {
        self.failure.get_or_insert(what.into());
    }

    /// Sets the current time and the time on the root's clock.
    pub fn at(&mut self, now: u64, root_clock: u64) {
        (self.now, self.root_clock) = (now, root_clock);
    }

    /// Records that the root's clock jumps by `by_ns`.
    pub fn clock_jumps(&mut self, by_ns: i64) {
        if by_ns < 0 {
            self.jumped_back_ns += by_ns.unsigned_abs();
        }
    }

    fn kernel_of(&self, node: u16) -> u16 {
        if self.windowed.contains(&node) { node } else { 0 }
    }

    fn usable(&self, by: DomainId, capability: CapabilityId) -> Result<&Capability, CapabilityFault> {
        let record = self.capabilities.get(&capability).ok_or(CapabilityFault::Gone { capability })?;
        if record.holder != by {
            return Err(CapabilityFault::NotYours { capability });
        }
        if record.revoked { Err(CapabilityFault::Revoked { capability }) } else { Ok(record) }
    }

    fn with_right(
        &self,
        by: DomainId,
        capability: CapabilityId,
        needed: Rights,
    ) -> Result<&Capability, CapabilityFault> {
        let record = self.usable(by, capability)?;
        let given = record.rights;
        if needed.bits() & !given.bits() != 0 {
            return Err(CapabilityFault::Lacks { capability, needed, given });
        }
        Ok(record)
    }

    /// Observes a request of a domain. Applies it if its result does not depend on the reply.
    pub fn on_request(
        &mut self,
        (client, request): (ClientId, u32),
        by: DomainId,
        body: &Request,
        lives: impl Fn(DomainId) -> bool,
    ) {
        let result = match *body {
            Request::CapabilityGive { holder, .. } if !lives(holder) => {
                self.expect(client, request, Expected::NoSuchDomain(holder));
                return;
            }
            Request::CapabilityGive { capability, holder, channel } => {
                self.with_right(by, capability, Rights::GRANT).map(|_| ()).map(|()| {
                    let way = (holder != by || channel.0 != 0).then_some((by, channel));
                    self.transfer(capability, holder, way);
                    Expected::Done(None)
                })
            }
            Request::CapabilityAccept { capability, granter, whole } => {
                self.accept(by, capability, granter, whole).map(|()| Expected::Done(Some(capability)))
            }
            Request::Given { ref name } => match self.gift(by, name) {
                Some(capability) => {
                    self.accept(by, capability, None, false).map(|()| Expected::Done(Some(capability)))
                }
                None => return self.expect(client, request, Expected::NotGiven(name.clone())),
            },
            Request::CapabilityTakeBack { capability } => {
                self.take_back(by, capability).map(|()| Expected::Done(Some(capability)))
            }
            Request::CapabilityForget { channel, granter } => {
                self.forget(by, channel, granter);
                Ok(Expected::Done(None))
            }
            Request::CapabilityDelete { capability } => self.usable(by, capability).map(|_| ()).map(|()| {
                self.delete(capability);
                Expected::Done(None)
            }),
            Request::RegionSeal { seal: Seal::Open, .. } => return,
            Request::RegionSeal { capability, seal } => self.seal(by, capability, seal).map(Expected::Sealed),
            Request::CapabilityRevoke { capability, itself } => match self.usable(by, capability) {
                Ok(_) => return self.revoke((client, request), by, capability, itself),
                Err(fault) => Err(fault),
            },
            _ => return,
        };
        self.expect(client, request, result.unwrap_or_else(Expected::Refused));
    }

    fn expect(&mut self, client: ClientId, request: u32, expected: Expected) {
        if request != 0 {
            if !matches!(expected, Expected::Sealed(_)) {
                self.due.push((client, request));
            }
            self.expected.insert((client, request), expected);
        }
    }

    fn transfer(
        &mut self,
        capability: CapabilityId,
        to: DomainId,
        in_transit: Option<(DomainId, ChannelId)>,
    ) {
        let Some(record) = self.capabilities.get_mut(&capability) else { return };
        let changes = record.holder != to;
        (record.holder, record.in_transit) = (to, in_transit);
        if changes {
            self.orphan_mappings(capability);
        }
    }

    fn orphan_mappings(&mut self, capability: CapabilityId) {
        for (number, granted) in self.granted.iter_mut().filter(|(_, granted)| granted.by == capability) {
            granted.orphan = true;
            queue_hang_up(&mut self.hang_ups, *number, granted);
        }
    }

    fn accept(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        granter: Option<DomainId>,
        whole: bool,
    ) -> Result<(), CapabilityFault> {
        let record = self.usable(by, capability)?;
        match (granter, record.in_transit) {
            (Some(_), None) => return Err(CapabilityFault::TakenUp { capability }),
            (Some(domain), Some((from, _))) if from != domain => {
                return Err(CapabilityFault::NotFrom { capability, domain });
            }
            _ => {}
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

    fn take_back(&mut self, by: DomainId, capability: CapabilityId) -> Result<(), CapabilityFault> {
        let record = self.capabilities.get(&capability).ok_or(CapabilityFault::Gone { capability })?;
        match record.in_transit {
            None => Err(CapabilityFault::TakenUp { capability }),
            Some((granter, _)) if granter != by => Err(CapabilityFault::NotYours { capability }),
            Some(_) if record.revoked => Err(CapabilityFault::Revoked { capability }),
            Some(_) => {
                self.transfer(capability, by, None);
                Ok(())
            }
        }
    }

    fn forget(&mut self, by: DomainId, channel: ChannelId, granter: DomainId) {
        let lost = |record: &Capability| {
            record.holder == by && !record.revoked && record.in_transit == Some((granter, channel))
        };
        let lost: Vec<CapabilityId> =
            self.capabilities.iter().filter(|(_, record)| lost(record)).map(|(id, _)| *id).collect();
        lost.into_iter().for_each(|capability| self.delete(capability));
    }

    /// Deletes a capability and moves its children to its parent.
    fn delete(&mut self, capability: CapabilityId) {
        let Some(record) = self.capabilities.remove(&capability) else { return };
        for child in self.capabilities.values_mut().filter(|child| child.parent == Some(capability)) {
            child.parent = record.parent;
        }
        self.orphan_mappings(capability);
        self.drop_unused_parts();
        self.free_if_unused(record.region);
    }

    fn free_if_unused(&mut self, region: RegionId) {
        let used = self.capabilities.values().any(|record| record.region == region)
            || self.granted.values().any(|granted| granted.region == region);
        if !used && self.regions.remove(&region).is_some() {
            let mapped = self.maps.of(region).next().copied();
            if let Some(mapped) = mapped {
                self.fail(format!("region {region} is free, and mapped: {mapped:?}"));
            }
        }
    }

    fn seal(
        &mut self,
        by: DomainId,
        capability: CapabilityId,
        seal: Seal,
    ) -> Result<RegionId, CapabilityFault> {
        let record = self.with_right(by, capability, Rights::WRITE)?;
        let (id, extent) = (record.region, record.extent);
        self.is_not_split(id, None, extent)?;
        let Some(region) = self.regions.get(&id) else { return Err(CapabilityFault::Gone { capability }) };
        if region.backing != Backing::Memory {
            return Err(CapabilityFault::CannotSeal { region: id, backing: region.backing });
        }
        if extent.length_bytes != region.length_bytes {
            return Err(CapabilityFault::BadExtent { extent, available_bytes: region.length_bytes });
        }
        match (region.sealing, region.seal) {
            (Some(seal), _) | (None, seal @ Seal::Frozen) => {
                return Err(CapabilityFault::Sealed { region: id, seal });
            }
            _ => {}
        }
        let in_the_way = |granted: &&Granted| {
            granted.region == id && granted.writable && (seal == Seal::Frozen || granted.holder != by)
        };
        let mappings = self.granted.values().filter(in_the_way).count() as u32;
        if mappings > 0 {
            return Err(CapabilityFault::Mapped { region: id, mappings });
        }
        if let Some(region) = self.regions.get_mut(&id) {
            region.sealing = Some(seal);
        }
        Ok(id)
    }

    /// Counts the objects left in the model, by kind.
    #[must_use]
    pub fn remaining_objects(&self) -> [(&'static str, usize); 8] {
        [
            ("regions", self.regions.len()),
            ("capabilities", self.capabilities.len()),
            ("mappings", self.granted.len()),
            ("parts of memory", self.parts.len()),
            ("domains that were given something", self.gifts.len()),
            ("revocations", self.revocations.len()),
            ("answers about memory", self.expected.len()),
            ("things mapped", self.maps.len()),
        ]
    }
}

/// Queues a hang-up for a mapping, unless one was queued before.
fn queue_hang_up(hang_ups: &mut Vec<(u16, u64)>, number: u64, granted: &mut Granted) {
    if !std::mem::replace(&mut granted.told, true) {
        hang_ups.push((granted.holder.node().0, number));
    }
}
