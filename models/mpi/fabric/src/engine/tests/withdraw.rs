//! Tests of canceled sends: each is either received or canceled, and no peer blocks a program.

use super::*;

fn take_completions(engine: &mut TestEngine) -> Vec<(usize, Option<Failure>)> {
    std::iter::from_fn(|| engine.next_sent())
        .map(|completion| (completion.context, completion.failure))
        .collect()
}

fn send(engines: &mut [TestEngine], length: usize, context: usize) {
    let send = message(1, Some(7), &pattern(length, context), context);
    engines[0].send(Send { delivery: true, ..send }).unwrap();
}

#[test]
fn unsent_message_is_dropped_on_cancel() {
    let (mut engines, world) = endpoints(2, 4, true);
    let slow = engines[1].address();
    world.borrow_mut().hold_accepts(slow);
    for context in [1, 2, 3] {
        engines[0].send(message(1, Some(7), &pattern(8, context), context)).unwrap();
    }
    assert!(engines[0].cancel(2));
    assert!(!engines[0].cancel(2) && !engines[0].cancel(4));
    assert_eq!(take_completions(&mut engines[0]), [(2, Some(Failure::Canceled))]);
    world.borrow_mut().release_accepts(slow);
    for context in [1, 3] {
        let target = Buffer::zeroed(8);
        engines[1].receive(receive_from(0, Some((7, 0)), &target, 0)).unwrap();
        poll_until_idle(&mut engines);
        assert_eq!(target.read(), pattern(8, context));
    }
    assert_eq!(take_completions(&mut engines[0]), [(1, None), (3, None)]);
}

#[test]
fn peer_forgets_a_withdrawn_offer() {
    let (mut engines, _world) = endpoints(2, 4, true);
    for context in [1, 2] {
        send(&mut engines, 50_000, context);
    }
    poll_until_idle(&mut engines);
    assert!(engines[0].cancel(1) && engines[0].cancel(1), "asking twice is no mistake");
    poll_until_idle(&mut engines);
    assert_eq!(take_completions(&mut engines[0]), [(1, Some(Failure::Canceled))]);
    let target = Buffer::zeroed(50_000);
    engines[1].receive(receive_from(0, Some((7, 0)), &target, 0)).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!((take_completions(&mut engines[0]), target.read()), (vec![(2, None)], pattern(50_000, 2)));
    assert!(!engines[0].cancel(2));
    assert_eq!(engines[1].core.peers[0].unexpected_messages, 0);
    assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
    assert!(engines[0].core.withdrawing.is_empty());
}

#[test]
fn message_received_meanwhile_is_not_canceled() {
    for length in [8, 3000, 50_000] {
        let (mut engines, _world) = endpoints(2, 4, true);
        send(&mut engines, 8, 0);
        poll_until_idle(&mut engines);
        send(&mut engines, length, 1);
        for engine in &mut engines {
            engine.progress();
        }
        for context in [0, 1] {
            let target = Buffer::zeroed(length.max(8));
            engines[1].receive(receive_from(0, Some((7, 0)), &target, context)).unwrap();
        }
        engines[0].cancel(1);
        poll_until_idle(&mut engines);
        assert_eq!(take_completions(&mut engines[0]), [(0, None), (1, None)], "{length}");
        for context in [0, 1] {
            let received = engines[1].next_received().unwrap();
            assert_eq!((received.context, received.failure), (context, None));
        }
        assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
    }
}

#[test]
fn arrived_message_is_not_canceled() {
    for length in [8, 1000, 3000] {
        let (mut engines, _world) = endpoints(2, 4, true);
        send(&mut engines, length, 1);
        poll_until_idle(&mut engines);
        assert_eq!(take_completions(&mut engines[0]), [(1, None)]);
        assert!(!engines[0].cancel(1));
    }
}

#[test]
fn withdrawal_times_out_without_peer_reply() {
    let (mut engines, _world) = endpoints(2, 4, true);
    engines[0].core.withdrawal_timeout = Duration::ZERO;
    send(&mut engines, 50_000, 1);
    poll_until_idle(&mut engines);
    assert!(engines[0].cancel(1));
    engines[0].progress();
    assert_eq!(take_completions(&mut engines[0]), [(1, Some(Failure::Canceled))]);
    // The peer wakes up and requests the bytes, which are gone: the receive waits for the next message.
    let target = Buffer::zeroed(60_000);
    engines[1].receive(receive_from(0, Some((7, 0)), &target, 2)).unwrap();
    poll_until_idle(&mut engines);
    assert_eq!(engines[1].next_received(), None);
    send(&mut engines, 55_000, 3);
    poll_until_idle(&mut engines);
    let completion = engines[1].next_received().unwrap();
    assert_eq!((completion.context, completion.length, completion.failure), (2, 55_000, None));
    assert_eq!(target.read()[..55_000], pattern(55_000, 3));
    assert_eq!(take_completions(&mut engines[0]), [(3, None)]);
    assert_eq!(engines[0].core.ops.len() + engines[1].core.ops.len(), 0);
}

#[test]
fn withdrawal_ends_with_its_peer() {
    let (mut engines, world) = endpoints(2, 4, true);
    send(&mut engines, 50_000, 1);
    poll_until_idle(&mut engines);
    assert!(engines[0].cancel(1));
    let dead = engines.remove(1);
    world.borrow_mut().kill(dead.address());
    poll_until_idle(&mut engines);
    assert_eq!(take_completions(&mut engines[0]), [(1, Some(Failure::PeerDied))]);
    assert_eq!((engines[0].core.ops.len(), engines[0].core.withdrawing.len()), (0, 0));
}
