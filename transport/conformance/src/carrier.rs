//! Interface between the suite and a transport: how to create two ends, how to open one, and which faults can
//! be injected.

use std::fmt;
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::{Capabilities, ChannelError, Transport, TransportExt};

use crate::patience::{deadline, patience};
use crate::peer::{KillablePeer, PeerTask};

/// Transport under test. Both ends implement [`Transport`] in this process; one of them may represent an end
/// on a board or in another process.
pub trait Carrier: 'static {
    /// Open channel end.
    type Channel: Transport + Send + 'static;
    /// Resources from which a channel end is opened. Dropping them ends the channel, which its peer must
    /// detect.
    type End: Send + 'static;

    /// Name by which a child process is told what to open.
    const NAME: &'static str;
    /// Capabilities that its channels claim.
    const CAPABILITIES: Capabilities;
    /// Operations that the suite may perform on its channels besides using them.
    const FIXTURES: &'static [Fixture];
    /// Whether side B adopts the number of slots and the variant of side A.
    const SIDE_A_SETS_SHAPE: bool = false;
    /// Maximum number of slots of a ring.
    const MAX_SLOTS: u32 = 65_536;
    /// Whether slots may return by a used flag, for which both sides write to one cache line.
    const USED_FLAG: bool = true;
    /// Whether rings are forwarded by a monitor or a device. A ring of the handshake may then arrive after
    /// the channel is open, and end a sleep without a reason.
    const FORWARDS_RINGS: bool = false;
    /// How its channels are checked during the cases.
    const CHECK_MODE: CheckMode = CheckMode::Both;
    /// Percentage of messages and rounds, relative to memory of one kernel, for slow transports.
    const EFFORT_PERCENT: u64 = 100;

    /// Returns the name under which its cases are listed.
    #[must_use]
    fn display_name() -> String {
        Self::NAME.to_owned()
    }

    /// Creates both ends of a channel whose memory fits the configuration `config`.
    fn ends(config: ChannelConfig) -> (Self::End, Self::End);

    /// Opens one side.
    ///
    /// # Errors
    /// Same as for every transport: a difference between the two sides, the end of the peer, or a timeout.
    fn open(
        end: Self::End,
        side: Side,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self::Channel, ChannelError>;

    /// Declines as side B. Requires [`Fixture::Handshake`].
    ///
    /// # Errors
    /// The answer could not be delivered.
    fn decline(end: Self::End, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        let _ = (end, hello, reason);
        missing_implementation::<Self, _>("decline")
    }

    /// Opens side A of a channel whose side B executes `task` until it is killed. Requires
    /// [`Fixture::Killable`]; use [`crate::peer::spawn_process_peer`] where ends are descriptors.
    fn spawn_killable_peer(task: PeerTask) -> (Self::Channel, Box<dyn KillablePeer>) {
        let _ = task;
        missing_implementation::<Self, _>("spawn_killable_peer")
    }

    /// Runs the part of a process started by [`crate::peer::spawn_process_peer`]: calls
    /// [`crate::peer::run_peer`] on the end that it was sent.
    fn peer(descriptors: Vec<std::os::fd::OwnedFd>, task: PeerTask) {
        let _ = (descriptors, task);
        missing_implementation::<Self, ()>("peer");
    }

    /// Attaches to side A as a hostile peer that can write anything anywhere. Requires [`Fixture::Hostile`].
    fn hostile(end: Self::End, hello: Hello) -> Hostile {
        let _ = (end, hello);
        missing_implementation::<Self, _>("hostile")
    }

    /// Whether an announced sleep would end within `timeout`.
    fn wakes_within(channel: &Self::Channel, awaited: Interest, timeout: Duration) -> bool {
        sources_ready(channel, awaited, timeout)
    }
}

/// Whether one of the sources of `channel` becomes ready within `timeout`.
pub(crate) fn sources_ready<T: Transport>(channel: &T, awaited: Interest, timeout: Duration) -> bool {
    let mut sources = Vec::new();
    channel.sources(awaited, &mut sources);
    let ready = poll(&sources, Some(Deadline::after(timeout))).expect("what it sleeps on can be polled");
    ready.iter().any(|ready| ready.any())
}

/// Checks applied to the channels of a carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckMode {
    /// Checks both ends together, except in races: [`tombolo_transport::wrap::Checked::pair`].
    Both,
    /// Checks each end by itself.
    Each,
    /// Applies no checks: the cases must detect faults themselves.
    Nothing,
}

fn missing_implementation<C: Carrier + ?Sized, R>(what: &str) -> R {
    panic!("{} promises what needs `{what}` and does not provide it", C::NAME)
}

/// Operation that the suite may perform on a transport, besides using it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fixture {
    /// The two sides exchange hellos and can refuse.
    Handshake,
    /// The peer can be killed.
    Killable,
    /// The memory can be written directly.
    Hostile,
}

impl fmt::Display for Fixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fixture::Handshake => "a handshake",
            Fixture::Killable => "a peer that can be killed",
            Fixture::Hostile => "memory that can be written by hand",
        })
    }
}

/// Hostile side that follows no protocol.
pub struct Hostile {
    /// Memory of the channel, header and rings.
    pub memory: SharedMemory,
    /// Rings the victim, any number of times.
    pub ring: Box<dyn Fn() + Send + Sync>,
}

/// Returns a valid ring configuration.
pub(crate) fn shape(slot: SlotSize, slots: u32, variant: Variant) -> ChannelConfig {
    ChannelConfig::new(slot, slots, variant).expect("a possible shape")
}

/// Returns the hello of the suite's programs.
#[must_use]
pub fn hello(config: ChannelConfig) -> Hello {
    Hello::new(config, 0x7075_7a7a_6c65, None)
}

/// Waits until there is something to receive, because on some links a message may still be in transit.
#[track_caller]
pub(crate) fn wait_until_readable<T: Transport>(channel: &mut T) {
    let deadline = deadline();
    while !channel.readable() {
        assert!(!deadline.passed(), "nothing came within {:?}", patience());
    }
}
