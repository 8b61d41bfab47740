//! Bulk channels without trust, between two domains of one process, which needs no monitor.

mod awake;
mod copies;
mod futures;
mod half;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tombolo_bulk::session::BulkSendError;
use tombolo_bulk::{TableError, Trust};
use tombolo_link::TransportKind;

use super::options::fits;
use super::{Arrival, BulkChannel, BulkError, BulkOptions, Pool, PoolOptions};
use crate::domain::Domain;
use crate::error::Error;
use crate::testing::{LONG, Monitor, pair_with};

const SIZE: u64 = 8192;

fn options() -> BulkOptions {
    BulkOptions::default().trust(Trust::None)
}

/// Opens both ends of a channel between two domains.
fn ends(left: &BulkOptions, right: &BulkOptions) -> (Result<BulkChannel, Error>, Result<BulkChannel, Error>) {
    ends_of((&Monitor::another_domain(), left), (&Monitor::another_domain(), right))
}

/// Opens both ends of a channel between these domains.
fn ends_of(
    left: (&Domain, &BulkOptions),
    right: (&Domain, &BulkOptions),
) -> (Result<BulkChannel, Error>, Result<BulkChannel, Error>) {
    let (a, b) = pair_with(TransportKind::Shm, &left.1.underneath());
    let open = |channel, (domain, options): (&Domain, &BulkOptions)| {
        let terms = fits(&channel, options.terms);
        BulkChannel::open(domain, channel, options, terms, LONG)
    };
    std::thread::scope(|scope| {
        let left = scope.spawn(|| open(a, left));
        let right = open(b, right);
        (left.join().unwrap(), right)
    })
}

pub(super) fn pair() -> (BulkChannel, BulkChannel) {
    let (left, right) = ends(&options(), &options());
    (left.unwrap(), right.unwrap())
}

pub(super) fn pool(count: u32) -> Pool {
    Monitor::another_domain().create_pool(&PoolOptions::new(SIZE, count).trust(Trust::None)).unwrap()
}

/// Assigns the pool at the left end, so that both ends know it.
pub(super) fn assign(left: &mut BulkChannel, right: &mut BulkChannel, pool: &Pool) -> Pool {
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| right.recv_pool().unwrap());
        left.assign(pool).unwrap();
        taken.join().unwrap()
    })
}

/// Reopens the descriptors of the buffer of this process that contains these bytes, for reading and writing,
/// as a hostile sender may have kept them.
fn kept(offset_bytes: u64, marked: &[u8]) -> Vec<File> {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let buffers = fds.filter(|fd| {
        std::fs::read_link(fd.path()).is_ok_and(|target| target.to_string_lossy().contains("tombolo-buffer"))
    });
    let files = buffers.filter_map(|fd| OpenOptions::new().read(true).write(true).open(fd.path()).ok());
    let found: Vec<File> = files
        .filter(|file| {
            let mut bytes = vec![0; marked.len()];
            file.read_exact_at(&mut bytes, offset_bytes).is_ok() && bytes == marked
        })
        .collect();
    assert!(!found.is_empty(), "the buffer has no descriptor");
    found
}

#[test]
fn free_buffers_outlive_the_channel() {
    let (mut left, mut right) = pair();
    let pool = pool(2);
    assign(&mut left, &mut right, &pool);
    let buffer = left.take(&pool).unwrap();
    left.move_to(buffer, &[]).unwrap();
    let moved = right.recv_moved(&mut Vec::new()).unwrap();
    right.pass(moved, &[]).unwrap();
    drop(right);
    let taken = [left.take(&pool).unwrap(), left.take(&pool).unwrap()];
    let error = left.take(&pool).unwrap_err();
    assert!(error.is_peer_gone(), "{error}");
    drop(taken);
    assert_eq!(pool.counts().free, 2);
}

#[test]
fn a_moved_buffer_is_the_receivers_alone() {
    let (mut left, mut right) = pair();
    let pool = pool(2);
    assign(&mut left, &mut right, &pool);
    let mut buffer = pool.take().unwrap();
    buffer.bytes_mut().unwrap().fill(7);
    buffer.write(0, b"from the left").unwrap();
    let kept = kept(0, b"from the left");
    left.move_to(buffer, b"first").unwrap();
    let mut metadata = Vec::new();
    let mut got = right.recv_moved(&mut metadata).unwrap();
    assert_eq!((&metadata[..], got.len_bytes(), got.number()), (&b"first"[..], SIZE, 0));
    got.write(0, b"mine").unwrap();
    for file in &kept {
        let mut start = [0; 4];
        assert!(file.write_all_at(b"x", 0).is_err(), "a sender wrote to what it had moved");
        file.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"from", "a sender read what the receiver wrote");
    }
    assert_eq!((&got.bytes().unwrap()[..8], got.bytes().unwrap()[100]), (&b"mine the"[..], 7));
    // The buffer moves on from there with what was written, and back.
    right.move_to(got, &[]).unwrap();
    let back = left.recv_moved(&mut metadata).unwrap();
    assert_eq!((&back.bytes().unwrap()[..13], metadata.len()), (&b"mine the left"[..], 0));
}

