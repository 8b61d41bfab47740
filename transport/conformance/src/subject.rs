//! Carrier as a value, so that the cases are compiled once for all carriers.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Side};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wrap::Checked;
use tombolo_transport::{Capabilities, ChannelError};

use crate::any_channel::AnyChannel;
use crate::carrier::{Carrier, CheckMode, Fixture, Hostile, hello, shape};
use crate::messages::recv;
use crate::patience::deadline;
use crate::peer::{KillablePeer, PeerTask};

/// End of any carrier that is not open yet.
pub(crate) type AnyEnd = Box<dyn Any + Send>;

/// Results of both sides of a handshake.
pub(crate) type Opened = (Result<AnyChannel, ChannelError>, Result<AnyChannel, ChannelError>);

/// Both ends of a channel.
pub(crate) type Pair = (Checked<AnyChannel>, Checked<AnyChannel>);

/// Value that represents a [`Carrier`].
#[derive(Clone, Copy)]
pub struct Subject {
    pub(crate) name: &'static str,
    pub(crate) capabilities: Capabilities,
    pub(crate) fixtures: &'static [Fixture],
    pub(crate) side_a_sets_shape: bool,
    pub(crate) max_slots: u32,
    pub(crate) effort_percent: u64,
    pub(crate) forwards_rings: bool,
    used_flag: bool,
    check_mode: CheckMode,
    display_name: fn() -> String,
    ends: fn(ChannelConfig) -> (AnyEnd, AnyEnd),
    open: fn(AnyEnd, Side, Hello, Deadline) -> Result<AnyChannel, ChannelError>,
    decline: fn(AnyEnd, Hello, u32) -> Result<(), ChannelError>,
    spawn_killable_peer: fn(PeerTask) -> (AnyChannel, Box<dyn KillablePeer>),
    peer: fn(Vec<OwnedFd>, PeerTask),
    hostile: fn(AnyEnd, Hello) -> Hostile,
    wakes_within: fn(&AnyChannel, Interest, Duration) -> bool,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.display_name()).finish()
    }
}

fn end_of<C: Carrier>(end: AnyEnd) -> C::End {
    *end.downcast().expect("an end of this carrier")
}

impl Subject {
    /// Creates the subject of the carrier `C`.
    #[must_use]
    pub fn of<C: Carrier>() -> Self {
        Subject {
            name: C::NAME,
            capabilities: C::CAPABILITIES,
            fixtures: C::FIXTURES,
            side_a_sets_shape: C::SIDE_A_SETS_SHAPE,
            max_slots: C::MAX_SLOTS,
            effort_percent: C::EFFORT_PERCENT,
            forwards_rings: C::FORWARDS_RINGS,
            used_flag: C::USED_FLAG,
            check_mode: C::CHECK_MODE,
            display_name: C::display_name,
            ends: |config| {
                let (a, b) = C::ends(config);
                (Box::new(a), Box::new(b))
            },
            open: |end, side, hello, deadline| {
                C::open(end_of::<C>(end), side, hello, deadline).map(AnyChannel::new)
            },
            decline: |end, hello, reason| C::decline(end_of::<C>(end), hello, reason),
            spawn_killable_peer: |task| {
                let (channel, peer) = C::spawn_killable_peer(task);
                (AnyChannel::new(channel), peer)
            },
            peer: C::peer,
            hostile: |end, hello| C::hostile(end_of::<C>(end), hello),
            wakes_within: |channel, awaited, timeout| {
                C::wakes_within(channel.get().expect("a channel of this carrier"), awaited, timeout)
            },
        }
    }

    pub(crate) fn display_name(&self) -> String {
        (self.display_name)()
    }

    pub(crate) fn ends(&self, config: ChannelConfig) -> (AnyEnd, AnyEnd) {
        (self.ends)(config)
    }

