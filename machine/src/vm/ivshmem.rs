//! The window: shared memory with doorbells, and the `ivshmem` server protocol that hands them to QEMU.
//!
//! The protocol is a stream of little-endian 64-bit numbers, some with a descriptor: version 0; the client's
//! own number; -1 with the memory; then for every other peer its number with one event counter per vector,
//! and last the client's own number with its own counters. Everything is written before QEMU starts and waits
//! in the socket, so no thread serves it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::{Errno, OsError, event, memory};

/// The host's number in its window.
pub const HOST_PEER: u16 = 0;

/// The virtual machine's number in its window.
pub const VM_PEER: u16 = 1;

/// Most vectors that a window has. Their descriptors wait in a socket until QEMU takes them.
pub const MAX_VECTORS: u16 = 64;

/// Most vectors of all peers of a window together, for the same reason.
pub const MAX_ANNOUNCED: u16 = 2 * MAX_VECTORS;

/// Smallest window, in bytes.
pub const MIN_WINDOW_BYTES: u64 = 64 << 10;

/// Largest window, in bytes.
pub const MAX_WINDOW_BYTES: u64 = 16 << 30;

const PROTOCOL_VERSION: i64 = 0;
const SHARED_MEMORY: i64 = -1;

/// Why a window could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WindowError {
    /// The kernel refused something.
    #[error(transparent)]
    Os(#[from] OsError),
    /// A PCI window has a size that is a power of two.
    #[error(
        "{0} bytes are not a valid window; its size must be a power of two from {MIN_WINDOW_BYTES} to {MAX_WINDOW_BYTES}"
    )]
    Size(u64),
    /// The number of vectors is out of range.
    #[error("{0} doorbell vectors are out of range for a window; give it 1 to {MAX_VECTORS}")]
    Vectors(u16),
}

/// The host's side of a window: its memory, the counters that wake the host, and those that interrupt the
/// virtual machine.
#[derive(Debug)]
pub struct Window {
    memory: OwnedFd,
    length_bytes: u64,
    host_eventfds: Vec<OwnedFd>,
    vm_eventfds: Vec<OwnedFd>,
}

impl Window {
    /// Makes a zeroed window of `length_bytes`, a power of two from [`MIN_WINDOW_BYTES`] to
    /// [`MAX_WINDOW_BYTES`], with `vectors` doorbells each way, 1 to [`MAX_VECTORS`].
    ///
    /// # Errors
    /// [`WindowError`].
    pub fn new(length_bytes: u64, vectors: u16) -> Result<Self, WindowError> {
        if !length_bytes.is_power_of_two() || !(MIN_WINDOW_BYTES..=MAX_WINDOW_BYTES).contains(&length_bytes) {
            return Err(WindowError::Size(length_bytes));
        }
        if !(1..=MAX_VECTORS).contains(&vectors) {
            return Err(WindowError::Vectors(vectors));
        }
        let counters = || (0..vectors).map(|_| event::eventfd()).collect::<Result<Vec<_>, _>>();
        Ok(Window {
            memory: memory::create_sealed("tombolo-window", length_bytes)?,
            length_bytes,
            host_eventfds: counters()?,
            vm_eventfds: counters()?,
        })
    }

    /// A window of memory that exists already: a file or a device of `length_bytes`. Its doorbells are event
    /// counters of this kernel, which something has to pass on.
    ///
    /// # Errors
    /// [`WindowError`].
    pub fn over(memory: OwnedFd, length_bytes: u64, vectors: u16) -> Result<Self, WindowError> {
        if !(1..=MAX_VECTORS).contains(&vectors) {
            return Err(WindowError::Vectors(vectors));
        }
        let counters = || (0..vectors).map(|_| event::eventfd()).collect::<Result<Vec<_>, _>>();
        Ok(Window { memory, length_bytes, host_eventfds: counters()?, vm_eventfds: counters()? })
    }

    /// The shared memory: a file whose size is sealed, or what [`over`](Self::over) was given.
    #[must_use]
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Its size in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// How many doorbells there are each way.
    #[must_use]
    pub fn vectors(&self) -> u16 {
        self.vm_eventfds.len() as u16
    }

    /// By vector, what becomes readable when the virtual machine rings [`HOST_PEER`].
    #[must_use]
    pub fn host_eventfds(&self) -> &[OwnedFd] {
        &self.host_eventfds
    }

