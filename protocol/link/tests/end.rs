//! Channel end with a bell, a lifeline and a clock that are controlled by the test.
#![cfg(not(loom))]

use std::cell::Cell;
use std::rc::Rc;

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::Relaxed;
use tombolo_link::end::{
    Announced, Awaited, DeferredSignals, Room, Signals, Stats, Violation, WakeOrder, channel_memory,
};
use tombolo_link::{ChannelConfig, ChannelEnd, ChannelLayout, EndError, Side};
use tombolo_ring::{SlotSize, Variant};

/// Surroundings of an end, and a record of its calls.
#[derive(Default, Debug)]
struct World {
    now_ns: Cell<u64>,
    /// Whether the peer is gone. The end detects it when it reads the lifeline.
    gone: Cell<bool>,
    gone_reported: Cell<bool>,
    rings: Cell<u32>,
    listens: Cell<u32>,
    barriers: Cell<u32>,
}

#[derive(Default, Debug)]
struct TestSignals(Rc<World>);

fn count(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

impl Signals for TestSignals {
    fn ring(&mut self) {
        count(&self.0.rings);
    }

    fn peer_gone(&self) -> bool {
        self.0.gone_reported.get()
    }

    fn poll_signals(&mut self) {
        count(&self.0.listens);
        self.0.gone_reported.set(self.0.gone.get());
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns.get()
    }

    fn barrier(&mut self) {
        count(&self.0.barriers);
    }
}

type TestEnd = ChannelEnd<TestSignals>;

/// Both ends of a channel with `slots` slots each way, their surroundings, and the memory between.
struct Pair {
    memory: SharedMemory,
    a: TestEnd,
    b: TestEnd,
    at_a: Rc<World>,
    at_b: Rc<World>,
}

fn pair_with(slots: u32, order: WakeOrder) -> Pair {
    let config = ChannelConfig::new(SlotSize::B32, slots, Variant::EpochCredit).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let end = |side| {
        let world = Rc::new(World::default());
        let signals = TestSignals(Rc::clone(&world));
        (ChannelEnd::attach(&memory, side, config, order, signals).unwrap(), world)
    };
    let ((a, at_a), (b, at_b)) = (end(Side::A), end(Side::B));
    Pair { memory, a, b, at_a, at_b }
}

fn pair(slots: u32) -> Pair {
    pair_with(slots, WakeOrder::Fence)
}

fn recv(end: &mut TestEnd) -> Result<Option<Vec<u8>>, EndError> {
    end.try_recv(|message| message.to_vec())
}

/// Receives up to `max` messages at once; returns them and the result.
fn recv_batch(end: &mut TestEnd, max: usize) -> (Vec<Vec<u8>>, Result<usize, EndError>) {
    let mut messages = Vec::new();
    let outcome = end.try_recv_batch(max, |message| messages.push(message.to_vec()));
    (messages, outcome)
}

/// Sends these messages together; returns the reported number.
fn send_batch(end: &mut TestEnd, messages: &[&[u8]]) -> Result<u64, EndError> {
    end.try_send_batch(|mut batch| {
        for message in messages {
            let _ = batch.push(message);
        }
        batch.commit();
    })
}

#[test]
fn an_end_reports_its_limits_and_counters() {
    let Pair { mut a, mut b, .. } = pair(8);
    assert_eq!(a.max_message_bytes(), 8 * 24);
    let unused = Stats { room: Room { slots: 8, free_slots: 8 }, ..Stats::default() };
    assert_eq!((a.stats(), b.stats()), (unused, unused));
    a.try_send(b"12345").unwrap();
    a.try_send(&[7; 30]).unwrap();
    assert_eq!(a.stats().room.free_slots, 5);
    for _ in 0..2 {
        assert!(recv(&mut b).unwrap().is_some());
    }
    let room = Room { slots: 8, free_slots: 5 };
    assert_eq!(a.stats(), Stats { messages_sent: 2, bytes_sent: 35, room, ..Stats::default() });
    let received = Stats { messages_received: 2, bytes_received: 35, ..unused };
    assert_eq!(b.stats(), received);
}

#[test]
fn reply_returns_credit_for_used_slots() {
    let Pair { mut a, mut b, .. } = pair(8);
    for round in 0..20 {
        a.try_send(&[round]).unwrap();
        assert_eq!(recv(&mut b), Ok(Some(vec![round])));
        match round % 3 {
            0 => b.try_send(&[round]).unwrap(),
            1 => b
                .try_send_in_place(1, |mut claim| {
                    claim.write_at(0, &[round]).unwrap();
                    claim.commit();
                })
                .unwrap(),
            _ => assert_eq!(send_batch(&mut b, &[&[round]]), Ok(1)),
        }
        assert_eq!(a.stats().room.free_slots, 7);
        let answer = if round % 2 == 0 { recv(&mut a).unwrap() } else { recv_batch(&mut a, 1).0.pop() };
        assert_eq!(answer, Some(vec![round]));
        assert_eq!(a.stats().room.free_slots, 8, "the answer said that it was received");
    }
}

/// A way to send a message of one byte.
type Way = fn(&mut TestEnd) -> Result<(), EndError>;

#[test]
fn credit_of_a_reply_counts_for_every_send_method() {
    let in_place = |end: &mut TestEnd| end.try_send_in_place(1, |claim| claim.commit());
    let in_batch = |end: &mut TestEnd| send_batch(end, &[&[1]]).map(|_| ());
    let when_sendable = |end: &mut TestEnd| match end.sendable() {
        true => end.try_send(&[1]),
        false => Err(EndError::Full),
    };
    let ways: [Way; 4] = [|end| end.try_send(&[1]), in_place, in_batch, when_sendable];
    for way in ways {
        let Pair { mut a, mut b, .. } = pair(8);
        for _ in 0..8 {
            a.try_send(&[1]).unwrap();
        }
        // The fifth slot returns only with the reply: the credit line holds four until half of the ring is
        // due.
        for _ in 0..5 {
            recv(&mut b).unwrap().expect("a message");
        }
        b.try_send(&[1]).unwrap();
        recv(&mut a).unwrap().expect("an answer");
        for _ in 0..5 {
            assert_eq!(way(&mut a), Ok(()));
        }
        assert_eq!(a.stats().room.free_slots, 0);
    }
}

#[test]
fn every_way_to_send_rings_a_sleeper_once() {
    let ways: [fn(&mut TestEnd); 4] = [
        |end| end.try_send(&[1]).unwrap(),
        |end| end.try_send(&[1; 90]).unwrap(),
        |end| end.try_send_in_place(1, |claim| claim.commit()).unwrap(),
        |end| assert_eq!(send_batch(end, &[&[1], &[2]]), Ok(2)),
    ];
    for send in ways {
        let Pair { mut a, mut b, at_a, .. } = pair(16);
        send(&mut a);
        assert_eq!(at_a.rings.get(), 0, "nobody sleeps");
        while recv(&mut b).unwrap().is_some() {}
        assert!(b.prepare_to_sleep(Awaited::Message));
        assert_eq!(send_batch(&mut a, &[]), Ok(0));
        assert_eq!(at_a.rings.get(), 0, "there is nothing to hear");
        send(&mut a);
        send(&mut a);
        assert_eq!((at_a.rings.get(), a.stats().rings, b.stats().rings), (1, 1, 0));
        assert_eq!((a.stats().sleeps, b.stats().sleeps), (0, 1));
    }
}

#[test]
fn every_way_to_receive_rings_one_that_waits_for_room() {
    let ways: [fn(&mut TestEnd); 4] = [
        |end| while recv(end).unwrap().is_some() {},
        |end| assert_eq!(recv_batch(end, 4).1, Ok(4)),
        // Half of the ring: slots are returned with a message, not after the last one.
        |end| drop((recv(end).unwrap(), recv(end).unwrap())),
        |end| {
            assert!(recv(end).unwrap().is_some());
            assert!(end.readable());
            assert_eq!(recv_batch(end, 2).1, Ok(2));
        },
    ];
    for receive in ways {
        let Pair { mut a, mut b, at_b, .. } = pair(4);
        while a.try_send(&[1]).is_ok() {}
        assert!(!a.sendable());
        assert!(b.readable());
        assert_eq!(at_b.rings.get(), 0);
        assert!(a.prepare_to_sleep(Awaited::Room));
        receive(&mut b);
        assert_eq!(at_b.rings.get(), 1);
        assert!(a.sendable());
        a.finish_sleep(true);
        a.try_send(&[1]).unwrap();
    }
}

#[test]
fn sleep_is_refused_only_for_the_awaited_condition() {
    let Pair { mut a, mut b, .. } = pair(2);
    // Nothing to read, room to write.
    assert!(a.prepare_to_sleep(Awaited::Message));
    assert!(!a.prepare_to_sleep(Awaited::Room));
    assert!(!a.prepare_to_sleep(Awaited::Both));
    a.finish_sleep(false);
    // Nothing to read, no room.
    while a.try_send(&[1]).is_ok() {}
    for awaited in [Awaited::Message, Awaited::Room, Awaited::Both] {
        assert!(a.prepare_to_sleep(awaited));
        a.finish_sleep(false);
    }
    assert_eq!(a.stats().sleeps, 4, "of six announcements, four were followed by a sleep");
    // Something to read, no room.
    b.try_send(&[2]).unwrap();
    assert!(!a.prepare_to_sleep(Awaited::Message));
    assert!(a.prepare_to_sleep(Awaited::Room));
    assert!(!a.prepare_to_sleep(Awaited::Both));
    assert_eq!(a.stats().sleeps, 5);
}

#[test]
fn announcement_covers_the_awaited_condition_and_is_withdrawn() {
    // Slots are returned and a message is sent: checks which of the two rings.
    for (awaited, rings) in [(Awaited::Message, 1), (Awaited::Room, 1), (Awaited::Both, 2)] {
        let Pair { mut a, mut b, at_b, .. } = pair(2);
        while a.try_send(&[1]).is_ok() {}
        assert!(a.prepare_to_sleep(awaited));
        while recv(&mut b).unwrap().is_some() {}
        b.try_send(&[2]).unwrap();
        assert_eq!(at_b.rings.get(), rings, "{awaited:?}");
    }
    let Pair { mut a, mut b, at_a, at_b, .. } = pair(2);
    while a.try_send(&[1]).is_ok() {}
    assert!(a.prepare_to_sleep(Awaited::Both));
    a.finish_sleep(false);
    assert_eq!(at_a.listens.get(), 0);
    while recv(&mut b).unwrap().is_some() {}
    b.try_send(&[2]).unwrap();
    assert_eq!(at_b.rings.get(), 0, "it is awake");
    a.finish_sleep(true);
    assert_eq!(at_a.listens.get(), 1, "something rang: what?");
}

#[test]
fn barrier_is_required_under_the_asymmetric_order() {
    let Pair { mut a, at_a, .. } = pair(2);
    assert_eq!(a.announce(Awaited::Both), Announced::Complete);
    assert!(a.prepare_to_sleep(Awaited::Message));
    assert_eq!(at_a.barriers.get(), 0);

    let Pair { mut a, mut b, at_a, .. } = pair_with(2, WakeOrder::Asymmetric);
    for awaited in [Awaited::Message, Awaited::Room, Awaited::Both] {
        assert_eq!(a.announce(awaited), Announced::NeedsBarrier, "{awaited:?}");
        a.finish_sleep(false);
    }
    assert!(a.prepare_to_sleep(Awaited::Message));
    assert_eq!(at_a.barriers.get(), 1);
    // The peer rings, and from then on fences for messages, but not for room.
    b.try_send(&[1]).unwrap();
    a.finish_sleep(true);
    assert_eq!(a.announce(Awaited::Message), Announced::Complete);
    assert_eq!(a.announce(Awaited::Room), Announced::NeedsBarrier);
    assert_eq!(a.announce(Awaited::Both), Announced::NeedsBarrier);
}

#[test]
fn waker_stops_fencing_after_many_messages_without_a_ring() {
    if cfg!(miri) {
        // More than a thousand messages; the doorbell's own tests check the exact number.
        return;
    }
    let Pair { mut a, mut b, at_b, .. } = pair_with(8, WakeOrder::Asymmetric);
    assert!(a.prepare_to_sleep(Awaited::Message));
    b.try_send(&[1]).unwrap();
    a.finish_sleep(true);
    assert_eq!(recv(&mut a), Ok(Some(vec![1])));
    let mut messages = 0;
    while at_b.barriers.get() == 0 && messages < 100_000 {
        b.try_send(&[1]).unwrap();
        assert_eq!(recv(&mut a), Ok(Some(vec![1])));
        messages += 1;
    }
    assert!((100..100_000).contains(&messages), "{messages} messages");
    assert_eq!(a.announce(Awaited::Message), Announced::NeedsBarrier, "it is this side's again");
}

#[test]
fn batches_are_received_up_to_a_number() {
    let Pair { mut a, mut b, .. } = pair(8);
    for byte in 0..3 {
        a.try_send(&[byte]).unwrap();
    }
    assert_eq!(send_batch(&mut a, &[&[3], &[4; 30], &[5]]), Ok(3));
    assert_eq!(recv_batch(&mut b, 0), (vec![], Ok(0)));
    assert_eq!(recv_batch(&mut b, 2), (vec![vec![0], vec![1]], Ok(2)));
    assert_eq!(recv_batch(&mut b, 9), (vec![vec![2], vec![3], vec![4; 30], vec![5]], Ok(4)));
    assert_eq!(recv_batch(&mut b, 9), (vec![], Ok(0)));
    assert_eq!(send_batch(&mut a, &[&[0; 200]]), Ok(0), "too long for any ring of this size");
    a.try_send_batch(|mut batch| batch.push(&[9]).unwrap()).unwrap();
    assert_eq!(recv_batch(&mut b, 1), (vec![], Ok(0)), "it was dropped");
}

#[test]
fn batch_is_received_before_the_close_after_it() {
    let Pair { mut a, mut b, at_b, .. } = pair(8);
    a.try_send(&[1]).unwrap();
    a.try_send(&[2]).unwrap();
    at_b.gone.set(true);
    b.poll_signals();
    assert_eq!(recv_batch(&mut b, 0), (vec![], Ok(0)));
    assert_eq!(recv_batch(&mut b, 9), (vec![vec![1], vec![2]], Ok(2)));
    assert_eq!(recv_batch(&mut b, 9), (vec![], Err(EndError::PeerDied)));
    assert_eq!(send_batch(&mut b, &[&[1]]), Err(EndError::PeerDied));

    let Pair { mut a, mut b, .. } = pair(8);
    a.try_send(&[1]).unwrap();
    a.close();
    assert_eq!(recv_batch(&mut b, 9), (vec![vec![1]], Ok(1)));
    assert_eq!(recv_batch(&mut b, 9), (vec![], Err(EndError::Closed)));
    assert_eq!(send_batch(&mut b, &[&[1]]), Err(EndError::Closed));
}

#[test]
fn in_place_send_is_refused_before_the_write() {
    let Pair { mut a, mut b, .. } = pair(2);
    assert_eq!(a.try_send_in_place(49, |_| panic!("it is too long")), Err(EndError::TooLong));
    a.try_send_in_place(48, |claim| claim.commit()).unwrap();
    assert_eq!(a.try_send_in_place(1, |_| panic!("there is no room")), Err(EndError::Full));
    assert_eq!(recv(&mut b).unwrap().map(|message| message.len()), Some(48));
    a.try_send_in_place(1, |claim| drop(claim)).unwrap();
    assert_eq!(recv(&mut b), Ok(None), "it was not committed");
}

#[test]
fn sendable_checks_room_for_the_refused_message() {
    let Pair { mut a, mut b, .. } = pair(4);
    assert!(a.sendable());
    for _ in 0..3 {
        a.try_send(&[1]).unwrap();
    }
    assert!(a.sendable());
    assert_eq!(a.try_send(&[0; 40]), Err(EndError::Full));
    assert!(!a.sendable(), "one slot is free, two are needed");
    while recv(&mut b).unwrap().is_some() {}
    assert!(a.sendable());
    while a.try_send(&[1]).is_ok() {}
    assert!(!a.sendable());
    b.close();
    assert!(a.sendable(), "it would end in an error, and not wait");
    assert_eq!(a.try_send(&[1]), Err(EndError::Closed));
}

/// A program that polls and never sleeps checks its lifeline at every 32nd poll, at most once per
/// millisecond, if there is no traffic.
#[test]
fn polling_checks_the_lifeline_periodically() {
    type Poll = fn(&mut TestEnd);
    let polls: [Poll; 5] = [
        |end| assert_eq!(recv(end), Ok(None)),
        |end| assert_eq!(recv_batch(end, 1).1, Ok(0)),
        |end| assert!(!end.readable()),
        |end| assert_eq!(end.try_send(&[0; 48]), Err(EndError::Full)),
        |end| assert_eq!(send_batch(end, &[&[0; 48]]), Ok(0)),
    ];
    for poll in polls {
        let Pair { mut a, at_a, .. } = pair(2);
        a.try_send(&[0]).unwrap();
        let mut listens_after = |now_ns, polls| {
            at_a.now_ns.set(now_ns);
            (0..polls).for_each(|_| poll(&mut a));
            at_a.listens.get()
        };
        // The first check finds that a message has arrived.
        assert_eq!(listens_after(5, 32), 0);
        assert_eq!(listens_after(1_000_004, 32), 0, "it is not due");
        assert_eq!(listens_after(1_000_005, 31), 0);
        assert_eq!(listens_after(1_000_005, 1), 1, "nothing has passed since");
        assert_eq!(listens_after(1_000_006, 64), 1);
        assert_eq!(listens_after(2_000_005, 32), 2);
    }
}

#[test]
fn lifeline_is_not_checked_while_messages_arrive() {
    let Pair { mut a, mut b, at_b, .. } = pair(2);
    for round in 1..=10 {
        at_b.now_ns.set(round * 1_000_000);
        a.try_send(&[1]).unwrap();
        (0..100).for_each(|_| assert!(b.readable()));
        assert_eq!(recv(&mut b), Ok(Some(vec![1])));
        (0..32).for_each(|_| assert_eq!(recv(&mut b), Ok(None)));
        assert_eq!(at_b.listens.get(), 0);
    }
    at_b.gone.set(true);
    at_b.now_ns.set(11_000_000);
    (0..32).for_each(|_| assert_eq!(recv(&mut b), Ok(None)));
    assert_eq!((at_b.listens.get(), recv(&mut b)), (1, Err(EndError::PeerDied)));
    assert!(b.readable() && b.sendable());
    assert!(!b.prepare_to_sleep(Awaited::Message) && !b.prepare_to_sleep(Awaited::Room));
}

#[test]
fn close_rings_and_ends_a_peer_that_only_sends() {
    let Pair { mut a, mut b, at_a, at_b, .. } = pair(8);
    assert!(a.prepare_to_sleep(Awaited::Message));
    assert!(!b.peer_closed());
    a.close();
    a.close();
    assert_eq!(at_a.rings.get(), 1);
    // Still announced as asleep: a peer that only sends must take the slow path and check.
    a.finish_sleep(true);
    b.try_send(&[1]).unwrap();
    assert_eq!(at_b.rings.get(), 1);
    assert_eq!(b.try_send(&[1]), Err(EndError::Closed));
    assert!(b.peer_closed());
    assert_eq!((recv(&mut a), recv(&mut b)), (Err(EndError::Closed), Err(EndError::Closed)));
    assert_eq!(a.violation(), None);
}

#[test]
fn end_with_cut_lifeline_does_not_notify_its_peer() {
    let Pair { mut a, mut b, at_a, at_b, .. } = pair(8);
    at_a.gone.set(true);
    a.close();
    assert_eq!((at_a.listens.get(), at_a.rings.get()), (1, 0));
    assert!(!b.peer_closed());
    assert_eq!(recv(&mut b), Ok(None));
    b.try_send(&[1]).unwrap();
    assert_eq!(at_b.rings.get(), 0);
    assert_eq!((a.try_send(&[1]), recv(&mut a)), (Err(EndError::Closed), Err(EndError::Closed)));
}

#[test]
fn invalid_credit_ends_both_directions() {
    let Pair { memory, mut a, mut b, .. } = pair(2);
    // B claims to have received nine slots: line 7 is its credit.
    memory.store_le(7 * 128 / 8, 9, Relaxed);
    b.try_send(&[1]).unwrap();
    while a.try_send(&[1]).is_ok() {}
    let violation = Violation::CreditBeyondSent { credit: 9, sent: 2 };
    assert_eq!(a.violation(), Some(violation));
    assert_eq!(a.try_send(&[1]), Err(EndError::Broken));
    assert_eq!(recv(&mut a), Err(EndError::Broken));
    assert_eq!(recv_batch(&mut a, 1).1, Err(EndError::Broken));
    assert_eq!(send_batch(&mut a, &[&[1]]), Err(EndError::Broken));
    assert!(b.peer_closed());
}

#[test]
fn deferred_signals_are_taken_once() {
    let mut deferred = DeferredSignals::default();
    assert!(!deferred.take_ring() && !deferred.peer_gone());
    deferred.ring();
    deferred.poll_signals();
    assert!(deferred.take_ring() && !deferred.take_ring());
    deferred.report_peer_gone();
    assert!(deferred.peer_gone());
    deferred.barrier();
    assert!(!deferred.take_ring());
}

#[test]
fn channel_memory_is_a_slice_of_the_window() {
    let config = ChannelConfig::new(SlotSize::B32, 2, Variant::EpochCredit).unwrap();
    let window = SharedMemory::zeroed(3 * 4096);
    let memory = channel_memory(&window, 2 * 4096, config).unwrap();
    memory.store_le(0, 5, Relaxed);
    assert_eq!((memory.len_bytes(), window.load_le(1024, Relaxed)), (4096, 5));
    assert!(channel_memory(&window, 2 * 4096 + 8, config).is_err());
}

#[test]
fn end_returns_its_signals() {
    let Pair { mut a, at_a, .. } = pair(2);
    assert!(Rc::ptr_eq(&a.signals().0, &at_a));
    a.signals_mut().ring();
    assert_eq!(at_a.rings.get(), 1);
}
