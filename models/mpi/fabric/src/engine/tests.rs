//! Tests with all endpoints in one thread: messages arrive intact on every path, and an invalid message ends
//! only its link.

mod direct;
mod peer_loss;
mod withdraw;

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::atomic::{AtomicOp, Datatype};
use crate::completion::flags;
use crate::net::sim::{SimNet, World};

#[derive(Clone, Debug)]
struct Buffer {
    bytes: Rc<RefCell<Vec<u8>>>,
    start: usize,
    length: usize,
}

impl Buffer {
    fn new(bytes: Vec<u8>) -> Buffer {
        Buffer { start: 0, length: bytes.len(), bytes: Rc::new(RefCell::new(bytes)) }
    }

    fn zeroed(length: usize) -> Buffer {
        Buffer::new(vec![0; length])
    }

    /// Returns the number that stands for the buffer's address.
    fn number(&self) -> usize {
        Rc::as_ptr(&self.bytes).addr() + self.start
    }

    fn read(&self) -> Vec<u8> {
        self.bytes.borrow()[self.start..self.start + self.length].to_vec()
    }
}

impl Memory for Buffer {
    fn len(&self) -> usize {
        self.length
    }

    fn for_each_source(&self, offset: usize, length: usize, mut take: impl FnMut(&[u8])) {
        // In two pieces, like memory that is not contiguous.
        let start = self.start + offset;
        let (bytes, half) = (self.bytes.borrow(), length / 2);
        take(&bytes[start..start + half]);
        take(&bytes[start + half..start + length]);
    }

    fn for_each_target(&mut self, offset: usize, length: usize, mut give: impl FnMut(&mut [u8])) {
        let start = self.start + offset;
        let (mut bytes, half) = (self.bytes.borrow_mut(), length / 2);
        give(&mut bytes[start..start + half]);
        give(&mut bytes[start + half..start + length]);
    }

    fn as_contiguous(&self) -> Option<(usize, usize)> {
        Some((self.number(), self.length))
    }

    fn part(&self, offset: usize, length: usize) -> Buffer {
        Buffer { bytes: Rc::clone(&self.bytes), start: self.start + offset, length }
    }
}

type TestEngine = Engine<SimNet, Buffer>;

/// Creates `count` endpoints, each with the addresses of all in its address vector, in order.
fn endpoints(count: u64, capacity: usize, shared: bool) -> (Vec<TestEngine>, Rc<RefCell<World>>) {
    let world = World::new(capacity, shared);
    let mut engines: Vec<TestEngine> =
        (0..count).map(|number| Engine::new(SimNet::new(&world, number + 1))).collect();
    let addresses: Vec<Address> = engines.iter().map(Engine::address).collect();
    for engine in &mut engines {
        for (index, address) in addresses.iter().enumerate() {
            engine.set_route(index as u64, Some(*address));
        }
    }
    (engines, world)
}

fn poll_until_idle(engines: &mut [TestEngine]) {
    for _ in 0..400 {
        for engine in engines.iter_mut() {
            engine.process_events();
            engine.progress();
        }
    }
}

fn message(to: u64, tag: Option<u64>, bytes: &[u8], context: usize) -> Send<Buffer> {
    let memory = Buffer::new(bytes.to_vec());
    Send {
        to,
        tag,
        data: Some(context as u64),
        memory,
        context,
        report: true,
        inject: false,
        delivery: false,
    }
}

fn receive_from(from: u64, tag: Option<(u64, u64)>, memory: &Buffer, context: usize) -> Receive<Buffer> {
    Receive { from, tag, memory: memory.clone(), context, report: true, multi: false, claimed: false }
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + seed * 7 + index / 251) as u8).collect()
}

