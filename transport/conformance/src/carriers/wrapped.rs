//! Carriers with wrapped channels, because wrappers must keep the contract too.

use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::event::{Interest, drain, eventfd, signal};
use tombolo_platform::time::Deadline;
use tombolo_trace::layout::{Shape, control_on};
use tombolo_trace::page::{init_page, set_control};
use tombolo_transport::contract::Announced;
use tombolo_transport::trace::Recorder;
use tombolo_transport::wrap::capture::{Capture, CaptureHeader};
use tombolo_transport::wrap::traced::{Traced, TracedEnd};
use tombolo_transport::wrap::{Faults, Faulty};
use tombolo_transport::{Capabilities, ChannelError, Description, Transport, forward_transport};

use crate::carrier::{Carrier, Fixture, Hostile};
use crate::peer::{KillablePeer, PeerTask};

/// A kind of wrapper.
pub trait Wrapper: 'static {
    /// Type of a wrapped channel.
    type Output<T: Transport + Send + 'static>: Transport + Send + 'static;
    /// Prefix for the name of the wrapped carrier.
    const NAME: &'static str;
    /// Capabilities that a wrapped channel loses.
    const LACKS: Capabilities;
    /// Whether rings may arrive late in a wrapped channel.
    const FORWARDS_RINGS: bool = false;

    /// Wraps a channel.
    fn wrap<T: Transport + Send + 'static>(channel: T) -> Self::Output<T>;
}

/// Carrier `C` with each channel in a wrapper `W`.
pub struct Wrapped<C, W>(PhantomData<(C, W)>);

impl<C: Carrier, W: Wrapper> Carrier for Wrapped<C, W> {
    type Channel = W::Output<C::Channel>;
    type End = C::End;
    const NAME: &'static str = C::NAME;
    const CAPABILITIES: Capabilities = C::CAPABILITIES.without(W::LACKS);
    const FIXTURES: &'static [Fixture] = C::FIXTURES;
    const SIDE_A_SETS_SHAPE: bool = C::SIDE_A_SETS_SHAPE;
    const MAX_SLOTS: u32 = C::MAX_SLOTS;
    const FORWARDS_RINGS: bool = C::FORWARDS_RINGS || W::FORWARDS_RINGS;
    const EFFORT_PERCENT: u64 = C::EFFORT_PERCENT.div_ceil(4);

    fn display_name() -> String {
        format!("{}-{}", W::NAME, C::display_name())
    }

    fn ends(config: ChannelConfig) -> (C::End, C::End) {
        C::ends(config)
    }

    fn open(
        end: C::End,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self::Channel, ChannelError> {
        C::open(end, side, hello, deadline).map(W::wrap)
    }

    fn decline(end: C::End, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        C::decline(end, hello, reason)
    }

    fn spawn_killable_peer(task: PeerTask) -> (Self::Channel, Box<dyn KillablePeer>) {
        let (channel, peer) = C::spawn_killable_peer(task);
        (W::wrap(channel), peer)
    }

    fn peer(descriptors: Vec<OwnedFd>, task: PeerTask) {
        C::peer(descriptors, task);
    }

    fn hostile(end: C::End, hello: Hello) -> Hostile {
        C::hostile(end, hello)
    }

    fn wakes_within(channel: &Self::Channel, awaited: Interest, timeout: Duration) -> bool {
        crate::carrier::sources_ready(channel, awaited, timeout)
    }
}

/// Wraps channels in [`Faulty`] with frequent faults.
pub struct Stormy;

impl Wrapper for Stormy {
    type Output<T: Transport + Send + 'static> = Faulty<T>;
    const NAME: &'static str = "stormy";
    const LACKS: Capabilities = Faults::LACKS;

    fn wrap<T: Transport + Send + 'static>(channel: T) -> Faulty<T> {
        Faulty::new(channel, Faults::FREQUENT, 0x5707).expect("a nudge")
    }
}

/// Wraps channels in [`Capture`], whose records are discarded.
pub struct Captured;

