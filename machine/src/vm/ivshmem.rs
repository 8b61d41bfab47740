//! Shared-memory windows with doorbells, and the `ivshmem` server protocol that passes them to QEMU.
//!
//! The protocol is a stream of little-endian 64-bit numbers, some with a descriptor: version 0; the client's
//! own number; -1 with the memory; then for every other peer its number with one event counter per vector,
//! and last the client's own number with its own counters. Everything is written before QEMU starts and stays
//! in the socket buffer, so no thread serves it. A peer that connects later for the first time is announced
//! in the same way. The protocol also has a message for a peer that left. It is not sent: QEMU 7.2 then frees
//! the peer's counters, and writes to that memory when the peer returns. Counters stay the same, so nothing
//! is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::{Errno, OsError, event, memory};

/// Maximum number of vectors of a window. Their descriptors stay in a socket buffer until QEMU receives them.
pub const MAX_VECTORS: u16 = 64;

/// Maximum number of vectors of all peers of a window together, for the same reason.
pub const MAX_ANNOUNCED: u16 = 2 * MAX_VECTORS;

/// Minimum size of a window, in bytes.
pub const MIN_WINDOW_BYTES: u64 = 64 << 10;

/// Maximum size of a window, in bytes.
pub const MAX_WINDOW_BYTES: u64 = 16 << 30;

const PROTOCOL_VERSION: i64 = 0;
const SHARED_MEMORY: i64 = -1;

/// Reason why a window could not be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WindowError {
    /// The kernel refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The size is not valid for a PCI window: not a power of two, or out of range.
    #[error(
        "{0} bytes are not a valid window; its size must be a power of two from {MIN_WINDOW_BYTES} to {MAX_WINDOW_BYTES}"
    )]
    Size(u64),
    /// The number of vectors is out of range.
    #[error(
        "{vectors} doorbell vectors for each of {peers} peers are out of range for a window; give each 1 to \
         {MAX_VECTORS}, and all together {MAX_ANNOUNCED} at most"
    )]
    #[allow(missing_docs, reason = "the message names the fields")]
    Vectors { vectors: u16, peers: u16 },
}

/// The `ivshmem` server: creates a window and passes it to the emulators that share it.
///
/// The host is a peer without a connection: it has the memory and all counters already.
#[derive(Debug)]
pub struct Server {
    memory: OwnedFd,
    length_bytes: u64,
    /// Event counters that ring the peer, by peer and vector.
    bells: Vec<Vec<OwnedFd>>,
    /// Peer number of the host, if it is a peer.
    host: Option<u16>,
    /// The server's ends of the emulators' connections, by peer.
    clients: BTreeMap<u16, OwnedFd>,
    /// Pairs of a connected emulator and a peer announced to it.
    announced: BTreeSet<(u16, u16)>,
}

impl Server {
    /// Creates a zeroed window of `length_bytes`, a power of two from [`MIN_WINDOW_BYTES`] to
    /// [`MAX_WINDOW_BYTES`], with `vectors` doorbells for each of `peers` peers: 1 to [`MAX_VECTORS`] each,
    /// [`MAX_ANNOUNCED`] together. `host` is the number of the host, if it is one of them.
    ///
    /// # Errors
    /// [`WindowError`] if a value is out of range or the kernel refuses.
    pub fn new(length_bytes: u64, vectors: u16, peers: u16, host: Option<u16>) -> Result<Self, WindowError> {
        if !length_bytes.is_power_of_two() || !(MIN_WINDOW_BYTES..=MAX_WINDOW_BYTES).contains(&length_bytes) {
            return Err(WindowError::Size(length_bytes));
        }
        Ok(Server {
            bells: create_counters(vectors, peers)?,
            memory: memory::create_sealed("tombolo-window", length_bytes)?,
            length_bytes,
            host,
            clients: BTreeMap::new(),
            announced: BTreeSet::new(),
        })
    }

