//! The table's operations, and random walks that check its invariants.

use core::num::NonZeroU16;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};

use crate::*;

mod lists;
mod parts;
mod revoking;
mod services;
mod walks;
mod ways;

pub(super) const HOST: NodeId = NodeId(0);
pub(super) const ARM0: NodeId = NodeId(1);
pub(super) const SECOND: Nanos = 1_000_000_000;

pub(super) fn domain(node: NodeId, index: u32) -> DomainId {
    DomainId::new(node, NonZeroU16::MIN, index)
}

pub(super) fn table() -> Table {
    Table::new(Patience::default())
}

pub(super) fn memory(node: NodeId, maker: DomainId, pages: u64) -> NewRegion {
    NewRegion {
        node,
        generation: NonZeroU16::MIN,
        maker,
        memory: Memory::Kernel { huge_page_bytes: 0 },
        length_bytes: pages * PAGE_BYTES,
        unit_bytes: PAGE_BYTES,
    }
}

pub(super) fn create(table: &mut Table, new: NewRegion) -> CapabilityInfo {
    let id = table.new_region_id(new.node, new.generation).unwrap();
    table.create(id, new)
}

pub(super) fn map(table: &mut Table, by: DomainId, capability: CapabilityId, number: u64, rights: Rights) {
    let mappable = table.mappable(by, capability, rights, false, |_, _| true).unwrap();
    table.map(capability, &mappable, ChannelId(number));
}

fn page(offset: u64, length: u64) -> Option<Extent> {
    Some(Extent::new(offset * PAGE_BYTES, length * PAGE_BYTES))
}

#[test]
fn rights_and_parts_only_shrink() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 4));
    let part = table.derive(owner, all.id, page(1, 2), Rights::READ | Rights::GRANT, other).unwrap();
    assert_eq!((part.extent, part.parent, part.holder), (page(1, 2).unwrap(), Some(all.id), other));
    let lacks = table.derive(other, part.id, None, Rights::READ_WRITE, other).unwrap_err();
    assert!(matches!(lacks, CapabilityFault::Lacks { .. }), "{lacks:?}");
    let beyond = table.derive(other, part.id, page(1, 2), Rights::READ, other).unwrap_err();
    assert!(matches!(beyond, CapabilityFault::BadExtent { available_bytes: 8192, .. }), "{beyond:?}");
    let odd = table.derive(other, part.id, Some(Extent::new(8, 4096)), Rights::READ, other).unwrap_err();
    assert!(matches!(odd, CapabilityFault::Unaligned { unit_bytes: PAGE_BYTES, .. }), "{odd:?}");
    let inner = table.derive(other, part.id, page(1, 1), Rights::READ, owner).unwrap();
    assert_eq!(inner.extent, page(2, 1).unwrap());
    let granted = table.derive(owner, inner.id, None, Rights::READ, other).unwrap_err();
    assert!(matches!(granted, CapabilityFault::Lacks { .. }), "{granted:?}");
}

