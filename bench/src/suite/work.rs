//! Work on a peer: a near half, which leads and takes the times, and a far half.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use tombolo_platform::syscall_counter::SyscallCounter;

use super::{Error, Side};
use crate::sample::{Clock, Samples};

/// End of a peer. Messages are filled and checked as in [`content`](super::content), by the peer's own means
/// and in place where possible.
pub trait End {
    /// Sends message `sequence` of `N` bytes, waiting for room in the peer's own way.
    ///
    /// # Errors
    /// The peer failed or stalled.
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error>;

    /// Receives message `sequence` of `N` bytes, waiting for it in the peer's own way, and checks all of it.
    ///
    /// # Errors
    /// The peer failed or stalled, or a wrong message arrived.
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error>;

    /// Sends `count` messages, as one batch where the peer supports it.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        (first..first + count).try_for_each(|sequence| self.send::<N>(sequence))
    }

    /// Receives `count` messages.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    fn recv_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        (first..first + count).try_for_each(|sequence| self.recv::<N>(sequence))
    }

    /// Runs the far half of round trips: receives each of `rounds` messages and sends it back. A peer whose
    /// library answers on its own thread waits here until it has done so.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[inline(always)]
    fn answer<const N: usize>(&mut self, rounds: u64) -> Result<(), Error> {
        (0..rounds).try_for_each(|sequence| {
            self.recv::<N>(sequence)?;
            self.send::<N>(sequence)
        })
    }

    /// Sends `bytes` of bulk data, every byte of which is written.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Error::Unsupported`].
    fn send_bulk(&mut self, _bytes: usize, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    /// Receives bulk data, reads every byte and checks the sum.
    ///
    /// # Errors
    /// As [`recv`](Self::recv); [`Error::Unsupported`].
    fn recv_bulk(&mut self, _bytes: usize, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    /// Runs the near half of a transfer: passes the right to a buffer without touching its contents, and
    /// waits until it is returned.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`recv`](Self::recv); [`Error::Unsupported`].
    fn lend(&mut self) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    /// Runs the far half of a transfer: waits for the buffer and returns it.
    ///
    /// # Errors
    /// As [`lend`](Self::lend).
    fn give_back(&mut self) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    /// Returns the number of doorbells that this end rang, if it counts them.
    fn rings(&self) -> u64 {
        0
    }
}

/// Work that both sides do together. Counts are agreed beforehand, so that only messages pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// Round trips: `warm` uncounted ones, then cycles of batches and single ones.
    RoundTrips { bytes: usize, warm: u64, cycles: u64 },
    /// Round trips that are slow enough to be timed individually.
    Singles { bytes: usize, rounds: u64 },
    /// Messages from near to far, sent `batch` at a time.
    Stream { bytes: usize, batch: u64, warm: u64, messages: u64 },
    /// Round trips of the right to a buffer.
    Transfers { warm: u64, cycles: u64 },
    /// Bulk data from near to far.
    Bulk { bytes: usize, warm: u64, messages: u64 },
}

/// Type-erased [`End`].
pub struct AnyEnd(Box<dyn Runner>);

impl AnyEnd {
    /// Wraps the end that a peer opened.
    pub fn new(end: impl End + 'static) -> Self {
        AnyEnd(Box::new(end))
    }

    /// Wraps a runner that has its own measuring loops.
    pub(super) fn of_runner(runner: impl Runner + 'static) -> Self {
        AnyEnd(Box::new(runner))
    }

    /// Runs the near half. The far half times streams.
    pub(super) fn lead(&mut self, work: Work, clock: Clock) -> Result<Samples, Error> {
        self.0.lead(work, clock)
    }

    /// Runs the far half and returns the nanoseconds from the first counted message to the last.
    pub(super) fn follow(&mut self, work: Work) -> Result<u64, Error> {
        self.0.follow(work)
    }

    /// Returns [`End::rings`] of the end.
    pub(super) fn rings(&self) -> u64 {
        self.0.rings()
    }

    /// Returns the time that processes of this end were runnable but not running, in nanoseconds.
    pub(super) fn waited_ns(&self) -> u64 {
        self.0.waited_ns()
    }

    /// Runs one side of round trips of 8 bytes and returns this thread's system calls after the first `warm`
    /// rounds.
    pub(super) fn count_calls(
        &mut self,
        side: Side,
        rounds: Counted,
        calls: &SyscallCounter,
    ) -> Result<u64, Error> {
        self.0.count_calls(side, rounds, calls)
    }
}

/// Number of round trips for counting system calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Warm-up round trips, which are not counted.
    pub(super) warm: u64,
    /// Round trips that are counted.
    pub(super) rounds: u64,
}

impl std::fmt::Debug for AnyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyEnd")
    }
}

/// Measuring loops, monomorphized for each type of end so that a message costs no virtual call.
pub(super) trait Runner {
    fn lead(&mut self, work: Work, clock: Clock) -> Result<Samples, Error>;

    fn follow(&mut self, work: Work) -> Result<u64, Error>;

    fn rings(&self) -> u64;

    /// Returns the same as [`AnyEnd::waited_ns`].
    fn waited_ns(&self) -> u64 {
        0
    }

    fn count_calls(&mut self, side: Side, rounds: Counted, calls: &SyscallCounter) -> Result<u64, Error>;
}

