//! A channel end of `tombolo-transport` without the façade, between two processes without a monitor.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::{EndError, MemoryChannel, Transport, shm};

use crate::SpinTimeout;
use crate::suite::content::{Aligned, corrupt, fill};
use crate::suite::peers::tombolo::{BATCH, push, wrong};
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

/// Name in tables and plots.
pub(super) const NAME: &str = "channel end";

const TIMEOUT: Duration = Duration::from_secs(20);

/// Polled channel in memory with default options.
#[derive(Debug)]
pub(super) struct ChannelEnd;

impl Peer for ChannelEnd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "a channel of `transport` in shared memory, opened over a local socket without monitors: 64 slots of 64 bytes; \
         polled".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let hello = Hello::new(ChannelConfig::default(), 0, None);
        let deadline = Deadline::after(TIMEOUT);
        let channel = match meeting.side {
            Side::Near => {
                let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
                let (near, far): (OwnedFd, OwnedFd) =
                    pair.map_err(|errno| OsError::new("make two sockets", errno))?;
                meeting.line.give_fds(&[far.as_fd()])?;
                drop(far);
                shm::accept(near, hello, deadline)?
            }
            Side::Far => {
                let [socket] = meeting.line.take_fds()?;
                shm::connect(socket, hello, deadline)?
            }
        };
        Ok(AnyEnd::new(PolledEnd { channel }))
    }
}

struct PolledEnd {
    channel: MemoryChannel,
}

impl End for PolledEnd {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = Aligned([0; N]);
        fill(&mut message.0, sequence);
        let mut spin_timeout = SpinTimeout::default();
        loop {
            match self.channel.try_send(&message.0) {
                Ok(()) => return Ok(()),
                Err(EndError::Full) => spin_timeout.wait()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut spin_timeout = SpinTimeout::default();
        loop {
            match self.channel.try_recv_in_place(|message| wrong::<N>(message, sequence))? {
                Some(0) => return Ok(()),
                Some(_) => return Err(corrupt(sequence)),
                None => spin_timeout.wait_for_reply()?,
            }
        }
    }

    #[inline(always)]
    fn send_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let (mut sequence, end) = (first, first + count);
        let mut spin_timeout = SpinTimeout::default();
        while sequence < end {
            let sent = self.channel.try_send_batch(|batch| {
                for sequence in sequence..end {
                    if push::<N>(batch, sequence).is_err() {
                        break;
                    }
                }
            })?;
            sequence += sent;
            if sent == 0 {
                spin_timeout.wait()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn recv_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let (mut sequence, end) = (first, first + count);
        let mut spin_timeout = SpinTimeout::default();
        while sequence < end {
            let most = BATCH.min(end - sequence) as usize;
            let mut bad = 0;
            let received = self.channel.try_recv_batch(most, |message| {
                bad |= wrong::<N>(message, sequence);
                sequence += 1;
            })?;
            if bad != 0 {
                return Err(corrupt(sequence));
            }
            if received == 0 {
                spin_timeout.wait()?;
            }
        }
        Ok(())
    }
}