#[test]
fn only_the_holder_may_use_a_capability() {
    let (mut table, owner, thief) = (table(), domain(HOST, 1), domain(HOST, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    let before = table.clone();
    let not_yours = CapabilityFault::NotYours { capability: all.id };
    assert_eq!(table.derive(thief, all.id, None, Rights::READ, thief), Err(not_yours.clone()));
    assert_eq!(table.give(thief, all.id, thief), Err(not_yours.clone()));
    assert_eq!(table.delete(thief, all.id), Err(not_yours.clone()));
    assert_eq!(table.seal(thief, all.id, Seal::Frozen), Err(not_yours.clone()));
    assert_eq!(table.revoke(0, thief, all.id, true), Err(not_yours.clone()));
    assert_eq!(table.mappable(thief, all.id, Rights::READ, false, |_, _| true), Err(not_yours));
    let never = CapabilityId(77);
    assert_eq!(table.delete(owner, never), Err(CapabilityFault::Gone { capability: never }));
    assert_eq!(table, before);
}

#[test]
fn a_region_goes_with_its_last_right_and_its_last_mapping() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    let granted = table.derive(owner, all.id, None, Rights::ALL, other).unwrap();
    map(&mut table, other, granted.id, 9, Rights::READ);
    table.delete(owner, all.id).unwrap();
    assert_eq!(table.show(other, granted.id).unwrap().0.parent, None);
    assert_eq!(table.take_consequences(), []);
    // The process may still have it mapped: the region remains until that is known to have ended.
    table.domain_ended(other);
    assert_eq!(table.take_consequences(), [Consequence::HangUp { node: ARM0, mapping: ChannelId(9) }]);
    assert!(!table.released(HOST, ChannelId(9)), "another node's word is no evidence");
    assert!(table.released(ARM0, ChannelId(9)));
    let consequences = table.take_consequences();
    assert!(matches!(consequences[..], [Consequence::Freed { region, .. }] if region == all.region));
    assert_eq!(table, Table { last_region: 1, last_capability: 2, ..self::table() });
}

#[test]
fn a_window_has_its_own_regions_with_who_has_them_mapped() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let mut in_window = |window: u16, offset_bytes, pages| {
        let memory = Memory::Window { window: WindowId(window), offset_bytes };
        create(&mut table, NewRegion { memory, ..self::memory(HOST, owner, pages) })
    };
    let (first, _elsewhere) = (in_window(1, 8192, 2), in_window(2, 4096, 1));
    create(&mut table, memory(HOST, owner, 1));
    let granted = table.derive(owner, first.id, None, Rights::READ, other).unwrap();
    map(&mut table, owner, first.id, 5, Rights::READ_WRITE);
    map(&mut table, other, granted.id, 6, Rights::READ);
    let mappings = vec![(HOST, ChannelId(5)), (ARM0, ChannelId(6))];
    let expected = InWindow { offset_bytes: 8192, length_bytes: 8192, mappings };
    assert_eq!(table.in_window(WindowId(1)), [expected]);
    let expected = InWindow { offset_bytes: 4096, length_bytes: 4096, mappings: vec![] };
    assert_eq!(table.in_window(WindowId(2)), [expected]);
    assert_eq!(table.in_window(WindowId(3)), []);
}

#[test]
fn whoever_derives_a_capability_is_charged_for_it() {
    let (mut table, owner, other, third) = (table(), domain(HOST, 1), domain(ARM0, 2), domain(ARM0, 3));
    let all = create(&mut table, memory(HOST, owner, 1));
    let granted = table.derive(owner, all.id, None, Rights::READ | Rights::GRANT, other).unwrap();
    table.derive(other, granted.id, None, Rights::READ, third).unwrap();
    let charged = [owner, other, third].map(|domain| table.capabilities_of(domain));
    assert_eq!(charged, [2, 1, 0]);
}

#[test]
fn what_is_given_away_is_mapped_by_its_new_holder_alone() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    map(&mut table, owner, all.id, 5, Rights::READ_WRITE);
    table.give(owner, all.id, other).unwrap();
    assert_eq!(table.take_consequences(), [Consequence::HangUp { node: HOST, mapping: ChannelId(5) }]);
    assert_eq!(table.delete(owner, all.id), Err(CapabilityFault::NotYours { capability: all.id }));
    assert_eq!((table.capabilities_of(owner), table.capabilities_of(other)), (1, 0), "its maker pays for it");
    table.delete(other, all.id).unwrap();
    assert_eq!(table.take_consequences(), []);
    table.released(HOST, ChannelId(5));
    assert!(matches!(table.take_consequences()[..], [Consequence::Freed { .. }]));
}