    /// Creates a window over existing memory: a file or a device of `length_bytes`. Its doorbells are event
    /// counters of this kernel, which the caller must forward.
    ///
    /// # Errors
    /// [`WindowError`] if a value is out of range or the kernel refuses.
    pub fn from_memory(
        memory: OwnedFd,
        length_bytes: u64,
        vectors: u16,
        peers: u16,
    ) -> Result<Self, WindowError> {
        Ok(Server {
            memory,
            length_bytes,
            bells: create_counters(vectors, peers)?,
            host: None,
            clients: BTreeMap::new(),
            announced: BTreeSet::new(),
        })
    }

    /// Returns the shared memory: a file whose size is sealed, or the memory passed to
    /// [`from_memory`](Self::from_memory).
    #[must_use]
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Returns the size of the window, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Returns the event counter that rings a peer on a vector; for the host, the counter becomes readable
    /// when it is rung.
    #[must_use]
    pub fn bell(&self, peer: u16, vector: u16) -> Option<BorrowedFd<'_>> {
        Some(self.bells.get(usize::from(peer))?.get(usize::from(vector))?.as_fd())
    }

    /// Creates the connection for the emulator of `peer`, for [`Qemu::launch`](super::Qemu::launch), and
    /// announces the peer to the connected emulators. A peer that reconnects keeps its counters.
    ///
    /// # Errors
    /// An error of the kernel: too many descriptors in flight, out of memory; another emulator does not read
    /// its announcements.
    pub fn connect(&mut self, peer: u16) -> Result<OwnedFd, OsError> {
        let own = self.bells.get(usize::from(peer));
        let own = own.ok_or_else(|| OsError::new("connect a peer that a window has not", Errno::INVAL))?;
        let (ours, theirs) = socket::pair(SocketKind::Stream)?;
        send(&ours, PROTOCOL_VERSION, None)?;
        send(&ours, peer.into(), None)?;
        send(&ours, SHARED_MEMORY, Some(&self.memory))?;
        let others = self.host.iter().chain(self.clients.keys()).copied().filter(|other| *other != peer);
        let others: Vec<u16> = others.collect();
        self.announced.retain(|(client, _)| *client != peer);
        for other in others {
            announce(&ours, other, &self.bells[usize::from(other)])?;
            self.announced.insert((peer, other));
        }
        // The peer's own counters come last: it then knows that all others can be rung.
        announce(&ours, peer, own)?;
        for (number, client) in self.clients.iter().filter(|(other, _)| **other != peer) {
            if !self.announced.insert((*number, peer)) {
                continue;
            }
            match announce(client, peer, own) {
                // That emulator has ended, which is detected elsewhere.
                Err(OsError { errno: Errno::PIPE | Errno::CONNRESET, .. }) => {}
                sent => sent?,
            }
        }
        self.clients.insert(peer, ours);
        Ok(theirs)
    }

    /// Removes the connection of an emulator that has ended. The others continue to ring counters that no
    /// process reads.
    pub fn disconnect(&mut self, peer: u16) {
        self.clients.remove(&peer);
    }
}

/// Creates the counters of each peer: 1 to [`MAX_VECTORS`] each, [`MAX_ANNOUNCED`] together.
fn create_counters(vectors: u16, peers: u16) -> Result<Vec<Vec<OwnedFd>>, WindowError> {
    let announced = peers.checked_mul(vectors).is_some_and(|all| all <= MAX_ANNOUNCED);
    if !(1..=MAX_VECTORS).contains(&vectors) || !announced {
        return Err(WindowError::Vectors { vectors, peers });
    }
    let of_peer = |_| (0..vectors).map(|_| event::eventfd()).collect::<Result<Vec<_>, _>>();
    Ok((0..peers).map(of_peer).collect::<Result<_, _>>()?)
}

