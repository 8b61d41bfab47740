//! Tests of direct access to registered memory.

use super::*;

const ACCESS: Access = Access { read: true, write: true };

/// Creates two endpoints, and memory of the second under key 3 that can be exposed to the first.
fn with_memory(capacity: usize) -> (Vec<TestEngine>, Rc<RefCell<World>>, Buffer) {
    let (mut engines, world) = endpoints(2, capacity, true);
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

/// Returns the results of the first endpoint's completed operations.
fn take_failures(engines: &mut [TestEngine]) -> Vec<Option<Failure>> {
    std::iter::from_fn(|| engines[0].next_sent()).map(|completion| completion.failure).collect()
}

#[test]
fn direct_access_needs_no_work_of_the_owner() {
    let (mut engines, _world, memory) = with_memory(4);
    engines[0].write(write(110, b"by messages")).unwrap();
    assert_eq!(take_failures(&mut engines), []);
    poll_until_idle(&mut engines);
    assert_eq!((take_failures(&mut engines), &memory.read()[10..21]), (vec![None], &b"by messages"[..]));
    // From here on the owner makes no progress.
    engines[0].write(write(110, b"by itself")).unwrap();
    let target = Buffer::zeroed(11);
    engines[0].read(read(110, &target)).unwrap();
    assert_eq!(take_failures(&mut engines), [None, None]);
    assert_eq!(
        (target.read(), engines[0].counts().succeeded(CompletionKind::Write)),
        (b"by itselfes".to_vec(), 2)
    );
    // The whole memory, and not a byte more.
    engines[0].write(write(100, &[7; 1000])).unwrap();
    assert_eq!(memory.read(), [7; 1000]);
    for (address, length) in [(99, 1), (1100, 1), (101, 1000), (u64::MAX, 2)] {
        engines[0].write(write(address, &vec![9; length])).unwrap();
        poll_until_idle(&mut engines);
    }
    assert_eq!(take_failures(&mut engines)[1..], [Some(Failure::NoAccess); 4]);
    assert_eq!(memory.read(), [7; 1000]);
}

#[test]
fn earlier_operations_complete_before_direct_access() {
    let (mut engines, _world, memory) = with_memory(4);
    engines[0].write(write(100, &[1; 8])).unwrap();
    poll_until_idle(&mut engines);
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
    poll_until_idle(&mut engines);
    assert_eq!(memory.read()[..8], [0; 8]);
    assert_eq!(take_failures(&mut engines), [None; 3]);
    engines[0].write(write(100, &[2; 8])).unwrap();
    assert_eq!(memory.read()[..8], [2; 8], "nothing is under way");
}

#[test]
fn reused_key_refers_to_the_new_memory() {
    let (mut engines, world, first) = with_memory(4);
    engines[0].write(write(100, b"first")).unwrap();
    poll_until_idle(&mut engines);
    engines[1].unregister(3);
    let second = exposable(&world, 500);
    assert!(engines[1].register(3, Region { memory: second.clone(), base: 100, access: ACCESS }));
    for round in 0..3 {
        engines[0].write(write(100 + round, b"second")).unwrap();
        poll_until_idle(&mut engines);
    }
    assert_eq!((&first.read()[..6], &second.read()[..8]), (&b"first\0"[..], &b"sssecond"[..]));
    engines[1].unregister(3);
    engines[0].write(write(100, b"nobody")).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!(take_failures(&mut engines).last(), Some(&Some(Failure::NoKey)));
    assert_eq!(&second.read()[..8], b"sssecond");
}

#[test]
fn direct_access_respects_rights_or_falls_back_to_owner() {
    let (mut engines, world, _) = with_memory(4);
    engines[1].unregister(3);
    let memory = exposable(&world, 100);
    let access = Access { read: true, write: false };
    assert!(engines[1].register(3, Region { memory: memory.clone(), base: 0, access }));
    let target = Buffer::zeroed(4);
    for _ in 0..3 {
        engines[0].read(read(0, &target)).unwrap();
        engines[0].write(write(0, b"no")).unwrap();
        poll_until_idle(&mut engines);
        let mut ends = take_failures(&mut engines);
        ends.sort_by_key(Option::is_some);
        assert_eq!(ends, [None, Some(Failure::NoAccess)]);
    }
    assert_eq!(memory.read(), [0; 100]);
    // If the owner exposes nothing, transfers go by messages.
    let (mut engines, _world, memory) = with_memory(4);
    engines[1].set_direct(false);
    for round in 0..3 {
        engines[0].write(write(100 + round, b"slow")).unwrap();
        assert_eq!(take_failures(&mut engines), []);
        poll_until_idle(&mut engines);
        assert_eq!(take_failures(&mut engines), [None]);
    }
    assert_eq!(&memory.read()[..6], b"ssslow");
}

#[test]
fn no_direct_access_to_a_dead_peer() {
    let (mut engines, world, _) = with_memory(4);
    engines[0].write(write(100, b"x")).unwrap();
    poll_until_idle(&mut engines);
    let dead = engines[1].address();
    world.borrow_mut().kill(dead);
    poll_until_idle(&mut engines[..1]);
    take_failures(&mut engines);
    assert!(matches!(engines[0].write(write(100, b"y")), Err(PostError::Failed(_))));
}

#[test]
fn direct_access_spans_pieces() {
    for piece_bytes in [1000, 999, 400, 16] {
        let (mut engines, world, memory) = with_memory(200);
        world.borrow_mut().piece_bytes = piece_bytes;
        engines[0].write(write(100, b"first")).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!(take_failures(&mut engines), [None]);
        let by_itself = engines[1].counts().succeeded(CompletionKind::RemoteWrite);
        let mut expected = memory.read();
        for (address, length) in
            [(100, 1000), (100, 1), (1099, 1), (499, 2), (500, 400), (450, 600), (900, 0), (1100, 0)]
        {
            let bytes = pattern(length, address as usize);
            expected[address as usize - 100..][..length].copy_from_slice(&bytes);
            engines[0].write(write(address, &bytes)).unwrap();
            assert_eq!(
                (memory.read() == expected, take_failures(&mut engines)),
                (true, vec![None]),
                "{address} {length}"
            );
            let target = Buffer::zeroed(length);
            engines[0].read(read(address, &target)).unwrap();
            assert_eq!(
                (target.read(), take_failures(&mut engines)),
                (bytes, vec![None]),
                "{address} {length}"
            );
        }
        assert_eq!(
            engines[1].counts().succeeded(CompletionKind::RemoteWrite),
            by_itself,
            "its owner did nothing"
        );
        for (address, length) in [(99, 2), (1099, 2), (100, 1001), (u64::MAX, 2), (0, 0)] {
            engines[0].write(write(address, &vec![9; length])).unwrap();
            poll_until_idle(&mut engines);
            assert_eq!(take_failures(&mut engines), [Some(Failure::NoAccess)]);
        }
        assert!(memory.read() == expected);
    }
}

/// Injects a peer's replies about the location of its memory: base, length, number of pieces that follow.
fn inject_direct_replies(
    world: &Rc<RefCell<World>>,
    engines: &mut [TestEngine],
    pieces: &[(u64, u64, u64)],
) -> Option<Failure> {
    let to = engines[0].address();
    for (base, length, more) in pieces {
        let head = 18 | 7 << 16 | more << 32;
        let words = [head, 3, 5, 1000, 0, *base, *length];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        world.borrow_mut().inject(to, 0, bytes);
    }
    poll_until_idle(&mut engines[..1]);
    engines[0].core.peers[0].lost
}

#[test]
fn noncontiguous_pieces_are_refused() {
    let wrong = Some(Failure::Violation);
    for (pieces, outcome) in [
        (&[(100, 50, 0)][..], None),
        (&[(100, 50, 1), (150, 50, 0)], None),
        (&[(100, 50, 1)], None),
        (&[(100, 50, 0), (150, 50, 0)], wrong),
        (&[(100, 50, 1), (151, 50, 0)], wrong),
        (&[(100, 50, 1), (149, 50, 0)], wrong),
        (&[(100, 50, 2), (150, 50, 0)], wrong),
        (&[(100, 50, 1), (150, u64::MAX, 0)], wrong),
        (&[(u64::MAX, 2, 0)], wrong),
        (&[(100, 50, TOO_MANY_PIECES)], wrong),
    ] {
        let (mut engines, world, _) = with_memory(64);
        engines[0].write(write(100, b"x")).unwrap();
        // The request is out; the replies are injected instead of the owner's.
        for _ in 0..4 {
            engines[0].process_events();
            engines[0].progress();
        }
        assert_eq!(inject_direct_replies(&world, &mut engines, pieces), outcome, "{pieces:?}");
    }
}

const TOO_MANY_PIECES: u64 = crate::net::MAX_PIECES as u64;
