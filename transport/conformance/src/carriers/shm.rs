//! Shared memory within one kernel.

use std::os::fd::{AsFd, OwnedFd};

use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Side};
use tombolo_platform::memory::{create_sealed, map};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::time::Deadline;
use tombolo_transport::{Capabilities, ChannelError, MemoryChannel, shm};

use super::only;
use crate::carrier::{Carrier, Fixture, Hostile};
use crate::patience::deadline;
use crate::peer::{self, KillablePeer, PeerTask};

/// Carrier of shared memory within one kernel.
pub struct Shm;

impl Carrier for Shm {
    type Channel = MemoryChannel;
    type End = Vec<OwnedFd>;
    const NAME: &'static str = "shm";
    const CAPABILITIES: Capabilities = Capabilities::OF_SHARED_MEMORY;
    const FIXTURES: &'static [Fixture] = &[Fixture::Handshake, Fixture::Killable, Fixture::Hostile];
    const SIDE_A_SETS_SHAPE: bool = true;

    fn ends(_config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let (a, b) = socket::pair(SocketKind::Stream).expect("a socket pair");
        (vec![a], vec![b])
    }

    fn open(
        end: Vec<OwnedFd>,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<MemoryChannel, ChannelError> {
        match side {
            Side::A => shm::connect(only(end), hello, deadline),
            Side::B => shm::accept(only(end), hello, deadline),
        }
    }

    fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        shm::decline(only(end), hello, reason, deadline())
    }

    fn spawn_killable_peer(task: PeerTask) -> (MemoryChannel, Box<dyn KillablePeer>) {
        peer::spawn_process_peer::<Self>(task)
    }

    fn peer(descriptors: Vec<OwnedFd>, task: PeerTask) {
        let _ended = peer::run_peer::<Self>(descriptors, task);
    }

    fn hostile(end: Vec<OwnedFd>, hello: Hello) -> Hostile {
        let length_bytes = ChannelLayout::new(hello.config).length_bytes();
        let file = create_sealed("tombolo-test-hostile", length_bytes as u64).expect("memory");
        let socket = only(end);
        socket::send(&socket, &hello.to_bytes(), &[file.as_fd()]).expect("a proposal");
        let memory = map(&file, 0, length_bytes).expect("memory that can be mapped");
        // Many bytes at once: sending is faster than reading.
        let ring = move || {
            let _full_or_gone = socket::send(&socket, &[0x55; 16 * 1024], &[]);
        };
        Hostile { memory, ring: Box::new(ring) }
    }
}
