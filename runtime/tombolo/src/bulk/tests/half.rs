//! Half trust: a domain can access what was sent to it once, and nothing else.

use super::*;

fn half() -> BulkOptions {
    BulkOptions::default().trust(Trust::Half)
}

/// Opens both ends of a channel, with a pool that the left one assigned.
fn assigned(count: u32) -> (BulkChannel, BulkChannel, Pool, Pool) {
    let (left, right) = ends(&half(), &half());
    let (mut left, mut right) = (left.unwrap(), right.unwrap());
    let options = PoolOptions::new(SIZE, count).trust(Trust::Half);
    let pool = Monitor::another_domain().create_pool(&options).unwrap();
    let theirs = assign(&mut left, &mut right, &pool);
    (left, right, pool, theirs)
}

fn reached(pool: &Pool) -> usize {
    pool.inner.lock().open.count()
}

#[test]
fn only_sent_buffers_are_mapped_once() {
    let (mut left, mut right, pool, theirs) = assigned(3);
    let kept = pool.take().unwrap();
    let mut buffer = pool.take().unwrap();
    buffer.write(8, b"from the left").unwrap();
    let number = buffer.number();
    left.move_to(buffer, b"first").unwrap();
    assert_eq!((reached(&pool), reached(&theirs)), (2, 0));
    let mut got = right.recv_moved(&mut Vec::new()).unwrap();
    assert_eq!((got.number(), reached(&theirs)), (number, 1), "the other one was not sent");
    let address = got.as_ptr().unwrap();
    let mut found = [0; 13];
    got.read(8, &mut found).unwrap();
    assert_eq!(&found, b"from the left");
    assert!(matches!(got.bytes(), Err(Error::Bulk(BulkError::Mapped))), "others may write to it");
    assert!(got.memory().is_some());
    got.write(8, b"from the right").unwrap();
    right.move_to(got, &[]).unwrap();
    let back = left.recv_moved(&mut Vec::new()).unwrap();
    let mut found = [0; 14];
    back.read(8, &mut found).unwrap();
    assert_eq!(&found, b"from the right");
    left.move_to(back, &[]).unwrap();
    let again = right.recv_moved(&mut Vec::new()).unwrap();
    assert_eq!((again.as_ptr().unwrap(), reached(&theirs)), (address, 1), "it is where it was");
    drop(kept);
}

#[test]
fn a_buffer_that_is_passed_back_is_filled_and_sent_again() {
    let (mut left, mut right, pool, _theirs) = assigned(1);
    for round in 0..3_u8 {
        let mut buffer = left.take(&pool).unwrap();
        buffer.write(0, &[round; 64]).unwrap();
        left.move_to(buffer, &[]).unwrap();
        let got = right.recv_moved(&mut Vec::new()).unwrap();
        let mut found = [9; 64];
        got.read(0, &mut found).unwrap();
        assert_eq!(found, [round; 64]);
        right.pass(got, &[]).unwrap();
    }
    assert_eq!(reached(&pool), 1);
}

#[test]
fn a_buffer_is_lent_to_read_and_comes_back() {
    let (mut left, mut right, pool, _theirs) = assigned(1);
    let mut buffer = pool.take().unwrap();
    buffer.write(0, b"look").unwrap();
    let shared = left.share(buffer, &[]).unwrap();
    let got = right.recv_shared(&mut Vec::new()).unwrap();
    let mut found = [0; 4];
    got.read(0, &mut found).unwrap();
    assert_eq!((&found, shared.shares()), (b"look", 1));
    right.release(got, &[]).unwrap();
    drop(right);
    drop(shared);
    drop(left);
    assert_eq!(pool.counts().away, 0);
}

#[test]
fn trust_is_half_on_both_sides_or_there_is_no_channel() {
    for other in [Trust::Full, Trust::None] {
        let (left, right) = ends(&half(), &BulkOptions::default().trust(other));
        assert!(left.is_err() && right.is_err(), "half and {other}");
    }
}
