//! `window`: channels across a PCI shared-memory window, between programs under different kernels.
//!
//! The monitors allocate a range of the window and a pair of doorbells, and watch the peer: a domain's
//! lifeline leads to its own monitor, which hangs it up when the peer's monitor reports a death or the node
//! is lost.

use std::os::fd::OwnedFd;

use tombolo_base::SharedMemory;
use tombolo_base::coherence::{Caches, Flushed};
use tombolo_link::either::EitherMemory;
use tombolo_link::layout::{HEADER_BYTES, PAGE_BYTES};
use tombolo_link::{ChannelLayout, GroupCounter, Hello, Side, TransportKind};
use tombolo_platform::guest::pci::Registers;
use tombolo_platform::memory::{check_window, map};
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, OsError};

use crate::connection::{Bell, Connection, PeerDoorbell};
use crate::error::ChannelError;
use crate::memory::MemoryChannel;

/// Resources that the monitor hands out for one end of a channel.
#[derive(Debug)]
pub struct WindowResources {
    /// Memory file or device of the window.
    pub memory: OwnedFd,
    /// Offset of the channel in the window, in bytes.
    pub offset_bytes: u64,
    /// Length of the channel, in bytes.
    pub length_bytes: u64,
    /// Descriptor that hangs up when the peer is gone.
    pub lifeline: OwnedFd,
    /// Event counter that is signalled when the peer rings.
    pub bell: OwnedFd,
    /// Rings the peer: an event counter, or the device's registers if `doorbell_target` is set.
    pub peer_doorbell: OwnedFd,
    /// Peer's number (upper half) and vector (lower half) for the doorbell register.
    pub doorbell_target: Option<u32>,
    /// How this side keeps its view of an incoherent window consistent; `None` if the window is coherent.
    pub caches: Option<Caches>,
    /// Offset in the window of the word that counts rings of this and other channels, if there is one.
    pub group: Option<u64>,
}

impl WindowResources {
    /// Maps the first `needed` bytes of the channel, and connects this end to its peer.
    pub(crate) fn connect(self, side: Side, needed: u64) -> Result<(SharedMemory, Connection), ChannelError> {
        if self.length_bytes < needed {
            return Err(ChannelError::Violation(format!(
                "the monitor lent {} bytes of the window where the channel takes {needed}",
                self.length_bytes
            )));
        }
        if self.doorbell_target.is_none() {
            // A window that is a file could be shorter than the mapping; a device cannot.
            check_window(&self.memory, self.offset_bytes.saturating_add(needed))?;
        }
        let length_bytes = usize::try_from(needed).unwrap_or(usize::MAX);
        let memory = map(&self.memory, self.offset_bytes, length_bytes)?;
        let outgoing = match self.doorbell_target {
            None => PeerDoorbell::Counter(self.peer_doorbell),
            Some(target) => PeerDoorbell::Register {
                registers: Registers::map(&self.peer_doorbell)?,
                peer: (target >> 16) as u16,
                vector: target as u16,
            },
        };
        let short = |error: tombolo_base::OutOfRange| ChannelError::Violation(error.to_string());
        let view = match self.caches {
            None => EitherMemory::Coherent(memory.clone()),
            Some(caches) => EitherMemory::Flushed(flushed(caches, memory.clone())?),
        };
        let rings = view.ring_counter(side).map_err(short)?;
        let group = self.group.map(|offset_bytes| group_counter(&self.memory, offset_bytes)).transpose()?;
        let bell = Bell::Window { incoming: self.bell, outgoing, rings, group };
        Ok((memory, Connection::new(bell, self.lifeline)))
    }
}

fn group_counter(window: &OwnedFd, offset_bytes: u64) -> Result<GroupCounter, ChannelError> {
    let in_page = offset_bytes % PAGE_BYTES as u64;
    let page = offset_bytes - in_page;
    check_window(window, page.saturating_add(PAGE_BYTES as u64))?;
    let memory = map(window, page, PAGE_BYTES)?;
    GroupCounter::new(&memory, in_page as usize).map_err(|error| ChannelError::Violation(error.to_string()))
}

/// End of a channel in a window.
#[derive(Debug)]
pub enum WindowChannel {
    /// In a window that is coherent.
    Coherent(Box<MemoryChannel>),
    /// In a window whose lines are written back and invalidated.
    Flushed(Box<MemoryChannel<Flushed>>),
}

impl WindowChannel {
    /// Returns the channel if the window is coherent, for programs that use the memory directly.
    #[must_use]
    pub fn coherent(self) -> Option<MemoryChannel> {
        match self {
            WindowChannel::Coherent(channel) => Some(*channel),
            WindowChannel::Flushed(_) => None,
        }
    }
}

transport_of_variants!(WindowChannel { Coherent, Flushed });

/// Returns the size of the memory of a channel that `hello` describes, in bytes.
fn length_bytes(hello: &Hello) -> u64 {
    ChannelLayout::new(hello.config).length_bytes() as u64
}

/// Opens one end of a channel in a window.
///
/// # Errors
/// A difference between the two sides, the end of the peer, a timeout, or an error of the kernel.
pub fn open(
    resources: WindowResources,
    side: Side,
    hello: Hello,
    deadline: Deadline,
) -> Result<WindowChannel, ChannelError> {
    let caches = resources.caches;
    let (memory, connection) = resources.connect(side, length_bytes(&hello))?;
    // Barriers do not reach processors under another kernel.
    let hello = Hello { expedited_barrier: false, ..hello };
    let kind = TransportKind::Window;
    Ok(match caches {
        None => {
            let channel = MemoryChannel::open(kind, memory, side, hello, connection, deadline)?;
            WindowChannel::Coherent(Box::new(channel))
        }
        Some(caches) => {
            let view = flushed(caches, memory)?;
            let channel = MemoryChannel::open(kind, view, side, hello, connection, deadline)?;
            WindowChannel::Flushed(Box::new(channel))
        }
    })
}

