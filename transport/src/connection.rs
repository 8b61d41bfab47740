//! Connection of the two sides of a channel apart from its memory: a bell and a lifeline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_base::CacheMaintenance;
use tombolo_link::GroupCounter;
use tombolo_link::either::EitherRings;
use tombolo_link::end::Signals;
use tombolo_link::hello::Agreed;
use tombolo_link::open::{OpenError, Opening, Park};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::guest::pci::Registers;
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_platform::{Errno, OsError, barrier, event, socket};

use crate::error::{Awaited, ChannelError};

/// Maximum number of consecutive reads of a lifeline. Bounded, so that a peer that floods its bell cannot
/// hold this side past its deadline; unread bytes end the next sleep.
const MAX_CONSECUTIVE_READS: u32 = 16;

/// Doorbell byte by which a side without channel memory announces that it stopped waiting.
pub(crate) const WITHDRAWAL: u8 = tombolo_link::verdict::WITHDRAWN as u8;

/// Longest sleep on the bell alone before this side checks its deadline. Shorter timeouts sleep on all
/// sources, with full precision.
const MAX_BLOCKING_SLEEP: Duration = Duration::from_secs(1);

/// Source of this side's wake-ups.
#[derive(Debug)]
pub(crate) enum Bell {
    /// The socket between the two processes, which is also the lifeline.
    Socket,
    /// Event counter that wakes this side, and the means to ring the peer.
    Window {
        /// Event counter signalled by the peer.
        incoming: OwnedFd,
        /// Means to ring the peer.
        outgoing: PeerDoorbell,
        /// Counter of this side's rings, for a peer that shares its doorbell with others.
        rings: EitherRings,
        /// Counter of the rings of a group of channels, if there is one.
        group: Option<GroupCounter>,
    },
}

/// Means to ring a peer across a window.
#[derive(Debug)]
pub(crate) enum PeerDoorbell {
    /// An event counter that triggers an interrupt on the peer's node.
    Counter(OwnedFd),
    /// The doorbell register of the window device.
    Register {
        registers: Registers,
        /// The peer's number on the device.
        peer: u16,
        /// The peer's interrupt vector.
        vector: u16,
    },
}

/// Connection to the peer apart from the rings.
#[derive(Debug)]
pub(crate) struct Connection {
    bell: Bell,
    /// Hangs up when the peer is gone: a socket to the peer, or to the monitor that watches it.
    lifeline: OwnedFd,
    /// Whether the lifeline has hung up: evidence, not suspicion.
    peer_gone: bool,
    /// Whether the peer announced that it stopped waiting, before it had memory to write that to.
    withdrawn: bool,
    /// Whether this side can sleep on the lifeline alone; `None` until tried.
    can_block: Option<bool>,
}

impl Connection {
    pub(crate) fn new(bell: Bell, lifeline: OwnedFd) -> Self {
        Connection { bell, lifeline, peer_gone: false, withdrawn: false, can_block: None }
    }

    /// Sleeps until the bell rings, the lifeline hangs up or `deadline` passes, if bell and lifeline are one
    /// socket. Returns whether the bell rang, or `None` if they are separate. Takes one system call instead
    /// of a poll and a read, and wakes up faster.
    pub(crate) fn park(&mut self, deadline: Deadline) -> Option<bool> {
        if !matches!(self.bell, Bell::Socket) || deadline.remaining() < MAX_BLOCKING_SLEEP {
            return None;
        }
        let lifeline = &self.lifeline;
        if !*self
            .can_block
            .get_or_insert_with(|| socket::set_blocking_timeout(lifeline, MAX_BLOCKING_SLEEP).is_ok())
        {
            return None;
        }
        loop {
            if socket::receive_blocking(lifeline, &mut [0; 256]) {
                return Some(true);
            }
            if deadline.remaining() < MAX_BLOCKING_SLEEP {
                return Some(false);
            }
        }
    }

    /// Returns the reason why a peer that is gone did not open the channel.
    pub(crate) fn open_failure(&mut self) -> ChannelError {
        self.poll_signals();
        if self.withdrawn { ChannelError::Closed } else { ChannelError::PeerDied }
    }

    pub(crate) fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.push((self.lifeline.as_fd(), Interest::Read));
        if let Bell::Window { incoming, .. } = &self.bell {
            sources.push((incoming.as_fd(), Interest::Read));
        }
    }

    /// Completes the opening of a channel.
    pub(crate) fn open<C: CacheMaintenance>(
        &mut self,
        opening: &mut Opening<C>,
        deadline: Deadline,
    ) -> Result<Agreed, ChannelError> {
        opening.wait(self, deadline.as_ns()).map_err(|error| match error {
            OpenError::Handshake(error) => error.into(),
            OpenError::PeerGone => self.open_failure(),
            OpenError::TimedOut => ChannelError::TimedOut(Awaited::Handshake),
            OpenError::Park(error) => error.into(),
        })
    }
}

impl Signals for Connection {
    fn ring(&mut self) {
        match &mut self.bell {
            Bell::Socket => match socket::send(&self.lifeline, &[1], &[]) {
                // A full socket already holds enough wake-ups.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(_) => self.peer_gone = true,
            },
            Bell::Window { outgoing, rings, group, .. } => {
                rings.count();
                if let Some(group) = group {
                    group.count();
                }
                match outgoing {
                    PeerDoorbell::Counter(counter) => {
                        // An event counter fails only when it is full, which also wakes the peer.
                        let _ = event::signal(counter);
                    }
                    PeerDoorbell::Register { registers, peer, vector } => registers.ring(*peer, *vector),
                }
            }
        }
    }

    #[inline(always)]
    fn peer_gone(&self) -> bool {
        self.peer_gone
    }

    fn poll_signals(&mut self) {
        if let Bell::Window { incoming, .. } = &self.bell {
            event::drain(incoming);
        }
        let mut bytes = [0; 256];
        for _ in 0..MAX_CONSECUTIVE_READS {
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
        barrier::global();
    }
}

impl Park for Connection {
    type Error = OsError;

    fn park(&mut self, until_ns: u64) -> Result<(), OsError> {
        let mut sources = Vec::with_capacity(2);
        self.sources(&mut sources);
        poll(&sources, Some(Deadline::at_ns(until_ns)))?;
        self.poll_signals();
        Ok(())
    }
}
