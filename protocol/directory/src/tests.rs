use tombolo_base::random::Random;

use super::*;
use crate::world::{Memory, World};

const GEOMETRY: Geometry = Geometry {
    ranks: 3,
    me: Rank(0),
    pages: 6,
    block_pages: 2,
    hold_ns: 0,
    ahead: 0,
    consistency: Consistency::Sequential,
};

/// Delivers messages until there are none in transit.
fn run_until_idle(world: &mut World) {
    for now_ns in 1.. {
        let Some((from, to)) = world.loaded_links().next() else {
            let Some(rank) = (0..world.members.len()).find(|rank| {
                world.members[*rank].as_ref().is_some_and(|member| member.node.due_ns().is_some())
            }) else {
                break;
            };
            world.tick(rank, u64::MAX);
            continue;
        };
        world.deliver(from, to, now_ns);
        assert!(now_ns < 10_000, "it does not end");
    }
    assert_eq!(world.broken, None);
}

fn accesses(world: &World, page: u32) -> Vec<Option<Access>> {
    world.members.iter().map(|member| member.as_ref().map(|member| member.node.access(page))).collect()
}

#[test]
fn pages_are_shared_and_recalled() {
    use Access::{None, Read, Write};
    let mut world = World::new(GEOMETRY);
    assert_eq!(accesses(&world, 2), [Some(None), Some(Write), Some(None)]);
    world.access(0, 2, Read);
    run_until_idle(&mut world);
    assert_eq!(accesses(&world, 2), [Some(Read), Some(Read), Some(None)]);
    world.access(2, 2, Write);
    run_until_idle(&mut world);
    assert_eq!(accesses(&world, 2), [Some(None), Some(None), Some(Write)]);
    world.access(0, 2, Read);
    run_until_idle(&mut world);
    // The home has a copy of the content that passed through it.
    assert_eq!(accesses(&world, 2), [Some(Read), Some(Read), Some(Read)]);
    world.access(0, 2, Write);
    run_until_idle(&mut world);
    assert_eq!(accesses(&world, 2), [Some(Write), Some(None), Some(None)]);
    assert_eq!(world.latest[2], 2);
    let counts = world.members[0].as_ref().unwrap().node.counts(2);
    let expected = Counts { read_faults: 2, write_faults: 0, upgrades: 1, fetched: 2, taken: 1, returned: 1 };
    assert_eq!((counts, counts.faults()), (expected, 3));
}

#[test]
fn following_pages_are_prefetched() {
    let mut world = World::new(Geometry { block_pages: 4, pages: 12, ahead: 9, ..GEOMETRY });
    world.access(2, 1, Access::Read);
    run_until_idle(&mut world);
    let held: Vec<u32> = (0..12)
        .filter(|page| world.members[2].as_ref().unwrap().node.access(*page) == Access::Read)
        .collect();
    // The pages of the block, from the requested page on.
    assert_eq!(held, [1, 2, 3]);
}

#[test]
fn page_held_only_by_the_dead_is_lost() {
    let mut world = World::new(GEOMETRY);
    world.access(2, 0, Access::Write);
    world.access(1, 1, Access::Read);
    run_until_idle(&mut world);
    world.kill(2);
    run_until_idle(&mut world);
    for (page, refused) in [(0, 1), (1, 1), (2, 1), (4, 2), (5, 3)] {
        world.access(0, page, Access::Read);
        run_until_idle(&mut world);
        assert_eq!(world.refused, refused, "page {page}");
    }
    assert_eq!(world.members[0].as_ref().unwrap().node.lost(0), Some(Rank(2)));
    assert_eq!(world.members[0].as_ref().unwrap().node.lost(5), Some(Rank(2)));
}

#[test]
fn copies_outlive_their_home() {
    let mut world = World::new(GEOMETRY);
    world.access(0, 4, Access::Write);
    run_until_idle(&mut world);
    world.access(1, 5, Access::Read);
    run_until_idle(&mut world);
    world.kill(2);
    run_until_idle(&mut world);
    world.access(1, 4, Access::Read);
    world.access(0, 5, Access::Write);
    run_until_idle(&mut world);
    assert_eq!((world.refused, world.latest[5], world.is_waiting()), (0, 1, false));
    // And the home after it.
    world.kill(0);
    run_until_idle(&mut world);
    world.access(1, 4, Access::Write);
    run_until_idle(&mut world);
    assert_eq!(world.refused, 0);
    world.access(1, 5, Access::Write);
    run_until_idle(&mut world);
    assert_eq!(world.refused, 1);
}