/// Lengths at which the path of a message changes, and their neighbors.
const LENGTHS: [usize; 14] = [
    0,
    1,
    8,
    32,
    INLINE_BYTES - 1,
    INLINE_BYTES,
    INLINE_BYTES + 1,
    PART_BYTES,
    INJECT_BYTES - 1,
    INJECT_BYTES,
    INJECT_BYTES + 1,
    4096 * 3 + 5,
    50_000,
    (CREDIT_BYTES + 1) as usize,
];

#[test]
fn messages_arrive_over_every_send_path() {
    for shared in [false, true] {
        for delivery in [false, true] {
            for expected_first in [false, true] {
                let (mut engines, _world) = endpoints(2, 4, shared);
                // The first goes through the ring, as there are no chunks yet.
                for (round, length) in LENGTHS.iter().chain(&LENGTHS).copied().enumerate() {
                    let (bytes, target) = (pattern(length, round), Buffer::zeroed(length + 3));
                    if expected_first {
                        engines[1].receive(receive_from(0, Some((7, 0)), &target, 2)).unwrap();
                        poll_until_idle(&mut engines);
                    }
                    engines[0].send(Send { delivery, ..message(1, Some(7), &bytes, 1) }).unwrap();
                    poll_until_idle(&mut engines);
                    if !expected_first {
                        let completed = engines[0].next_sent();
                        engines[1].receive(receive_from(0, Some((7, 0)), &target, 2)).unwrap();
                        poll_until_idle(&mut engines);
                        let completed = completed.or_else(|| engines[0].next_sent());
                        assert_eq!(
                            completed.map(|completed| (completed.context, completed.failure)),
                            Some((1, None))
                        );
                    } else {
                        assert!(engines[0].next_sent().is_some());
                    }
                    let received = engines[1].next_received().unwrap();
                    assert_eq!(
                        (received.context, received.length, received.source, received.failure),
                        (2, length, 0, None)
                    );
                    assert_eq!((received.tag, received.data), (7, 1));
                    assert_eq!(target.read()[..length], bytes, "{length} {shared} {delivery}");
                    assert_eq!(target.read()[length..], [0; 3]);
                    assert!(engines[0].next_sent().is_none() && engines[1].next_received().is_none());
                }
                assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
            }
        }
    }
}

#[test]
fn too_long_message_is_truncated_and_reported() {
    for length in [100, 5000, 60_000] {
        let (mut engines, _world) = endpoints(2, 4, true);
        let target = Buffer::zeroed(60);
        engines[1].receive(receive_from(NO_ADDRESS, Some((0, u64::MAX)), &target, 2)).unwrap();
        engines[0].send(message(1, Some(9), &pattern(length, 1), 1)).unwrap();
        poll_until_idle(&mut engines);
        let received = engines[1].next_received().unwrap();
        assert_eq!(
            (received.length, received.failure),
            (60, Some(Failure::Truncated { missing_bytes: length - 60 }))
        );
        assert_eq!(target.read(), pattern(length, 1)[..60]);
        assert!(engines[0].next_sent().unwrap().failure.is_none());
    }
}

#[test]
fn accepted_link_cancels_pending_connect() {
    let (mut engines, world) = endpoints(2, 8, true);
    let slow = engines[1].address();
    world.borrow_mut().hold_connects(slow);
    let targets = [Buffer::zeroed(5), Buffer::zeroed(5)];
    for side in [0, 1] {
        engines[side].receive(receive_from(1 - side as u64, None, &targets[side], 1)).unwrap();
        engines[side].send(message(1 - side as u64, None, b"hello", 2)).unwrap();
    }
    poll_until_idle(&mut engines);
    assert!(targets.iter().all(|target| target.read() == b"hello"));
    assert_eq!(world.borrow().held_connects(slow), 0);
    assert_eq!(
        engines.iter().map(|engine| world.borrow().links(engine.address())).collect::<Vec<_>>(),
        [1, 1]
    );
}

