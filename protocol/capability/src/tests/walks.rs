//! Random walks of several domains on two nodes, with deaths at any point, checked against the invariants.
//! The real mappings of the processes are tracked separately, and so are all former ancestors of a
//! capability.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::record::{MappingRecord, PartRecord};

/// Real mapping of a process.
struct ProcessMapping {
    holder: DomainId,
    region: RegionId,
    /// Capability that it was mapped with, and all its ancestors.
    lineage: BTreeSet<CapabilityId>,
    number: u64,
}

struct PendingRevocation {
    operation: Operation,
    capability: CapabilityId,
    include_self: bool,
    /// Newest mapping at that time.
    newest: u64,
}

struct Walk {
    table: Table,
    now: Nanos,
    domains: Vec<DomainId>,
    next_domain: u32,
    ancestors: BTreeMap<CapabilityId, BTreeSet<CapabilityId>>,
    real: Vec<ProcessMapping>,
    next_mapping: u64,
    pending: Vec<PendingRevocation>,
    regions: BTreeSet<RegionId>,
    killed: BTreeSet<DomainId>,
}

impl Walk {
    fn new() -> Walk {
        let domains = vec![domain(HOST, 1), domain(HOST, 2), domain(ARM0, 3)];
        Walk {
            table: table(),
            now: 0,
            domains,
            next_domain: 4,
            ancestors: BTreeMap::new(),
            real: Vec::new(),
            next_mapping: 1,
            pending: Vec::new(),
            regions: BTreeSet::new(),
            killed: BTreeSet::new(),
        }
    }

