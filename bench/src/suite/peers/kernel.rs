//! Minimum cost of a wake-up: only the system calls that sleep and wake.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::{Acquire, Release};
use tombolo_platform::event::{self, Interest};
use tombolo_platform::{Deadline, futex};

use crate::suite::content::word;
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

/// Name of the bare futex, the baseline of wake-ups.
pub const FUTEX: &str = "bare futex";

const TIMEOUT: Duration = Duration::from_secs(10);
const LINE_PAIR_WORDS: usize = 128 / 8;

fn stalled() -> Error {
    Error::Stalled { waited: TIMEOUT }
}

/// Futex: one side stores a word and wakes the other.
#[derive(Debug)]
pub struct Futex;

impl Peer for Futex {
    fn name(&self) -> &'static str {
        FUTEX
    }

    fn about(&self) -> String {
        "FUTEX_WAIT and FUTEX_WAKE on a word in shared memory, one of each a message; no spinning".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::WakeUp]
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let (send, recv) =
            if meeting.side == Side::Near { (0, LINE_PAIR_WORDS) } else { (LINE_PAIR_WORDS, 0) };
        let flags = meeting.flags();
        flags.store_le(send, u64::MAX, Release);
        Ok(AnyEnd::new(FutexEnd { flags, send, recv }))
    }
}

struct FutexEnd {
    flags: SharedMemory,
    send: usize,
    recv: usize,
}

impl End for FutexEnd {
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        self.flags.store_le(self.send, word(sequence, 0), Release);
        futex::wake(&self.flags, self.send, 1)?;
        Ok(())
    }

    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let deadline = Deadline::after(TIMEOUT);
        loop {
            let found = self.flags.load_le(self.recv, Acquire);
            if found == word(sequence, 0) {
                return Ok(());
            }
            if futex::wait(&self.flags, self.recv, found as u32, Some(deadline))?
                == futex::WaitResult::TimedOut
            {
                return Err(stalled());
            }
        }
    }
}

/// One event counter (`eventfd`) per direction.
#[derive(Debug)]
pub struct EventCounter;

impl Peer for EventCounter {
    fn name(&self) -> &'static str {
        "eventfd"
    }

    fn about(&self) -> String {
        "write, poll and read of an event counter each way, one of each a message; carries no message".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::WakeUp]
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let end = match meeting.side {
            Side::Near => {
                let (out, back) = (event::eventfd()?, event::eventfd()?);
                meeting.line.give_fds(&[back.as_fd(), out.as_fd()])?;
                EventEnd { send: out, recv: back }
            }
            Side::Far => {
                let [send, recv] = meeting.line.take_fds()?;
                EventEnd { send, recv }
            }
        };
        Ok(AnyEnd::new(end))
    }
}

struct EventEnd {
    send: OwnedFd,
    recv: OwnedFd,
}

impl End for EventEnd {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Ok(event::signal(&self.send)?)
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        let ready = event::poll(&[(self.recv.as_fd(), Interest::Read)], Some(Deadline::after(TIMEOUT)))?;
        if ready.iter().any(|ready| ready.readable) && event::drain(&self.recv) {
            Ok(())
        } else {
            Err(stalled())
        }
    }
}
