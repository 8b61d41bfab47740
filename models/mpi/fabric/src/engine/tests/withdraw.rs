//! Tests of canceled sends: each is either received or canceled, and no peer blocks a program.

use super::*;

fn told(engine: &mut TestEngine) -> Vec<(usize, Option<Failure>)> {
    std::iter::from_fn(|| engine.next_sent()).map(|done| (done.context, done.failure)).collect()
}

fn send(engines: &mut [TestEngine], length: usize, context: usize) {
    let send = message(1, Some(7), &pattern(length, context), context);
    engines[0].send(Send { delivery: true, ..send }).unwrap();
}

#[test]
fn what_has_not_gone_yet_is_dropped() {
    let (mut engines, world) = endpoints(2, 4, true);
    let slow = engines[1].address();
    world.borrow_mut().hold(slow);
    for context in [1, 2, 3] {
        engines[0].send(message(1, Some(7), &pattern(8, context), context)).unwrap();
    }
    assert!(engines[0].cancel(2));
    assert!(!engines[0].cancel(2) && !engines[0].cancel(4));
    assert_eq!(told(&mut engines[0]), [(2, Some(Failure::Canceled))]);
    world.borrow_mut().release(slow);
    for context in [1, 3] {
        let target = Buffer::zeroed(8);
        engines[1].receive(wanted(0, Some((7, 0)), &target, 0)).unwrap();
        settle(&mut engines);
        assert_eq!(target.read(), pattern(8, context));
    }
    assert_eq!(told(&mut engines[0]), [(1, None), (3, None)]);
}

#[test]
fn a_peer_lets_go_of_what_it_was_offered() {
    let (mut engines, _world) = endpoints(2, 4, true);
    for context in [1, 2] {
        send(&mut engines, 50_000, context);
    }
    settle(&mut engines);
    assert!(engines[0].cancel(1) && engines[0].cancel(1), "asking twice is no mistake");
    settle(&mut engines);
    assert_eq!(told(&mut engines[0]), [(1, Some(Failure::Canceled))]);
    let target = Buffer::zeroed(50_000);
    engines[1].receive(wanted(0, Some((7, 0)), &target, 0)).unwrap();
    settle(&mut engines);
    assert_eq!((told(&mut engines[0]), target.read()), (vec![(2, None)], pattern(50_000, 2)));
    assert!(!engines[0].cancel(2));
    assert_eq!(engines[1].core.peers[0].kept_messages, 0);
    assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
    assert!(engines[0].core.withdrawing.is_empty());
}

#[test]
fn what_is_received_meanwhile_is_not_canceled() {
    for length in [8, 3000, 50_000] {
        let (mut engines, _world) = endpoints(2, 4, true);
        send(&mut engines, 8, 0);
        settle(&mut engines);
        send(&mut engines, length, 1);
        for engine in &mut engines {
            engine.progress();
        }
        for context in [0, 1] {
            let target = Buffer::zeroed(length.max(8));
            engines[1].receive(wanted(0, Some((7, 0)), &target, context)).unwrap();
        }
        engines[0].cancel(1);
        settle(&mut engines);
        assert_eq!(told(&mut engines[0]), [(0, None), (1, None)], "{length}");
        for context in [0, 1] {
            let came = engines[1].next_received().unwrap();
            assert_eq!((came.context, came.failure), (context, None));
        }
        assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
    }
}

#[test]
fn what_has_arrived_is_delivered_though_nobody_asks_for_it() {
    for length in [8, 1000, 3000] {
        let (mut engines, _world) = endpoints(2, 4, true);
        send(&mut engines, length, 1);
        settle(&mut engines);
        assert_eq!(told(&mut engines[0]), [(1, None)]);
        assert!(!engines[0].cancel(1));
    }
}

#[test]
fn a_peer_that_does_nothing_keeps_nobody_waiting() {
    let (mut engines, _world) = endpoints(2, 4, true);
    engines[0].core.withdrawal_patience = Duration::ZERO;
    send(&mut engines, 50_000, 1);
    settle(&mut engines);
    assert!(engines[0].cancel(1));
    engines[0].progress();
    assert_eq!(told(&mut engines[0]), [(1, Some(Failure::Canceled))]);
    // The peer wakes up and requests the bytes, which are gone: the receive waits for the next message.
    let target = Buffer::zeroed(60_000);
    engines[1].receive(wanted(0, Some((7, 0)), &target, 2)).unwrap();
    settle(&mut engines);
    assert_eq!(engines[1].next_received(), None);
    send(&mut engines, 55_000, 3);
    settle(&mut engines);
    let done = engines[1].next_received().unwrap();
    assert_eq!((done.context, done.length, done.failure), (2, 55_000, None));
    assert_eq!(target.read()[..55_000], pattern(55_000, 3));
    assert_eq!(told(&mut engines[0]), [(3, None)]);
    assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
}

#[test]
fn a_withdrawal_ends_with_its_peer() {
    let (mut engines, world) = endpoints(2, 4, true);
    send(&mut engines, 50_000, 1);
    settle(&mut engines);
    assert!(engines[0].cancel(1));
    let dead = engines.remove(1);
    world.borrow_mut().kill(dead.address());
    settle(&mut engines);
    assert_eq!(told(&mut engines[0]), [(1, Some(Failure::PeerDied))]);
    assert_eq!((engines[0].core.ops.len(), engines[0].core.withdrawing.len()), (0, 0));
}
