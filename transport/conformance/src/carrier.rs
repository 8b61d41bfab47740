//! The interface between the suite and a transport: how to create two ends, how to open one, and what may
//! be done to them.

use std::fmt;
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
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
    /// Whether rings are forwarded, by a monitor or a device. A ring of the handshake may then arrive after
    /// the channel is open, and end a sleep without a reason.
    const FORWARDS_RINGS: bool = false;
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
    /// Both ends together, except in races: [`tombolo_transport::wrap::Checked::pair`].
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

/// The hello of the suite's programs.
#[must_use]
pub fn hello(config: ChannelConfig) -> Hello {
    Hello::new(config, 0x7075_7a7a_6c65, None)
}

/// Waits until there is something to receive: on some links a message may still be in transit.
#[track_caller]
pub(crate) fn until_readable<T: Transport>(channel: &mut T) {
    let deadline = deadline();
    while !channel.readable() {
        assert!(!deadline.passed(), "nothing came within {:?}", patience());
    }
}
