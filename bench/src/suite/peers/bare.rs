//! Limits of the memory itself: two lines stored and polled in turn, and buffers handed over by a store.

use tombolo_base::SharedMemory;
use tombolo_base::sync::AtomicU64;
use tombolo_base::sync::Ordering::{Acquire, Release};
use tombolo_bench_far::content::{check_words, fill_words};

use crate::SpinTimeout;
use crate::suite::content::word;
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side, buffers};

/// Name of the ping-pong, the baseline of all peers.
pub const LINES: &str = "bare cache lines";
/// Name of the hand-over of buffers.
pub const BUFFERS: &str = "bare memory";

/// Distance in words at which two words share neither a cache line nor a pair of adjacent lines.
const LINE_PAIR_WORDS: usize = 128 / 8;

/// Ping-pong of two cache lines between two processors, the lower bound of any message.
#[derive(Debug)]
pub struct Lines;

impl Peer for Lines {
    fn name(&self) -> &'static str {
        LINES
    }

    fn about(&self) -> String {
        "a word in a line of each side, stored with release and polled with acquire order; no message".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::RoundTrip { bytes: 8 }]
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let flags = meeting.flags();
        let (send, recv) = own_and_peer_word(meeting.side);
        flags.store_le(send, u64::MAX, Release);
        Ok(AnyEnd::new(Flags { flags, send, recv }))
    }
}

/// Returns the words that a side writes and reads.
fn own_and_peer_word(side: Side) -> (usize, usize) {
    match side {
        Side::Near => (0, LINE_PAIR_WORDS),
        Side::Far => (LINE_PAIR_WORDS, 0),
    }
}

/// Polls a word until it satisfies the condition.
#[inline(always)]
pub(crate) fn poll(
    flags: &SharedMemory,
    index: usize,
    mut right: impl FnMut(u64) -> bool,
) -> Result<u64, Error> {
    let mut spin_timeout = SpinTimeout::default();
    loop {
        let value = flags.load_le(index, Acquire);
        if right(value) {
            return Ok(value);
        }
        spin_timeout.wait()?;
    }
}

struct Flags {
    flags: SharedMemory,
    send: usize,
    recv: usize,
}

impl End for Flags {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        self.flags.store_le(self.send, word(sequence, 0), Release);
        Ok(())
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        poll(&self.flags, self.recv, |value| value == word(sequence, 0)).map(|_| ())
    }
}

/// Buffers that one side fills and the other reads, handed over by a store: the upper bound of any hand-over.
#[derive(Debug)]
pub struct Buffers;

impl Peer for Buffers {
    fn name(&self) -> &'static str {
        BUFFERS
    }

    fn about(&self) -> String {
        "2 buffers (4 below 4 MiB), filled and read in 8-byte accesses, handed over by a store each way"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::BANDWIDTHS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let flags = meeting.flags();
        let (send, recv) = own_and_peer_word(meeting.side);
        // Each side clears only its own lines: the other may already have stored to the rest.
        flags.store_le(send, 0, Release);
        Ok(AnyEnd::new(BuffersEnd { flags, pool: meeting.pool(), send, recv, passed: 0 }))
    }
}

struct BuffersEnd {
    flags: SharedMemory,
    pool: SharedMemory,
    send: usize,
    recv: usize,
    /// Number of buffers that this side has filled or read.
    passed: u64,
}

impl BuffersEnd {
    fn buffer(&self, bytes: usize) -> Result<&[AtomicU64], Error> {
        let index = (self.passed % buffers(bytes) as u64) as usize;
        place(&self.pool, bytes, index)
    }
}

/// Returns buffer `index` of that length.
pub(crate) fn place(pool: &SharedMemory, bytes: usize, index: usize) -> Result<&[AtomicU64], Error> {
    let words = bytes / 8;
    pool.words().get(index * words..(index + 1) * words).ok_or(Error::Unsupported)
}

impl End for BuffersEnd {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let ahead = buffers(bytes) as u64;
        let passed = self.passed;
        poll(&self.flags, self.recv, |read| read + ahead > passed)?;
        fill_words(self.buffer(bytes)?, sequence);
        self.passed += 1;
        self.flags.store_le(self.send, self.passed, Release);
        Ok(())
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let passed = self.passed;
        poll(&self.flags, self.recv, |filled| filled > passed)?;
        check_words(self.buffer(bytes)?, sequence)?;
        self.passed += 1;
        self.flags.store_le(self.send, self.passed, Release);
        Ok(())
    }
}