#[test]
fn message_over_accepted_link_is_received_at_next_poll() {
    let (mut engines, _world) = endpoints(2, 8, true);
    let target = Buffer::zeroed(5);
    engines[1].receive(receive_from(0, None, &target, 1)).unwrap();
    engines[0].send(message(1, None, b"hello", 2)).unwrap();
    // The first poll requests a link, the second finds it and sends over it.
    for side in [0, 0, 1] {
        engines[side].progress();
    }
    assert_eq!(target.read(), b"hello");
}

#[test]
fn peek_finds_unexpected_message_and_claims_it() {
    let (mut engines, _world) = endpoints(2, 8, true);
    let peek = |context| Peek { from: 0, tag: 5, ignore: 0, context, claim: false, discard: false };
    engines[1].peek(peek(1));
    assert_eq!(engines[1].next_received().unwrap().failure, Some(Failure::NoMessage));
    assert_eq!(engines[1].counts().failed(CompletionKind::Receive), 0);
    for (length, context) in [(10, 1), (20_000, 2), (30, 3)] {
        engines[0].send(message(1, Some(5), &pattern(length, context), context)).unwrap();
    }
    // Polling is enough: completions need not be taken in between.
    for _ in 0..20 {
        engines[0].progress();
        engines[0].process_events();
        engines[1].peek(peek(0));
    }
    while engines[1].next_received().is_some() {}
    engines[1].peek(peek(2));
    let found = engines[1].next_received().unwrap();
    assert_eq!((found.length, found.data, found.failure), (10, 1, None));
    engines[1].peek(Peek { claim: true, ..peek(3) });
    engines[1].peek(Peek { claim: true, ..peek(4) });
    assert_eq!(engines[1].next_received().unwrap().length, 10);
    assert_eq!(engines[1].next_received().unwrap().length, 20_000);
    // A claimed message is not delivered to another receive.
    let (other, second, first) = (Buffer::zeroed(30), Buffer::zeroed(20_000), Buffer::zeroed(10));
    engines[1].receive(receive_from(0, Some((5, 0)), &other, 9)).unwrap();
    engines[1].receive(Receive { claimed: true, ..receive_from(0, Some((5, 0)), &second, 4) }).unwrap();
    engines[1].receive(Receive { claimed: true, ..receive_from(0, Some((5, 0)), &first, 3) }).unwrap();
    let repeated = engines[1].receive(Receive { claimed: true, ..receive_from(0, Some((5, 0)), &first, 3) });
    assert_eq!(repeated, Err(PostError::Failed(Failure::NoMessage)));
    poll_until_idle(&mut engines);
    assert_eq!(
        (first.read(), second.read(), other.read()),
        (pattern(10, 1), pattern(20_000, 2), pattern(30, 3))
    );
    engines[0].send(Send { delivery: true, ..message(1, Some(5), &[1], 4) }).unwrap();
    poll_until_idle(&mut engines);
    engines[1].peek(Peek { discard: true, ..peek(5) });
    poll_until_idle(&mut engines);
    engines[1].peek(peek(6));
    assert_eq!(engines[1].core.received.back().unwrap().failure, Some(Failure::NoMessage));
    let completed: Vec<usize> =
        std::iter::from_fn(|| engines[0].next_sent()).map(|completed| completed.context).collect();
    assert_eq!(completed.len(), 4);
}