    /// By vector, what to [`signal`](event::signal) to interrupt the virtual machine.
    #[must_use]
    pub fn vm_eventfds(&self) -> &[OwnedFd] {
        &self.vm_eventfds
    }

    /// Makes the connection that the virtual machine's QEMU takes the window from.
    ///
    /// Returns our end, to keep open for as long as QEMU runs, and QEMU's end, for
    /// [`Qemu::launch`](super::Qemu::launch).
    ///
    /// # Errors
    /// What the kernel refused: too many descriptors in flight, out of memory.
    pub fn connect(&self) -> Result<(OwnedFd, OwnedFd), OsError> {
        let (ours, theirs) = socket::pair(SocketKind::Stream)?;
        send(&ours, PROTOCOL_VERSION, None)?;
        send(&ours, VM_PEER.into(), None)?;
        send(&ours, SHARED_MEMORY, Some(&self.memory))?;
        for (peer, counters) in [(HOST_PEER, &self.host_eventfds), (VM_PEER, &self.vm_eventfds)] {
            for counter in counters {
                send(&ours, peer.into(), Some(counter))?;
            }
        }
        Ok((ours, theirs))
    }
}

fn send(socket: &OwnedFd, number: i64, fd: Option<&OwnedFd>) -> Result<(), OsError> {
    let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|fd| fd.as_fd()).collect();
    match socket::send(socket, &number.to_le_bytes(), &fds) {
        Ok(8) => Ok(()),
        Ok(_) => Err(OsError::new("hand the window to QEMU in whole numbers", Errno::MSGSIZE)),
        Err(errno) => Err(OsError::new("hand the window to QEMU", errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_platform::event::{Interest, poll};

    /// What a client reads: numbers, each with the descriptor that came with it.
    fn read_all(socket: &OwnedFd) -> Vec<(i64, Option<OwnedFd>)> {
        let mut messages = Vec::new();
        let mut bytes = [0; 8];
        while let Ok(mut received) = socket::receive(socket, &mut bytes) {
            assert_eq!((received.length, received.truncated), (8, false));
            messages.push((i64::from_le_bytes(bytes), received.fds.pop()));
        }
        messages
    }

    fn is_signalled(counter: &OwnedFd) -> bool {
        let now = Some(tombolo_platform::Deadline::after(std::time::Duration::ZERO));
        poll(&[(counter.as_fd(), Interest::Read)], now).unwrap()[0].readable
    }

    #[test]
    fn a_client_gets_the_memory_then_the_host_then_itself() {
        let window = Window::new(1 << 20, 3).unwrap();
        let (_ours, theirs) = window.connect().unwrap();
        let messages = read_all(&theirs);
        let numbers: Vec<i64> = messages.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, -1, 0, 0, 0, 1, 1, 1]);
        assert!(messages[..2].iter().all(|(_, fd)| fd.is_none()));
        let fds: Vec<OwnedFd> = messages.into_iter().skip(2).map(|(_, fd)| fd.unwrap()).collect();
        memory::check_sealed(&fds[0], 1 << 20).unwrap();
        for vector in 0..3 {
            event::signal(&fds[1 + vector]).unwrap();
            assert!(is_signalled(&window.host_eventfds()[vector]));
            event::signal(&window.vm_eventfds()[vector]).unwrap();
            assert!(is_signalled(&fds[4 + vector]));
        }
    }

    #[test]
    fn the_most_vectors_fit_in_the_socket() {
        let window = Window::new(MIN_WINDOW_BYTES, MAX_VECTORS).unwrap();
        let (_ours, theirs) = window.connect().unwrap();
        assert_eq!(read_all(&theirs).len(), 3 + 2 * usize::from(MAX_VECTORS));
    }

    #[test]
    fn sizes_and_vectors_are_bounded() {
        for bytes in [0, MIN_WINDOW_BYTES / 2, MIN_WINDOW_BYTES + 1, 3 << 20, 2 * MAX_WINDOW_BYTES] {
            assert_eq!(Window::new(bytes, 1).unwrap_err(), WindowError::Size(bytes));
        }
        for vectors in [0, MAX_VECTORS + 1] {
            assert_eq!(Window::new(1 << 20, vectors).unwrap_err(), WindowError::Vectors(vectors));
        }
    }
}
