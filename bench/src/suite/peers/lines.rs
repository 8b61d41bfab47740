//! Stream of bare cache lines in one direction: the minimum cost of a stream of messages.

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::{Acquire, Relaxed, Release};

use crate::SpinTimeout;
use crate::suite::content::{corrupt, word};
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

/// Name in tables and plots.
pub const NAME: &str = "bare line stream";

/// Number of lines used in rotation, as many as a channel has slots.
const LINES: u64 = 64;

/// Words per line: seven of payload, and one with the message number.
const WORDS: usize = 8;

/// Stream over as many lines as a ring has slots. Each line is written and read whole and published by its
/// last word; room is returned for half of the lines at a time. It is a ring without lengths, closing,
/// sleeping, checks of the peer and the channel around it.
#[derive(Debug)]
pub struct Stream;

impl Peer for Stream {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "64 lines in turn, each filled, handed over by a store of its last word and read; room comes back by the half. No \
         lengths, no end, no sleep, no checks of the peer"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::Rate { bytes: 56, batch: 1 }]
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let (flags, lines) = (meeting.flags(), meeting.pool());
        match meeting.side {
            // Each side clears only what it writes: the other may already have stored to its lines.
            Side::Near => (0..LINES).for_each(|line| lines.store_le(place(line) + WORDS - 1, 0, Release)),
            Side::Far => flags.store_le(0, 0, Release),
        }
        Ok(AnyEnd::new(StreamEnd { flags, lines, passed: 0, room: LINES }))
    }
}

/// Returns the first word of a message's line.
#[inline(always)]
fn place(message: u64) -> usize {
    (message % LINES) as usize * WORDS
}

struct StreamEnd {
    flags: SharedMemory,
    lines: SharedMemory,
    /// Number of messages sent or received by this side.
    passed: u64,
    /// Number of messages that may be sent before checking for room.
    room: u64,
}

impl End for StreamEnd {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut spin_timeout = SpinTimeout::default();
        while self.passed == self.room {
            self.room = self.flags.load_le(0, Acquire) + LINES;
            spin_timeout.wait()?;
        }
        let start = place(self.passed);
        for index in 0..WORDS - 1 {
            self.lines.store_le(start + index, word(sequence, index), Relaxed);
        }
        self.passed += 1;
        self.lines.store_le(start + WORDS - 1, self.passed, Release);
        Ok(())
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let start = place(self.passed);
        let mut spin_timeout = SpinTimeout::default();
        while self.lines.load_le(start + WORDS - 1, Acquire) != self.passed + 1 {
            spin_timeout.wait()?;
        }
        let mut wrong = 0;
        for index in 0..WORDS - 1 {
            wrong |= self.lines.load_le(start + index, Relaxed) ^ word(sequence, index);
        }
        if wrong != 0 {
            return Err(corrupt(sequence));
        }
        self.passed += 1;
        if self.passed.is_multiple_of(LINES / 2) {
            self.flags.store_le(0, self.passed, Release);
        }
        Ok(())
    }
}