#[test]
fn multi_recv_buffer_takes_messages_until_nearly_full() {
    let (mut engines, _world) = endpoints(2, 8, true);
    engines[1].set_min_multi_bytes(50);
    let (first, second) = (Buffer::zeroed(8000), Buffer::zeroed(100));
    for (target, context) in [(&first, 1), (&second, 2)] {
        engines[1]
            .receive(Receive { multi: true, ..receive_from(NO_ADDRESS, None, target, context) })
            .unwrap();
    }
    for (length, context) in [(100, 1), (5000, 2), (2880, 3), (7, 4)] {
        engines[0].send(message(1, None, &pattern(length, context), context)).unwrap();
    }
    poll_until_idle(&mut engines);
    let mut received: Vec<_> = std::iter::from_fn(|| engines[1].next_received()).collect();
    assert_eq!(received.iter().filter(|completion| completion.flags & flags::MULTI_RECV != 0).count(), 1);
    assert_ne!(
        received.iter().rfind(|completion| completion.context == 1).unwrap().flags & flags::MULTI_RECV,
        0
    );
    received.sort_by_key(|completion| completion.data);
    let at: Vec<_> = received
        .iter()
        .map(|completion| (completion.context, completion.buffer, completion.length))
        .collect();
    assert_eq!(at, [(1, 0, 100), (1, 100, 5000), (1, 5100, 2880), (2, 0, 7)]);
    assert_eq!(first.read()[100..5100], pattern(5000, 2));
    assert!(engines[1].cancel(2));
    let canceled = engines[1].next_received().unwrap();
    assert_eq!(canceled.failure, Some(Failure::Canceled));
    assert_ne!(canceled.flags & flags::MULTI_RECV, 0);
    assert!(!engines[1].cancel(2));
}

#[test]
fn remote_memory_access_respects_rights() {
    for shared in [false, true] {
        let (mut engines, _world) = endpoints(2, 4, shared);
        let memory = Buffer::zeroed(60_000);
        let access = Access { read: true, write: true };
        assert!(engines[1].register(3, Region { memory: memory.clone(), base: 1000, access }));
        assert!(!engines[1].register(3, Region { memory: memory.clone(), base: 0, access }));
        let write = |key, address, bytes: Vec<u8>, data, context| Write {
            to: 1,
            key,
            address,
            data,
            memory: Buffer::new(bytes),
            context,
            report: true,
            inject: false,
        };
        for round in 0..2 {
            engines[0].write(write(3, 1010, pattern(50_000, round), Some(77), 1)).unwrap();
            let target = Buffer::zeroed(40_000);
            let read =
                Read { from: 1, key: 3, address: 2000, memory: target.clone(), context: 2, report: true };
            engines[0].read(read).unwrap();
            poll_until_idle(&mut engines);
            let completions: Vec<_> = std::iter::from_fn(|| engines[0].next_sent()).collect();
            assert_eq!(
                completions
                    .iter()
                    .map(|completion| (completion.context, completion.failure))
                    .collect::<Vec<_>>(),
                [(1, None), (2, None)]
            );
            assert_eq!(memory.read()[10..50_010], pattern(50_000, round));
            assert_eq!(target.read(), pattern(50_000, round)[990..40_990]);
            let completed = engines[1].next_received().unwrap();
            assert_eq!((completed.data, completed.flags & flags::REMOTE_WRITE), (77, flags::REMOTE_WRITE));
        }
        for (key, address, length, failure) in [
            (4, 1000, 1, Some(Failure::NoKey)),
            (3, 999, 1, Some(Failure::NoAccess)),
            (3, 60_999, 1, None),
            (3, 60_999, 2, Some(Failure::NoAccess)),
            (3, u64::MAX, 2, Some(Failure::NoAccess)),
            (3, 1000, 60_000, None),
            (3, 1001, 60_000, Some(Failure::NoAccess)),
        ] {
            engines[0].write(write(key, address, vec![1; length], None, 5)).unwrap();
            let target = Buffer::zeroed(length);
            let read = Read { from: 1, key, address, memory: target, context: 6, report: true };
            engines[0].read(read).unwrap();
            poll_until_idle(&mut engines);
            for _ in 0..2 {
                assert_eq!(engines[0].next_sent().unwrap().failure, failure, "{key} {address} {length}");
            }
        }
        let atomic = |op, operands: Vec<u8>, compares: Option<Vec<u8>>, result: Option<&Buffer>| Atomic {
            to: 1,
            key: 3,
            address: 1008,
            op,
            datatype: Datatype::U32,
            count: 2,
            operands: operands.into(),
            compares: compares.map(Into::into),
            result: result.cloned(),
            context: 7,
            report: true,
        };
        let words = |a: u32, b: u32| [a.to_le_bytes(), b.to_le_bytes()].concat();
        let result = Buffer::zeroed(8);
        engines[0].atomic(atomic(AtomicOp::Write, words(5, 6), None, None)).unwrap();
        engines[0].atomic(atomic(AtomicOp::Sum, words(10, 20), None, Some(&result))).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!((result.read(), memory.read()[8..16].to_vec()), (words(5, 6), words(15, 26)));
        engines[0].atomic(atomic(AtomicOp::Swap, words(1, 2), Some(words(15, 0)), Some(&result))).unwrap();
        engines[0].atomic(atomic(AtomicOp::Read, vec![], None, Some(&result))).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!(result.read(), words(1, 26));
        let completions: Vec<_> =
            std::iter::from_fn(|| engines[0].next_sent()).map(|completion| completion.failure).collect();
        assert_eq!(completions, [None; 4]);
        engines[1].unregister(3);
        engines[0].atomic(atomic(AtomicOp::Sum, words(1, 1), None, None)).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!(engines[0].next_sent().unwrap().failure, Some(Failure::NoKey));
    }
}