#[test]
fn a_sender_waits_for_a_buffer_that_comes_back() {
    let (mut left, mut right) = pair();
    let pool = pool(1);
    assign(&mut left, &mut right, &pool);
    let buffer = left.take(&pool).unwrap();
    left.move_to(buffer, b"out").unwrap();
    assert!(matches!(left.within(Duration::ZERO).take(&pool), Err(Error::WouldBlock)));
    assert!(matches!(left.within(Duration::from_millis(1)).take(&pool), Err(Error::TimedOut { .. })));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let buffer = right.recv_moved(&mut Vec::new()).unwrap();
            // With metadata, which the sender has to find later, although it only waited for the buffer.
            right.pass(buffer, b"back").unwrap();
        });
        drop(left.take(&pool).unwrap());
    });
    let mut metadata = Vec::new();
    assert!(matches!(left.recv(&mut metadata), Ok(Arrival::Passed(1))));
    assert_eq!(metadata, b"back");
    left.move_to(pool.take().unwrap(), &[]).unwrap();
    drop(right);
    // Buffers that a dead peer held are reclaimed as well, and can be taken.
    drop(left.take(&pool).or_else(|_| pool.take()).unwrap());
}

#[test]
fn shared_buffers_are_read_only() {
    let (mut left, mut right) = pair();
    let pool = pool(1);
    assign(&mut left, &mut right, &pool);
    let mut buffer = pool.take().unwrap();
    buffer.write(10, b"for all").unwrap();
    let mine = left.share(buffer, &[]).unwrap();
    let theirs = right.recv_shared(&mut Vec::new()).unwrap();
    for file in kept(10, b"for all") {
        let _ = file.write_all_at(b"x", 10).unwrap_err();
    }
    assert_eq!(&theirs.bytes().unwrap()[10..17], b"for all");
    assert_eq!((mine.is_own(), theirs.is_own(), mine.shares()), (true, false, 1));
    // Not while it is being read; then it is the sender's to write again, with its contents.
    let not_sent = mine.reclaim().unwrap_err();
    assert!(matches!(not_sent.error, Error::Bulk(BulkError::State(TableError::Shared { times: 1, .. }))));
    assert!(matches!(pool.take().unwrap_err(), Error::Bulk(BulkError::NoBuffer { count: 1 })));
    drop(theirs);
    right.settle().unwrap();
    left.settle().unwrap();
    let mut again = not_sent.kept.reclaim().unwrap();
    again.write(10, b"mine").unwrap();
    assert_eq!(&again.bytes().unwrap()[10..17], b"mineall");
}

#[test]
fn pieces_of_several_pools_arrive_all_or_none() {
    let (mut left, mut right) = pair();
    let pools = [pool(2), pool(2)];
    for pool in &pools {
        assign(&mut left, &mut right, pool);
    }
    let take = || {
        let mut buffers: Vec<_> =
            pools.iter().flat_map(|pool| [pool.take().unwrap(), pool.take().unwrap()]).collect();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            buffer.write(100, &[index as u8; 50]).unwrap();
            buffer.set_part(100, 50).unwrap();
        }
        buffers
    };
    let stranger = pool(1);
    let mut buffers = take();
    buffers.push(stranger.take().unwrap());
    let not_sent = left.move_all(buffers, &[]).unwrap_err();
    assert!(matches!(not_sent.error, Error::Bulk(BulkError::NotOnChannel)));
    let mut buffers = not_sent.kept;
    buffers.pop();
    left.move_all(buffers, b"all").unwrap();
    let mut metadata = Vec::new();
    let Ok(Arrival::Moved(received)) = right.recv(&mut metadata) else { panic!("nothing was moved") };
    assert_eq!((received.pieces(), &metadata[..]), (4, &b"all"[..]));
    for (index, buffer) in received.into_vec().into_iter().enumerate() {
        assert_eq!(buffer.bytes().unwrap(), [index as u8; 50]);
    }
    // They were returned when they were dropped.
    right.settle().unwrap();
    left.settle().unwrap();
    assert_eq!(pools.map(|pool| pool.counts().free), [2, 2]);
}