#[test]
fn with_its_node_the_memory_goes_for_everybody() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let window = NewRegion {
        memory: Memory::Window { window: WindowId(0), offset_bytes: 8192 },
        ..memory(ARM0, owner, 1)
    };
    let there = create(&mut table, window);
    let here = create(&mut table, memory(HOST, other, 1));
    map(&mut table, owner, there.id, 1, Rights::READ);
    map(&mut table, other, here.id, 2, Rights::READ);
    table.domain_ended(other);
    table.take_consequences();
    table.node_lost(ARM0);
    let consequences = table.take_consequences();
    assert!(consequences.contains(&Consequence::HangUp { node: HOST, mapping: ChannelId(1) }));
    let freed = consequences.iter().filter(|what| matches!(what, Consequence::Freed { .. })).count();
    assert_eq!((freed, consequences.len()), (2, 3), "{consequences:?}");
    assert_eq!(table.show(owner, there.id), Err(CapabilityFault::Gone { capability: there.id }));
    assert!(!table.released(HOST, ChannelId(1)), "it was forgotten with the memory");
    assert!(table.held().iter().all(|(_, count)| *count == 0));
}

#[test]
fn sealed_memory_is_written_by_no_other_domain() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(HOST, 2));
    let all = create(&mut table, memory(HOST, owner, 2));
    let granted = table.derive(owner, all.id, None, Rights::READ_WRITE, other).unwrap();
    let part = table.derive(owner, all.id, page(0, 1), Rights::READ_WRITE, owner).unwrap();
    let unfit = table.seal(owner, part.id, Seal::Frozen).unwrap_err();
    assert!(matches!(unfit, CapabilityFault::BadExtent { .. }), "{unfit:?}");
    map(&mut table, owner, all.id, 1, Rights::READ_WRITE);
    map(&mut table, other, granted.id, 2, Rights::READ_WRITE);
    let mapped = |mappings| Err(CapabilityFault::Mapped { region: all.region, mappings });
    assert_eq!(table.seal(owner, all.id, Seal::Frozen), mapped(2));
    assert_eq!(table.seal(owner, all.id, Seal::SoleWriter), mapped(1));
    table.released(HOST, ChannelId(2));
    assert_eq!(table.seal(owner, all.id, Seal::SoleWriter), Ok(all.region));
    let sealed = |seal| Err(CapabilityFault::Sealed { region: all.region, seal });
    let wants =
        |table: &Table, rights| table.mappable(other, granted.id, rights, false, |_, _| true).map(|_| ());
    assert_eq!(wants(&table, Rights::READ_WRITE), sealed(Seal::SoleWriter), "also while the kernel is asked");
    assert_eq!(wants(&table, Rights::READ), Ok(()));
    table.sealed(all.region, false);
    assert_eq!(wants(&table, Rights::READ_WRITE), Ok(()), "the kernel refused");
    table.released(HOST, ChannelId(1));
    assert_eq!(table.seal(owner, all.id, Seal::Frozen), Ok(all.region));
    table.sealed(all.region, true);
    assert_eq!(wants(&table, Rights::READ_WRITE), sealed(Seal::Frozen));
    assert_eq!(table.seal(owner, all.id, Seal::SoleWriter).map(|_| ()), sealed(Seal::Frozen));
    let window = create(
        &mut table,
        NewRegion {
            memory: Memory::Window { window: WindowId(0), offset_bytes: 0 },
            ..memory(ARM0, owner, 1)
        },
    );
    let cannot = CapabilityFault::CannotSeal { region: window.region, backing: Backing::Window };
    assert_eq!(table.seal(owner, window.id, Seal::Frozen), Err(cannot));
}

#[test]
fn lists_have_pages() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(HOST, 2));
    let made: Vec<CapabilityInfo> = (0..5).map(|_| create(&mut table, memory(HOST, owner, 1))).collect();
    table.give(owner, made[1].id, other).unwrap();
    let held = |after| table.held_by(owner, CapabilityId(after)).map(|held| held.id.0).collect::<Vec<_>>();
    assert_eq!((held(0), held(3), held(u64::MAX)), (vec![1, 3, 4, 5], vec![4, 5], vec![]));
    let regions: Vec<RegionInfo> = table.regions(made[3].region.to_bits()).collect();
    assert_eq!(regions.len(), 1);
    assert_eq!(
        (regions[0].id, regions[0].length_bytes, regions[0].capabilities),
        (made[4].region, PAGE_BYTES, 1)
    );
    assert_eq!(table.regions_of(owner), (5, 5 * PAGE_BYTES));
}
