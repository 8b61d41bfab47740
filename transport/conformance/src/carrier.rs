//! What the suite needs to know of a transport: how to make two ends, how to open one, and what it may do to them.

use std::fmt;
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Side};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wrap::Checked;
use tombolo_transport::{Capabilities, ChannelError, Transport, TransportExt};

use crate::patience::{deadline, patience};
use crate::peer::{Doomed, Order};

/// A transport under test. Both ends answer to [`Transport`] in this process; whether one of them only stands for an
/// end elsewhere, on a board or in another process, is the carrier's own affair.
pub trait Carrier: 'static {
    /// An open end.
    type Channel: Transport + Send + 'static;
    /// What an end is opened from. Dropped unopened it is gone, and its peer learns that.
    type End: Send + 'static;

    /// Its name, by which a child process is told what to open.
    const NAME: &'static str;
    /// What its channels claim to be able to do.
    const CAPABILITIES: Capabilities;
    /// What the suite may do to them.
    const RIG: &'static [Rig];
    /// Side B takes over the number of slots and the variant from side A.
    const SHAPE_IS_A_S: bool = false;
    /// The most slots that a ring may have here.
    const MAX_SLOTS: u32 = 65_536;
    /// How its channels are watched while they are tried.
    const WATCH: Watch = Watch::Both;
    /// How many of the messages and rounds that memory of one kernel gets, in percent: for those that take long.
    const EFFORT_PERCENT: u64 = 100;

    /// What its cases are listed under.
    #[must_use]
    fn listed_as() -> String {
        Self::NAME.to_owned()
    }

    /// Both ends of a channel that can have the shape `config`.
    fn ends(config: ChannelConfig) -> (Self::End, Self::End);

    /// Opens one side.
    ///
    /// # Errors
    /// As every transport: what the two sides disagree on, the peer's end, or the deadline.
    fn open(
        end: Self::End,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self::Channel, ChannelError>;

    /// Declines as side B. Only with [`Rig::Handshake`].
    ///
    /// # Errors
    /// What kept the answer from the peer.
    fn decline(end: Self::End, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        let _ = (end, hello, reason);
        unprovided::<Self, _>("decline")
    }

    /// Opens side A of a channel whose side B does what `order` says until it is killed. Only with
    /// [`Rig::Killable`]; [`crate::peer::in_a_process`] does it where ends are descriptors.
    fn doomed(order: Order) -> (Self::Channel, Box<dyn Doomed>) {
        let _ = order;
        unprovided::<Self, _>("doomed")
    }

    /// What a process does that [`crate::peer::in_a_process`] started: [`crate::peer::play`] on the end that it was
    /// sent.
    fn peer(descriptors: Vec<std::os::fd::OwnedFd>, order: Order) {
        let _ = (descriptors, order);
        unprovided::<Self, ()>("peer");
    }

    /// Takes up side A as one that will write what it likes where it likes. Only with [`Rig::Hostile`].
    fn hostile(end: Self::End, hello: Hello) -> Hostile {
        let _ = (end, hello);
        unprovided::<Self, _>("hostile")
    }

    /// Whether a sleep that was announced would end within `timeout`.
    fn rung(channel: &Self::Channel, awaited: Interest, timeout: Duration) -> bool {
        polled(channel, awaited, timeout)
    }
}

/// Whether something that `channel` sleeps on becomes ready within `timeout`.
pub(crate) fn polled<T: Transport>(channel: &T, awaited: Interest, timeout: Duration) -> bool {
    let mut sources = Vec::new();
    channel.sources(awaited, &mut sources);
    let ready = poll(&sources, Some(Deadline::after(timeout))).expect("what it sleeps on can be polled");
    ready.iter().any(|ready| ready.any())
}

/// How the channels of a carrier are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Both ends together, in cases that are no races: [`Checked::pair`].
    Both,
    /// Each end for itself.
    Each,
    /// Not at all: what is wrong with them is for the cases to find.
    Nothing,
}

fn unprovided<C: Carrier + ?Sized, R>(what: &str) -> R {
    panic!("{} promises what needs `{what}` and does not provide it", C::NAME)
}

/// What the suite may do to a transport, besides using it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rig {
    /// Its two sides introduce themselves, compare, and can refuse.
    Handshake,
    /// Its peer can be killed.
    Killable,
    /// Its memory can be written by hand.
    Hostile,
}

impl fmt::Display for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rig::Handshake => "a handshake",
            Rig::Killable => "a peer that can be killed",
            Rig::Hostile => "memory that can be written by hand",
        })
    }
}