    fn pick_capability(&self, pick: usize) -> Option<(DomainId, CapabilityId)> {
        let all: Vec<_> = self.table.capabilities.iter().map(|(id, record)| (record.holder, *id)).collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    fn record_ancestors(&mut self, info: &CapabilityInfo) {
        let mut lineage = BTreeSet::from([info.id]);
        lineage.extend(info.parent.iter().flat_map(|parent| self.ancestors[parent].iter().copied()));
        self.ancestors.insert(info.id, lineage);
    }

    fn step(&mut self, (what, a, b, c): (u8, usize, usize, usize)) {
        let other = self.domains[b % self.domains.len()];
        let rights = Rights::from_bits((c % 16) as u8).unwrap();
        match what {
            0 => {
                let node = [HOST, ARM0][a % 2];
                let info = create(&mut self.table, memory(node, other, 1 + c as u64 % 4));
                self.regions.insert(info.region);
                self.record_ancestors(&info);
            }
            1..=4 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let extent = (c % 3 == 0).then(|| Extent::new((c % 5) as u64 * PAGE_BYTES, PAGE_BYTES));
                    if let Ok(info) = self.table.derive(by, capability, extent, rights, other) {
                        self.record_ancestors(&info);
                    }
                }
            }
            5 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let recipient = Recipient { holder: other, channel: ChannelId(c as u64 % 3) };
                    let _ = self.table.give(by, capability, recipient);
                }
            }
            19 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let granted = self.table.capabilities[&capability].in_transit.is_some();
                    let accepted = self.table.accept(by, capability, Some(other), false);
                    assert!(accepted.is_err() || granted, "what was not on its way was taken up");
                    assert!(accepted.is_err() || self.table.take_back(other, capability).is_err());
                }
            }
            20 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    match c % 2 {
                        0 => self.table.drop_in_transit(by, ChannelId(c as u64 % 3), other),
                        _ => {
                            let _ = self.table.take_back(other, capability);
                        }
                    }
                }
            }
            6 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let _ = self.table.delete(by, capability);
                }
            }
            7..=10 => self.map(a, rights),
            11 | 12 if !self.real.is_empty() => {
                let gone = self.real.swap_remove(a % self.real.len());
                self.table.mapping_released(gone.holder.node(), ChannelId(gone.number));
            }
            13 | 14 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let include_self = c % 2 == 0;
                    if let Ok(operation) = self.table.revoke(self.now, by, capability, include_self) {
                        let newest = self.next_mapping - 1;
                        self.pending.push(PendingRevocation { operation, capability, include_self, newest });
                    }
                }
            }
            22 | 23 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let kind = [Kind::Memory, Kind::Frame, Kind::Pool][b % 3];
                    let (first, next) = ((c % 3) as u64, (c / 3 % 3) as u64);
                    let pages = |at: u64| Extent::new(at * PAGE_BYTES, (1 + (b / 3) as u64 % 2) * PAGE_BYTES);
                    let extents = [pages(first), pages(first + 1 + next)];
                    if let Ok(parts) = self.table.split(by, capability, kind, &extents[..1 + c / 9 % 2]) {
                        parts.iter().for_each(|info| self.record_ancestors(info));
                    }
                }
            }
            24 => {
                let info = self.table.create_service(other, NonZeroU16::MIN).unwrap();
                self.regions.insert(info.region);
                self.record_ancestors(&info);
            }
            25 => {
                if let Some((by, capability)) = self.pick_capability(a) {
                    let service = self.table.connectable(by, capability);
                    let record = &self.table.capabilities[&capability];
                    assert_eq!(service.is_ok(), record.rights.contains(Rights::CONNECT) && !record.revoked);
                    if c % 4 == 0 {
                        service.inspect(|service| self.table.service_lost(*service)).ok();
                    }
                }
            }
            15 => {
                self.now += [1, SECOND / 2, SECOND, 3 * SECOND][a % 4];
                self.table.tick(self.now);
            }
            16 => self.replace_domain(b % self.domains.len()),
            17 if a % 4 == 0 => self.lose_node(ARM0),
            _ => {
                let _ = self
                    .pick_capability(a)
                    .map(|(by, capability)| self.table.seal(by, capability, Seal::Frozen));
                let sealing: Vec<RegionId> = self.table.regions.keys().copied().collect();
                sealing.into_iter().for_each(|region| self.table.complete_seal(region, b % 2 == 0));
            }
        }
        self.process_actions();
    }

    fn map(&mut self, pick: usize, rights: Rights) {
        let Some((holder, capability)) = self.pick_capability(pick) else { return };
        let kind = self.table.capabilities[&capability].kind;
        let pool = kind == Kind::Pool || (kind == Kind::Memory && pick.is_multiple_of(2));
        assert!(
            self.table.mappable(holder, capability, rights, kind == Kind::Frame, |_, _| true).is_err()
                || kind == Kind::Memory
        );
        let Ok(mappable) = self.table.mappable(holder, capability, rights, pool, |_, _| true) else { return };
        let number = self.next_mapping;
        self.next_mapping += 1;
        self.table.map(capability, &mappable, ChannelId(number));
        let lineage = self.ancestors[&capability].clone();
        self.real.push(ProcessMapping { holder, region: mappable.region, lineage, number });
    }

    /// Replaces a domain that is no longer known. Its process may still have mappings.
    fn replace_domain(&mut self, index: usize) {
        let node = self.domains[index].node();
        self.table.domain_ended(self.domains[index]);
        self.table.foreign_lost(self.domains[index]);
        self.domains[index] = domain(node, self.next_domain);
        self.next_domain += 1;
    }

    fn lose_node(&mut self, node: NodeId) {
        for index in 0..self.domains.len() {
            if self.domains[index].node() == node {
                self.replace_domain(index);
            }
        }
        self.real.retain(|real| real.holder.node() != node);
        // The memory behind the mappings of others is not reused.
        self.real.retain(|real| real.region.node() != node);
        self.table.node_lost(node);
    }

    fn process_actions(&mut self) {
        for action in self.table.take_actions() {
            match action {
                TableAction::Freed { region, .. } => {
                    assert!(self.regions.remove(&region), "{region} is freed twice");
                    assert!(
                        self.real.iter().all(|real| real.region != region),
                        "{region} is freed while mapped"
                    );
                }
                TableAction::Answer { operation, outcome } => {
                    let at = self.pending.iter().position(|pending| pending.operation == operation).unwrap();
                    let pending = self.pending.remove(at);
                    if outcome.is_ok() {
                        self.check_unreachable(&pending);
                    }
                }
                TableAction::RequestUnmap { node, mapping } => {
                    let real = self.real.iter().find(|real| real.number == mapping.0);
                    assert!(real.is_none_or(|real| real.holder.node() == node));
                }
                TableAction::Kill { domain } => {
                    self.killed.insert(domain);
                }
            }
        }
        self.check_invariants();
    }

    /// Checks that everything mapped with the capabilities of a complete revocation is unmapped.
    fn check_unreachable(&self, pending: &PendingRevocation) {
        for real in self.real.iter().filter(|real| real.number <= pending.newest) {
            let below = real.lineage.contains(&pending.capability)
                && (pending.include_self || real.lineage.iter().max() != Some(&pending.capability));
            assert!(!below, "{} was revoked and is mapped as {}", pending.capability, real.number);
        }
    }

    fn check_invariants(&self) {
        let table = &self.table;
        let known: BTreeSet<u64> = table.mappings.keys().map(|mapping| mapping.0).collect();
        let real: BTreeSet<u64> = self.real.iter().map(|real| real.number).collect();
        assert_eq!(known, real, "what is mapped is known, and nothing else");
        for (id, record) in &table.capabilities {
            assert!(table.held.contains(&(record.holder, *id)));
            let region = &table.regions[&record.region];
            assert!(region.capabilities.contains(id));
            assert!(Extent::new(0, region.length_bytes).contains(record.extent));
            let of = record.part.map(|part| table.parts[&part]);
            assert!(of.is_none_or(|part| part.extent.contains(record.extent) && part.kind == record.kind));
            let whole = if region.memory == Memory::Service { Kind::Service } else { Kind::Memory };
            assert!(of.is_some() || record.kind == whole);
            if let Some(parent) = record.parent {
                let above = &table.capabilities[&parent];
                assert!(above.extent.contains(record.extent) && above.rights.contains(record.rights));
                assert!(table.children.contains(&(parent, *id)));
                assert!(!above.revoked || record.revoked, "nothing good hangs on what is revoked");
            }
        }
        self.check_parts();
        for region in table.regions.values() {
            assert!(!region.capabilities.is_empty() || !region.mappings.is_empty());
        }
        let sum = |counts: &BTreeMap<DomainId, usize>| counts.values().sum::<usize>();
        let of_regions: usize = table.regions.values().map(|region| region.capabilities.len()).sum();
        let all = table.capabilities.len();
        assert_eq!((table.held.len(), of_regions, sum(&table.charges)), (all, all, all));
        let parents = table.capabilities.values().filter(|record| record.parent.is_some()).count();
        let attributed = table.mappings.values().filter(|record| record.by.is_some()).count();
        assert_eq!((table.children.len(), table.mapped.len()), (parents, attributed));
    }

    /// Checks that parts lie in what they were split from, do not overlap, and are mapped as nothing else.
    fn check_parts(&self) {
        let table = &self.table;
        for (id, part) in &table.parts {
            let of = part.of.map(|of| table.parts[&of]);
            assert!(of.is_none_or(|of| of.extent.contains(part.extent) && of.kind == Kind::Memory));
            let same = |other: &&PartRecord| (other.region, other.of) == (part.region, part.of);
            let overlapping = |other: &&PartRecord| other.extent.overlaps(part.extent);
            assert_eq!(table.parts.values().filter(same).filter(overlapping).count(), 1, "{part:?}");
            let capabilities = table.capabilities.values().filter(|record| record.part == Some(*id)).count();
            let mappings = table.mappings.values().filter(|record| record.part == Some(*id)).count();
            let parts = table.parts.values().filter(|other| other.of == Some(*id)).count();
            assert_eq!(part.users as usize, capabilities + mappings + parts);
            assert_eq!(table.split.get(&(part.region, part.of, part.extent.offset_bytes)), Some(id));
        }
        assert_eq!(table.split.len(), table.parts.len());
        let mapped: Vec<&MappingRecord> = table.mappings.values().collect();
        for (index, one) in mapped.iter().enumerate() {
            let conflicts = |other: &&&MappingRecord| {
                other.region == one.region && other.part != one.part && other.extent.overlaps(one.extent)
            };
            let conflict = mapped[index + 1..].iter().find(conflicts);
            assert!(conflict.is_none(), "{one:?} and {conflict:?} are of different parts");
        }
    }

    /// Ends all domains.
    fn end(mut self) {
        (0..self.domains.len()).for_each(|index| self.replace_domain(index));
        self.process_actions();
        for real in std::mem::take(&mut self.real) {
            self.table.mapping_released(real.holder.node(), ChannelId(real.number));
        }
        self.process_actions();
        assert!(self.table.resource_counts().iter().all(|(_, count)| *count == 0), "{:?}", self.table);
        assert!(self.regions.is_empty() && self.pending.is_empty() && self.table.charges.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_operations_keep_the_invariants(
        steps in proptest::collection::vec((0_u8..26, 0_usize..1000, 0_usize..1000, 0_usize..1000), 1..150)
    ) {
        let mut walk = Walk::new();
        steps.into_iter().for_each(|step| walk.step(step));
        walk.end();
    }
}