#[test]
fn page_stays_for_its_hold_time() {
    let mut node = Node::new(Geometry { ranks: 2, hold_ns: 100, ..GEOMETRY }).unwrap();
    let mut memory = Memory { pages: (0..6).map(|page| (node.access(page), 0)).collect(), misuse: None };
    assert_eq!(node.fault(&mut memory, 1000, 2, Access::Write), Ok(Fault::Requested));
    assert_eq!(
        node.take_outgoing(),
        Some((Rank(1), Message::Want { page: 2, access: Access::Write, ahead: 0 }))
    );
    // A second fault on the same page sends no request.
    assert_eq!(node.fault(&mut memory, 1000, 2, Access::Read), Ok(Fault::Requested));
    let grant = Message::Grant { page: 2, access: Access::Write, content: Some(7) };
    node.receive(&mut memory, 1010, Rank(1), grant).unwrap();
    assert_eq!(memory.pages[2], (Access::Write, 7));
    let recall = Message::Recall { page: 2, leave: Access::None, content: true };
    node.receive(&mut memory, 1020, Rank(1), recall).unwrap();
    assert_eq!((node.take_outgoing(), node.due_ns()), (None, Some(1110)));
    node.tick(&mut memory, 1109).unwrap();
    assert_eq!(node.take_outgoing(), None);
    node.tick(&mut memory, 1110).unwrap();
    assert_eq!(node.take_outgoing(), Some((Rank(1), Message::Yield { page: 2, content: Some(7) })));
    assert_eq!((node.due_ns(), node.access(2)), (None, Access::None));
}

#[test]
fn protocol_violations_are_refused() {
    let node = Node::<u32>::new(GEOMETRY).unwrap();
    let memory = Memory { pages: (0..6).map(|page| (node.access(page), 0)).collect(), misuse: None };
    let read = Access::Read;
    for (from, message, violation) in [
        (1, Message::Want { page: 6, access: read, ahead: 0 }, Violation::Page(6)),
        (1, Message::Want { page: 0, access: Access::None, ahead: 0 }, Violation::Request(0)),
        (1, Message::Recall { page: 2, leave: read, content: true }, Violation::Holding(2)),
        (1, Message::Recall { page: 0, leave: read, content: true }, Violation::NotHome(0)),
        (1, Message::Yield { page: 0, content: Some(1) }, Violation::Answer(0)),
        (1, Message::Yield { page: u32::MAX, content: Some(1) }, Violation::Page(u32::MAX)),
        (2, Message::Grant { page: 2, access: read, content: Some(1) }, Violation::NotHome(2)),
        (1, Message::Grant { page: 2, access: read, content: None }, Violation::Holding(2)),
        (1, Message::Lost { page: 0, with: Rank(1) }, Violation::NotHome(0)),
        (1, Message::Held { first: 0, count: 1, access: read }, Violation::Report(0)),
        (1, Message::Held { first: 5, count: 2, access: read }, Violation::Page(5)),
        (1, Message::Held { first: 2, count: u32::MAX, access: read }, Violation::Page(2)),
    ] {
        let (mut node, mut memory) = (node.clone(), memory.clone());
        assert_eq!(node.receive(&mut memory, 0, Rank(from), message.clone()), Err(violation), "{message:?}");
        assert_eq!(memory.misuse, None);
    }
    let mut at_fault = node.clone();
    let mut faulting = memory.clone();
    assert_eq!(at_fault.fault(&mut faulting, 0, 6, read), Err(Violation::Page(6)));
    assert_eq!(at_fault.fault(&mut faulting, 0, 0, Access::None), Err(Violation::Request(0)));
}

#[test]
fn geometry_limits_are_checked() {
    let ranks = |ranks, me| Node::<u32>::new(Geometry { ranks, me: Rank(me), ..GEOMETRY }).err();
    assert_eq!((ranks(1, 0), ranks(64, 63)), (None, None));
    assert_eq!(ranks(65, 0), Some(GeometryError::Ranks { me: 0, ranks: 65 }));
    assert_eq!(ranks(3, 3), Some(GeometryError::Ranks { me: 3, ranks: 3 }));
    assert_eq!(ranks(0, 0), Some(GeometryError::Ranks { me: 0, ranks: 0 }));
    for (pages, block_pages) in [(0, 1), (1, 0), (u32::MAX, 1)] {
        let wrong = Node::<u32>::new(Geometry { pages, block_pages, ..GEOMETRY }).err();
        assert_eq!(wrong, Some(GeometryError::Pages { pages, block_pages }));
    }
}

