//! Channels through a relay: two channels, and a thread between them that forwards.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tombolo_link::{ChannelConfig, DisconnectReason, Hello, Side, TransportKind};
use tombolo_platform::time::Deadline;
use tombolo_transport::relay::{Forwarder, HopPeer, OpenRoute, join};
use tombolo_transport::waitset::Waker;
use tombolo_transport::{
    Capabilities, ChannelError, Description, PendingChannel, Transport, forward_transport,
};

use super::{FlushedWindow, Shm, UnixStream, Window, only, resources};
use crate::carrier::{Carrier, CheckMode, Fixture, Hostile};
use crate::patience::patience;
use crate::peer::{self, KillablePeer, PeerTask};

/// Transport that both hops use.
pub trait Medium: Carrier<End = Vec<OwnedFd>> {
    /// Name of channels that are relayed over it.
    const RELAYED: &'static str;

    /// Converts an end to the form that the relay joins.
    fn pending_channel(end: Vec<OwnedFd>, config: ChannelConfig) -> PendingChannel;
}

impl Medium for Shm {
    const RELAYED: &'static str = "relayed-shm";

    fn pending_channel(end: Vec<OwnedFd>, _config: ChannelConfig) -> PendingChannel {
        PendingChannel::Shm(only(end))
    }
}

impl Medium for Window {
    const RELAYED: &'static str = "relayed-window";

    fn pending_channel(end: Vec<OwnedFd>, config: ChannelConfig) -> PendingChannel {
        PendingChannel::Window(resources(end, config, None))
    }
}

impl<const ONE_IN: u32> Medium for FlushedWindow<ONE_IN> {
    const RELAYED: &'static str = "relayed-flushed-window";

    fn pending_channel(end: Vec<OwnedFd>, config: ChannelConfig) -> PendingChannel {
        PendingChannel::Window(resources(end, config, Self::caches()))
    }
}

impl Medium for UnixStream {
    const RELAYED: &'static str = "relayed-unix";

    fn pending_channel(end: Vec<OwnedFd>, _config: ChannelConfig) -> PendingChannel {
        PendingChannel::Stream(only(end))
    }
}

/// Carrier of channels through a relay in this process, whose two hops are channels of `M`.
pub struct Relayed<M>(PhantomData<M>);

/// Routes of the forwarding thread.
struct Relay {
    routes: Mutex<Sender<OpenRoute>>,
    waker: Waker,
}

fn relay() -> &'static Relay {
    static RELAY: OnceLock<Relay> = OnceLock::new();
    RELAY.get_or_init(|| {
        let forwarder = Forwarder::new().expect("a waitset");
        let (routes, new) = channel();
        let waker = forwarder.waker();
        std::thread::spawn(move || forward(forwarder, &new));
        Relay { routes: Mutex::new(routes), waker }
    })
}

fn forward(mut forwarder: Forwarder, new: &Receiver<OpenRoute>) {
    loop {
        while let Ok(route) = new.try_recv() {
            forwarder.add(route, [HopPeer::End; 2]);
        }
        forwarder.run_once(Duration::from_secs(1)).expect("the kernel lets it wait");
    }
}

/// Channel end that hides the differences of relayed channels from the suite.
pub struct RelayedEnd<T>(T);

impl<T: Transport> Transport for RelayedEnd<T> {
    forward_transport!(0: stats try_send try_recv_in_place is_ready announce_sleep may_sleep sources park finish_sleep close);

    fn describe(&self) -> Description {
        let inner = self.0.describe();
        let kind = match inner.kind {
            // The memory is shared with the relay, not with the peer.
            TransportKind::Shm => TransportKind::Window,
            kind => kind,
        };
        Description { kind, capabilities: CAPABILITIES, ..inner }
    }

    fn failure(&self) -> Option<ChannelError> {
        match self.0.failure() {
            Some(ChannelError::Disconnected(DisconnectReason::Died)) => None,
            failure => failure,
        }
    }
}

const CAPABILITIES: Capabilities = Capabilities::DESCRIPTORS.with(Capabilities::EVIDENCE_OF_DEATH);

impl<M: Medium> Carrier for Relayed<M> {
    type Channel = RelayedEnd<M::Channel>;
    type End = Vec<OwnedFd>;
    const NAME: &'static str = M::RELAYED;
    const CAPABILITIES: Capabilities = CAPABILITIES;
    const USED_FLAG: bool = M::USED_FLAG;
    const FIXTURES: &'static [Fixture] = M::FIXTURES;
    const SIDE_A_SETS_SHAPE: bool = M::SIDE_A_SETS_SHAPE;
    const CHECK_MODE: CheckMode = CheckMode::Each;
    const EFFORT_PERCENT: u64 = 50;

    fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let ((a, near), (far, b)) = (M::ends(config), M::ends(config));
        let pending = (M::pending_channel(near, config), M::pending_channel(far, config));
        let deadline = Deadline::after(patience());
        std::thread::spawn(move || {
            if let Ok(route) = join(pending, config, [HopPeer::End; 2], deadline) {
                let routes = relay().routes.lock().unwrap_or_else(PoisonError::into_inner);
                routes.send(route).expect("the relay runs as long as the process");
                relay().waker.wake();
            }
        });
        (a, b)
    }

    fn open(
        end: Vec<OwnedFd>,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self::Channel, ChannelError> {
        match M::open(end, side, hello, deadline) {
            Err(ChannelError::Disconnected(DisconnectReason::Died)) => Err(ChannelError::PeerDied),
            opened => opened.map(RelayedEnd),
        }
    }

    fn decline(end: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        M::decline(end, hello, reason)
    }

    fn spawn_killable_peer(task: PeerTask) -> (Self::Channel, Box<dyn KillablePeer>) {
        peer::spawn_process_peer::<Self>(task)
    }

    fn peer(descriptors: Vec<OwnedFd>, task: PeerTask) {
        let _ended = peer::run_peer::<Self>(descriptors, task);
    }

    fn hostile(end: Vec<OwnedFd>, hello: Hello) -> Hostile {
        M::hostile(end, hello)
    }
}
