//! Both ends of channels of every kind.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Side};
use tombolo_platform::event::{Interest, eventfd};
use tombolo_platform::memory::create_sealed;
use tombolo_platform::socket::{SocketKind, pair as socket_pair};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wait::Spin;
use tombolo_transport::waitset::{Ready, Token};
use tombolo_transport::{
    ChannelError, EndError, HasTransport, MemoryChannel, StreamChannel, Transport, TransportExt, WaitSet,
    shm,
    window::{self, WindowChannel},
};

/// Longer than anything here takes on a heavily loaded machine.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);

pub(crate) fn deadline() -> Deadline {
    Deadline::after(MAX_WAIT)
}

pub(crate) fn config() -> ChannelConfig {
    ChannelConfig::new(SlotSize::B64, 16, Variant::EpochCredit).unwrap()
}

pub(crate) fn hello() -> Hello {
    Hello::new(config(), 0x7761_6974, None)
}

pub(crate) trait ChannelPair {
    type Channel: Transport + Send;

    fn pair() -> (Self::Channel, Self::Channel);
}

fn both<T: Send>(
    a: impl FnOnce() -> Result<T, ChannelError> + Send,
    b: impl FnOnce() -> Result<T, ChannelError>,
) -> (T, T) {
    std::thread::scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        (a.join().unwrap().unwrap(), b.unwrap())
    })
}

pub(crate) struct Shm;

impl ChannelPair for Shm {
    type Channel = MemoryChannel;

    fn pair() -> (MemoryChannel, MemoryChannel) {
        let (a, b) = socket_pair(SocketKind::Stream).unwrap();
        both(|| shm::connect(a, hello(), deadline()), || shm::accept(b, hello(), deadline()))
    }
}

pub(crate) struct Window;

impl ChannelPair for Window {
    type Channel = WindowChannel;

    fn pair() -> (WindowChannel, WindowChannel) {
        let length_bytes = ChannelLayout::new(config()).length_bytes() as u64;
        let memory = create_sealed("tombolo-test-window", length_bytes).unwrap();
        let (lifeline_a, lifeline_b) = socket_pair(SocketKind::Packet).unwrap();
        let bells = [eventfd().unwrap(), eventfd().unwrap()];
        let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
        let resources = |lifeline, bell: &OwnedFd, peer_doorbell: &OwnedFd| window::WindowResources {
            memory: copy(&memory),
            offset_bytes: 0,
            length_bytes,
            lifeline,
            bell: copy(bell),
            peer_doorbell: copy(peer_doorbell),
            doorbell_target: None,
            caches: None,
            group: None,
        };
        let a = resources(lifeline_a, &bells[0], &bells[1]);
        let b = resources(lifeline_b, &bells[1], &bells[0]);
        both(
            || window::open(a, Side::A, hello(), deadline()),
            || window::open(b, Side::B, hello(), deadline()),
        )
    }
}

pub(crate) struct Stream;

impl ChannelPair for Stream {
    type Channel = StreamChannel;

    fn pair() -> (StreamChannel, StreamChannel) {
        let (a, b) = socket_pair(SocketKind::Stream).unwrap();
        both(|| StreamChannel::open(a, hello(), deadline()), || StreamChannel::open(b, hello(), deadline()))
    }
}

/// Returns a set of the near ends of `count` channels, and the far ends.
pub(crate) fn set_with_channels<K: ChannelPair>(
    count: usize,
) -> (WaitSet<K::Channel>, Vec<Token>, Vec<K::Channel>) {
    let mut set = WaitSet::new().unwrap();
    let (mut tokens, mut far) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (a, b) = K::pair();
        tokens.push(set.add(a, Interest::Read).unwrap());
        far.push(b);
    }
    (set, tokens, far)
}

/// Returns the spins for every test: none, and a long one.
pub(crate) fn spins() -> [Spin; 2] {
    [Spin::new(0), Spin::new(20_000)]
}

pub(crate) fn next<C: HasTransport>(set: &mut WaitSet<C>) -> Ready {
    set.wait(MAX_WAIT).unwrap().expect("something happens")
}

/// Returns the next ready member, which must be a channel.
pub(crate) fn next_channel<C: HasTransport>(set: &mut WaitSet<C>) -> Token {
    match next(set) {
        Ready::Channel(token) => token,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn finds_nothing<C: HasTransport>(set: &mut WaitSet<C>) -> bool {
    set.wait(Duration::ZERO).unwrap().is_none()
}

pub(crate) fn recv<C: HasTransport>(set: &mut WaitSet<C>, token: Token) -> Result<Option<Vec<u8>>, EndError> {
    let mut buffer = Vec::new();
    let channel = set.get_mut(token).expect("it is in").transport_mut();
    Ok(channel.try_recv_into(&mut buffer)?.map(|_| buffer))
}