#[test]
fn messages_of_any_kind_from_anywhere_never_panic() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut node = Node::new(Geometry { hold_ns: random.below(2) * 50, ahead: 3, ..GEOMETRY }).unwrap();
        let mut memory = Memory { pages: (0..6).map(|page| (node.access(page), 0)).collect(), misuse: None };
        for now_ns in 0..200 {
            let mut bytes = [0; wire::HEAD_BYTES];
            bytes[0] = random.between(1, 7) as u8;
            bytes[1] = random.below(3) as u8;
            bytes[4] = random.below(8) as u8;
            match bytes[0] {
                2 => bytes[2] = random.below(2) as u8,
                6 => bytes[8] = random.below(4) as u8,
                7 => bytes[8] = random.below(8) as u8,
                1 | 5 => bytes[3] = random.below(4) as u8,
                _ => {}
            }
            let from = Rank(random.below(4) as u8);
            match random.below(12) {
                0 => drop(node.fault(&mut memory, now_ns, random.below(7) as u32, Access::Write)),
                1 if random.chance(100) => drop(node.handle_death(&mut memory, now_ns, from)),
                2 => drop(node.tick(&mut memory, now_ns)),
                _ => {
                    let Ok(message) = wire::decode(&bytes, 4) else { continue };
                    let mut message = message.map(|_| 0);
                    if let Message::Yield { content, .. } | Message::Grant { content, .. } = &mut message {
                        *content = random.chance(500).then_some(5);
                    }
                    let _ = node.receive(&mut memory, now_ns, from, message);
                }
            }
            while node.take_outgoing().is_some() {}
            assert_eq!(memory.misuse, None, "seed {seed}");
        }
    }
}

mod release {
    use super::*;
    use crate::release_world::{PendingOperation, ReleaseWorld};

    fn run_until_idle(world: &mut ReleaseWorld) {
        for step in 0.. {
            let Some((from, to)) = world.loaded_links().next() else { break };
            world.deliver(from, to);
            assert!(step < 10_000, "it does not end");
        }
        assert_eq!(world.broken, None);
    }

    fn cells(world: &ReleaseWorld, rank: usize, page: usize) -> (Access, Vec<u8>) {
        world.members[rank].as_ref().unwrap().memory.pages[page].clone()
    }

    fn write(world: &mut ReleaseWorld, rank: usize, page: u32) {
        world.begin(rank, PendingOperation::Write(page, false));
        run_until_idle(world);
    }

    #[test]
    fn concurrent_writes_are_visible_after_refresh() {
        let mut world = ReleaseWorld::new(GEOMETRY);
        // Its home is rank 1, which writes as well.
        for rank in [0, 2, 1, 0] {
            write(&mut world, rank, 2);
        }
        assert_eq!(cells(&world, 0, 2), (Access::Write, vec![2, 0, 0, 0]));
        assert_eq!(cells(&world, 1, 2), (Access::Write, vec![0, 1, 0, 0]));
        for rank in [0, 2] {
            world.release(rank);
            assert!(!world.is_idle(rank));
            run_until_idle(&mut world);
            assert!(world.is_idle(rank));
        }
        assert_eq!(cells(&world, 1, 2), (Access::Write, vec![2, 1, 1, 0]));
        // A copy stays unchanged until then.
        assert_eq!(cells(&world, 0, 2), (Access::Read, vec![2, 0, 0, 0]));
        world.refresh(0);
        world.begin(0, PendingOperation::Read(2));
        run_until_idle(&mut world);
        assert_eq!(cells(&world, 0, 2), (Access::Read, vec![2, 1, 1, 0]));
        let counts = world.members[0].as_ref().unwrap().node.counts(2);
        let expected =
            Counts { read_faults: 1, write_faults: 1, upgrades: 0, fetched: 2, ..Counts::default() };
        assert_eq!(counts, expected);
    }

