//! What joins the two sides of a channel in memory besides the memory: a bell and a lifeline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_link::Handshake;
use tombolo_link::handshake::Progress;
use tombolo_link::hello::Agreed;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::guest::pci::Registers;
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, event, socket};

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

    /// Whether there is evidence that the peer is gone.
    #[inline]
    pub(crate) fn peer_gone(&self) -> bool {
        self.peer_gone
    }

    /// Wakes the peer.
    pub(crate) fn ring(&mut self) {
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

    /// Sleeps until the bell rings or the lifeline ends, where both are one socket: whether it did, or `None` where that
    /// is not so. It is one system call where polling and then listening are two, and the wake-up is shorter.
    pub(crate) fn doze(&mut self, deadline: Deadline) -> Option<bool> {
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

    /// Takes note of what bell and lifeline say.
    pub(crate) fn listen(&mut self) {
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

    /// Takes a handshake to its end. One that ends with the deadline is for the caller to withdraw.
    pub(crate) fn shake_hands(
        &mut self,
        handshake: &mut Handshake,
        deadline: Deadline,
    ) -> Result<Agreed, ChannelError> {
        self.ring();
        loop {
            // Looked at before the memory: whoever is gone by now has written everything it ever will.
            let peer_gone = self.peer_gone;
            match handshake.step() {
                Ok(Progress::Open(agreed)) => return Ok(agreed),
                Ok(Progress::Changed) => self.ring(),
                Ok(Progress::Waiting) if peer_gone => return Err(self.farewell()),
                Ok(Progress::Waiting) if deadline.passed() => {
                    return Err(ChannelError::TimedOut(Awaited::Handshake));
                }
                Ok(Progress::Waiting) => {
                    let mut sources = Vec::with_capacity(2);
                    self.sources(&mut sources);
                    poll(&sources, Some(deadline))?;
                    self.listen();
                }
                Err(error) => {
                    self.ring();
                    return Err(error.into());
                }
            }
        }
    }
}
