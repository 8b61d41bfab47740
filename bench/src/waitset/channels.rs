//! The waitset itself, with real channels.

use std::os::fd::{AsFd, OwnedFd};

use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::socket::{self, MAX_FDS, SocketKind};
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, Errno, OsError};
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::waitset::{Ready, Token};
use tombolo_transport::{MemoryChannel, TransportExt, WaitSet, shm};

use super::{Error, STALL_TIMEOUT};

/// Uses the smallest rings, so that ten thousand channels take 160 MB.
fn hello() -> Result<Hello, Error> {
    let config = ChannelConfig::new(SlotSize::B64, 16, Variant::EpochCredit)
        .map_err(|_| OsError::new("shape a channel", Errno::INVAL))?;
    Ok(Hello::new(config, 0, None))
}

fn deadline() -> Deadline {
    Deadline::after(STALL_TIMEOUT)
}

/// Sending side, with real channels.
pub(super) struct Sender {
    channels: Vec<MemoryChannel>,
    buffer: Vec<u8>,
}

impl Sender {
    /// Receives the ends over `control`.
    pub(super) fn new(count: usize, control: &OwnedFd) -> Result<Sender, Error> {
        let mut channels = Vec::with_capacity(count);
        while channels.len() < count {
            poll(&[(control.as_fd(), Interest::Read)], Some(deadline()))?;
            let received = socket::receive(control, &mut [0; 8])
                .map_err(|errno| OsError::new("take ends of channels", errno))?;
            if received.length == 0 {
                return Err(Error::PeerLost);
            }
            for end in received.fds {
                channels.push(shm::connect(end, hello()?, deadline())?);
            }
        }
        Ok(Sender { channels, buffer: Vec::new() })
    }

    fn active(&mut self) -> &mut MemoryChannel {
        let middle = self.channels.len() / 2;
        &mut self.channels[middle]
    }

    pub(super) fn send(&mut self, stamp_ns: u64) -> Result<(), Error> {
        Ok(wait::send(self.active(), &mut Spin::new(0), &stamp_ns.to_le_bytes(), STALL_TIMEOUT)?)
    }

    pub(super) fn await_answer(&mut self) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let received = wait::recv_into(self.active(), &mut Spin::new(u64::MAX), &mut buffer, STALL_TIMEOUT);
        self.buffer = buffer;
        Ok(received.map(|_| ())?)
    }
}

/// Waiting side, with real channels.
pub(super) struct Receiver {
    set: WaitSet<MemoryChannel>,
    buffer: Vec<u8>,
    last: Option<Token>,
    /// Average time to open a channel, in ns.
    pub(super) open_ns: u64,
}

impl Receiver {
    pub(super) fn new(count: usize, control: &OwnedFd) -> Result<Receiver, Error> {
        let mut set = WaitSet::new()?;
        let start_ns = now_ns();
        let mut left = count;
        while left > 0 {
            let pairs = (0..left.min(MAX_FDS))
                .map(|_| socket::pair(SocketKind::Stream))
                .collect::<Result<Vec<_>, _>>()?;
            let theirs: Vec<_> = pairs.iter().map(|(_, theirs)| theirs.as_fd()).collect();
            super::control::send_all(control, &[0; 8], &theirs)?;
            left -= pairs.len();
            for (ours, theirs) in pairs {
                drop(theirs);
                set.add(shm::accept(ours, hello()?, deadline())?, Interest::Read)?;
            }
        }
        let open_ns = (now_ns() - start_ns) / count as u64;
        // Arms every channel once.
        set.wait(std::time::Duration::ZERO)?;
        Ok(Receiver { set, buffer: Vec::new(), last: None, open_ns })
    }

    pub(super) fn wait(&mut self, asleep: bool) -> Result<u64, Error> {
        self.set.set_spin(Spin::new(if asleep { 0 } else { 1_000_000_000 }));
        let deadline = deadline();
        while !deadline.passed() {
            let Some(Ready::Channel(token)) = self.set.wait(deadline.remaining())? else { continue };
            let channel = self.set.get_mut(token).ok_or(Error::PeerLost)?;
            if channel.try_recv_into(&mut self.buffer)?.is_some() {
                self.last = Some(token);
                let bytes = self.buffer.as_slice().try_into().map_err(|_| Error::PeerLost)?;
                return Ok(u64::from_le_bytes(bytes));
            }
        }
        Err(Error::Stalled { waited: STALL_TIMEOUT })
    }

    pub(super) fn answer(&mut self) -> Result<(), Error> {
        let token = self.last.ok_or(Error::PeerLost)?;
        Ok(self.set.try_send(token, &[0; 8]).ok_or(Error::PeerLost)??)
    }
}