#[test]
fn shared_buffers_are_passed_on_and_returned() {
    let (mut home, mut middle) = pair();
    let (mut onward, mut far) = pair();
    let pool = pool(1);
    let there = assign(&mut home, &mut middle, &pool);
    assign(&mut onward, &mut far, &there);
    let mut buffer = pool.take().unwrap();
    buffer.write(0, b"far").unwrap();
    drop(home.share(buffer, &[]).unwrap());
    let mut between = middle.recv_shared(&mut Vec::new()).unwrap();
    assert!(middle.share_again(&mut between, &[]).is_err(), "it came from there");
    onward.share_again(&mut between, &[]).unwrap();
    let last = far.recv_shared(&mut Vec::new()).unwrap();
    // The middle domain finishes first, but has to wait for the domain that it shared the buffer with.
    drop(between);
    middle.settle().unwrap();
    home.settle().unwrap();
    assert_eq!((pool.counts().lent, there.counts().borrowed), (1, 1));
    assert_eq!(&last.bytes().unwrap()[..3], b"far");
    drop(last);
    for end in [&mut far, &mut onward, &mut middle, &mut home] {
        end.settle().unwrap();
    }
    assert_eq!((pool.counts().free, there.counts().away), (1, 1));
}

#[test]
fn pools_come_and_go_in_order() {
    let (mut left, mut right) = pair();
    let pool = pool(2);
    assign(&mut left, &mut right, &pool);
    assert!(matches!(left.assign(&pool), Err(Error::Bulk(BulkError::OnChannel))));
    left.move_to(pool.take().unwrap(), &[]).unwrap();
    let in_use = left.unassign(&pool).unwrap_err();
    assert!(matches!(in_use, Error::Bulk(BulkError::State(TableError::InUse { buffers: 1 }))));
    drop(right.recv_moved(&mut Vec::new()).unwrap());
    right.settle().unwrap();
    std::thread::scope(|scope| {
        let gone = scope.spawn(|| right.recv(&mut Vec::new()).unwrap());
        left.unassign(&pool).unwrap();
        assert!(matches!(gone.join().unwrap(), Arrival::PoolGone(_)));
    });
    let not_sent = left.move_to(pool.take().unwrap(), &[]).unwrap_err();
    assert!(matches!(not_sent.error, Error::Bulk(BulkError::NotOnChannel)));
    drop(not_sent);
    // Again, with the same index.
    assign(&mut left, &mut right, &pool);
    assert_eq!(pool.counts().free, 2);
}

#[test]
fn a_pool_that_is_not_wanted_is_vetoed() {
    let small = options().max_pool_bytes(SIZE * 2);
    let (left, right) = ends(&options().max_pools(1).unwrap(), &small);
    let (mut left, mut right) = (left.unwrap(), right.unwrap());
    let (fits, large) = (pool(2), pool(3));
    std::thread::scope(|scope| {
        scope.spawn(|| right.recv_pool().unwrap());
        let veto = left.assign(&large).unwrap_err();
        assert_eq!(veto.to_string(), "the pool was not taken: it is larger than the other side accepts");
        left.assign(&fits).unwrap();
        let full = left.assign(&large).unwrap_err();
        assert!(matches!(full, Error::Bulk(BulkError::Send(BulkSendError::TooManyPools(1)))));
    });
    // With `ask_before_taking_pools`, the program decides.
    let (left, right) = ends(&options(), &options().ask_before_taking_pools());
    let (mut left, mut right) = (left.unwrap(), right.unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for taken in [false, true] {
                let Ok(Arrival::Offered(offer)) = right.recv(&mut Vec::new()) else { panic!("no offer") };
                assert_eq!((offer.count(), offer.buffer_bytes()), (3, SIZE));
                if taken {
                    right.take_pool(offer).unwrap();
                } else {
                    right.decline_pool(offer).unwrap();
                }
            }
        });
        assert!(left.assign(&large).unwrap_err().to_string().contains("declined"));
        left.assign(&large).unwrap();
    });
}