impl Wrapper for Captured {
    type Output<T: Transport + Send + 'static> = Capture<T, std::io::Sink>;
    const NAME: &'static str = "captured";
    const LACKS: Capabilities = Capabilities::SYSCALL_FREE.with(Capabilities::WHOLE_BATCHES);

    fn wrap<T: Transport + Send + 'static>(channel: T) -> Self::Output<T> {
        let about = CaptureHeader::new(channel.describe().kind, 0);
        Capture::new(channel, std::io::sink(), about).expect("a sink takes everything")
    }
}

/// Wraps channels in [`Traced`], while tracing is on.
pub struct TracedAll;

/// Shape of a small trace page, which is full most of the time.
const TRACE: Shape = Shape { lanes: 2, lane_events: 1 << 10, rows: 4, text_bytes: 64 };

fn recorder() -> &'static Arc<Recorder> {
    static RECORDER: OnceLock<Arc<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let memory = SharedMemory::zeroed(TRACE.length_bytes());
        init_page(&memory, &TRACE);
        set_control(&memory, control_on(1, false));
        Recorder::new(memory, 1 << 32 | 1, 1).expect("a page that was just made")
    })
}

impl Wrapper for TracedAll {
    type Output<T: Transport + Send + 'static> = Traced<T>;
    const NAME: &'static str = "traced";
    const LACKS: Capabilities = Capabilities::WHOLE_BATCHES;

    fn wrap<T: Transport + Send + 'static>(channel: T) -> Traced<T> {
        Traced::new(channel, recorder(), TracedEnd { channel: 7, accepting: false, peer: 0 })
    }
}

/// Channel without descriptors, as on a link that can only be polled.
pub struct WithoutSources<T>(T);

impl<T: Transport> Transport for WithoutSources<T> {
    forward_transport!(0: stats failure try_send try_recv_in_place is_ready announce_sleep may_sleep finish_sleep close);

    fn describe(&self) -> Description {
        let inner = self.0.describe();
        Description { capabilities: inner.capabilities.without(Polled::LACKS), ..inner }
    }

    fn sources<'a>(&'a self, _awaited: Interest, _sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {}
}

/// Wraps channels in [`WithoutSources`], so that waits must poll.
pub struct Polled;

impl Wrapper for Polled {
    type Output<T: Transport + Send + 'static> = WithoutSources<T>;
    const NAME: &'static str = "polled";
    const LACKS: Capabilities = Capabilities::DESCRIPTORS.with(Capabilities::WHOLE_BATCHES);

    fn wrap<T: Transport + Send + 'static>(channel: T) -> WithoutSources<T> {
        WithoutSources(channel)
    }
}

/// Channel whose last ring of the handshake arrives during its first sleep, as if a monitor forwarded it.
pub struct Late<T> {
    inner: T,
    ring: OwnedFd,
    arrived: bool,
}

impl<T: Transport> Transport for Late<T> {
    forward_transport!(inner: stats failure try_send try_recv_in_place is_ready may_sleep close);

    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        Description { capabilities: inner.capabilities.without(LateRing::LACKS), ..inner }
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        if !std::mem::replace(&mut self.arrived, true) {
            signal(&self.ring).expect("a counter takes one more");
        }
        self.inner.announce_sleep(awaited)
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.inner.sources(awaited, sources);
        sources.push((self.ring.as_fd(), Interest::Read));
    }

    fn finish_sleep(&mut self, rung: bool) {
        if rung {
            drain(&self.ring);
        }
        self.inner.finish_sleep(rung);
    }
}

/// Wraps channels in [`Late`], so that sleepers must poll again.
pub struct LateRing;

impl Wrapper for LateRing {
    type Output<T: Transport + Send + 'static> = Late<T>;
    const NAME: &'static str = "late";
    const LACKS: Capabilities = Capabilities::WHOLE_BATCHES;
    const FORWARDS_RINGS: bool = true;

    fn wrap<T: Transport + Send + 'static>(channel: T) -> Late<T> {
        Late { inner: channel, ring: eventfd().expect("a descriptor"), arrived: false }
    }
}