#[test]
fn all_remote_requests_are_served_in_one_call() {
    const COUNT: usize = 200;
    let (mut engines, _world) = endpoints(2, 256, true);
    let access = Access { read: true, write: true };
    assert!(engines[1].register(3, Region { memory: Buffer::zeroed(8), base: 0, access }));
    engines[0].send(message(1, Some(1), &[], 0)).unwrap();
    poll_until_idle(&mut engines);
    assert!(engines[0].next_sent().is_some());
    let results: Vec<Buffer> = (0..COUNT).map(|_| Buffer::zeroed(8)).collect();
    for result in &results {
        let atomic = Atomic {
            to: 1,
            key: 3,
            address: 0,
            op: AtomicOp::Sum,
            datatype: Datatype::U64,
            count: 1,
            operands: 1_u64.to_le_bytes().into(),
            compares: None,
            result: Some(result.clone()),
            context: 1,
            report: true,
        };
        engines[0].atomic(atomic).unwrap();
    }
    engines[1].progress();
    engines[0].progress();
    while engines[0].next_sent().is_some() {
        engines[0].progress();
    }
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result.read(), (index as u64).to_le_bytes());
    }
}

#[test]
fn unexpected_messages_are_buffered_up_to_a_limit() {
    let (mut engines, _world) = endpoints(2, 16, true);
    let count = 400;
    for index in 0..count {
        let send = message(1, Some(index as u64), &pattern(4000, index), index);
        engines[0].send(send).unwrap();
    }
    poll_until_idle(&mut engines);
    let kept: u64 = engines[1].core.peers[0].unexpected_bytes;
    assert!(kept <= CREDIT_BYTES && kept > CREDIT_BYTES - 4000, "{kept}");
    for index in (0..count).rev() {
        let target = Buffer::zeroed(4000);
        engines[1].receive(receive_from(0, Some((index as u64, 0)), &target, index)).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!(target.read(), pattern(4000, index));
    }
    assert_eq!(engines[1].core.peers[0].unexpected_bytes, 0);
    assert_eq!(std::iter::from_fn(|| engines[0].next_sent()).count(), count);
}

