//! What the suite needs to know of a transport: how to make two ends, and how to open one.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Side};
use tombolo_platform::event::eventfd;
use tombolo_platform::memory::create_sealed;
use tombolo_platform::socket::{Kind, pair as socket_pair};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::{ChannelError, MemoryChannel, StreamChannel, Transport, shm, window};

/// Longer than anything here takes on a machine that does ten other things; a test that gets here has failed.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn deadline() -> Deadline {
    Deadline::after(LONG)
}

/// A transport under test.
pub(crate) trait Carrier: 'static {
    type Channel: Transport + Send;

    /// The name by which a child process is told what to open.
    const NAME: &'static str;
    /// Side B takes over the number of slots and the variant from side A.
    const SHAPE_IS_A_S: bool = false;
    /// It is made of rings, and takes as many messages as they have slots.
    const COUNTS_SLOTS: bool = true;

    /// The descriptors of both ends of a channel that can have the shape `config`.
    fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>);

    fn open(
        ends: Vec<OwnedFd>,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self::Channel, ChannelError>;

    /// Declines as side B.
    fn decline(ends: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError>;
}

fn only(ends: Vec<OwnedFd>) -> OwnedFd {
    let [end] = ends.try_into().unwrap();
    end
}

/// Memory within a kernel.
pub(crate) struct Shm;

impl Carrier for Shm {
    type Channel = MemoryChannel;
    const NAME: &'static str = "shm";
    const SHAPE_IS_A_S: bool = true;

    fn ends(_config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let (a, b) = socket_pair(Kind::Stream).unwrap();
        (vec![a], vec![b])
    }

    fn open(
        ends: Vec<OwnedFd>,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<MemoryChannel, ChannelError> {
        match side {
            Side::A => shm::connect(only(ends), hello, deadline),
            Side::B => shm::accept(only(ends), hello, deadline),
        }
    }

    fn decline(ends: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        shm::decline(only(ends), hello, reason, deadline())
    }
}

/// A window, both of whose ends are on the host: two mappings, two event counters, two lifelines.
pub(crate) struct Window;

/// Where the channel lies in the window.
pub(crate) const WINDOW_OFFSET_BYTES: u64 = 8192;

pub(crate) fn lent(ends: Vec<OwnedFd>, config: ChannelConfig) -> window::Lent {
    let [memory, lifeline, bell, ringer] = ends.try_into().unwrap();
    let length_bytes = ChannelLayout::new(config).length_bytes() as u64;
    window::Lent {
        memory,
        offset_bytes: WINDOW_OFFSET_BYTES,
        length_bytes,
        lifeline,
        bell,
        ringer,
        ring: None,
    }
}

impl Carrier for Window {
    type Channel = MemoryChannel;
    const NAME: &'static str = "window";

    fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let length_bytes = ChannelLayout::new(config).length_bytes() as u64;
        let memory = create_sealed("tombolo-test-window", WINDOW_OFFSET_BYTES + length_bytes).unwrap();
        let (lifeline_a, lifeline_b) = socket_pair(Kind::Packet).unwrap();
        let (bell_a, bell_b) = (eventfd().unwrap(), eventfd().unwrap());
        let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
        let a = vec![copy(&memory), lifeline_a, copy(&bell_a), copy(&bell_b)];
        (a, vec![memory, lifeline_b, bell_b, bell_a])
    }

    fn open(
        ends: Vec<OwnedFd>,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<MemoryChannel, ChannelError> {
        window::open(lent(ends, hello.config), side, hello, deadline)
    }

    fn decline(ends: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        window::decline(lent(ends, hello.config), Side::B, hello, reason)
    }
}

/// A byte stream within a kernel.
pub(crate) struct UnixStream;

impl Carrier for UnixStream {
    type Channel = StreamChannel;
    const NAME: &'static str = "unix";
    const COUNTS_SLOTS: bool = false;

    fn ends(config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        Shm::ends(config)
    }

    fn open(
        ends: Vec<OwnedFd>,
        _side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<StreamChannel, ChannelError> {
        StreamChannel::open(only(ends), hello, deadline)
    }

    fn decline(ends: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        StreamChannel::decline(only(ends), hello, reason)
    }
}

/// TCP over the loopback.
pub(crate) struct Tcp;

impl Carrier for Tcp {
    type Channel = StreamChannel;
    const NAME: &'static str = "tcp";
    const COUNTS_SLOTS: bool = false;

    fn ends(_config: ChannelConfig) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        (vec![a.into()], vec![b.into()])
    }

    fn open(
        ends: Vec<OwnedFd>,
        _side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<StreamChannel, ChannelError> {
        StreamChannel::open_tcp(only(ends).into(), hello, deadline)
    }

    fn decline(ends: Vec<OwnedFd>, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        UnixStream::decline(ends, hello, reason)
    }
}

pub(crate) fn shape(slot: SlotSize, slots: u32, variant: Variant) -> ChannelConfig {
    ChannelConfig::new(slot, slots, variant).unwrap()
}

/// Every slot size and variant, with rings of `slots` slots. A stream takes from them how long a message may be
/// and nothing else, so there one of them is enough.
pub(crate) fn shapes<C: Carrier>(slots: u32) -> impl Iterator<Item = ChannelConfig> {
    let every = SlotSize::ALL.into_iter().flat_map(move |slot| {
        [Variant::EpochCredit, Variant::UsedFlag].into_iter().map(move |variant| shape(slot, slots, variant))
    });
    every.take(if C::COUNTS_SLOTS { usize::MAX } else { 1 })
}

pub(crate) fn hello(config: ChannelConfig) -> Hello {
    Hello::new(config, 0x7075_7a7a_6c65, None)
}

/// What became of the two sides of a handshake.
pub(crate) type Opened<C> =
    (Result<<C as Carrier>::Channel, ChannelError>, Result<<C as Carrier>::Channel, ChannelError>);

/// Opens both sides at once.
pub(crate) fn open_both<C: Carrier>(hello_a: Hello, hello_b: Hello) -> Opened<C> {
    let length_bytes = |hello: &Hello| ChannelLayout::new(hello.config).length_bytes();
    let larger = if length_bytes(&hello_a) > length_bytes(&hello_b) { hello_a } else { hello_b };
    let (ends_a, ends_b) = C::ends(larger.config);
    std::thread::scope(|scope| {
        let a = scope.spawn(|| C::open(ends_a, Side::A, hello_a, deadline()));
        let b = C::open(ends_b, Side::B, hello_b, deadline());
        (a.join().unwrap(), b)
    })
}

/// A channel: both its ends.
pub(crate) fn pair<C: Carrier>(config: ChannelConfig) -> (C::Channel, C::Channel) {
    let (a, b) = open_both::<C>(hello(config), hello(config));
    (a.unwrap(), b.unwrap())
}
