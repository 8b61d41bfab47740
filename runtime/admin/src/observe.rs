//! Observation of a machine: its parts, and their activity.
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::Domain;
//! use tombolo_admin::Machine;
//!
//! # fn main() -> Result<(), tombolo::Error> {
//! let mut observer = Machine::of(&Domain::attach()?).observe();
//! loop {
//!     observer.refresh(Duration::from_secs(1))?;
//!     for domain in observer.seen().domains.values().filter(|domain| domain.exit.is_none()) {
//!         println!("{} {}", domain.id, domain.program);
//!     }
//! }
//! # }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo::control::{Reply, Request};
use tombolo::{ChannelId, DomainId, Error, NodeId};
use tombolo_capability::RegionId;

pub use tombolo_control::InFlight;
pub use tombolo_control::observation::{
    CoreSample, DomainSample, EndSample, Flow, Happening, Measure, NodePhase, NodeSample, Observation,
    OutputPiece, Part, PowerSample, SeenChannel, SeenDomain, SeenEngine, SeenEvent, SeenLink, SeenNode,
    SeenRegion,
};

use crate::{Machine, unexpected};

/// State of a machine, as of one moment of its monitor.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    /// Nodes of the machine.
    pub nodes: BTreeMap<NodeId, SeenNode>,
    /// Domains, including the last ones that ended.
    pub domains: BTreeMap<DomainId, SeenDomain>,
    /// Channels of the machine.
    pub channels: BTreeMap<ChannelId, SeenChannel>,
    /// Regions of the machine.
    pub regions: BTreeMap<RegionId, SeenRegion>,
    /// Links between two nodes, keyed with the lower number first.
    pub links: BTreeMap<(NodeId, NodeId), SeenLink>,
    /// Recent events, by number.
    pub events: BTreeMap<u64, SeenEvent>,
    /// Time on the monitor's clock, which all timestamps refer to. It never jumps.
    pub now_ns: u64,
    /// The same instant in nanoseconds since 1970 in UTC, by the host's clock, which may jump.
    pub wall_ns: u64,
}

impl Seen {
    /// Applies an update of one part.
    pub fn apply(&mut self, observation: Observation) {
        match observation {
            Observation::Node(node) => drop(self.nodes.insert(node.info.id, node)),
            Observation::Domain(domain) => drop(self.domains.insert(domain.id, domain)),
            Observation::Channel(channel) => drop(self.channels.insert(channel.id, channel)),
            Observation::Region(region) => drop(self.regions.insert(region.info.id, region)),
            Observation::Link(link) => drop(self.links.insert((link.a, link.b), link)),
            Observation::Event(event) => drop(self.events.insert(event.number, event)),
            Observation::Gone { part } => self.forget(&part),
        }
    }

    fn forget(&mut self, part: &Part) {
        match part {
            Part::Node(node) => drop(self.nodes.remove(node)),
            Part::Domain { domain } => drop(self.domains.remove(domain)),
            Part::Channel(channel) => drop(self.channels.remove(channel)),
            Part::Region(region) => drop(self.regions.remove(region)),
            Part::Link { a, b } => drop(self.links.remove(&(*a, *b))),
            Part::Event { number } => drop(self.events.remove(number)),
        }
    }

    /// Iterates over the domains that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &SeenDomain> {
        self.domains.values().filter(|domain| domain.exit.is_none())
    }
}

/// Follows the state of a machine as its monitor sees it.
#[derive(Debug)]
pub struct Observer {
    machine: Machine,
    seen: Seen,
    since: u64,
}

/// History of a measure of a part, as equidistant points.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// Time between two points.
    pub step: Duration,
    /// Time of the last point, on the monitor's clock.
    pub last_ns: u64,
    /// Points, oldest first, in the unit of the measure; `None` where no value is known.
    pub points: Vec<Option<u64>>,
}

/// Part of a domain's buffered output.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RememberedOutput {
    /// Pieces of output, in order.
    pub pieces: Vec<OutputPiece>,
    /// Position of the next request.
    pub next: u64,
    /// Number of bytes before these that are no longer buffered.
    pub lost_bytes: u64,
    /// Whether more is available immediately.
    pub more: bool,
    /// Whether the output has ended.
    pub ended: bool,
}

impl Observer {
    /// Waits up to `timeout` for changes, and applies them; returns whether there were any. With a timeout of
    /// zero it only polls.
    ///
    /// # Errors
    /// [`Error::MonitorLost`]. The last state remains available.
    pub fn refresh(&mut self, timeout: Duration) -> Result<bool, Error> {
        let (mut timeout, mut new) = (timeout, false);
        loop {
            let ask = Request::Observe { since: self.since, timeout };
            let (observations, until, more, anew, now_ns, wall_ns) =
                match self.machine.ask_for(ask, timeout)? {
                    Reply::Observe { observations, until, more, anew, now_ns, wall_ns } => {
                        (observations, until, more, anew, now_ns, wall_ns)
                    }
                    other => return Err(unexpected(&other)),
                };
            if anew {
                self.seen = Seen::default();
            }
            new |= anew || !observations.is_empty();
            // A reply that announces more but contains nothing would cause an infinite loop.
            let more = more && until > self.since;
            self.since = until;
            (self.seen.now_ns, self.seen.wall_ns) = (now_ns, wall_ns);
            observations.into_iter().for_each(|observation| self.seen.apply(observation));
            if !more {
                return Ok(new);
            }
            timeout = Duration::ZERO;
        }
    }

    /// Returns the last known state.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Returns the machine that is observed.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Machine {
    /// Creates an observer of the machine, whose state is empty until the first refresh.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer { machine: self.clone(), seen: Seen::default(), since: 0 }
    }

    /// Returns the history of a measure of a part, in the finest available resolution with at least `step`
    /// between points.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the part does not exist, or does not have this measure.
    pub fn history(&self, part: Part, measure: Measure, step: Duration) -> Result<History, Error> {
        let step_ms = u32::try_from(step.as_millis()).unwrap_or(u32::MAX);
        match self.ask(Request::History { part, measure, step_ms })? {
            Reply::History { step_ms, last_ns, points } => Ok(History {
                step: Duration::from_millis(step_ms.into()),
                last_ns,
                points: points.into_iter().map(|point| (point != u64::MAX).then_some(point)).collect(),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the buffered output of a domain from a position on: 0, or `next` of the previous result. The
    /// output of domains that have ended is kept for a while.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the domain is unknown.
    pub fn remembered_output(&self, domain: DomainId, after: u64) -> Result<RememberedOutput, Error> {
        match self.ask(Request::RememberedOutput { domain, after })? {
            Reply::RememberedOutput { pieces, next, lost, more, ended } => {
                Ok(RememberedOutput { pieces, next, lost_bytes: lost, more, ended })
            }
            other => Err(unexpected(&other)),
        }
    }
}