#[test]
fn unexpected_message_count_is_limited() {
    let (mut engines, _world) = endpoints(2, 64, true);
    let mut sent = 0;
    // Until no more progress is possible.
    for _ in 0..CREDIT_MESSAGES / 16 + 50 {
        while engines[0].send(Send { data: None, ..message(1, Some(1), &[], 0) }).is_ok() {
            sent += 1;
        }
        for engine in &mut engines {
            engine.process_events();
            engine.progress();
        }
    }
    assert_eq!(engines[1].core.peers[0].unexpected_messages, CREDIT_MESSAGES);
    assert_eq!(sent, CREDIT_MESSAGES as usize + MAX_BACKLOG);
    assert_eq!(engines[0].send(message(1, Some(1), &[], 0)), Err(PostError::Again));
    for _ in 0..sent {
        engines[1].receive(receive_from(0, Some((1, 0)), &Buffer::zeroed(0), 0)).unwrap();
    }
    for _ in 0..2 {
        poll_until_idle(&mut engines);
    }
    assert_eq!(engines[1].counts().succeeded(CompletionKind::Receive), sent as u64);
    assert_eq!((engines[0].counts().succeeded(CompletionKind::Send), engines[0].load().2), (sent as u64, 0));
}

#[test]
fn exceeding_credit_ends_the_link() {
    for beyond in [false, true] {
        let (mut engines, world) = endpoints(2, 64, true);
        engines[0].send(message(1, Some(1), &[1], 1)).unwrap();
        poll_until_idle(&mut engines);
        let target = engines[1].address();
        // One message is there already.
        for _ in 0..CREDIT_MESSAGES - 1 + u64::from(beyond) {
            world.borrow_mut().inject(target, 0, vec![2, 0, 0, 0, 0, 0, 0, 0]);
        }
        for _ in 0..CREDIT_MESSAGES / BATCH as u64 + 2 {
            engines[1].progress();
        }
        let lost = engines[1].core.peers[0].lost;
        assert_eq!(lost, beyond.then_some(Failure::Violation));
    }
}

#[test]
fn operations_fail_when_their_peer_dies() {
    let (mut engines, world) = endpoints(3, 4, true);
    engines[0].send(message(1, Some(1), &[1], 1)).unwrap();
    poll_until_idle(&mut engines);
    assert!(engines[0].next_sent().is_some());
    engines[0].send(message(1, Some(2), &pattern(100_000, 1), 2)).unwrap();
    engines[0].receive(receive_from(1, Some((3, 0)), &Buffer::zeroed(8), 3)).unwrap();
    engines[0].receive(receive_from(2, Some((3, 0)), &Buffer::zeroed(8), 4)).unwrap();
    engines[0]
        .read(Read { from: 1, key: 1, address: 0, memory: Buffer::zeroed(8), context: 5, report: true })
        .unwrap();
    let dead = engines.remove(1);
    world.borrow_mut().kill(dead.address());
    poll_until_idle(&mut engines);
    let mut failed: Vec<_> = std::iter::from_fn(|| engines[0].next_sent()).collect();
    failed.extend(std::iter::from_fn(|| engines[0].next_received()));
    failed.sort_by_key(|completion| completion.context);
    let failures: Vec<_> = failed.iter().map(|completion| (completion.context, completion.failure)).collect();
    let died = Some(Failure::PeerDied);
    assert_eq!(failures, [(2, died), (3, died), (5, died)]);
    assert_eq!(engines[0].send(message(1, None, &[1], 6)), Err(PostError::Failed(Failure::PeerDied)));
    assert_eq!(engines[0].send(message(9, None, &[1], 6)), Err(PostError::Failed(Failure::Unreachable)));
    // The other endpoints are not affected.
    engines[1].send(message(0, Some(3), &[1], 7)).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!(engines[0].next_received().unwrap().context, 4);
}

#[test]
fn crossing_connects_keep_message_order() {
    let (mut engines, _world) = endpoints(2, 4, true);
    let targets: Vec<_> = (0..2).map(|_| (0..20).map(|_| Buffer::zeroed(1)).collect::<Vec<_>>()).collect();
    for side in [0, 1] {
        for target in &targets[side] {
            engines[side].receive(receive_from(1 - side as u64, Some((0, 0)), target, 0)).unwrap();
        }
        for index in 0..20 {
            engines[side].send(message(1 - side as u64, Some(0), &[index as u8], index)).unwrap();
        }
    }
    poll_until_idle(&mut engines);
    for side in &targets {
        assert!(side.iter().enumerate().all(|(index, target)| target.read() == [index as u8]));
    }
}