pub(crate) fn flushed(caches: Caches, memory: SharedMemory) -> Result<SharedMemory<Flushed>, ChannelError> {
    let unsupported = |_| {
        OsError::new(
            "keep the view of a window consistent that is not coherent (x86-64 and aarch64 have instructions for it)",
            Errno::OPNOTSUPP,
        )
    };
    Ok(caches.view(memory).map_err(unsupported)?)
}

/// Declines a channel that the monitors created, with a reason defined by the interface.
///
/// # Errors
/// An error of the kernel.
pub fn decline(
    resources: WindowResources,
    side: Side,
    hello: Hello,
    reason: u32,
) -> Result<(), ChannelError> {
    let caches = resources.caches;
    let (memory, connection) = resources.connect(side, length_bytes(&hello))?;
    match caches {
        None => MemoryChannel::decline(&memory, side, hello, reason, connection),
        Some(caches) => MemoryChannel::decline(&flushed(caches, memory)?, side, hello, reason, connection),
    }
}

/// Notifies the peer that this end of a channel created by the monitors will not be opened.
///
/// # Errors
/// An error of the kernel.
pub fn withdraw(resources: WindowResources, side: Side) -> Result<(), ChannelError> {
    let caches = resources.caches;
    let (memory, mut connection) = resources.connect(side, HEADER_BYTES as u64)?;
    let result = match caches {
        None => tombolo_link::open::cancel(&memory, side, &mut connection),
        Some(caches) => tombolo_link::open::cancel(&flushed(caches, memory)?, side, &mut connection),
    };
    result.map_err(|error| ChannelError::Violation(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tombolo_link::ChannelConfig;
    use tombolo_platform::event::eventfd;
    use tombolo_platform::memory::create_sealed;
    use tombolo_platform::socket::{self, SocketKind};

    use super::*;
    use crate::{EndError, Transport, TransportExt};

    /// Returns the resources for both ends of a channel, and the monitor's ends of the lifelines.
    fn resources(hello: &Hello) -> (WindowResources, WindowResources, OwnedFd, OwnedFd) {
        let length_bytes = ChannelLayout::new(hello.config).length_bytes() as u64;
        let memory = create_sealed("tombolo-test-window", length_bytes).unwrap();
        let (bell_a, bell_b) = (eventfd().unwrap(), eventfd().unwrap());
        let lend = |bell: &OwnedFd, peer_doorbell: &OwnedFd| {
            let (lifeline, held) = socket::pair(SocketKind::Packet).unwrap();
            let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
            let (memory, bell, peer_doorbell) = (copy(&memory), copy(bell), copy(peer_doorbell));
            (
                WindowResources {
                    memory,
                    offset_bytes: 0,
                    length_bytes,
                    lifeline,
                    bell,
                    peer_doorbell,
                    doorbell_target: None,
                    caches: None,
                    group: None,
                },
                held,
            )
        };
        let ((a, held_a), (b, held_b)) = (lend(&bell_a, &bell_b), lend(&bell_b, &bell_a));
        (a, b, held_a, held_b)
    }

    fn ends() -> (WindowChannel, WindowChannel, OwnedFd, OwnedFd) {
        let hello = Hello::new(ChannelConfig::default(), 0, None);
        let (a, b, held_a, held_b) = resources(&hello);
        let deadline = Deadline::after(Duration::from_secs(60));
        let b = std::thread::spawn(move || open(b, Side::B, hello, deadline).unwrap());
        let a = open(a, Side::A, hello, deadline).unwrap();
        (a, b.join().unwrap(), held_a, held_b)
    }

    /// A domain whose monitor is killed may have time to drop its channels before it is killed as well. Its
    /// peers must still see a death.
    #[test]
    fn a_domain_that_lost_its_monitor_ends_as_a_death() {
        let (mut a, mut b, held_a, held_b) = ends();
        b.try_send(b"last").unwrap();
        drop(held_b);
        let noticed = |channel: &mut WindowChannel| {
            channel.finish_sleep(true);
            channel.try_send(b"x")
        };
        assert_eq!(noticed(&mut b), Err(EndError::PeerDied));
        drop(b);
        let mut buffer = Vec::new();
        assert_eq!(a.try_recv_into(&mut buffer), Ok(Some(4)), "what was sent is still there");
        assert_eq!(a.try_recv_into(&mut buffer), Ok(None), "no wakeup has reported its death yet");
        drop(held_a);
        a.finish_sleep(true);
        assert_eq!(a.try_recv_into(&mut buffer), Err(EndError::PeerDied));
        assert_eq!(a.try_send(b"x"), Err(EndError::PeerDied));
    }

    #[test]
    fn withdrawing_an_end_is_not_a_death() {
        let hello = Hello::new(ChannelConfig::default(), 0, None);
        for side in [Side::A, Side::B] {
            let (a, b, _held_a, _held_b) = resources(&hello);
            let (unused, other) = if side == Side::A { (a, b) } else { (b, a) };
            withdraw(unused, side).unwrap();
            let deadline = Deadline::after(Duration::from_secs(60));
            assert_eq!(open(other, side.other(), hello, deadline).err(), Some(ChannelError::Closed));
        }
    }

    #[test]
    fn a_drop_before_the_loss_is_noticed_is_a_death_too() {
        let (mut a, b, held_a, held_b) = ends();
        drop(held_b);
        drop(b);
        drop(held_a);
        a.finish_sleep(true);
        assert_eq!(a.try_recv_into(&mut Vec::new()), Err(EndError::PeerDied));
    }
}