/// A side that does not keep to any protocol.
pub struct Hostile {
    /// The memory of the channel, header and rings.
    pub memory: SharedMemory,
    /// Rings the victim, as often as it likes.
    pub ring: Box<dyn Fn() + Send + Sync>,
}

/// A shape of rings that is one.
pub(crate) fn shape(slot: SlotSize, slots: u32, variant: Variant) -> ChannelConfig {
    ChannelConfig::new(slot, slots, variant).expect("a possible shape")
}

/// Every slot size and variant, with rings of `slots` slots. What has no slots takes from them how long a message may
/// be and nothing else, so there one of them is enough.
pub(crate) fn shapes<C: Carrier>(slots: u32) -> impl Iterator<Item = ChannelConfig> {
    let every = SlotSize::ALL.into_iter().flat_map(move |slot| {
        [Variant::EpochCredit, Variant::UsedFlag].into_iter().map(move |variant| shape(slot, slots, variant))
    });
    every.take(if counts_slots::<C>() { usize::MAX } else { 1 })
}

/// It takes as many messages as its rings have slots.
pub(crate) const fn counts_slots<C: Carrier>() -> bool {
    C::CAPABILITIES.contains(Capabilities::COUNTED_ROOM)
}

/// `count` rounds or messages, or as many as the carrier can do in the time; at least one.
pub(crate) fn effort<C: Carrier>(count: u64) -> u64 {
    (count * C::EFFORT_PERCENT).div_ceil(100).max(1)
}

/// What the suite's programs say of themselves.
#[must_use]
pub fn hello(config: ChannelConfig) -> Hello {
    Hello::new(config, 0x7075_7a7a_6c65, None)
}

/// What became of the two sides of a handshake.
pub(crate) type Opened<C> =
    (Result<<C as Carrier>::Channel, ChannelError>, Result<<C as Carrier>::Channel, ChannelError>);

/// Opens both sides at once.
pub(crate) fn open_both<C: Carrier>(hello_a: Hello, hello_b: Hello) -> Opened<C> {
    let length_bytes = |hello: &Hello| ChannelLayout::new(hello.config).length_bytes();
    let larger = if length_bytes(&hello_a) > length_bytes(&hello_b) { hello_a } else { hello_b };
    let (end_a, end_b) = C::ends(larger.config);
    std::thread::scope(|scope| {
        let a = scope.spawn(|| C::open(end_a, Side::A, hello_a, deadline()));
        let b = C::open(end_b, Side::B, hello_b, deadline());
        (a.join().expect("opening does not panic"), b)
    })
}

/// A channel: both its ends, watched together.
///
/// # Panics
/// When they do not open.
#[must_use]
pub fn pair<C: Carrier>(config: ChannelConfig) -> (Checked<C::Channel>, Checked<C::Channel>) {
    let (a, b) = bare_pair::<C>(config);
    match C::WATCH {
        Watch::Both => Checked::pair(a, b),
        Watch::Each | Watch::Nothing => (watched::<C>(a), watched::<C>(b)),
    }
}

/// [`pair`] for races: each end is watched for itself, without the lock that would order what the two do.
pub(crate) fn racing_pair<C: Carrier>(config: ChannelConfig) -> (Checked<C::Channel>, Checked<C::Channel>) {
    let (a, b) = bare_pair::<C>(config);
    (watched::<C>(a), watched::<C>(b))
}

/// An end, watched for itself.
pub(crate) fn watched<C: Carrier>(channel: C::Channel) -> Checked<C::Channel> {
    if C::WATCH == Watch::Nothing { Checked::unwatched(channel) } else { Checked::new(channel) }
}

/// A channel as it is.
///
/// # Panics
/// When its ends do not open.
#[must_use]
pub fn bare_pair<C: Carrier>(config: ChannelConfig) -> (C::Channel, C::Channel) {
    let (a, b) = open_both::<C>(hello(config), hello(config));
    let opened = |end: Result<_, _>, side| end.unwrap_or_else(|error| panic!("side {side}: {error}"));
    (opened(a, "A"), opened(b, "B"))
}

/// Waits until there is something to receive: over some links what was sent may be on its way.
#[track_caller]
pub(crate) fn until_readable<T: Transport>(channel: &mut T) {
    let deadline = deadline();
    while !channel.readable() {
        assert!(!deadline.passed(), "nothing came within {:?}", patience());
    }
}
