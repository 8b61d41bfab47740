//! Watching a machine and steering it: what is on it, what it does, and what can be done about that.
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::Domain;
//!
//! # fn main() -> Result<(), tombolo::Error> {
//! let mut observer = Domain::attach()?.observe();
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

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_capability::{CapabilityInfo, RegionId};
use tombolo_control::{Reply, Request};
use tombolo_naming::{Record, parse_query};

pub use tombolo_control::InFlight;
pub use tombolo_control::observation::{
    CoreSample, DomainSample, EndSample, Flow, Happening, Measure, NodePhase, NodeSample, Observation,
    OutputPiece, Part, PowerSample, SeenChannel, SeenDomain, SeenEngine, SeenEvent, SeenLink, SeenNode,
    SeenRegion,
};

use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::ANSWER_TIMEOUT;
use crate::monitor::unexpected;

/// How long a domain may take to start, beyond what else is to be waited for.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long processors may take to be set, on a node that is slow or busy.
const FREQUENCY_TIMEOUT: Duration = Duration::from_secs(30);

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
    domain: Domain,
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

/// How fast processors are to run; what is not said stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frequency {
    /// Which processors of the node; all if none.
    pub cores: Vec<u16>,
    /// The governor.
    pub governor: Option<String>,
    /// The slowest, in kHz.
    pub min_khz: Option<u32>,
    /// The fastest, in kHz.
    pub max_khz: Option<u32>,
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
            let patience = timeout.saturating_add(ANSWER_TIMEOUT);
            let (observations, until, more, anew, now_ns, wall_ns) =
                match self.domain.link.ask(ask, patience)?.0 {
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

    /// The domain that observes the machine.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

impl Domain {
    /// Makes an observer of the machine, which has seen nothing yet.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer { domain: self.clone(), seen: Seen::default(), since: 0 }
    }

    /// What a part of the machine was like: the finest that is remembered with at least `step` from point to
    /// point.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such part, or it has no such measure.
    pub fn history(&self, part: Part, measure: Measure, step: Duration) -> Result<History, Error> {
        let step_ms = u32::try_from(step.as_millis()).unwrap_or(u32::MAX);
        match self.link.ask(Request::History { part, measure, step_ms }, ANSWER_TIMEOUT)?.0 {
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
        match self.link.ask(Request::RememberedOutput { domain, after }, ANSWER_TIMEOUT)?.0 {
            Reply::RememberedOutput { pieces, next, lost, more, ended } => {
                Ok(RememberedOutput { pieces, next, lost_bytes: lost, more, ended })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Stops a domain with all its processes where it is.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such domain, or the machine did not start it.
    pub fn pause(&self, domain: DomainId) -> Result<(), Error> {
        self.link.ask(Request::Pause { domain, paused: true }, ANSWER_TIMEOUT).map(|_| ())
    }

    /// Lets a domain go on that was paused.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&self, domain: DomainId) -> Result<(), Error> {
        self.link.ask(Request::Pause { domain, paused: false }, ANSWER_TIMEOUT).map(|_| ())
    }

    /// Starts the same program again with the same arguments, as a child of the caller; on another node if
    /// one is named.
    ///
    /// # Errors
    /// [`Error::Monitor`] when it is not known any more, or cannot run there.
    pub fn repeat(&self, domain: DomainId, node: Option<&str>) -> Result<DomainId, Error> {
        let request = Request::Repeat { domain, node: node.map(str::to_owned) };
        match self.link.ask(request, START_TIMEOUT)?.0 {
            Reply::Repeat { domain } => Ok(domain),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a domain whose image says that it can be restarted, within `grace` or for certain, and starts the
    /// same on another node, as a child of the caller.
    ///
    /// # Errors
    /// [`Error::Monitor`] when it cannot be restarted or cannot run there. When it has ended already, the
    /// error says so.
    pub fn move_to(&self, domain: DomainId, node: &str, grace: Duration) -> Result<DomainId, Error> {
        let request = Request::MoveTo { domain, node: node.to_owned(), grace };
        match self.link.ask(request, START_TIMEOUT.saturating_add(grace))?.0 {
            Reply::MoveTo { domain } => Ok(domain),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets how fast processors of a node run. What was before comes back with
    /// [`restore_frequency`](Self::restore_frequency), or when this program leaves.
    ///
    /// # Errors
    /// [`Error::Monitor`] where the node's kernel offers none of that, or does not allow it.
    pub fn set_frequency(&self, node: &str, frequency: Frequency) -> Result<(), Error> {
        let Frequency { cores, governor, min_khz, max_khz } = frequency;
        let request = Request::SetFrequency { node: node.to_owned(), cores, governor, min_khz, max_khz };
        self.link.ask(request, FREQUENCY_TIMEOUT).map(|_| ())
    }

    /// Gives all processors of a node back what they had.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such node, or it is down.
    pub fn restore_frequency(&self, node: &str) -> Result<(), Error> {
        self.link.ask(Request::RestoreFrequency { node: node.to_owned() }, FREQUENCY_TIMEOUT).map(|_| ())
    }

    /// What the root knows of nodes and of the ways between them, as the records that a query matches:
    /// `node/NAME` and `link/NAME/NAME`, the lower-numbered node first. An attribute whose value is not known
    /// is absent. `docs/specs/facts.md` lists the attributes.
    ///
    /// # Errors
    /// [`Error::Text`] for a malformed query; [`Error::Monitor`] for an invalid or too costly pattern.
    pub fn facts(&self, query: &str) -> Result<Vec<Record>, Error> {
        let query = parse_query(query)?;
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let request = Request::Facts { query: query.clone(), from };
            match self.link.ask(request, ANSWER_TIMEOUT)?.0 {
                Reply::Facts { records, next, more } => {
                    all.extend(records);
                    if !more || next <= from {
                        return Ok(all);
                    }
                    from = next;
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// The capabilities to a region, by number.
    ///
    /// # Errors
    /// [`Error::Monitor`] when there is no such region.
    pub fn holders(&self, region: RegionId) -> Result<Vec<CapabilityInfo>, Error> {
        let mut all: Vec<CapabilityInfo> = Vec::new();
        loop {
            let after = all.last().map_or(0, |capability| capability.id.0);
            match self.link.ask(Request::Holders { region, after }, ANSWER_TIMEOUT)?.0 {
                Reply::Holders { capabilities, more } => {
                    let done = !more || capabilities.is_empty();
                    all.extend(capabilities);
                    if done {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }
}
