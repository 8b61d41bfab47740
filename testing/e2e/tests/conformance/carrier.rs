//! Carrier for channels with one end in this process and the other on a remote peer.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo::error::Fault;
use tombolo::{Channel, ChannelOptions, Error};
use tombolo_conformance::peer::{KillablePeer, PeerTask, Role};
use tombolo_conformance::{Carrier, Fixture, deadline, hello};
use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::Deadline;
use tombolo_platform::event::{Interest, poll};
use tombolo_remote_peer::Opening;
use tombolo_ring::Variant;
use tombolo_transport::{Capabilities, ChannelError, Transport, error};

use crate::fleet::{self, Convict, RemoteNode};
use crate::remote::RemotePeer;

/// Channels between this process and a remote peer at `P`, which connects (side A) if `FIRST` and else
/// accepts.
pub(crate) struct Remote<P, const FIRST: bool>(PhantomData<P>);

/// An end of such a channel, near or remote.
pub(crate) enum SuiteEnd {
    Near(Box<Channel>),
    Remote(Box<RemotePeer>),
}

tombolo_transport::transport_of_variants!(SuiteEnd { Near, Remote });

/// Converts an error of the façade into the corresponding channel error.
fn error_of(error: Error) -> ChannelError {
    match error {
        Error::TimedOut { .. } | Error::Monitor(Fault::NoSuchName { .. }) => {
            ChannelError::TimedOut(error::Awaited::Handshake)
        }
        Error::PeerDied { .. } => ChannelError::PeerDied,
        error => ChannelError::Violation(error.to_string()),
    }
}

fn open_near(opening: &Opening) -> Result<Channel, Error> {
    let config = opening.config;
    let options = ChannelOptions::default().slot_bytes(config.slot.bytes())?.slots(config.slots)?;
    let options = options.interface_hash(opening.interface_hash);
    let options = if config.variant == Variant::UsedFlag { options.used_flag() } else { options };
    let timeout = Duration::from_nanos(opening.timeout_ns);
    if opening.accepts {
        options.export(&fleet::domain(), &opening.name)?.within(timeout).accept()
    } else {
        options.connect(&fleet::domain().within(timeout), &opening.name)
    }
}

/// Returns an unused channel name.
fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("tested/{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn opening(name: String, side: Side, hello: Hello, deadline: Deadline) -> Opening {
    let timeout_ns = u64::try_from(deadline.remaining().as_nanos()).unwrap_or(u64::MAX);
    let (config, interface_hash) = (hello.config, hello.interface_hash);
    Opening { accepts: side == Side::B, name, config, interface_hash, timeout_ns }
}

impl KillablePeer for Convict {
    fn kill(&mut self) {
        self.end();
    }
}

impl<P: RemoteNode, const FIRST: bool> Carrier for Remote<P, FIRST> {
    type Channel = SuiteEnd;
    /// The channel's name: the monitors create the channel when it is opened.
    type End = String;
    const NAME: &'static str = P::NAME;
    const CAPABILITIES: Capabilities = P::CAPABILITIES;
    const USED_FLAG: bool = P::USED_FLAG;
    /// Doorbells across a window are forwarded by monitors or device interrupts; on one kernel they arrive
    /// immediately.
    const FORWARDS_RINGS: bool = !P::CAPABILITIES.contains(Capabilities::ATOMICS);
    /// The façade sends a correct handshake and opens what the monitors created, so neither false handshakes
    /// nor memory before the handshake can be had.
    const FIXTURES: &'static [Fixture] = &[Fixture::Killable];
    const SIDE_A_SETS_SHAPE: bool = true;
    const MAX_SLOTS: u32 = 2048;
    const EFFORT_PERCENT: u64 = 1;

    fn display_name() -> String {
        format!("{}{}", P::NAME, if FIRST { "-first" } else { "" })
    }

    fn ends(_config: ChannelConfig) -> (String, String) {
        let name = new_name();
        (name.clone(), name)
    }

    fn open(name: String, side: Side, hello: Hello, deadline: Deadline) -> Result<SuiteEnd, ChannelError> {
        let opening = opening(name, side, hello, deadline);
        if (side == Side::A) == FIRST {
            RemotePeer::open::<P>(opening).map(|end| SuiteEnd::Remote(Box::new(end)))
        } else {
            open_near(&opening).map(|end| SuiteEnd::Near(Box::new(end))).map_err(error_of)
        }
    }

    fn spawn_killable_peer(task: PeerTask) -> (SuiteEnd, Box<dyn KillablePeer>) {
        let (name, hello) = (new_name(), hello(task.config::<Self>()));
        let role = match task.role {
            Role::Sends => "sends",
            Role::Receives => "receives",
            Role::Idles => "idles",
        };
        let ChannelConfig { slot, slots, variant, .. } = hello.config;
        let used_flag = variant == Variant::UsedFlag;
        let shape = [slot.bytes().to_string(), slots.to_string(), used_flag.to_string()];
        let [slot, slots, used_flag] = shape.each_ref().map(String::as_str);
        let hash = hello.interface_hash.to_string();
        let words = ["play", &name, role, slot, slots, used_flag, &hash];
        // The survivor is on the node and the victim on the host, or the other way round.
        let convict = if FIRST { Convict::on_the_host(&words) } else { Convict::start::<P>(&words) };
        let channel = Self::open(name.clone(), Side::A, hello, deadline()).expect("a channel");
        (channel, Box::new(convict))
    }

    fn wakes_within(channel: &SuiteEnd, awaited: Interest, timeout: Duration) -> bool {
        match channel {
            SuiteEnd::Remote(end) => end.is_rung(timeout),
            SuiteEnd::Near(end) => {
                let mut sources = Vec::new();
                end.sources(awaited, &mut sources);
                let ready = poll(&sources, Some(Deadline::after(timeout))).expect("descriptors");
                ready.iter().any(|ready| ready.any())
            }
        }
    }
}