#[test]
fn endpoint_sends_to_itself() {
    let (mut engines, _world) = endpoints(1, 4, true);
    for length in [3, 30_000] {
        let target = Buffer::zeroed(length);
        engines[0].receive(receive_from(0, Some((1, 0)), &target, 1)).unwrap();
        engines[0].send(message(0, Some(1), &pattern(length, 3), 2)).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!(target.read(), pattern(length, 3));
        assert!(engines[0].next_sent().is_some() && engines[0].next_received().is_some());
    }
}

/// A step of a random sequence.
#[derive(Clone, Debug)]
enum Step {
    Send {
        from: usize,
        to: usize,
        tag: u64,
        length: usize,
        delivery: bool,
        inject: bool,
    },
    Receive {
        at: usize,
        from: Option<usize>,
        tag: u64,
        ignore: u64,
    },
    /// Cancels a send, by its number among those sent so far.
    Cancel {
        pick: usize,
    },
    Progress {
        at: usize,
    },
}

/// First context of sends, to keep them apart from those of receives.
const SENDS: usize = 1 << 20;

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(0), 1..64_usize, 1000..5000_usize, Just(14_000), Just(40_000)];
    let send = (0..3_usize, 0..3_usize, 0..3_u64, length, any::<bool>(), any::<bool>()).prop_map(
        |(from, to, tag, length, delivery, inject)| Step::Send {
            from,
            to,
            tag,
            length,
            delivery,
            inject: inject && length <= INJECT_BYTES,
        },
    );
    let receive =
        (0..3_usize, prop::option::of(0..3_usize), 0..3_u64, prop_oneof![Just(0), Just(1), Just(u64::MAX)])
            .prop_map(|(at, from, tag, ignore)| Step::Receive { at, from, tag, ignore });
    let cancel = any::<usize>().prop_map(|pick| Step::Cancel { pick });
    prop_oneof![4 => send, 4 => receive, 1 => cancel, 3 => (0..3_usize).prop_map(|at| Step::Progress { at })]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// For any order of sends and receives: each receive gets a matching message, in full; messages from one
    /// sender to receives with the same criteria keep their order; and messages that were not canceled are
    /// not lost.
    #[test]
    fn every_message_matches_the_right_receive(steps in prop::collection::vec(step(), 1..80), shared: bool) {
        let (mut engines, _world) = endpoints(3, 3, shared);
        let mut sent: Vec<(usize, usize, u64, usize)> = Vec::new();
        let mut posted: Vec<(usize, Option<usize>, u64, u64, Buffer)> = Vec::new();
        for step in steps {
            match step {
                Step::Send { from, to, tag, length, delivery, inject } => {
                    let id = sent.len();
                    let send = message(to as u64, Some(tag), &pattern(length, id), id);
                    engines[from].send(Send { delivery, inject, context: SENDS + id, ..send }).unwrap();
                    sent.push((from, to, tag, length));
                }
                Step::Receive { at, from, tag, ignore } => {
                    let target = Buffer::zeroed(40_000);
                    let source = from.map_or(NO_ADDRESS, |from| from as u64);
                    engines[at].receive(receive_from(source, Some((tag, ignore)), &target, posted.len())).unwrap();
                    posted.push((at, from, tag, ignore, target));
                }
                Step::Cancel { pick } => {
                    if let Some(id) = pick.checked_rem(sent.len()) {
                        engines[sent[id].0].cancel(SENDS + id);
                    }
                }
                Step::Progress { at } => {
                    engines[at].process_events();
                    engines[at].progress();
                }
            }
        }
        poll_until_idle(&mut engines);
        // Receives that match anything take the rest.
        for (at, engine) in engines.iter_mut().enumerate() {
            for _ in 0..sent.len() {
                let target = Buffer::zeroed(40_000);
                engine.receive(receive_from(NO_ADDRESS, Some((0, u64::MAX)), &target, posted.len())).unwrap();
                posted.push((at, None, 0, u64::MAX, target));
            }
        }
        poll_until_idle(&mut engines);
        let mut got = vec![0; sent.len()];
        let mut by_receive = vec![None; posted.len()];
        for (at, engine) in engines.iter_mut().enumerate() {
            while let Some(completion) = engine.next_received() {
                let id = completion.data as usize;
                let (from, to, tag, length) = sent[id];
                let (_, wanted_from, wanted_tag, ignore, target) = &posted[completion.context];
                prop_assert_eq!((to, completion.failure, completion.length, completion.source), (at, None, length, from as u64));
                prop_assert!(wanted_from.is_none_or(|receive_from| receive_from == from));
                prop_assert_eq!((wanted_tag ^ tag) & !ignore, 0);
                prop_assert_eq!(&target.read()[..length], pattern(length, id));
                got[id] += 1;
                by_receive[completion.context] = Some(id);
            }
            let completed: Vec<_> = std::iter::from_fn(|| engine.next_sent()).collect();
            prop_assert_eq!(completed.len(), sent.iter().filter(|message| message.0 == at).count());
            for canceled in completed.iter().filter(|completion| completion.failure == Some(Failure::Canceled)) {
                got[canceled.context - SENDS] += 1;
            }
        }
        prop_assert!(got.iter().all(|times| *times == 1), "{:?}", got);
        // Of two messages between the same endpoints that match a receive, the earlier one goes to the
        // earlier receive.
        for (first, a) in by_receive.iter().enumerate() {
            for (second, b) in by_receive.iter().enumerate().skip(first + 1) {
                if let (Some(a), Some(b)) = (a, b)
                    && a > b
                    && posted[first].0 == posted[second].0
                    && sent[*a].0 == sent[*b].0
                    && posted[first].1.is_none_or(|from| from == sent[*b].0)
                    && (posted[first].2 ^ sent[*b].2) & !posted[first].3 == 0
                {
                    prop_assert!(false, "receive {first} got {a}, and {second} the earlier {b}");
                }
            }
        }
    }

    /// No bytes from a peer do more harm than ending its own link.
    #[test]
    fn hostile_peer_harms_no_other_peer(
        bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..20),
        kinds in prop::collection::vec(0..20_u8, 20),
        pick in any::<usize>(),
    ) {
        let (mut engines, world) = endpoints(3, 8, true);
        let memory = Buffer::zeroed(100);
        engines[0].register(0, Region { memory, base: 0, access: Access { read: true, write: true } });
        for sender in [1, 2] {
            engines[sender].send(message(0, Some(5), &pattern(20_000, 1), 1)).unwrap();
        }
        poll_until_idle(&mut engines);
        let target = engines[0].address();
        for (mut bytes, kind) in bytes.into_iter().zip(kinds) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            // The link of the first that connected.
            world.borrow_mut().inject(target, 0, bytes);
        }
        engines[1].send(message(0, Some(6), &pattern(9000, 1), 2)).unwrap();
        world.borrow_mut().corrupt(target, pick, |bytes| {
            if !bytes.is_empty() {
                let at = pick % bytes.len();
                bytes[at] ^= 0x55;
            }
        });
        poll_until_idle(&mut engines);
        let received = Buffer::zeroed(20_000);
        engines[0].receive(receive_from(2, Some((5, 0)), &received, 9)).unwrap();
        poll_until_idle(&mut engines);
        let unaffected = std::iter::from_fn(|| engines[0].next_received()).find(|completion| completion.context == 9);
        prop_assert!(unaffected.is_some_and(|completion| completion.failure.is_none()));
        prop_assert_eq!(received.read(), pattern(20_000, 1));
    }
}