    #[test]
    fn stale_page_is_requested_again_after_refresh() {
        let mut world = ReleaseWorld::new(GEOMETRY);
        world.begin(0, PendingOperation::Read(2));
        world.deliver(0, 1);
        // The old content is in transit when another rank releases.
        world.begin(2, PendingOperation::Write(2, false));
        world.deliver(2, 1);
        world.deliver(1, 2);
        world.release(2);
        world.deliver(2, 1);
        world.deliver(2, 1);
        world.deliver(1, 2);
        assert!(world.is_idle(2));
        world.refresh(0);
        world.deliver(1, 0);
        assert!(!world.is_idle(0));
        run_until_idle(&mut world);
        assert_eq!(cells(&world, 0, 2), (Access::Read, vec![0, 0, 1, 0]));
    }

    #[test]
    fn a_page_under_a_lock_has_the_last_write() {
        let mut world = ReleaseWorld::new(GEOMETRY);
        for rank in [0, 1, 2, 0, 2, 1] {
            assert!(world.is_lock_free());
            world.lock(rank);
            for page in [2, 4] {
                world.begin(rank, PendingOperation::Write(page, true));
                run_until_idle(&mut world);
            }
            world.release(rank);
            run_until_idle(&mut world);
        }
        assert_eq!((cells(&world, 1, 2).1[3], cells(&world, 2, 4).1[3]), (6, 6));
    }

    #[test]
    fn pages_of_a_dead_home_are_lost_with_what_was_written() {
        let mut world = ReleaseWorld::new(GEOMETRY);
        write(&mut world, 0, 2);
        write(&mut world, 0, 4);
        world.release(0);
        world.kill(1);
        run_until_idle(&mut world);
        assert!(world.is_idle(0) && world.members[0].as_mut().unwrap().node.take_failed().is_none());
        assert_eq!(world.members[0].as_ref().unwrap().node.lost(2), Some(Rank(1)));
        world.begin(0, PendingOperation::Read(2));
        write(&mut world, 2, 0);
        assert_eq!((world.refused, cells(&world, 2, 0).1[2]), (1, 1));
        // Without a release in progress, the next one reports it.
        write(&mut world, 0, 4);
        world.kill(2);
        run_until_idle(&mut world);
        assert_eq!(world.members[0].as_mut().unwrap().node.take_failed(), Some(Rank(2)));
    }

    #[test]
    fn messages_that_do_not_fit_are_refused() {
        let world = ReleaseWorld::new(GEOMETRY);
        let member = world.members[0].clone().unwrap();
        let read = Access::Read;
        for (message, violation) in [
            (Message::Want { page: 6, access: read, ahead: 0 }, Violation::Page(6)),
            (Message::Want { page: 2, access: read, ahead: 0 }, Violation::NotHome(2)),
            (Message::Want { page: 0, access: Access::Write, ahead: 0 }, Violation::Request(0)),
            (Message::Want { page: 0, access: read, ahead: 1 }, Violation::Request(0)),
            (Message::Grant { page: 2, access: read, content: Some(vec![0; 4]) }, Violation::Holding(2)),
            (Message::Grant { page: 4, access: read, content: Some(vec![0; 4]) }, Violation::NotHome(4)),
            (Message::Grant { page: 9, access: read, content: Some(vec![0; 4]) }, Violation::Page(9)),
            (Message::Recall { page: 2, leave: read, content: true }, Violation::Holding(2)),
            (Message::Difference { page: 2, content: vec![0, 1] }, Violation::NotHome(2)),
            (Message::Difference { page: 0, content: vec![9, 1] }, Violation::Difference(0)),
            (Message::Confirmed { number: 1 }, Violation::Confirmation(1)),
            (Message::Held { first: 0, count: 1, access: read }, Violation::Holding(0)),
        ] {
            let (mut node, mut memory) = (member.node.clone(), member.memory.clone());
            assert_eq!(node.receive(&mut memory, 0, Rank(1), message.clone()), Err(violation), "{message:?}");
            assert_eq!((memory.misuse, memory.pages), (None, member.memory.pages.clone()));
        }
        // Messages of release consistency are rejected without it.
        let mut node = Node::<u32>::new(GEOMETRY).unwrap();
        let mut memory = Memory { pages: (0..6).map(|page| (node.access(page), 0)).collect(), misuse: None };
        let difference = Message::Difference { page: 0, content: 1 };
        assert_eq!(node.receive(&mut memory, 0, Rank(1), difference), Err(Violation::Difference(0)));
        assert!(node.receive(&mut memory, 0, Rank(1), Message::Confirm { number: 1 }).is_err());
    }
}
