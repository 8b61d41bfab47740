//! Queries, and how the table attributes capabilities.

use std::hash::{BuildHasher, RandomState};

use super::*;

#[test]
fn ids_display_and_rights_combine() {
    let id = RegionId::new(NodeId(3), NonZeroU16::new(2).unwrap(), 40);
    assert_eq!((id.node(), id.generation().get(), id.index()), (NodeId(3), 2, 40));
    assert_eq!(format!("{id} {id:?} {}", CapabilityId(9)), "3.2.40 RegionId(3.2.40) capability 9");
    assert_eq!(format!("{:?} {}", Rights::READ_WRITE, Extent::new(8, 16)), "Rights(rw-) 8+16");
    assert_eq!(Rights::READ_WRITE & (Rights::WRITE | Rights::GRANT), Rights::WRITE);
    assert_eq!(Rights::READ | Rights::READ_WRITE, Rights::READ_WRITE);
    assert!(Rights::ALL.contains(Rights::READ) && !Rights::READ.contains(Rights::READ_WRITE));
    assert!(Rights::NONE.contains(Rights::NONE) && !Rights::NONE.contains(Rights::READ));
}

#[test]
fn extent_containment_is_exact_to_the_byte() {
    let whole = Extent::new(100, 50);
    assert_eq!(whole.end_bytes(), Some(150));
    assert_eq!(Extent::new(u64::MAX, 1).end_bytes(), None);
    for (offset, length, inside) in
        [(100, 50, true), (149, 1, true), (150, 0, true), (99, 1, false), (99, 60, false), (101, 50, false)]
    {
        assert_eq!(whole.contains(Extent::new(offset, length)), inside, "{offset}+{length}");
    }
    assert!(!whole.contains(Extent::new(u64::MAX, 1)));
    assert!(!Extent::new(u64::MAX, 1).contains(whole));
}

#[test]
fn region_ids_are_unique_and_exhaustible() {
    let mut table = table();
    let indexes = [(); 3].map(|()| table.new_region_id(ARM0, NonZeroU16::MIN).unwrap().index());
    assert_eq!(indexes, [1, 2, 3]);
    table.last_region = u32::MAX - 1;
    assert_eq!(table.new_region_id(HOST, NonZeroU16::MIN).map(RegionId::index), Some(u32::MAX));
    assert_eq!(table.new_region_id(HOST, NonZeroU16::MIN), None);
    assert_eq!(table.new_region_id(HOST, NonZeroU16::MIN), None);
    let owner = domain(HOST, 1);
    let numbers = [(); 3].map(|()| create(&mut self::table(), memory(HOST, owner, 1)).id.0);
    assert_eq!(numbers, [1; 3], "each table counts for itself");
}

#[test]
fn the_capabilities_to_a_region_are_listed_in_pages_for_all_holders() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 2));
    let elsewhere = create(&mut table, memory(HOST, other, 1));
    let granted = table.derive(owner, all.id, None, Rights::READ, other).unwrap();
    let to = |region, after| {
        let listed = table.capabilities_to(region, CapabilityId(after));
        listed.map(|info| (info.id, info.holder)).collect::<Vec<_>>()
    };
    assert_eq!(to(all.region, 0), [(all.id, owner), (granted.id, other)]);
    assert_eq!(to(all.region, all.id.0), [(granted.id, other)]);
    assert_eq!(to(all.region, granted.id.0), []);
    assert_eq!(to(elsewhere.region, 0), [(elsewhere.id, other)]);
    assert_eq!(to(RegionId::new(HOST, NonZeroU16::MIN, 99), 0), []);
}

#[test]
fn mappings_are_counted_per_domain_and_region() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 2));
    let granted = table.derive(owner, all.id, None, Rights::READ, other).unwrap();
    assert_eq!((table.mappings(), table.mappings_of(owner)), (0, 0));
    map(&mut table, owner, all.id, 1, Rights::READ_WRITE);
    map(&mut table, owner, all.id, 2, Rights::READ);
    map(&mut table, other, granted.id, 3, Rights::READ);
    assert_eq!((table.mappings(), table.mappings_of(owner), table.mappings_of(other)), (3, 2, 1));
    assert!(table.is_mapped(ChannelId(3)) && !table.is_mapped(ChannelId(4)));
    let (_, region, memory) = table.show(owner, all.id).unwrap();
    assert_eq!((region.capabilities, region.mappings, region.maker, region.seal), (2, 3, owner, Seal::Open));
    assert_eq!((region.backing, memory), (Backing::Memory, Memory::Kernel { huge_page_bytes: 0 }));
    assert!(table.mapping_released(ARM0, ChannelId(3)));
    assert!(!table.is_mapped(ChannelId(3)));
    table.revoke(0, owner, all.id, false).unwrap();
    let held = [("regions", 1), ("capabilities", 1), ("mappings", 2), ("revocations", 0)];
    assert_eq!(table.resource_counts()[..4], held);
    assert_eq!(table.resource_counts()[4].1, table.take_actions().len());
}

#[test]
fn creator_is_charged_only_for_allocated_memory() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(HOST, 2));
    let of = |memory_is, maker, pages| NewRegion { memory: memory_is, ..memory(HOST, maker, pages) };
    for memory_is in [
        Memory::Kernel { huge_page_bytes: 0 },
        Memory::Window { window: WindowId(0), offset_bytes: 4096 },
        Memory::File,
        Memory::Foreign { address: 4096 },
    ] {
        create(&mut table, of(memory_is, owner, 2));
    }
    create(&mut table, of(Memory::File, other, 1));
    assert_eq!(
        table.regions_of(owner),
        (4, 4 * PAGE_BYTES),
        "files and what was there are no memory of the machine's"
    );
    assert_eq!(table.regions_of(other), (1, 0));
    assert_eq!(table.regions_of(domain(HOST, 3)), (0, 0));
    let backings: Vec<Backing> = table.regions(0).map(|region| region.backing).collect();
    assert_eq!(backings, [Backing::Memory, Backing::Window, Backing::File, Backing::Foreign, Backing::File]);
}

