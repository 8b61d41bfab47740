//! Tests of memory that is split into parts.

use super::*;

const OWNER: u32 = 1;

fn pages(offset: u64, length: u64) -> Extent {
    Extent::new(offset * PAGE_BYTES, length * PAGE_BYTES)
}

fn maps(table: &Table, by: DomainId, of: &CapabilityInfo, pool: bool) -> Result<(), CapabilityFault> {
    table.mappable(by, of.id, Rights::READ_WRITE, pool, |_, _| true).map(|_| ())
}

#[test]
fn parts_do_not_overlap_and_keep_their_memory_from_being_mapped() {
    let (mut table, owner) = (table(), domain(HOST, OWNER));
    let all = create(&mut table, memory(HOST, owner, 8));
    let made = table.split(owner, all.id, Kind::Frame, &[pages(0, 2), pages(4, 2)]).unwrap();
    assert_eq!((made[0].extent, made[1].extent), (pages(0, 2), pages(4, 2)));
    assert_eq!((made[0].kind, made[0].rights, made[0].parent), (Kind::Frame, Rights::ALL, Some(all.id)));
    let split = |extent, part| CapabilityFault::Split { region: all.region, extent, part, kind: Kind::Frame };
    for (wanted, part) in [(pages(1, 1), pages(0, 2)), (pages(3, 2), pages(4, 2)), (pages(3, 5), pages(4, 2))]
    {
        let refused = table.split(owner, all.id, Kind::Pool, &[wanted]);
        assert_eq!(refused, Err(split(wanted, part)), "{wanted}");
    }
    assert_eq!(maps(&table, owner, &all, false), Err(split(pages(0, 8), pages(4, 2))));
    let rest = table.derive(owner, all.id, Some(pages(2, 2)), Rights::ALL, owner).unwrap();
    assert_eq!(maps(&table, owner, &rest, false), Ok(()), "what no part has is the memory's");
    assert_eq!(table.seal(owner, all.id, Seal::Frozen), Err(split(pages(0, 8), pages(4, 2))));
    let both = table.split(owner, all.id, Kind::Pool, &[pages(6, 2), pages(7, 1)]);
    let pool = CapabilityFault::Split {
        region: all.region,
        extent: pages(7, 1),
        part: pages(6, 2),
        kind: Kind::Pool,
    };
    assert_eq!(both, Err(pool), "those of one request neither");
    table.split(owner, all.id, Kind::Pool, &[pages(6, 2), pages(2, 2)]).unwrap();
}

#[test]
fn part_is_freed_with_its_last_capability_or_mapping() {
    let (mut table, owner, other) = (table(), domain(HOST, OWNER), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 2));
    let part = table.split(owner, all.id, Kind::Frame, &[pages(0, 1)]).unwrap().remove(0);
    let lent = table.derive(owner, part.id, None, Rights::READ_WRITE, other).unwrap();
    map(&mut table, other, lent.id, 9, Rights::READ_WRITE);
    table.delete(owner, part.id).unwrap();
    assert!(matches!(maps(&table, owner, &all, false), Err(CapabilityFault::Split { .. })), "it is lent");
    table.domain_ended(other);
    assert!(matches!(maps(&table, owner, &all, false), Err(CapabilityFault::Split { .. })), "it is mapped");
    table.mapping_released(ARM0, ChannelId(9));
    assert_eq!(maps(&table, owner, &all, false), Ok(()));
    let again = table.split(owner, all.id, Kind::Frame, &[pages(0, 1)]).unwrap().remove(0);
    let lent = table.derive(owner, again.id, None, Rights::READ_WRITE, domain(ARM0, 3)).unwrap();
    map(&mut table, domain(ARM0, 3), lent.id, 10, Rights::READ_WRITE);
    table.revoke(0, owner, all.id, false).unwrap();
    assert!(maps(&table, owner, &all, false).is_err(), "the other has not let go");
    table.mapping_released(ARM0, ChannelId(10));
    assert_eq!(maps(&table, owner, &all, false), Ok(()), "a revocation gives the bytes back");
}

