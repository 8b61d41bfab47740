//! Tests that messages of a closed peer are received, no matter which link they were sent over.

use super::*;

/// Creates two endpoints that have connected to each other and send over separate links. The second has not
/// accepted the link of the first yet, over which the first has sent a message. The first has received a
/// message of the second.
fn crossed_endpoints(bytes: &[u8]) -> (Vec<TestEngine>, Rc<RefCell<World>>) {
    let (mut engines, world) = endpoints(2, 4, true);
    let slow = engines[1].address();
    world.borrow_mut().hold_accepts(slow);
    for side in [0, 1] {
        engines[side].send(message(1 - side as u64, None, bytes, 1)).unwrap();
    }
    let target = Buffer::zeroed(bytes.len());
    engines[0].receive(receive_from(1, None, &target, 2)).unwrap();
    poll_until_idle(&mut engines);
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
fn message_is_received_over_link_accepted_after_close() {
    for dead in [false, true] {
        let (mut engines, world) = crossed_endpoints(b"last");
        let target = Buffer::zeroed(4);
        engines[1].receive(receive_from(0, None, &target, 3)).unwrap();
        let slow = engines[1].address();
        if dead {
            let died = engines.remove(0);
            world.borrow_mut().kill(died.address());
        } else {
            close(&mut engines, &world);
        }
        poll_until_idle(&mut engines);
        assert_eq!(engines[0].next_received(), None, "it is on its way");
        world.borrow_mut().release_accepts(slow);
        poll_until_idle(&mut engines);
        let completion = engines[0].next_received().unwrap();
        assert_eq!((completion.failure, completion.context, target.read()), (None, 3, b"last".to_vec()));
        let why = if dead { Failure::PeerDied } else { Failure::PeerClosed };
        assert_eq!(engines[0].send(message(0, None, b"x", 4)), Err(PostError::Failed(why)));
    }
}

#[test]
fn reply_over_late_accepted_link_is_received() {
    let (mut engines, world) = endpoints(2, 4, false);
    let slow = engines[1].address();
    world.borrow_mut().hold_accepts(slow);
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
    poll_until_idle(&mut engines);
    assert_eq!((memory.read(), engines[1].next_sent()), (b"by peers".to_vec(), None));
    close(&mut engines, &world);
    poll_until_idle(&mut engines);
    assert_eq!(engines[0].next_sent(), None, "nobody knows yet how it ended");
    world.borrow_mut().release_accepts(slow);
    poll_until_idle(&mut engines);
    assert_eq!(
        engines[0].next_sent().map(|completion| (completion.context, completion.failure)),
        Some((2, None))
    );
}

#[test]
fn unreachable_peer_may_have_connected_itself() {
    let (mut engines, world) = endpoints(2, 4, false);
    let slow = engines[1].address();
    world.borrow_mut().hold_accepts(slow);
    engines[0].send(message(1, None, b"only", 1)).unwrap();
    poll_until_idle(&mut engines);
    close(&mut engines, &world);
    let target = Buffer::zeroed(4);
    engines[0].receive(receive_from(0, None, &target, 2)).unwrap();
    engines[0].send(message(0, None, b"too late", 3)).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!((engines[0].next_received(), engines[0].next_sent()), (None, None));
    world.borrow_mut().release_accepts(slow);
    poll_until_idle(&mut engines);
    assert_eq!((engines[0].next_received().unwrap().failure, target.read()), (None, b"only".to_vec()));
    assert_eq!(engines[0].next_sent().unwrap().failure, Some(Failure::PeerClosed));
}

#[test]
fn peer_that_closed_without_hello_is_lost() {
    let (mut engines, world) = crossed_endpoints(b"x");
    let slow = engines[1].address();
    engines[1]
        .read(Read { from: 0, key: 1, address: 0, memory: Buffer::zeroed(8), context: 5, report: true })
        .unwrap();
    let closed = engines.remove(0);
    world.borrow_mut().close(closed.address());
    poll_until_idle(&mut engines);
    assert_eq!(engines[0].next_sent(), None);
    // The accepted peer did not match.
    world.borrow_mut().drop_accepts(slow);
    poll_until_idle(&mut engines);
    assert_eq!(engines[0].next_sent().unwrap().failure, Some(Failure::PeerClosed));
}

#[test]
fn send_failure_loses_no_received_message() {
    // By a new send, or by the backlog.
    for waits in [false, true] {
        let (mut engines, world) = endpoints(2, 64, false);
        engines[1].send(message(0, None, b"first", 1)).unwrap();
        poll_until_idle(&mut engines);
        let targets: Vec<_> = (0..40).map(|_| Buffer::zeroed(1)).collect();
        for (index, target) in targets.iter().enumerate() {
            engines[1].receive(receive_from(0, Some((1, 0)), target, index)).unwrap();
            engines[0].send(message(1, Some(1), &[index as u8], index)).unwrap();
        }
        if waits {
            engines[1].core.send_control(0, Control::Credit { bytes: 0, messages: 0 });
        }
        let closed = engines.remove(0);
        world.borrow_mut().close(closed.address());
        if !waits {
            // A message too long for the fast path of `send`.
            assert!(engines[0].send(message(0, None, &pattern(3000, 1), 50)).is_err());
        }
        poll_until_idle(&mut engines);
        assert!(targets.iter().enumerate().all(|(index, target)| target.read() == [index as u8]), "{waits}");
    }
}

#[test]
fn not_drained_until_peers_have_read_all_data() {
    let (mut engines, _world) = endpoints(2, 4, true);
    // Sets up the chunks.
    engines[0].send(message(1, Some(1), &pattern(4000, 1), 1)).unwrap();
    poll_until_idle(&mut engines);
    assert!(engines[0].is_drained());
    engines[0].send(message(1, Some(1), &pattern(4000, 2), 2)).unwrap();
    for _ in 0..8 {
        engines[0].progress();
    }
    assert!(engines[0].core.holds_chunks(0) && !engines[0].is_drained());
    poll_until_idle(&mut engines);
    assert!(engines[0].is_drained());
    // Beyond the credit, messages are offered.
    while engines[0].core.peers[0].credit_bytes >= 4000 {
        engines[0].send(message(1, Some(1), &pattern(4000, 2), 2)).unwrap();
        poll_until_idle(&mut engines);
    }
    engines[0].send(Send { inject: true, ..message(1, Some(2), &pattern(4000, 3), 3) }).unwrap();
    poll_until_idle(&mut engines);
    assert!(!engines[0].is_drained());
    let target = Buffer::zeroed(4000);
    engines[1].receive(receive_from(0, Some((2, 0)), &target, 4)).unwrap();
    poll_until_idle(&mut engines);
    assert!(engines[0].is_drained());
    assert_eq!(target.read(), pattern(4000, 3));
}

#[test]
fn offered_message_is_lost_with_its_sender() {
    for received_before in [false, true] {
        let (mut engines, world) = endpoints(2, 4, true);
        engines[0].send(message(1, Some(1), &pattern(4000, 1), 1)).unwrap();
        poll_until_idle(&mut engines);
        let target = Buffer::zeroed(4000);
        if received_before {
            engines[1].receive(receive_from(0, Some((2, 0)), &target, 2)).unwrap();
        }
        engines[0].send(message(1, Some(2), &pattern(4000, 2), 2)).unwrap();
        let died = engines.remove(0);
        world.borrow_mut().kill(died.address());
        world.borrow_mut().revoke_chunks(died.address());
        poll_until_idle(&mut engines);
        if !received_before {
            assert!(engines[0].receive(receive_from(0, Some((2, 0)), &target, 2)).is_ok());
            poll_until_idle(&mut engines);
        }
        let failures: Vec<_> =
            std::iter::from_fn(|| engines[0].next_received()).map(|completion| completion.failure).collect();
        assert_eq!(failures, if received_before { vec![Some(Failure::PeerDied)] } else { vec![] });
    }
}

#[test]
fn unreachable_peer_is_received_from_once_it_connects() {
    let (mut engines, _world) = endpoints(2, 4, false);
    let first = engines[0].address();
    engines[1].peer_to(0).unwrap();
    engines[1].handle_event(Event::NotConnected { to: first });
    engines[1].progress();
    let refused = engines[1].send(message(0, None, b"x", 1));
    assert!(matches!(refused, Err(PostError::Failed(Failure::Unreachable))), "{refused:?}");
    let memory = Buffer::zeroed(4);
    engines[1].receive(receive_from(0, None, &memory, 2)).unwrap();
    engines[0].send(message(1, None, b"last", 3)).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!(memory.read(), b"last");
    // The other direction works as well.
    engines[1].send(message(0, None, b"back", 4)).unwrap();
    engines[0].receive(receive_from(1, None, &memory, 5)).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!(memory.read(), b"back");
}

#[test]
fn no_warning_if_failed_connect_lost_no_data() {
    let (mut engines, world) = endpoints(2, 4, false);
    let (first, second) = (engines[0].address(), engines[1].address());
    engines[1].peer_to(0).unwrap();
    engines[1].handle_event(Event::NotConnected { to: first });
    engines[1].progress();
    assert_eq!(world.borrow().unreachable_warnings, [], "nothing was to go there");
    assert!(engines[1].send(message(0, None, b"x", 1)).is_err());
    assert_eq!(world.borrow().unreachable_warnings, [(second, first)]);
}

#[test]
fn failed_connect_fails_pending_sends_with_a_warning() {
    let (mut engines, world) = endpoints(2, 4, false);
    let first = engines[0].address();
    world.borrow_mut().close(first);
    engines[1].send(message(0, None, b"waits", 1)).unwrap();
    let _gone = engines.remove(0);
    poll_until_idle(&mut engines);
    let failures: Vec<_> =
        std::iter::from_fn(|| engines[0].next_sent()).map(|completion| completion.failure).collect();
    assert_eq!(failures, [Some(Failure::Unreachable)]);
    assert_eq!(world.borrow().unreachable_warnings.len(), 1);
}
