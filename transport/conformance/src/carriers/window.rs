//! Window with both ends on the host: two mappings, two event counters, two lifelines.

use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_base::coherence::{Caches, Evictions};
use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Side};
use tombolo_platform::event::{eventfd, signal};
use tombolo_platform::memory::{create_sealed, map};
use tombolo_platform::socket::{SocketKind, pair as socket_pair};
use tombolo_platform::time::Deadline;
use tombolo_transport::window::{self, WindowChannel};
use tombolo_transport::{Capabilities, ChannelError};

use crate::carrier::{Carrier, Fixture, Hostile};
use crate::peer::{self, KillablePeer, PeerTask};

/// Offset of the channel in the window, in bytes.
pub const WINDOW_OFFSET_BYTES: u64 = 8192;

/// Returns the resources that a monitor would hand out for an end.
///
/// # Panics
/// Panics if `end` was not created by a carrier of this file.
#[must_use]
pub fn resources(
    end: Vec<OwnedFd>,
    config: ChannelConfig,
    caches: Option<Caches>,
) -> window::WindowResources {
    let [memory, lifeline, bell, peer_doorbell] = end.try_into().expect("an end of four descriptors");
    let length_bytes = ChannelLayout::new(config).length_bytes() as u64;
    let offset_bytes = WINDOW_OFFSET_BYTES;
    window::WindowResources {
        memory,
        offset_bytes,
        length_bytes,
        lifeline,
        bell,
        peer_doorbell,
        doorbell_target: None,
        caches,
        group: None,
    }
}

fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
    let length_bytes = ChannelLayout::new(config).length_bytes() as u64;
    let memory = create_sealed("tombolo-test-window", WINDOW_OFFSET_BYTES + length_bytes).expect("memory");
    let (lifeline_a, lifeline_b) = socket_pair(SocketKind::Packet).expect("lifelines");
    let (bell_a, bell_b) = (eventfd().expect("a bell"), eventfd().expect("a bell"));
    let copy = |fd: &OwnedFd| fd.try_clone().expect("one more descriptor");
    let a = vec![copy(&memory), lifeline_a, copy(&bell_a), copy(&bell_b)];
    (a, vec![memory, lifeline_b, bell_b, bell_a])
}

fn hostile(end: Vec<OwnedFd>, hello: Hello) -> Hostile {
    let length_bytes = ChannelLayout::new(hello.config).length_bytes();
    let memory = map(&end[0], WINDOW_OFFSET_BYTES, length_bytes).expect("memory that can be mapped");
    Hostile { memory, ring: Box::new(move || drop(signal(&end[3]))) }
}

macro_rules! in_a_window {
    ($caches:expr) => {
        type Channel = WindowChannel;
        type End = Vec<OwnedFd>;
        const CAPABILITIES: Capabilities = Capabilities::OF_WINDOW;
        const FIXTURES: &'static [Fixture] = &[Fixture::Handshake, Fixture::Killable, Fixture::Hostile];

        fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
            ends(config)
        }

        fn open(
            end: Vec<OwnedFd>,
            side: Side,
            hello: Hello,
            deadline: Deadline,
        ) -> Result<WindowChannel, ChannelError> {
            window::open(resources(end, hello.config, $caches), side, hello, deadline)
        }

        fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
            window::decline(resources(end, hello.config, $caches), Side::B, hello, reason)
        }

        fn spawn_killable_peer(task: PeerTask) -> (WindowChannel, Box<dyn KillablePeer>) {
            peer::spawn_process_peer::<Self>(task)
        }

        fn peer(descriptors: Vec<OwnedFd>, task: PeerTask) {
            let _ended = peer::run_peer::<Self>(descriptors, task);
        }

        fn hostile(end: Vec<OwnedFd>, hello: Hello) -> Hostile {
            hostile(end, hello)
        }
    };
}

/// Carrier of a window with both ends on the host.
pub struct Window;

impl Carrier for Window {
    const NAME: &'static str = "window";

    in_a_window!(None);
}

/// Carrier of an incoherent window with both ends on the host, each behind an emulated cache that evicts a
/// line in one of `ONE_IN` operations, or never if that is 0.
pub struct FlushedWindow<const ONE_IN: u32>;

impl<const ONE_IN: u32> FlushedWindow<ONE_IN> {
    /// Returns a cache for an end. Each end evicts different lines at different times.
    pub(super) fn caches() -> Option<Caches> {
        static ENDS: AtomicU64 = AtomicU64::new(0);
        let seed = ENDS.fetch_add(1, Ordering::Relaxed);
        Some(Caches::Emulated(Evictions { seed, one_in: NonZeroU32::new(ONE_IN) }))
    }
}

impl<const ONE_IN: u32> Carrier for FlushedWindow<ONE_IN> {
    const NAME: &'static str = match ONE_IN {
        0 => "flushed-window-never",
        2 => "flushed-window-2",
        4 => "flushed-window-4",
        _ => "flushed-window-64",
    };
    const USED_FLAG: bool = false;
    // An operation moves several lines, each under a lock.
    const EFFORT_PERCENT: u64 = 20;

    in_a_window!(Self::caches());
}
