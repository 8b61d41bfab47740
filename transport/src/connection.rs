//! What joins the two sides of a channel in memory besides the memory: a bell and a lifeline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_link::end::Signals;
use tombolo_link::hello::Agreed;
use tombolo_link::open::{OpenError, Opening, Park};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::guest::pci::Registers;
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_platform::{Errno, OsError, barrier, event, socket};

use crate::error::{Awaited, ChannelError};

/// Reads of a lifeline in a row. A peer that floods its bell must not keep this side from its deadline; what is
/// left ends the next sleep.
const READS_IN_A_ROW: u32 = 16;

/// The byte on a doorbell by which a side that has no memory of the channel yet says that it waits no longer.
pub(crate) const WITHDRAWAL: u8 = tombolo_link::verdict::WITHDRAWN as u8;

/// How long a sleep on the bell alone takes at most before this side looks at its deadline; what is shorter sleeps on
/// all sources, to the point.
const DOZE: Duration = Duration::from_secs(1);

/// What wakes a side that sleeps.
#[derive(Debug)]
pub(crate) enum Bell {
    /// The socket between the two processes, which is also the lifeline.
    Socket,
    /// An event counter to sleep on, and what rings the peer.
    Window {
        /// Signalled by the peer.
        incoming: OwnedFd,
        /// Rings the peer.
        outgoing: Ring,
    },
}

/// What rings a peer across a window.
#[derive(Debug)]
pub(crate) enum Ring {
    /// An event counter that becomes an interrupt over there.
    Counter(OwnedFd),
    /// The doorbell register of the window's device.
    Register {
        /// The device.
        registers: Registers,
        /// The peer's number on the device.
        peer: u16,
        /// Its vector.
        vector: u16,
    },
}

/// How this side and its peer reach each other besides the rings.
#[derive(Debug)]
pub(crate) struct Connection {
    bell: Bell,
    /// Hangs up when the peer is gone: the socket to it, or one to the monitor, which watches it.
    lifeline: OwnedFd,
    /// The lifeline has hung up: evidence, not suspicion.
    peer_gone: bool,
    /// The peer said that it waits no longer, before it had memory to say so in.
    withdrawn: bool,
    /// Whether the lifeline lets this side sleep on it alone; unknown before the first time.
    may_doze: Option<bool>,
}

impl Connection {
    pub(crate) fn new(bell: Bell, lifeline: OwnedFd) -> Self {
        Connection { bell, lifeline, peer_gone: false, withdrawn: false, may_doze: None }
    }

    /// Sleeps until the bell rings or the lifeline ends, where both are one socket: whether it did, or `None` where that
    /// is not so. It is one system call where polling and then listening are two, and the wake-up is shorter.
    pub(crate) fn park(&mut self, deadline: Deadline) -> Option<bool> {
        if !matches!(self.bell, Bell::Socket) || deadline.remaining() < DOZE {
            return None;
        }
        let lifeline = &self.lifeline;
        if !*self.may_doze.get_or_insert_with(|| socket::let_sleep(lifeline, DOZE).is_ok()) {
            return None;
        }
        loop {
            if socket::sleep(lifeline, &mut [0; 256]) {
                return Some(true);
            }
            if deadline.remaining() < DOZE {
                return Some(false);
            }
        }
    }

    /// Why a peer that is gone did not open the channel.
    pub(crate) fn farewell(&mut self) -> ChannelError {
        self.listen();
        if self.withdrawn { ChannelError::Closed } else { ChannelError::PeerDied }
    }

    pub(crate) fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.push((self.lifeline.as_fd(), Interest::Read));
        if let Bell::Window { incoming, .. } = &self.bell {
            sources.push((incoming.as_fd(), Interest::Read));
        }
    }

    /// Takes the opening of a channel to its end.
    pub(crate) fn open(&mut self, opening: &mut Opening, deadline: Deadline) -> Result<Agreed, ChannelError> {
        opening.wait(self, deadline.as_ns()).map_err(|error| match error {
            OpenError::Handshake(error) => error.into(),
            OpenError::PeerGone => self.farewell(),
            OpenError::TimedOut => ChannelError::TimedOut(Awaited::Handshake),
            OpenError::Park(error) => error.into(),
        })
    }
}

impl Signals for Connection {
    fn ring(&mut self) {
        match &self.bell {
            Bell::Socket => match socket::send(&self.lifeline, &[1], &[]) {
                // A full socket holds wake-ups enough.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(_) => self.peer_gone = true,
            },
            Bell::Window { outgoing: Ring::Counter(counter), .. } => {
                // An event counter of ours cannot fail but by being full, which wakes as well.
                let _ = event::signal(counter);
            }
            Bell::Window { outgoing: Ring::Register { registers, peer, vector }, .. } => {
                registers.ring(*peer, *vector);
            }
        }
    }

    #[inline(always)]
    fn peer_gone(&self) -> bool {
        self.peer_gone
    }

    fn listen(&mut self) {
        if let Bell::Window { incoming, .. } = &self.bell {
            event::drain(incoming);
        }
        let mut bytes = [0; 256];
        for _ in 0..READS_IN_A_ROW {
            match socket::receive(&self.lifeline, &mut bytes) {
                Err(Errno::AGAIN) => return,
                Ok(received) if received.length > 0 => {
                    self.withdrawn |= bytes[..received.length.min(bytes.len())].contains(&WITHDRAWAL);
                    if received.length < bytes.len() {
                        return;
                    }
                }
                Ok(_) | Err(_) => {
                    self.peer_gone = true;
                    return;
                }
            }
        }
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn barrier(&mut self) {
        barrier::everywhere();
    }
}

impl Park for Connection {
    type Error = OsError;

    fn park(&mut self, until_ns: u64) -> Result<(), OsError> {
        let mut sources = Vec::with_capacity(2);
        self.sources(&mut sources);
        poll(&sources, Some(Deadline::at_ns(until_ns)))?;
        self.listen();
        Ok(())
    }
}