    pub(crate) fn open(
        &self,
        end: AnyEnd,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<AnyChannel, ChannelError> {
        (self.open)(end, side, hello, deadline)
    }

    pub(crate) fn decline(&self, end: AnyEnd, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        (self.decline)(end, hello, reason)
    }

    /// Opens side A of a channel whose side B has reported that it is ready, and executes `task`.
    pub(crate) fn spawn_killable_peer(&self, task: PeerTask) -> (Checked<AnyChannel>, Box<dyn KillablePeer>) {
        let (mut channel, peer) = (self.spawn_killable_peer)(task);
        assert_eq!(recv(&mut channel, 0), b"here");
        (self.checked(channel), peer)
    }

    pub(crate) fn play_peer(&self, descriptors: Vec<OwnedFd>, task: PeerTask) {
        (self.peer)(descriptors, task);
    }

    pub(crate) fn hostile(&self, end: AnyEnd, hello: Hello) -> Hostile {
        (self.hostile)(end, hello)
    }

    /// Whether an announced sleep would end within `timeout`.
    pub(crate) fn wakes_within(
        &self,
        channel: &Checked<AnyChannel>,
        awaited: Interest,
        timeout: Duration,
    ) -> bool {
        (self.wakes_within)(channel.inner(), awaited, timeout)
    }

    /// Returns every slot size and variant, with rings of `slots` slots. On transports without slots the
    /// configuration only sets the message limit, so one of them is enough.
    pub(crate) fn shapes(&self, slots: u32) -> impl Iterator<Item = ChannelConfig> + use<> {
        let (all, variants) = (self.counts_slots(), self.variants());
        let every = SlotSize::ALL
            .into_iter()
            .flat_map(move |slot| variants.clone().map(move |variant| shape(slot, slots, variant)));
        every.take(if all { usize::MAX } else { 1 })
    }

    /// Returns the ways in which slots may return.
    pub(crate) fn variants(&self) -> impl Iterator<Item = Variant> + Clone + use<> {
        [Variant::EpochCredit, Variant::UsedFlag].into_iter().take(if self.used_flag { 2 } else { 1 })
    }

    /// Returns one of the [`variants`](Self::variants), a different one in each round.
    pub(crate) fn variant_of_round(&self, round: u64) -> Variant {
        if self.used_flag && !round.is_multiple_of(2) { Variant::UsedFlag } else { Variant::EpochCredit }
    }

    /// Whether a full ring holds exactly as many messages as it has slots.
    pub(crate) fn counts_slots(&self) -> bool {
        self.capabilities.contains(Capabilities::COUNTED_ROOM)
    }

    /// Scales `count` rounds or messages to the carrier's effort; at least one.
    pub(crate) fn effort(&self, count: u64) -> u64 {
        (count * self.effort_percent).div_ceil(100).max(1)
    }

    /// Opens both sides at once.
    pub(crate) fn open_both(&self, hello_a: Hello, hello_b: Hello) -> Opened {
        let length_bytes = |hello: &Hello| ChannelLayout::new(hello.config).length_bytes();
        let larger = if length_bytes(&hello_a) > length_bytes(&hello_b) { hello_a } else { hello_b };
        let (end_a, end_b) = self.ends(larger.config);
        std::thread::scope(|scope| {
            let a = scope.spawn(|| self.open(end_a, Side::A, hello_a, deadline()));
            let b = self.open(end_b, Side::B, hello_b, deadline());
            (a.join().expect("opening does not panic"), b)
        })
    }

    /// Opens both ends of a channel, unchecked.
    fn bare_pair(&self, config: ChannelConfig) -> (AnyChannel, AnyChannel) {
        let (a, b) = self.open_both(hello(config), hello(config));
        let opened = |end: Result<_, _>, side| end.unwrap_or_else(|error| panic!("side {side}: {error}"));
        (opened(a, "A"), opened(b, "B"))
    }

    /// Opens both ends of a channel, checked together.
    pub(crate) fn pair(&self, config: ChannelConfig) -> Pair {
        let (a, b) = self.bare_pair(config);
        match self.check_mode {
            CheckMode::Both => Checked::pair(a, b),
            CheckMode::Each | CheckMode::Nothing => (self.checked(a), self.checked(b)),
        }
    }

    /// Like [`pair`](Self::pair), for races: each end is checked by itself, without the lock that would order
    /// the two.
    pub(crate) fn racing_pair(&self, config: ChannelConfig) -> Pair {
        let (a, b) = self.bare_pair(config);
        (self.checked(a), self.checked(b))
    }

    /// Returns an end that is checked by itself.
    pub(crate) fn checked(&self, channel: AnyChannel) -> Checked<AnyChannel> {
        if self.check_mode == CheckMode::Nothing {
            Checked::unchecked(channel)
        } else {
            Checked::new(channel)
        }
    }
}

/// Opens both ends of a channel of `C`, unchecked.
///
/// # Panics
/// Panics if the channel does not open.
#[must_use]
pub fn bare_pair<C: Carrier>(config: ChannelConfig) -> (C::Channel, C::Channel) {
    let (a, b) = Subject::of::<C>().bare_pair(config);
    let itself = |channel: AnyChannel| channel.into_inner().expect("a channel of this carrier");
    (itself(a), itself(b))
}
