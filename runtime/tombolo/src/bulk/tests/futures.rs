//! Operations of bulk channels as futures.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::testing::block_on;

/// Polls a future once, with a waker that has no effect.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn buffers_come_and_go() {
    let (mut left, mut right) = pair();
    let pool = pool(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            block_on(async {
                let mut metadata = Vec::new();
                let pool = right.recv_pool_async().await.unwrap();
                for round in 0..100_u64 {
                    let buffer = right.recv_moved_async(&mut metadata).await.unwrap();
                    assert_eq!(metadata, round.to_le_bytes());
                    right.pass_async(buffer, b"").await.unwrap();
                    let shared = right.recv_shared_async(&mut metadata).await.unwrap();
                    right.release_async(shared, b"back").await.unwrap();
                }
                // The pool is removed at the request of the other side.
                let gone = right.recv_async(&mut metadata).await.unwrap();
                assert!(matches!(gone, Arrival::PoolGone(_)), "{gone:?}");
                drop(pool);
            });
        });
        block_on(async {
            let mut metadata = Vec::new();
            left.assign_async(&pool).await.unwrap();
            for round in 0..100_u64 {
                let buffer = left.take_async(&pool).await.unwrap();
                left.move_to_async(buffer, &round.to_le_bytes()).await.unwrap();
                let buffer = left.take_async(&pool).await.unwrap();
                let shared = left.share_async(buffer, b"").await.unwrap();
                let released = left.recv_async(&mut metadata).await.unwrap();
                assert!(matches!(released, Arrival::Released(1)), "{released:?}");
                drop(shared);
            }
            left.unassign_async(&pool).await.unwrap();
        });
    });
}

#[test]
fn a_transfer_waits_for_room_and_a_buffer_that_was_not_sent_comes_back() {
    let (mut left, mut right) = pair();
    let pool = pool(1_000);
    assign(&mut left, &mut right, &pool);
    let mut sent = 0;
    let kept = loop {
        let buffer = left.within(Duration::ZERO).take(&pool).unwrap();
        match block_on(left.within(Duration::from_millis(2)).move_to_async(buffer, b"")) {
            Ok(()) => sent += 1,
            Err(not_sent) => {
                assert!(matches!(not_sent.error, Error::TimedOut { .. }), "{}", not_sent.error);
                break not_sent.kept;
            }
        }
    };
    assert!(sent > 0);
    let free = pool.counts().free;
    // A future that is dropped while it waits has sent nothing.
    let another = left.within(Duration::ZERO).take(&pool).unwrap();
    assert!(poll_once(left.move_to_async(another, b"dropped")).is_pending());
    assert_eq!(pool.counts().free, free);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut metadata = Vec::new();
            for _ in 0..=sent {
                drop(right.recv_moved(&mut metadata).unwrap());
            }
            assert_eq!(metadata, b"last");
        });
        block_on(left.move_to_async(kept, b"last")).unwrap();
    });
}

#[test]
fn a_receive_that_is_dropped_has_taken_nothing() {
    let (mut left, mut right) = pair();
    let pool = pool(1);
    assign(&mut left, &mut right, &pool);
    let mut metadata = Vec::new();
    assert!(poll_once(right.recv_moved_async(&mut metadata)).is_pending());
    left.move_to(pool.take().unwrap(), b"one").unwrap();
    let buffer = block_on(right.recv_moved_async(&mut metadata)).unwrap();
    assert_eq!((buffer.len_bytes(), metadata.as_slice()), (SIZE, &b"one"[..]));
    // No buffer is free until one returns.
    let short = Duration::from_millis(2);
    assert!(matches!(block_on(left.within(short).take_async(&pool)), Err(Error::TimedOut { .. })));
    assert!(poll_once(left.take_async(&pool)).is_pending());
    right.pass(buffer, b"").unwrap();
    drop(block_on(left.take_async(&pool)).unwrap());
}

#[test]
fn the_end_of_the_peer_ends_a_wait() {
    let (mut left, right) = pair();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(2));
            drop(right);
        });
        let ended = block_on(left.recv_async(&mut Vec::new()));
        assert!(matches!(ended, Err(Error::Closed { .. })), "{ended:?}");
    });
}

#[test]
fn a_timeout_is_taken_when_the_future_is_made() {
    let (mut left, _right) = pair();
    let pool = pool(1);
    // Dropped before it was polled: its timeout must not apply to the next operation.
    drop(left.within(Duration::ZERO).assign_async(&pool));
    drop(left.within(Duration::ZERO).unassign_async(&pool));
    assert_eq!(left.channel.timeout.take(), left.channel.timeout());
}
