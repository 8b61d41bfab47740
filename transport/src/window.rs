//! `window`: a channel across a PCI shared-memory window, between programs under different kernels.
//!
//! The monitors lend a range of the window and a pair of doorbells, and watch the peer: a domain's lifeline
//! leads to its own monitor, which hangs it up when the peer's monitor reports a death or the node is lost.

use std::os::fd::OwnedFd;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelLayout, Hello, Side, TransportKind};
use tombolo_platform::guest::pci::Registers;
use tombolo_platform::memory::{check_sealed, map};
use tombolo_platform::time::Deadline;

use crate::connection::{Bell, Connection, Ring};
use crate::error::ChannelError;
use crate::memory::MemoryChannel;

/// What the monitor lends for one end.
#[derive(Debug)]
pub struct Lent {
    /// The window.
    pub memory: OwnedFd,
    /// First byte of the channel in it.
    pub offset_bytes: u64,
    /// Length of the channel.
    pub length_bytes: u64,
    /// Hangs up when the peer is gone.
    pub lifeline: OwnedFd,
    /// Signalled when the peer rings.
    pub bell: OwnedFd,
    /// Rings the peer: an event counter, or the device's registers when `ring` is set.
    pub ringer: OwnedFd,
    /// Peer (upper half) and vector (lower half) for the doorbell register.
    pub ring: Option<u32>,
}

impl Lent {
    /// The memory of a channel that says `hello`, and what joins this end to its peer.
    fn take_up(self, hello: &Hello) -> Result<(SharedMemory, Connection), ChannelError> {
        let needed = ChannelLayout::new(hello.config).length_bytes() as u64;
        if self.length_bytes < needed {
            return Err(ChannelError::Violation(format!(
                "the monitor lent {} bytes of the window where the channel takes {needed}",
                self.length_bytes
            )));
        }
        if self.ring.is_none() {
            // The host's window is a file, which could be shorter than what is mapped of it; a device cannot.
            check_sealed(&self.memory, self.offset_bytes.saturating_add(needed))?;
        }
        let length_bytes = usize::try_from(needed).unwrap_or(usize::MAX);
        let memory = map(&self.memory, self.offset_bytes, length_bytes)?;
        let outgoing = match self.ring {
            None => Ring::Counter(self.ringer),
            Some(target) => Ring::Register {
                registers: Registers::map(&self.ringer)?,
                peer: (target >> 16) as u16,
                vector: target as u16,
            },
        };
        let bell = Bell::Window { incoming: self.bell, outgoing };
        Ok((memory, Connection::new(bell, self.lifeline)))
    }
}

/// Opens one end of a channel in a window.
///
/// # Errors
/// What the two sides disagree on, the peer's end, the deadline, or what the kernel refused.
pub fn open(lent: Lent, side: Side, hello: Hello, deadline: Deadline) -> Result<MemoryChannel, ChannelError> {
    let (memory, connection) = lent.take_up(&hello)?;
    // No barrier reaches processors under another kernel.
    let hello = Hello { expedited_barrier: false, ..hello };
    MemoryChannel::open(TransportKind::Window, memory, side, hello, connection, deadline)
}

/// Declines a channel that the monitors made, with a reason that the peer's program understands.
///
/// # Errors
/// What the kernel refused.
pub fn decline(lent: Lent, side: Side, hello: Hello, reason: u32) -> Result<(), ChannelError> {
    let (memory, connection) = lent.take_up(&hello)?;
    MemoryChannel::decline(&memory, side, hello, reason, connection)
}
