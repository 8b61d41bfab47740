//! Memory that peers reach by themselves.

use super::*;

const ACCESS: Access = Access { read: true, write: true };

/// Two endpoints, and memory of the second under key 3 that the first can be let reach.
fn with_memory(room: usize) -> (Vec<TestEngine>, Rc<RefCell<World>>, Buffer) {
    let (mut engines, world) = endpoints(2, room, true);
    let memory = exposable(&world, 1000);
    assert!(engines[1].register(3, Region { memory: memory.clone(), base: 100, access: ACCESS }));
    (engines, world, memory)
}

fn exposable(world: &Rc<RefCell<World>>, length: usize) -> Buffer {
    let memory = Buffer::zeroed(length);
    world.borrow_mut().exposable.insert(memory.number(), Rc::clone(&memory.bytes));
    memory
}

fn write(address: u64, bytes: &[u8]) -> Write<Buffer> {
    let memory = Buffer::new(bytes.to_vec());
    Write { to: 1, key: 3, address, data: None, memory, context: 1, report: true, inject: false }
}

fn read(address: u64, memory: &Buffer) -> Read<Buffer> {
    Read { from: 1, key: 3, address, memory: memory.clone(), context: 2, report: true }
}

/// How the operations of the first endpoint ended that are over.
fn over(engines: &mut [TestEngine]) -> Vec<Option<Failure>> {
    std::iter::from_fn(|| engines[0].next_sent()).map(|done| done.failure).collect()
}

#[test]
fn what_is_reached_is_written_and_read_without_its_owner() {
    let (mut engines, _world, memory) = with_memory(4);
    engines[0].write(write(110, b"by messages")).unwrap();
    assert_eq!(over(&mut engines), []);
    settle(&mut engines);
    assert_eq!((over(&mut engines), &memory.read()[10..21]), (vec![None], &b"by messages"[..]));
    // The owner does nothing from here on.
    engines[0].write(write(110, b"by itself")).unwrap();
    let target = Buffer::zeroed(11);
    engines[0].read(read(110, &target)).unwrap();
    assert_eq!(over(&mut engines), [None, None]);
    assert_eq!((target.read(), engines[0].counts().done(Kind::Write)), (b"by itselfes".to_vec(), 2));
    // All of it, and not a byte more.
    engines[0].write(write(100, &[7; 1000])).unwrap();
    assert_eq!(memory.read(), [7; 1000]);
    for (address, length) in [(99, 1), (1100, 1), (101, 1000), (u64::MAX, 2)] {
        engines[0].write(write(address, &vec![9; length])).unwrap();
        settle(&mut engines);
    }
    assert_eq!(over(&mut engines)[1..], [Some(Failure::NoAccess); 4]);
    assert_eq!(memory.read(), [7; 1000]);
}

#[test]
fn what_was_asked_for_before_comes_first() {
    let (mut engines, _world, memory) = with_memory(4);
    engines[0].write(write(100, &[1; 8])).unwrap();
    settle(&mut engines);
    let atomic = Atomic {
        to: 1,
        key: 3,
        address: 100,
        op: AtomicOp::Sum,
        datatype: Datatype::U64,
        count: 1,
        operands: 5u64.to_le_bytes().into(),
        compares: None,
        result: None,
        context: 4,
        report: true,
    };
    engines[0].atomic(atomic).unwrap();
    engines[0].write(write(100, &[0; 8])).unwrap();
    assert_eq!(memory.read()[..8], [1; 8], "it waits for the sum");
    settle(&mut engines);
    assert_eq!(memory.read()[..8], [0; 8]);
    assert_eq!(over(&mut engines), [None; 3]);
    engines[0].write(write(100, &[2; 8])).unwrap();
    assert_eq!(memory.read()[..8], [2; 8], "nothing is under way");
}

#[test]
fn a_key_that_is_used_again_is_the_new_memory() {
    let (mut engines, world, first) = with_memory(4);
    engines[0].write(write(100, b"first")).unwrap();
    settle(&mut engines);
    engines[1].unregister(3);
    let second = exposable(&world, 500);
    assert!(engines[1].register(3, Region { memory: second.clone(), base: 100, access: ACCESS }));
    for round in 0..3 {
        engines[0].write(write(100 + round, b"second")).unwrap();
        settle(&mut engines);
    }
    assert_eq!((&first.read()[..6], &second.read()[..8]), (&b"first\0"[..], &b"sssecond"[..]));
    engines[1].unregister(3);
    engines[0].write(write(100, b"nobody")).unwrap();
    settle(&mut engines);
    assert_eq!(over(&mut engines).last(), Some(&Some(Failure::NoKey)));
    assert_eq!(&second.read()[..8], b"sssecond");
}

#[test]
fn who_may_not_write_does_not_and_what_is_not_let_is_done_by_the_owner() {
    let (mut engines, world, _) = with_memory(4);
    engines[1].unregister(3);
    let memory = exposable(&world, 100);
    let access = Access { read: true, write: false };
    assert!(engines[1].register(3, Region { memory: memory.clone(), base: 0, access }));
    let target = Buffer::zeroed(4);
    for _ in 0..3 {
        engines[0].read(read(0, &target)).unwrap();
        engines[0].write(write(0, b"no")).unwrap();
        settle(&mut engines);
        let mut ends = over(&mut engines);
        ends.sort_by_key(Option::is_some);
        assert_eq!(ends, [None, Some(Failure::NoAccess)]);
    }
    assert_eq!(memory.read(), [0; 100]);
    // Where the owner lets nobody, all goes on by messages.
    let (mut engines, _world, memory) = with_memory(4);
    engines[1].set_direct(false);
    for round in 0..3 {
        engines[0].write(write(100 + round, b"slow")).unwrap();
        assert_eq!(over(&mut engines), []);
        settle(&mut engines);
        assert_eq!(over(&mut engines), [None]);
    }
    assert_eq!(&memory.read()[..6], b"ssslow");
}

#[test]
fn the_dead_are_not_reached() {
    let (mut engines, world, _) = with_memory(4);
    engines[0].write(write(100, b"x")).unwrap();
    settle(&mut engines);
    let dead = engines[1].address();
    world.borrow_mut().kill(dead);
    settle(&mut engines[..1]);
    over(&mut engines);
    assert!(matches!(engines[0].write(write(100, b"y")), Err(Busy::Failed(_))));
}
