//! The interface between the suite and a transport: how to create two ends, how to open one, and what may
//! be done to them.

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

/// A transport under test. Both ends implement [`Transport`] in this process; one of them may represent an
/// end on a board or in another process.
pub trait Carrier: 'static {
    /// An open channel end.
    type Channel: Transport + Send + 'static;
    /// What a channel end is opened from. Dropping it unopened ends it, which its peer must learn.
    type End: Send + 'static;

    /// The name by which a child process is told what to open.
    const NAME: &'static str;
    /// The abilities that its channels claim.
    const CAPABILITIES: Capabilities;
    /// What the suite may do to its channels.
    const RIG: &'static [Rig];
    /// Whether side B adopts the number of slots and the variant of side A.
    const SHAPE_IS_A_S: bool = false;
    /// The most slots that a ring may have.
    const MAX_SLOTS: u32 = 65_536;
    /// Whether slots may return by a used flag, for which both sides write to one cache line.
    const USED_FLAG: bool = true;
    /// How its channels are checked during the cases.
    const WATCH: Watch = Watch::Both;
    /// The percentage of messages and rounds, relative to memory of one kernel, for slow transports.
    const EFFORT_PERCENT: u64 = 100;

    /// The name under which its cases are listed.
    #[must_use]
    fn listed_as() -> String {
        Self::NAME.to_owned()
    }

    /// Both ends of a channel whose memory fits the shape `config`.
    fn ends(config: ChannelConfig) -> (Self::End, Self::End);

    /// Opens one side.
    ///
    /// # Errors
    /// As for every transport: a difference between the two sides, the end of the peer, or the deadline.
    fn open(
        end: Self::End,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self::Channel, ChannelError>;

    /// Declines as side B. Requires [`Rig::Handshake`].
    ///
    /// # Errors
    /// The answer could not be delivered.
    fn decline(end: Self::End, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        let _ = (end, hello, reason);
        unprovided::<Self, _>("decline")
    }

    /// Opens side A of a channel whose side B executes `order` until it is killed. Requires
    /// [`Rig::Killable`]; use [`crate::peer::in_a_process`] where ends are descriptors.
    fn doomed(order: Order) -> (Self::Channel, Box<dyn Doomed>) {
        let _ = order;
        unprovided::<Self, _>("doomed")
    }

    /// The part of a process started by [`crate::peer::in_a_process`]: calls [`crate::peer::play`] on the
    /// end it was sent.
    fn peer(descriptors: Vec<std::os::fd::OwnedFd>, order: Order) {
        let _ = (descriptors, order);
        unprovided::<Self, ()>("peer");
    }

    /// Attaches to side A as a hostile peer that writes anything anywhere. Requires [`Rig::Hostile`].
    fn hostile(end: Self::End, hello: Hello) -> Hostile {
        let _ = (end, hello);
        unprovided::<Self, _>("hostile")
    }

    /// Whether an announced sleep would end within `timeout`.
    fn rung(channel: &Self::Channel, awaited: Interest, timeout: Duration) -> bool {
        polled(channel, awaited, timeout)
    }
}

/// Whether one of the sources of `channel` becomes ready within `timeout`.
pub(crate) fn polled<T: Transport>(channel: &T, awaited: Interest, timeout: Duration) -> bool {
    let mut sources = Vec::new();
    channel.sources(awaited, &mut sources);
    let ready = poll(&sources, Some(Deadline::after(timeout))).expect("what it sleeps on can be polled");
    ready.iter().any(|ready| ready.any())
}

/// How the channels of a carrier are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Both ends together, except in races: [`Checked::pair`].
    Both,
    /// Each end by itself.
    Each,
    /// Not at all: the cases must find what is wrong.
    Nothing,
}

fn unprovided<C: Carrier + ?Sized, R>(what: &str) -> R {
    panic!("{} promises what needs `{what}` and does not provide it", C::NAME)
}

/// What the suite may do to a transport, besides using it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rig {
    /// Its two sides exchange hellos and can refuse.
    Handshake,
    /// Its peer can be killed.
    Killable,
    /// Its memory can be written directly.
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

