//! Observations for clients: every part of the machine in its present state, and its history.
//!
//! An answer shows each part as the core knows it at that moment; the only state kept for answers is the
//! order in which parts changed ([`versions`]). So a change costs next to nothing until an observer asks, and
//! the core keeps no copy for each observer.
//!
//! Agents' reports about domains and channels are unverified claims: they are accepted about domains of the
//! agent's own node, and ignored about others.

mod ask;
mod channels;
mod ended;
mod engines;
mod events;
mod history;
mod output;
mod pulse;
mod regions;
mod samples;
mod show;
pub(super) mod versions;

use std::collections::BTreeMap;

use tombolo_base::NodeId;
use tombolo_control::Order;
use tombolo_control::observation::NodeSample;
use tombolo_machine::{Limit, Limits, Machine};

pub(super) use ask::Observed;
pub(super) use channels::Channels;
use ended::Ended;
#[cfg(test)]
pub(super) use ended::{MAX_ENDED, MAX_IMAGES};
use events::Events;
#[cfg(test)]
pub(super) use events::MAX_EVENTS;
pub(super) use events::how;
pub(super) use history::{Budget, History};
pub(super) use output::{Outputs, Tail};
use pulse::Pulse;
use regions::SeenRegions;
pub(super) use samples::{WatchedDomain, WatchedNode};
pub(super) use show::cut;
use versions::{Key, Versions};

use super::{Client, Core, Nanos};

/// Time between two samples of a node in ms, unless sampling is too expensive there.
const SAMPLE_MS: u32 = 1000;

/// State kept for observers.
#[derive(Debug)]
pub(super) struct Observing {
    pub(super) versions: Versions,
    waiting: BTreeMap<Client, ask::Waiting>,
    pub(super) nodes: Vec<WatchedNode>,
    pub(super) ended: Ended,
    pub(super) events: Events,
    pub(super) channels: Channels,
    pub(super) regions: SeenRegions,
    pub(super) outputs: Outputs,
    pub(super) budget: Budget,
    pulse: Pulse,
}

impl Observing {
    pub(super) fn new(machine: &Machine, limits: &Limits) -> Self {
        let mut versions = Versions::default();
        machine.nodes().iter().for_each(|node| versions.changed(Key::Node(node.id)));
        let channels = Channels::new(machine);
        channels.links().for_each(|(a, b)| versions.changed(Key::Link(a, b)));
        Observing {
            versions,
            waiting: BTreeMap::new(),
            nodes: machine.nodes().iter().map(|_| WatchedNode::default()).collect(),
            ended: Ended::default(),
            events: Events::default(),
            channels,
            regions: SeenRegions::default(),
            outputs: Outputs::new(limits),
            budget: Budget::new(limits.of(Limit::HistoryMib)),
            pulse: Pulse::default(),
        }
    }

    /// Returns the sizes that must return to their previous values after clients leave. Retained history is
    /// bounded, and stays.
    pub(super) fn held(&self) -> [(&'static str, usize); 2] {
        [("observers that wait", self.waiting.len()), ("ends of channels", self.channels.ends())]
    }

    /// Returns the last sample of a node, unless it is too old.
    pub(super) fn fresh_sample(&self, now: Nanos, id: NodeId) -> Option<&NodeSample> {
        self.nodes.get(usize::from(id.0))?.fresh(now)
    }

    pub(super) fn node(&mut self, id: NodeId) -> Option<&mut WatchedNode> {
        self.nodes.get_mut(usize::from(id.0))
    }

    /// Handles the end of a client.
    pub(super) fn client_left(&mut self, client: Client) {
        self.waiting.remove(&client);
    }
}

impl Core {
    /// Starts sampling on a node that is up.
    pub(super) fn watch_node(&mut self, id: NodeId) {
        self.order(id, Order::Sample { period_ms: SAMPLE_MS });
    }

    pub(super) fn node_changed(&mut self, id: NodeId) {
        self.observing.versions.changed(Key::Node(id));
    }

    pub(super) fn domain_changed(&mut self, id: tombolo_base::DomainId) {
        self.observing.versions.changed(Key::Domain(id));
    }
}