fn announce(socket: &OwnedFd, peer: u16, counters: &[OwnedFd]) -> Result<(), OsError> {
    counters.iter().try_for_each(|counter| send(socket, peer.into(), Some(counter)))
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

    /// Reads everything that a client receives: numbers, each with its descriptor.
    fn read_all(socket: &OwnedFd) -> Vec<(i64, Option<OwnedFd>)> {
        let mut messages = Vec::new();
        let mut bytes = [0; 8];
        while let Ok(mut received) = socket::receive(socket, &mut bytes) {
            assert_eq!((received.length, received.truncated), (8, false));
            messages.push((i64::from_le_bytes(bytes), received.fds.pop()));
        }
        messages
    }

    fn is_signalled(counter: BorrowedFd<'_>) -> bool {
        let now = Some(tombolo_platform::Deadline::after(std::time::Duration::ZERO));
        poll(&[(counter, Interest::Read)], now).unwrap()[0].readable
    }

    fn numbers(socket: &OwnedFd) -> Vec<i64> {
        read_all(socket).iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn a_client_gets_the_memory_then_the_host_then_itself() {
        let mut window = Server::new(1 << 20, 3, 2, Some(0)).unwrap();
        let theirs = window.connect(1).unwrap();
        let messages = read_all(&theirs);
        let numbers: Vec<i64> = messages.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, -1, 0, 0, 0, 1, 1, 1]);
        assert!(messages[..2].iter().all(|(_, fd)| fd.is_none()));
        let fds: Vec<OwnedFd> = messages.into_iter().skip(2).map(|(_, fd)| fd.unwrap()).collect();
        memory::check_sealed(&fds[0], 1 << 20).unwrap();
        for vector in 0..3_u16 {
            event::signal(&fds[1 + usize::from(vector)]).unwrap();
            assert!(is_signalled(window.bell(0, vector).unwrap()));
            event::signal(&window.bells[1][usize::from(vector)]).unwrap();
            assert!(is_signalled(fds[4 + usize::from(vector)].as_fd()));
        }
        assert!(window.bell(1, 3).is_none() && window.bell(2, 0).is_none());
    }

    #[test]
    fn every_client_gets_the_counters_of_every_peer_once() {
        let mut window = Server::new(1 << 20, 2, 3, None).unwrap();
        let first = window.connect(2).unwrap();
        assert_eq!(numbers(&first), [0, 2, -1, 2, 2], "no peer is there yet");
        let second = window.connect(0).unwrap();
        let messages = read_all(&second);
        assert_eq!(messages.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 0, -1, 2, 2, 0, 0]);
        let to_first = messages[4].1.as_ref().unwrap();
        event::signal(to_first).unwrap();
        assert!(is_signalled(window.bell(2, 1).unwrap()) && !is_signalled(window.bell(2, 0).unwrap()));
        assert_eq!(numbers(&first), [0, 0], "it is announced to those that are there");
        window.disconnect(0);
        window.disconnect(0);
        let again = window.connect(0).unwrap();
        assert_eq!(numbers(&again), [0, 0, -1, 2, 2, 0, 0]);
        assert!(numbers(&first).is_empty(), "an emulator that hears of a peer twice corrupts its memory");
        drop(first);
        assert!(window.connect(1).is_ok(), "an emulator that has ended is in the way of no other");
        assert!(window.connect(3).is_err());
    }

    #[test]
    fn the_most_vectors_fit_in_the_socket() {
        for peers in [2, 8] {
            let vectors = MAX_ANNOUNCED / peers;
            let mut window = Server::new(MIN_WINDOW_BYTES, vectors, peers, Some(0)).unwrap();
            let sockets: Vec<OwnedFd> = (1..peers).map(|peer| window.connect(peer).unwrap()).collect();
            let counts: Vec<usize> = sockets.iter().map(|socket| read_all(socket).len()).collect();
            assert!(counts.iter().all(|count| *count == 3 + usize::from(MAX_ANNOUNCED)), "{counts:?}");
        }
    }

    #[test]
    fn sizes_and_vectors_are_bounded() {
        for bytes in [0, MIN_WINDOW_BYTES / 2, MIN_WINDOW_BYTES + 1, 3 << 20, 2 * MAX_WINDOW_BYTES] {
            assert_eq!(Server::new(bytes, 1, 2, None).unwrap_err(), WindowError::Size(bytes));
        }
        for (vectors, peers) in [(0, 2), (MAX_VECTORS + 1, 1), (MAX_VECTORS, 3), (u16::MAX, 2)] {
            let error = Server::new(1 << 20, vectors, peers, None).unwrap_err();
            assert_eq!(error, WindowError::Vectors { vectors, peers });
        }
    }
}