/// A side that follows no protocol.
pub struct Hostile {
    /// The memory of the channel, header and rings.
    pub memory: SharedMemory,
    /// Rings the victim, any number of times.
    pub ring: Box<dyn Fn() + Send + Sync>,
}

/// A valid shape of rings.
pub(crate) fn shape(slot: SlotSize, slots: u32, variant: Variant) -> ChannelConfig {
    ChannelConfig::new(slot, slots, variant).expect("a possible shape")
}

/// Every slot size and variant, with rings of `slots` slots. On transports without slots the shape only
/// sets the message limit, so one of them is enough.
pub(crate) fn shapes<C: Carrier>(slots: u32) -> impl Iterator<Item = ChannelConfig> {
    let every = SlotSize::ALL
        .into_iter()
        .flat_map(move |slot| variants::<C>().map(move |variant| shape(slot, slots, variant)));
    every.take(if counts_slots::<C>() { usize::MAX } else { 1 })
}

/// The ways in which slots may return.
pub(crate) fn variants<C: Carrier>() -> impl Iterator<Item = Variant> {
    [Variant::EpochCredit, Variant::UsedFlag].into_iter().take(if C::USED_FLAG { 2 } else { 1 })
}

/// One of the [`variants`], another in each round.
pub(crate) fn variant_of_round<C: Carrier>(round: u64) -> Variant {
    if C::USED_FLAG && !round.is_multiple_of(2) { Variant::UsedFlag } else { Variant::EpochCredit }
}

/// Whether a full ring holds exactly as many messages as it has slots.
pub(crate) const fn counts_slots<C: Carrier>() -> bool {
    C::CAPABILITIES.contains(Capabilities::COUNTED_ROOM)
}

/// `count` rounds or messages, scaled to the carrier's effort; at least one.
pub(crate) fn effort<C: Carrier>(count: u64) -> u64 {
    (count * C::EFFORT_PERCENT).div_ceil(100).max(1)
}

/// The hello of the suite's programs.
#[must_use]
pub fn hello(config: ChannelConfig) -> Hello {
    Hello::new(config, 0x7075_7a7a_6c65, None)
}

/// The results of both sides of a handshake.
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

/// Both ends of a channel, checked together.
///
/// # Panics
/// When the channel does not open.
#[must_use]
pub fn pair<C: Carrier>(config: ChannelConfig) -> (Checked<C::Channel>, Checked<C::Channel>) {
    let (a, b) = bare_pair::<C>(config);
    match C::WATCH {
        Watch::Both => Checked::pair(a, b),
        Watch::Each | Watch::Nothing => (watched::<C>(a), watched::<C>(b)),
    }
}

/// [`pair`] for races: each end is checked by itself, without the lock that would order the two.
pub(crate) fn racing_pair<C: Carrier>(config: ChannelConfig) -> (Checked<C::Channel>, Checked<C::Channel>) {
    let (a, b) = bare_pair::<C>(config);
    (watched::<C>(a), watched::<C>(b))
}

/// An end that is checked by itself.
pub(crate) fn watched<C: Carrier>(channel: C::Channel) -> Checked<C::Channel> {
    if C::WATCH == Watch::Nothing { Checked::unwatched(channel) } else { Checked::new(channel) }
}

/// Both ends of a channel, unchecked.
///
/// # Panics
/// When the channel does not open.
#[must_use]
pub fn bare_pair<C: Carrier>(config: ChannelConfig) -> (C::Channel, C::Channel) {
    let (a, b) = open_both::<C>(hello(config), hello(config));
    let opened = |end: Result<_, _>, side| end.unwrap_or_else(|error| panic!("side {side}: {error}"));
    (opened(a, "A"), opened(b, "B"))
}

/// Waits until there is something to receive: on some links a message may still be in transit.
#[track_caller]
pub(crate) fn until_readable<T: Transport>(channel: &mut T) {
    let deadline = deadline();
    while !channel.readable() {
        assert!(!deadline.passed(), "nothing came within {:?}", patience());
    }
}
