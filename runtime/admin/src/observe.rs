//! Observing a machine: what is on it, and what it does.
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

/// What is seen of a machine, as of one moment of its monitor.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    /// Its nodes.
    pub nodes: BTreeMap<NodeId, SeenNode>,
    /// Its domains, and the last that ended.
    pub domains: BTreeMap<DomainId, SeenDomain>,
    /// Its channels.
    pub channels: BTreeMap<ChannelId, SeenChannel>,
    /// Its regions.
    pub regions: BTreeMap<RegionId, SeenRegion>,
    /// Links between two nodes, the lower number first.
    pub links: BTreeMap<(NodeId, NodeId), SeenLink>,
    /// What happened last, by number.
    pub events: BTreeMap<u64, SeenEvent>,
    /// The monitor's clock, by which everything is dated. It never jumps.
    pub now_ns: u64,
    /// The same instant since 1970 in UTC, by the host's clock, which may jump.
    pub wall_ns: u64,
}

impl Seen {
    /// Takes in a part as it is now.
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

    /// The domains that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &SeenDomain> {
        self.domains.values().filter(|domain| domain.exit.is_none())
    }
}

/// Keeps up with what a machine's monitor sees.
#[derive(Debug)]
pub struct Observer {
    machine: Machine,
    seen: Seen,
    since: u64,
}

/// What a part was like, point by point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// Time from a point to the next.
    pub step: Duration,
    /// When the last point was, by the monitor's clock.
    pub last_ns: u64,
    /// The points, oldest first, in the unit of the measure; `None` where nothing was known.
    pub points: Vec<Option<u64>>,
}

/// Some of what a domain wrote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RememberedOutput {
    /// What, in order.
    pub pieces: Vec<OutputPiece>,
    /// What to ask for next.
    pub next: u64,
    /// Bytes before these that are not remembered.
    pub lost_bytes: u64,
    /// There is more at once.
    pub more: bool,
    /// No more will come.
    pub ended: bool,
}

impl Observer {
    /// Waits up to `timeout` for something new, and takes it in; whether there was anything. With no time to
    /// wait it looks.
    ///
    /// # Errors
    /// [`Error::MonitorLost`]. What was seen before can still be looked at.
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
            // An answer that says there is more and brings nothing would be asked for for ever.
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

    /// What has been seen.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The machine that is observed.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Machine {
    /// Makes an observer of the machine, which has seen nothing yet.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer { machine: self.clone(), seen: Seen::default(), since: 0 }
    }

    /// What a part of the machine was like: the finest that is remembered with at least `step` from point to
    /// point.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such part, or it has no such measure.
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

    /// What a domain wrote, from a position on: 0, or `next` of the answer before. Also of domains that have
    /// ended, for a while.
    ///
    /// # Errors
    /// [`Error::Monitor`] when nothing is known of that domain.
    pub fn remembered_output(&self, domain: DomainId, after: u64) -> Result<RememberedOutput, Error> {
        match self.ask(Request::RememberedOutput { domain, after })? {
            Reply::RememberedOutput { pieces, next, lost, more, ended } => {
                Ok(RememberedOutput { pieces, next, lost_bytes: lost, more, ended })
            }
            other => Err(unexpected(&other)),
        }
    }
}
