//! Transfers between domains that share no memory: each allocates its own memory for a pool, and contents are
//! copied through the channel.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Buffer, BulkChannel, BulkOptions, Pool, PoolOptions};
use super::{assign, ends_of};
use crate::testing::{Monitor, SharedRegion};
use crate::{ChannelOptions, Error};

/// Many times the capacity of the channel's ring.
const LONG_BYTES: u64 = 1 << 20;

/// Opens two ends, with a pool of the left one whose memory the right one cannot reach.
fn apart() -> (BulkChannel, BulkChannel, [Pool; 2]) {
    apart_with(&Arc::new(SharedRegion::default()))
}

/// Opens two ends, with a pool in this memory.
fn apart_with(memory: &Arc<SharedRegion>) -> (BulkChannel, BulkChannel, [Pool; 2]) {
    let (near, far) = (Monitor::domain_with(memory), Monitor::domain_with(&SharedRegion::far()));
    let options = BulkOptions::default().channel(ChannelOptions::default());
    let (left, right) = ends_of((&near, &options), (&far, &options));
    let (mut left, mut right) = (left.unwrap(), right.unwrap());
    let pool = near.create_pool(&PoolOptions::new(LONG_BYTES, 3)).unwrap();
    let taken = assign(&mut left, &mut right, &pool);
    assert!(left.copies(&pool) && right.copies(&taken));
    (left, right, [pool, taken])
}

/// Creates bytes that differ by position and by seed.
fn pattern(seed: u64, length_bytes: u64) -> Vec<u8> {
    (0..length_bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed.wrapping_mul(97)) as u8).collect()
}

#[test]
fn content_moves_there_and_back_with_the_right() {
    there_and_back(apart());
}

/// Invalidating the received buffer makes its contents visible in this side's view of the memory.
#[test]
fn content_stays_in_memory_that_is_not_coherent() {
    there_and_back(apart_with(&SharedRegion::cached()));
}

fn there_and_back((mut left, mut right, [pool, taken]): (BulkChannel, BulkChannel, [Pool; 2])) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut metadata = Vec::new();
            let mut moved = right.recv_moved(&mut metadata).unwrap();
            let mut found = vec![0; 100_001];
            moved.read(0, &mut found).unwrap();
            assert_eq!((found, &metadata[..]), (pattern(1, 100_001), &b"first"[..]));
            moved.set_part(0, LONG_BYTES).unwrap();
            moved.write(0, &pattern(2, LONG_BYTES)).unwrap();
            right.move_to(moved, b"").unwrap();

            let shared = right.recv_shared(&mut metadata).unwrap();
            let mut found = vec![0; LONG_BYTES as usize];
            shared.read(0, &mut found).unwrap();
            assert_eq!(found, pattern(2, LONG_BYTES));
            right.release(shared, b"seen").unwrap();
            assert_eq!(taken.counts().away, 3);
        });
        let mut buffer = pool.take().unwrap();
        // Neither begins nor ends at a word boundary.
        buffer.set_part(333, 100_001).unwrap();
        buffer.write(0, &pattern(1, 100_001)).unwrap();
        left.move_to(buffer, b"first").unwrap();
        let back = left.recv_moved(&mut Vec::new()).unwrap();
        let mut found = vec![0; LONG_BYTES as usize];
        back.read(0, &mut found).unwrap();
        assert_eq!(found, pattern(2, LONG_BYTES));
        let shared = left.share(back, b"").unwrap();
        left.recv(&mut Vec::new()).unwrap();
        drop(shared.reclaim().unwrap());
        assert_eq!(pool.counts().free, 3);
    });
}

#[test]
fn mutual_moves_do_not_deadlock() {
    let (mut left, mut right, [pool, _taken]) = apart();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut theirs = right.recv_moved(&mut Vec::new()).unwrap();
            theirs.write(0, &pattern(3, LONG_BYTES)).unwrap();
            exchange(&mut right, theirs, &pattern(4, LONG_BYTES));
        });
        left.move_to(pool.take().unwrap(), b"").unwrap();
        let mut ours = pool.take().unwrap();
        ours.write(0, &pattern(4, LONG_BYTES)).unwrap();
        exchange(&mut left, ours, &pattern(3, LONG_BYTES));
    });
}

/// Moves a buffer, and receives one afterwards.
fn exchange(end: &mut BulkChannel, buffer: Buffer, expected: &[u8]) {
    end.move_to(buffer, b"").unwrap();
    let received = end.recv_moved(&mut Vec::new()).unwrap();
    let mut found = vec![0; expected.len()];
    received.read(0, &mut found).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn transfer_without_room_changes_nothing() {
    let (mut left, mut right, [pool, _taken]) = apart();
    let mut buffer = pool.take().unwrap();
    buffer.set_part(0, 64).unwrap();
    let mut shared = left.share(buffer, b"").unwrap();
    // The other end receives nothing: eventually the ring is full.
    let error = loop {
        if let Err(error) = left.within(Duration::ZERO).share_again(&mut shared, b"") {
            break error;
        }
    };
    assert!(matches!(error, Error::WouldBlock | Error::TimedOut { .. }), "{error}");
    let times = shared.shares();
    let received = (0..times).map(|_| right.recv_shared(&mut Vec::new()).unwrap()).collect::<Vec<_>>();
    assert!(matches!(right.within(Duration::ZERO).recv_shared(&mut Vec::new()), Err(Error::WouldBlock)));
    drop(received);
    right.settle().unwrap();
    left.settle().unwrap();
    assert_eq!(shared.shares(), 0);
}

#[test]
fn contents_that_the_peer_does_not_take_are_named_with_the_whole_timeout() {
    let (mut left, _right, [pool, _taken]) = apart();
    let mut buffer = pool.take().unwrap();
    buffer.set_part(0, LONG_BYTES).unwrap();
    let timeout = Duration::from_millis(20);
    let not_sent = left.within(timeout).move_to(buffer, b"").unwrap_err();
    let text = not_sent.error.to_string();
    assert!(text.starts_with("waited 20ms in vain for domain ") && text.contains("reachable_from"), "{text}");
    assert_eq!(pool.counts().held, 1);
}