/// Evaluates an expression with the message length as a constant, for one of the listed lengths: it is
/// compiled separately for each length and each type of end.
macro_rules! with_length {
    ($bytes:expr, [$($known:literal),*], $length:ident => $body:expr) => {
        match $bytes {
            $($known => {
                const $length: usize = $known;
                $body
            })*
            other => Err(Error::Far { what: format!("was asked for messages of {other} bytes") }),
        }
    };
}

impl<E: End> Runner for E {
    fn lead(&mut self, work: Work, clock: Clock) -> Result<Samples, Error> {
        match work {
            Work::RoundTrips { bytes, warm, cycles } => {
                with_length!(bytes, [0, 8, 32, 48, 56, 64, 1024, 65536], N => lead_round_trips::<N, E>(self, clock, warm, cycles))
            }
            Work::Singles { bytes, rounds } => {
                with_length!(bytes, [8], N => lead_singles::<N, E>(self, clock, rounds))
            }
            Work::Stream { bytes, batch, warm, messages } => {
                with_length!(bytes, [48, 56, 64], N => send_stream::<N, E>(self, batch, warm + messages))?;
                Ok(Samples::new())
            }
            Work::Transfers { warm, cycles } => {
                (0..warm).try_for_each(|_| self.lend())?;
                Samples::take_cycles(clock, cycles, || self.lend())
            }
            Work::Bulk { bytes, warm, messages } => {
                (0..warm + messages).try_for_each(|sequence| self.send_bulk(bytes, sequence))?;
                Ok(Samples::new())
            }
        }
    }

    fn follow(&mut self, work: Work) -> Result<u64, Error> {
        match work {
            Work::RoundTrips { bytes, warm, cycles } => {
                let rounds = warm + cycles * crate::sample::CYCLE_ROUNDS;
                with_length!(bytes, [0, 8, 32, 48, 56, 64, 1024, 65536], N => echo::<N, E>(self, rounds))
            }
            Work::Singles { bytes, rounds } => with_length!(bytes, [8], N => echo::<N, E>(self, rounds)),
            Work::Stream { bytes, batch, warm, messages } => {
                with_length!(bytes, [48, 56, 64], N => take_stream::<N, E>(self, batch, warm, messages))
            }
            Work::Transfers { warm, cycles } => {
                let rounds = warm + cycles * crate::sample::CYCLE_ROUNDS;
                timed(|| (0..rounds).try_for_each(|_| self.give_back()))
            }
            Work::Bulk { bytes, warm, messages } => {
                (0..warm).try_for_each(|sequence| self.recv_bulk(bytes, sequence))?;
                timed(|| (warm..warm + messages).try_for_each(|sequence| self.recv_bulk(bytes, sequence)))
            }
        }
    }

    fn rings(&self) -> u64 {
        End::rings(self)
    }

    fn count_calls(&mut self, side: Side, rounds: Counted, calls: &SyscallCounter) -> Result<u64, Error> {
        let mut before = 0;
        for sequence in 0..rounds.warm + rounds.rounds {
            if sequence == rounds.warm {
                before = calls.count();
            }
            match side {
                Side::Near => {
                    self.send::<8>(sequence)?;
                    self.recv::<8>(sequence)?;
                }
                Side::Far => {
                    self.recv::<8>(sequence)?;
                    self.send::<8>(sequence)?;
                }
            }
        }
        Ok(calls.count() - before)
    }
}

#[inline(never)]
fn lead_round_trips<const N: usize, E: End>(
    end: &mut E,
    clock: Clock,
    warm: u64,
    cycles: u64,
) -> Result<Samples, Error> {
    let mut sequence = 0;
    let mut round = || {
        end.send::<N>(sequence)?;
        end.recv::<N>(sequence)?;
        sequence += 1;
        Ok::<(), Error>(())
    };
    for _ in 0..warm {
        round()?;
    }
    Samples::take_cycles(clock, cycles, round)
}

#[inline(never)]
fn lead_singles<const N: usize, E: End>(end: &mut E, clock: Clock, rounds: u64) -> Result<Samples, Error> {
    let mut sequence = 0;
    Samples::take_singly(clock, rounds, || {
        end.send::<N>(sequence)?;
        end.recv::<N>(sequence)?;
        sequence += 1;
        Ok::<(), Error>(())
    })
}

#[inline(never)]
fn echo<const N: usize, E: End>(end: &mut E, rounds: u64) -> Result<u64, Error> {
    timed(|| end.answer::<N>(rounds))
}

#[inline(never)]
fn send_stream<const N: usize, E: End>(end: &mut E, batch: u64, messages: u64) -> Result<(), Error> {
    if batch == 1 {
        return (0..messages).try_for_each(|sequence| end.send::<N>(sequence));
    }
    let mut sequence = 0;
    while sequence < messages {
        let count = batch.min(messages - sequence);
        end.send_batch::<N>(sequence, count)?;
        sequence += count;
    }
    Ok(())
}

#[inline(never)]
fn take_stream<const N: usize, E: End>(
    end: &mut E,
    batch: u64,
    warm: u64,
    messages: u64,
) -> Result<u64, Error> {
    if batch == 1 {
        (0..warm).try_for_each(|sequence| end.recv::<N>(sequence))?;
        return timed(|| (warm..warm + messages).try_for_each(|sequence| end.recv::<N>(sequence)));
    }
    end.recv_batch::<N>(0, warm)?;
    timed(|| end.recv_batch::<N>(warm, messages))
}

fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<u64, Error> {
    let start = Instant::now();
    work()?;
    Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
