//! Interface of channels for the measuring loops.

use std::time::{Duration, Instant};

use tombolo::Channel;
use tombolo::channel::RawMemory;
use tombolo_base::sync::{delay_poll, spin_hint};

use crate::Error;

/// End of a channel. The façade's [`Channel`] implements it; tests measure a transport without a monitor.
pub trait End {
    /// Behaves like [`Channel::try_send`].
    ///
    /// # Errors
    /// As there.
    fn try_send(&mut self, message: &[u8]) -> Result<(), tombolo::Error>;

    /// Behaves like [`Channel::try_recv_into`].
    ///
    /// # Errors
    /// As there.
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, tombolo::Error>;

    /// Behaves like [`Channel::send`], with a timeout.
    ///
    /// # Errors
    /// As there.
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), tombolo::Error>;

    /// Behaves like [`Channel::recv_into`], with a timeout.
    ///
    /// # Errors
    /// As there.
    fn recv_into(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<usize, tombolo::Error>;

    /// Returns the number of times that this end rang a sleeping peer.
    fn rings(&self) -> u64;
}

impl End for Channel {
    #[inline(always)]
    fn try_send(&mut self, message: &[u8]) -> Result<(), tombolo::Error> {
        Channel::try_send(self, message)
    }

    #[inline(always)]
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, tombolo::Error> {
        Channel::try_recv_into(self, buffer)
    }

    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), tombolo::Error> {
        self.within(timeout).send(message)
    }

    fn recv_into(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<usize, tombolo::Error> {
        self.within(timeout).recv_into(buffer)
    }

    fn rings(&self) -> u64 {
        self.stats().rings
    }
}

/// One side of a link under measurement.
#[derive(Debug)]
pub struct Ends<E> {
    /// Channel of commands and of measured messages.
    pub ring: E,
    /// Bare memory of a channel that the far side opened; `None` if the two sides share none.
    pub raw: Option<RawMemory>,
    /// Bare memory of a channel that the near side opened; `None` if there is only one shared memory.
    pub own: Option<RawMemory>,
    /// Channel whose two ends sleep while they wait.
    pub wake: E,
}

/// Timeout for the other side during a measurement. Machines under load and emulated processors stall for a
/// second or two; no running peer stalls for this long.
pub const STALL: Duration = Duration::from_secs(10);

/// Timeout for polling loops that does not read the clock at every poll.
#[derive(Default, Debug)]
pub struct SpinTimeout {
    polls: u32,
    since: Option<Instant>,
}

impl SpinTimeout {
    /// Checks the timeout; call it after each unsuccessful poll.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    #[inline(always)]
    pub fn wait(&mut self) -> Result<(), Error> {
        spin_hint();
        self.count_poll()
    }

    /// Like [`wait`](Self::wait), with the delay of the first polls of a channel's own wait.
    ///
    /// # Errors
    /// [`Error::Stalled`].
    #[inline(always)]
    pub fn wait_for_reply(&mut self) -> Result<(), Error> {
        delay_poll();
        self.count_poll()
    }

    #[inline(always)]
    fn count_poll(&mut self) -> Result<(), Error> {
        const POLLS_PER_CHECK: u32 = 1 << 16;
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_CHECK) { self.check_clock() } else { Ok(()) }
    }

    #[cold]
    fn check_clock(&mut self) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > STALL { Err(Error::Stalled { waited: STALL }) } else { Ok(()) }
    }
}

/// Sends, polling for room.
///
/// # Errors
/// The channel fails, or the other side stalls.
#[inline(always)]
pub fn send_polling(end: &mut impl End, message: &[u8]) -> Result<(), Error> {
    let mut spin_timeout = SpinTimeout::default();
    loop {
        match end.try_send(message) {
            Ok(()) => return Ok(()),
            Err(tombolo::Error::WouldBlock) => spin_timeout.wait()?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives a message by polling, without a system call.
///
/// # Errors
/// The channel fails, or the other side stalls.
#[inline(always)]
pub fn recv_polling(end: &mut impl End, buffer: &mut Vec<u8>) -> Result<usize, Error> {
    let mut spin_timeout = SpinTimeout::default();
    loop {
        match end.try_recv_into(buffer)? {
            Some(length) => return Ok(length),
            None => spin_timeout.wait()?,
        }
    }
}