#[test]
fn foreign_memory_ends_with_its_domain() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let foreign = |maker| NewRegion { memory: Memory::Foreign { address: 4096 }, ..memory(HOST, maker, 1) };
    let had = create(&mut table, foreign(owner));
    let made = create(&mut table, memory(HOST, owner, 1));
    let others = create(&mut table, foreign(other));
    let granted = [had.id, made.id].map(|id| table.derive(owner, id, None, Rights::READ, other).unwrap().id);
    table.domain_ended(owner);
    assert!(
        granted.iter().all(|id| table.show(other, *id).is_ok()),
        "it may be copied from until it is gone"
    );
    table.foreign_lost(owner);
    assert_eq!(table.show(other, granted[0]), Err(CapabilityFault::Gone { capability: granted[0] }));
    assert!(table.show(other, granted[1]).is_ok() && table.show(other, others.id).is_ok());
    let freed = TableAction::Freed {
        region: had.region,
        memory: Memory::Foreign { address: 4096 },
        length_bytes: PAGE_BYTES,
    };
    assert_eq!(table.take_actions(), [freed]);
}

/// Model checkers distinguish states by their hash.
#[test]
fn tables_that_differ_hash_differently() {
    let hasher = RandomState::new();
    let owner = domain(HOST, 1);
    let mut table = table();
    let empty = hasher.hash_one(&table);
    assert_eq!(hasher.hash_one(self::table()), empty);
    let all = create(&mut table, memory(HOST, owner, 1));
    let made = hasher.hash_one(&table);
    map(&mut table, owner, all.id, 1, Rights::READ);
    let mapped = hasher.hash_one(&table);
    assert!(empty != made && made != mapped);
}

#[test]
fn part_boundaries_must_be_aligned() {
    let (mut table, owner) = (table(), domain(HOST, 1));
    let odd = NewRegion { length_bytes: 2 * PAGE_BYTES + 8, ..memory(HOST, owner, 1) };
    let all = create(&mut table, odd);
    for (offset, length, fits) in [
        (0, PAGE_BYTES, true),
        (PAGE_BYTES, PAGE_BYTES + 8, true),
        (2 * PAGE_BYTES, 8, true),
        (0, 8, false),
        (PAGE_BYTES, 8, false),
        (8, 2 * PAGE_BYTES, false),
    ] {
        let part = table.derive(owner, all.id, Some(Extent::new(offset, length)), Rights::READ, owner);
        assert_eq!(part.is_ok(), fits, "{offset}+{length}: {part:?}");
    }
}

#[test]
fn mapping_requires_read_right_and_reachable_memory() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    let write_only = table.derive(owner, all.id, None, Rights::WRITE, other).unwrap();
    let lacks = table.mappable(other, write_only.id, Rights::WRITE, false, |_, _| true);
    assert!(matches!(lacks, Err(CapabilityFault::Lacks { needed: Rights::READ_WRITE, .. })), "{lacks:?}");
    let not_reachable = CapabilityFault::NotReachable { region: all.region, from: owner };
    assert_eq!(table.mappable(owner, all.id, Rights::READ, false, |_, _| false), Err(not_reachable));
    let mappable =
        table.mappable(owner, all.id, Rights::ALL, false, |region, _| region == all.region).unwrap();
    assert_eq!(
        (mappable.rights, mappable.extent),
        (Rights::READ_WRITE, all.extent),
        "granting is no part of it"
    );
    let mappable = table.mappable(owner, all.id, Rights::NONE, false, |_, _| true).unwrap();
    assert_eq!(mappable.rights, Rights::READ);
}

#[test]
fn revoked_grant_cannot_be_taken_back() {
    let (mut table, owner, other) = (table(), domain(HOST, 1), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 1));
    let lent = table.derive(owner, all.id, None, Rights::READ, other).unwrap().id;
    map(&mut table, other, lent, 1, Rights::READ);
    table.revoke(0, owner, all.id, false).unwrap();
    assert_eq!(table.take_back(owner, lent), Err(CapabilityFault::Revoked { capability: lent }));
    table.drop_in_transit(other, ChannelId(0), owner);
    assert!(table.capabilities.contains_key(&lent), "its revocation ends it, when it is let go");
}

/// The right to grant is required too: without it, a domain cannot pass on a capability that can grant.
#[test]
fn giving_requires_the_right_to_grant() {
    let (mut table, owner, other, third) = (table(), domain(HOST, 1), domain(ARM0, 2), domain(HOST, 3));
    let all = create(&mut table, memory(HOST, owner, 1));
    let lent = table.derive(owner, all.id, None, Rights::READ_WRITE, other).unwrap().id;
    for rights in [Rights::READ, Rights::GRANT, Rights::READ | Rights::GRANT] {
        let needed = rights | Rights::GRANT;
        let lacks = CapabilityFault::Lacks { capability: lent, needed, given: Rights::READ_WRITE };
        assert_eq!(table.derive(other, lent, None, rights, third), Err(lacks));
    }
    let lacks = CapabilityFault::Lacks { capability: lent, needed: Rights::GRANT, given: Rights::READ_WRITE };
    assert_eq!(table.give(other, lent, third), Err(lacks));
    assert!(table.derive(other, lent, None, Rights::READ, other).is_ok());
}
