//! Tests that messages of a closed peer are received, no matter which link they were sent over.

use super::*;

/// Creates two endpoints that have connected to each other and send over separate links. The second has not
/// accepted the link of the first yet, over which the first has sent a message. The first has received a
/// message of the second.
fn crossed(bytes: &[u8]) -> (Vec<TestEngine>, Rc<RefCell<World>>) {
    let (mut engines, world) = endpoints(2, 4, true);
    let slow = engines[1].address();
    world.borrow_mut().hold(slow);
    for side in [0, 1] {
        engines[side].send(message(1 - side as u64, None, bytes, 1)).unwrap();
    }
    let target = Buffer::zeroed(bytes.len());
    engines[0].receive(wanted(1, None, &target, 2)).unwrap();
    settle(&mut engines);
    assert!(engines.iter_mut().all(|engine| engine.next_sent().is_some()));
    assert!(engines[0].next_received().is_some());
    (engines, world)
}

/// Closes the first endpoint like a program that drains it first.
fn close(engines: &mut Vec<TestEngine>, world: &Rc<RefCell<World>>) {
    assert!(engines[0].is_drained());
    let closed = engines.remove(0);
    world.borrow_mut().close(closed.address());
}

#[test]
fn what_was_sent_over_a_link_that_is_accepted_after_its_sender_closed_is_received() {
    for dead in [false, true] {
        let (mut engines, world) = crossed(b"last");
        let target = Buffer::zeroed(4);
        engines[1].receive(wanted(0, None, &target, 3)).unwrap();
        let slow = engines[1].address();
        if dead {
            let died = engines.remove(0);
            world.borrow_mut().kill(died.address());
        } else {
            close(&mut engines, &world);
        }
        settle(&mut engines);
        assert_eq!(engines[0].next_received(), None, "it is on its way");
        world.borrow_mut().release(slow);
        settle(&mut engines);
        let done = engines[0].next_received().unwrap();
        assert_eq!((done.failure, done.context, target.read()), (None, 3, b"last".to_vec()));
        let why = if dead { Failure::PeerDied } else { Failure::PeerClosed };
        assert_eq!(engines[0].send(message(0, None, b"x", 4)), Err(Busy::Failed(why)));
    }
}

#[test]
fn an_answer_over_a_link_that_is_accepted_late_is_heard() {
    let (mut engines, world) = endpoints(2, 4, false);
    let slow = engines[1].address();
    world.borrow_mut().hold(slow);
    let memory = Buffer::zeroed(8);
    engines[0]
        .register(7, Region { memory: memory.clone(), base: 0, access: Access { read: true, write: true } });
    engines[0].send(message(1, None, b"hello", 1)).unwrap();
    let write = Write {
        to: 0,
        key: 7,
        address: 0,
        data: None,
        memory: Buffer::new(b"by peers".to_vec()),
        context: 2,
        report: true,
        inject: false,
    };
    engines[1].write(write).unwrap();
    settle(&mut engines);
    assert_eq!((memory.read(), engines[1].next_sent()), (b"by peers".to_vec(), None));
    close(&mut engines, &world);
    settle(&mut engines);
    assert_eq!(engines[0].next_sent(), None, "nobody knows yet how it ended");
    world.borrow_mut().release(slow);
    settle(&mut engines);
    assert_eq!(engines[0].next_sent().map(|done| (done.context, done.failure)), Some((2, None)));
}

#[test]
fn who_cannot_be_connected_to_any_more_may_have_connected_itself() {
    let (mut engines, world) = endpoints(2, 4, false);
    let slow = engines[1].address();
    world.borrow_mut().hold(slow);
    engines[0].send(message(1, None, b"only", 1)).unwrap();
    settle(&mut engines);
    close(&mut engines, &world);
    let target = Buffer::zeroed(4);
    engines[0].receive(wanted(0, None, &target, 2)).unwrap();
    engines[0].send(message(0, None, b"too late", 3)).unwrap();
    settle(&mut engines);
    assert_eq!((engines[0].next_received(), engines[0].next_sent()), (None, None));
    world.borrow_mut().release(slow);
    settle(&mut engines);
    assert_eq!((engines[0].next_received().unwrap().failure, target.read()), (None, b"only".to_vec()));
    assert_eq!(engines[0].next_sent().unwrap().failure, Some(Failure::PeerClosed));
}

#[test]
fn who_connected_and_went_again_without_a_word_is_waited_for_no_longer() {
    let (mut engines, world) = crossed(b"x");
    let slow = engines[1].address();
    engines[1]
        .read(Read { from: 0, key: 1, address: 0, memory: Buffer::zeroed(8), context: 5, report: true })
        .unwrap();
    let closed = engines.remove(0);
    world.borrow_mut().close(closed.address());
    settle(&mut engines);
    assert_eq!(engines[0].next_sent(), None);
    // The accepted peer did not match.
    world.borrow_mut().forget(slow);
    settle(&mut engines);
    assert_eq!(engines[0].next_sent().unwrap().failure, Some(Failure::PeerClosed));
}

