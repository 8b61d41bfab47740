//! The table's operations, and random walks that check its invariants.

use core::num::NonZeroU16;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};

use crate::*;

mod in_transit;
mod lists;
mod parts;
mod revoking;
mod services;
mod walks;

pub(super) const HOST: NodeId = NodeId(0);
pub(super) const ARM0: NodeId = NodeId(1);
pub(super) const SECOND: Nanos = 1_000_000_000;

pub(super) fn domain(node: NodeId, index: u32) -> DomainId {
    DomainId::new(node, NonZeroU16::MIN, index)
}

pub(super) fn table() -> Table {
    Table::new(RevocationTimeouts::default())
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
fn region_is_freed_with_its_last_capability_and_mapping() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    let granted = table.derive(owner, all.id, None, Rights::ALL, other).unwrap();
    map(&mut table, other, granted.id, 9, Rights::READ);
    table.delete(owner, all.id).unwrap();
    assert_eq!(table.show(other, granted.id).unwrap().0.parent, None);
    assert_eq!(table.take_actions(), []);
    // The process may still have it mapped: the region remains until that is known to have ended.
    table.domain_ended(other);
    assert_eq!(table.take_actions(), [TableAction::RequestUnmap { node: ARM0, mapping: ChannelId(9) }]);
    assert!(!table.mapping_released(HOST, ChannelId(9)), "another node's word is no evidence");
    assert!(table.mapping_released(ARM0, ChannelId(9)));
    let actions = table.take_actions();
    assert!(matches!(actions[..], [TableAction::Freed { region, .. }] if region == all.region));
    assert_eq!(table, Table { last_region: 1, last_capability: 2, ..self::table() });
}

#[test]
fn window_lists_its_regions_and_mappings() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let mut create_in_window = |window: u16, offset_bytes, pages| {
        let memory = Memory::Window { window: WindowId(window), offset_bytes };
        create(&mut table, NewRegion { memory, ..self::memory(HOST, owner, pages) })
    };
    let (first, _elsewhere) = (create_in_window(1, 8192, 2), create_in_window(2, 4096, 1));
    create(&mut table, memory(HOST, owner, 1));
    let granted = table.derive(owner, first.id, None, Rights::READ, other).unwrap();
    map(&mut table, owner, first.id, 5, Rights::READ_WRITE);
    map(&mut table, other, granted.id, 6, Rights::READ);
    let mappings = vec![(HOST, ChannelId(5)), (ARM0, ChannelId(6))];
    let expected = WindowRegion { offset_bytes: 8192, length_bytes: 8192, mappings };
    assert_eq!(table.regions_in_window(WindowId(1)), [expected]);
    let expected = WindowRegion { offset_bytes: 4096, length_bytes: 4096, mappings: vec![] };
    assert_eq!(table.regions_in_window(WindowId(2)), [expected]);
    assert_eq!(table.regions_in_window(WindowId(3)), []);
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
fn given_capability_is_unmapped_at_the_old_holder() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    map(&mut table, owner, all.id, 5, Rights::READ_WRITE);
    table.give(owner, all.id, other).unwrap();
    assert_eq!(table.take_actions(), [TableAction::RequestUnmap { node: HOST, mapping: ChannelId(5) }]);
    assert_eq!(table.delete(owner, all.id), Err(CapabilityFault::NotYours { capability: all.id }));
    assert_eq!((table.capabilities_of(owner), table.capabilities_of(other)), (1, 0), "its maker pays for it");
    table.delete(other, all.id).unwrap();
    assert_eq!(table.take_actions(), []);
    table.mapping_released(HOST, ChannelId(5));
    assert!(matches!(table.take_actions()[..], [TableAction::Freed { .. }]));
}

#[test]
fn node_loss_removes_its_memory_for_all() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let window = NewRegion {
        memory: Memory::Window { window: WindowId(0), offset_bytes: 8192 },
        ..memory(ARM0, owner, 1)
    };
    let remote = create(&mut table, window);
    let local = create(&mut table, memory(HOST, other, 1));
    map(&mut table, owner, remote.id, 1, Rights::READ);
    map(&mut table, other, local.id, 2, Rights::READ);
    table.domain_ended(other);
    table.take_actions();
    table.node_lost(ARM0);
    let actions = table.take_actions();
    assert!(actions.contains(&TableAction::RequestUnmap { node: HOST, mapping: ChannelId(1) }));
    let freed = actions.iter().filter(|what| matches!(what, TableAction::Freed { .. })).count();
    assert_eq!((freed, actions.len()), (2, 3), "{actions:?}");
    assert_eq!(table.show(owner, remote.id), Err(CapabilityFault::Gone { capability: remote.id }));
    assert!(!table.mapping_released(HOST, ChannelId(1)), "it was forgotten with the memory");
    assert!(table.resource_counts().iter().all(|(_, count)| *count == 0));
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
    table.mapping_released(HOST, ChannelId(2));
    assert_eq!(table.seal(owner, all.id, Seal::SoleWriter), Ok(all.region));
    let sealed = |seal| Err(CapabilityFault::Sealed { region: all.region, seal });
    let wants =
        |table: &Table, rights| table.mappable(other, granted.id, rights, false, |_, _| true).map(|_| ());
    assert_eq!(wants(&table, Rights::READ_WRITE), sealed(Seal::SoleWriter), "also while the kernel is asked");
    assert_eq!(wants(&table, Rights::READ), Ok(()));
    table.complete_seal(all.region, false);
    assert_eq!(wants(&table, Rights::READ_WRITE), Ok(()), "the kernel refused");
    table.mapping_released(HOST, ChannelId(1));
    assert_eq!(table.seal(owner, all.id, Seal::Frozen), Ok(all.region));
    table.complete_seal(all.region, true);
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
fn lists_are_paged() {
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