#[test]
fn trust_is_the_same_on_both_sides_or_there_is_no_channel() {
    let (left, right) = ends(&options(), &BulkOptions::default());
    for (end, ours) in [(left, Trust::None), (right, Trust::Full)] {
        match end {
            Err(Error::Bulk(BulkError::Trust { ours: found, .. })) => assert_eq!(found, ours),
            Err(Error::Closed { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn trust_of_a_pool_is_that_of_its_channel() {
    let (left, _right) = ends(&BulkOptions::default(), &BulkOptions::default());
    let left = left.unwrap();
    let strict = left.create_unassigned_pool(&PoolOptions::new(SIZE, 1).trust(Trust::None));
    let refused = Error::Bulk(BulkError::Trust { ours: Trust::Full, theirs: Trust::None });
    assert_eq!(strict.err(), Some(refused));
    let (left, _right) = ends(&options(), &options());
    let pool = left.unwrap().create_unassigned_pool(&PoolOptions::new(SIZE, 1)).unwrap();
    assert_eq!(pool.trust(), Trust::None);
}

#[test]
fn move_after_the_end_of_the_peer_reports_that_end() {
    let (mut left, mut right) = pair();
    let pool = pool(2);
    assign(&mut left, &mut right, &pool);
    let buffers = [pool.take().unwrap(), pool.take().unwrap()];
    drop(right);
    let end = left.recv(&mut Vec::new()).unwrap_err();
    assert!(end.is_peer_gone(), "{end}");
    for (buffer, metadata) in buffers.into_iter().zip([&b""[..], b"with metadata"]) {
        let not_sent = left.move_to(buffer, metadata).unwrap_err();
        assert_eq!(not_sent.error, end);
    }
}

#[test]
fn unsent_buffers_stay() {
    let (mut left, right) = pair();
    let pool = pool(200);
    let mut right = right;
    assign(&mut left, &mut right, &pool);
    // The peer does not read: eventually there is no room, and the buffer is returned.
    let mut sent = 0;
    let not_sent = loop {
        match left.within(Duration::ZERO).move_to(pool.take().unwrap(), &[0; 512]) {
            Ok(()) => sent += 1,
            Err(not_sent) => break not_sent,
        }
    };
    assert!(matches!(not_sent.error, Error::WouldBlock), "{}", not_sent.error);
    for _ in 0..3 {
        assert!(left.within(Duration::ZERO).move_to(pool.take().unwrap(), &[0; 512]).is_err());
    }
    assert_eq!(not_sent.kept.number(), sent);
    assert_eq!((pool.counts().away, pool.counts().held), (sent, 1));
    // Transfers whose messages found no room sent their memory ahead, repeatedly; the receiver must match
    // memory and messages.
    let mut got = Vec::new();
    for _ in 0..sent {
        got.push(right.recv_moved(&mut Vec::new()).unwrap().number());
    }
    let mut marked = not_sent.kept;
    marked.write(0, b"last").unwrap();
    left.move_to(marked, &[]).unwrap();
    let last = right.recv_moved(&mut Vec::new()).unwrap();
    assert_eq!((last.number(), &last.bytes().unwrap()[..4]), (sent, &b"last"[..]));
    drop(last);
    drop(right);
    // The other end is gone: every buffer is back, at the latest when the end is received.
    assert!(left.recv(&mut Vec::new()).unwrap_err().is_peer_gone());
    assert_eq!(pool.counts().free, 200);
    assert_eq!(got, (0..sent).collect::<Vec<_>>());
}

#[test]
fn ranges_and_states_are_checked() {
    let (mut left, mut right) = pair();
    let pool = pool(1);
    assign(&mut left, &mut right, &pool);
    let mut buffer = pool.take().unwrap();
    assert!(buffer.write(SIZE - 1, &[1]).is_ok());
    for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 2)] {
        let bytes = vec![0; length];
        assert!(matches!(buffer.write(offset, &bytes), Err(Error::Bulk(BulkError::Range { .. }))));
        assert!(matches!(buffer.set_part(offset, length as u64), Err(Error::Bulk(BulkError::Range { .. }))));
    }
    let metadata = vec![0; 2049];
    let not_sent = left.move_to(buffer, &metadata).unwrap_err();
    assert!(matches!(
        not_sent.error,
        Error::Bulk(BulkError::Send(BulkSendError::Metadata { found: 2049, .. }))
    ));
    left.move_to(not_sent.kept, &metadata[..2048]).unwrap();
    let full = BulkOptions::default();
    assert!(full.clone().max_pools(0).is_err() && full.clone().max_pools(33).is_err());
    assert!(full.clone().max_pools(32).is_ok() && full.max_metadata_bytes(2049).is_err());
    assert!(matches!(
        Monitor::another_domain().create_pool(&PoolOptions::new(100, 1).trust(Trust::None)),
        Err(Error::Bulk(BulkError::Layout(_)))
    ));
}