#[test]
fn to_find_that_nothing_can_be_sent_loses_nothing_that_came() {
    // By a new send, or by the backlog.
    for waits in [false, true] {
        let (mut engines, world) = endpoints(2, 64, false);
        engines[1].send(message(0, None, b"first", 1)).unwrap();
        settle(&mut engines);
        let targets: Vec<_> = (0..40).map(|_| Buffer::zeroed(1)).collect();
        for (index, target) in targets.iter().enumerate() {
            engines[1].receive(wanted(0, Some((1, 0)), target, index)).unwrap();
            engines[0].send(message(1, Some(1), &[index as u8], index)).unwrap();
        }
        if waits {
            engines[1].core.tell(0, Control::Credit { bytes: 0, messages: 0 });
        }
        let closed = engines.remove(0);
        world.borrow_mut().close(closed.address());
        if !waits {
            // A message too long for the fast path of `send`.
            assert!(engines[0].send(message(0, None, &pattern(3000, 1), 50)).is_err());
        }
        settle(&mut engines);
        assert!(targets.iter().enumerate().all(|(index, target)| target.read() == [index as u8]), "{waits}");
    }
}

#[test]
fn an_endpoint_is_not_drained_while_others_read_its_memory_or_have_not_had_what_was_injected() {
    let (mut engines, _world) = endpoints(2, 4, true);
    // Sets up the chunks.
    engines[0].send(message(1, Some(1), &pattern(4000, 1), 1)).unwrap();
    settle(&mut engines);
    assert!(engines[0].is_drained());
    engines[0].send(message(1, Some(1), &pattern(4000, 2), 2)).unwrap();
    for _ in 0..8 {
        engines[0].progress();
    }
    assert!(engines[0].core.holds_chunks(0) && !engines[0].is_drained());
    settle(&mut engines);
    assert!(engines[0].is_drained());
    // Beyond the credit, messages are offered.
    while engines[0].core.peers[0].credit_bytes >= 4000 {
        engines[0].send(message(1, Some(1), &pattern(4000, 2), 2)).unwrap();
        settle(&mut engines);
    }
    engines[0].send(Send { inject: true, ..message(1, Some(2), &pattern(4000, 3), 3) }).unwrap();
    settle(&mut engines);
    assert!(!engines[0].is_drained());
    let target = Buffer::zeroed(4000);
    engines[1].receive(wanted(0, Some((2, 0)), &target, 4)).unwrap();
    settle(&mut engines);
    assert!(engines[0].is_drained());
    assert_eq!(target.read(), pattern(4000, 3));
}

#[test]
fn a_message_whose_bytes_ended_with_their_sender_is_none() {
    for asked_before in [false, true] {
        let (mut engines, world) = endpoints(2, 4, true);
        engines[0].send(message(1, Some(1), &pattern(4000, 1), 1)).unwrap();
        settle(&mut engines);
        let target = Buffer::zeroed(4000);
        if asked_before {
            engines[1].receive(wanted(0, Some((2, 0)), &target, 2)).unwrap();
        }
        engines[0].send(message(1, Some(2), &pattern(4000, 2), 2)).unwrap();
        let died = engines.remove(0);
        world.borrow_mut().kill(died.address());
        world.borrow_mut().take_back(died.address());
        settle(&mut engines);
        if !asked_before {
            assert!(engines[0].receive(wanted(0, Some((2, 0)), &target, 2)).is_ok());
            settle(&mut engines);
        }
        let failures: Vec<_> =
            std::iter::from_fn(|| engines[0].next_received()).map(|done| done.failure).collect();
        assert_eq!(failures, if asked_before { vec![Some(Failure::PeerDied)] } else { vec![] });
    }
}

#[test]
fn who_could_not_be_connected_to_is_heard_when_it_connects() {
    let (mut engines, _world) = endpoints(2, 4, false);
    let first = engines[0].address();
    engines[1].peer_to(0).unwrap();
    engines[1].note(Event::NotConnected { to: first });
    engines[1].progress();
    let refused = engines[1].send(message(0, None, b"x", 1));
    assert!(matches!(refused, Err(Busy::Failed(Failure::Unreachable))), "{refused:?}");
    let memory = Buffer::zeroed(4);
    engines[1].receive(wanted(0, None, &memory, 2)).unwrap();
    engines[0].send(message(1, None, b"last", 3)).unwrap();
    settle(&mut engines);
    assert_eq!(memory.read(), b"last");
    // The other direction works as well.
    engines[1].send(message(0, None, b"back", 4)).unwrap();
    engines[0].receive(wanted(1, None, &memory, 5)).unwrap();
    settle(&mut engines);
    assert_eq!(memory.read(), b"back");
}

#[test]
fn who_lost_nothing_by_a_link_that_did_not_come_does_not_say_so() {
    let (mut engines, world) = endpoints(2, 4, false);
    let (first, second) = (engines[0].address(), engines[1].address());
    engines[1].peer_to(0).unwrap();
    engines[1].note(Event::NotConnected { to: first });
    engines[1].progress();
    assert_eq!(world.borrow().laments, [], "nothing was to go there");
    assert!(engines[1].send(message(0, None, b"x", 1)).is_err());
    assert_eq!(world.borrow().laments, [(second, first)]);
}

#[test]
fn what_waits_for_a_link_that_does_not_come_fails_aloud() {
    let (mut engines, world) = endpoints(2, 4, false);
    let first = engines[0].address();
    world.borrow_mut().close(first);
    engines[1].send(message(0, None, b"waits", 1)).unwrap();
    let _gone = engines.remove(0);
    settle(&mut engines);
    let failures: Vec<_> = std::iter::from_fn(|| engines[0].next_sent()).map(|done| done.failure).collect();
    assert_eq!(failures, [Some(Failure::Unreachable)]);
    assert_eq!(world.borrow().laments.len(), 1);
}