#[test]
fn mapped_memory_cannot_be_split() {
    let (mut table, owner, other) = (table(), domain(HOST, OWNER), domain(ARM0, 2));
    let all = create(&mut table, memory(HOST, owner, 4));
    let lent = table.derive(owner, all.id, Some(pages(1, 2)), Rights::READ, other).unwrap();
    map(&mut table, other, lent.id, 9, Rights::READ);
    let before = table.clone();
    let in_use = CapabilityFault::InUse {
        region: all.region,
        extent: pages(2, 2),
        mapped: pages(1, 2),
        holder: other,
    };
    assert_eq!(table.split(owner, all.id, Kind::Frame, &[pages(0, 1), pages(2, 2)]), Err(in_use));
    assert_eq!(table, before);
    table.split(owner, all.id, Kind::Frame, &[pages(0, 1), pages(3, 1)]).unwrap();
    table.mapping_released(ARM0, ChannelId(9));
    table.split(owner, all.id, Kind::Frame, &[pages(1, 2)]).unwrap();
}

#[test]
fn kind_of_a_part_restricts_its_use() {
    let (mut table, owner) = (table(), domain(HOST, OWNER));
    let all = create(&mut table, memory(HOST, owner, 8));
    let wrong =
        |of: &CapabilityInfo, needed| CapabilityFault::WrongKind { capability: of.id, kind: of.kind, needed };
    let frame = table.split(owner, all.id, Kind::Frame, &[pages(0, 2)]).unwrap().remove(0);
    let pool = table.split(owner, all.id, Kind::Pool, &[pages(2, 2)]).unwrap().remove(0);
    let inner = table.split(owner, all.id, Kind::Memory, &[pages(4, 4)]).unwrap().remove(0);
    assert_eq!((maps(&table, owner, &frame, false), maps(&table, owner, &pool, true)), (Ok(()), Ok(())));
    assert_eq!(maps(&table, owner, &frame, true), Err(wrong(&frame, Kind::Pool)));
    assert_eq!(maps(&table, owner, &pool, false), Err(wrong(&pool, Kind::Frame)));
    for part in [&frame, &pool] {
        let refused = table.split(owner, part.id, Kind::Frame, &[pages(0, 1)]);
        assert_eq!(refused, Err(wrong(part, Kind::Memory)));
    }
    assert_eq!(maps(&table, owner, &inner, true), Ok(()), "memory may be for a pool");
    let below = table.split(owner, inner.id, Kind::Frame, &[pages(1, 1)]).unwrap().remove(0);
    assert_eq!(below.extent, pages(5, 1));
    assert!(maps(&table, owner, &inner, false).is_err());
    table.delete(owner, inner.id).unwrap();
    let kept = table.split(owner, all.id, Kind::Frame, &[pages(7, 1)]).unwrap_err();
    assert!(matches!(kept, CapabilityFault::Split { part, .. } if part == pages(4, 4)), "{kept:?}");
    table.delete(owner, below.id).unwrap();
    table.split(owner, all.id, Kind::Frame, &[pages(7, 1)]).unwrap();
    let foreign = NewRegion { memory: Memory::Foreign { address: 8 }, ..memory(HOST, owner, 1) };
    let foreign = create(&mut table, foreign);
    let cannot = CapabilityFault::CannotSplit { region: foreign.region, backing: Backing::Foreign };
    assert_eq!(table.split(owner, foreign.id, Kind::Frame, &[pages(0, 1)]), Err(cannot));
    let read = table.derive(owner, all.id, None, Rights::READ, owner).unwrap();
    let lacks = table.split(owner, read.id, Kind::Frame, &[pages(6, 1)]).unwrap_err();
    assert!(matches!(lacks, CapabilityFault::Lacks { .. }), "{lacks:?}");
}
