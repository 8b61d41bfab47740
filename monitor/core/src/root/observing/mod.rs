//! Observations for clients: every part of the machine in its present state, and its history.
//!
//! An answer shows each part as the core knows it at that moment; the only state kept for answers is the
//! order in which parts changed ([`versions`]). So a change costs next to nothing until an observer asks, and
//! the core keeps no copy for each observer.
//!
//! Agents' reports about domains and channels are unverified claims: they are accepted about domains of the
//! agent's own node, and ignored about others.

mod channels;
mod conversion;
mod ended;
mod engines;
mod events;
mod history;
mod observers;
mod output;
mod periodic;
mod regions;
mod samples;
pub(super) mod versions;

use std::collections::BTreeMap;

use tombolo_base::NodeId;
use tombolo_control::Order;
use tombolo_control::observation::NodeSample;
use tombolo_machine::{Limit, Limits, Machine};

pub(super) use channels::Channels;
pub(super) use conversion::truncate_text;
use ended::EndedDomains;
#[cfg(test)]
pub(super) use ended::{MAX_ENDED, MAX_IMAGES};
use events::Events;
#[cfg(test)]
pub(super) use events::MAX_EVENTS;
pub(super) use events::describe_exit;
pub(super) use history::{History, HistoryBudget};
pub(super) use observers::ObserverState;
pub(super) use output::{OutputTail, OutputUsage};
use periodic::Ticker;
use regions::RegionSnapshots;
pub(super) use samples::{ObservedDomain, ObservedNode};
use versions::{PartKey, Versions};

use super::{ClientId, Core, Nanos};

/// Time between two samples of a node in ms, unless sampling is too expensive there.
const SAMPLE_MS: u32 = 1000;

/// State kept for observers.
#[derive(Debug)]
pub(super) struct Observing {
    pub(super) versions: Versions,
    waiting: BTreeMap<ClientId, observers::WaitingObserver>,
    pub(super) nodes: Vec<ObservedNode>,
    pub(super) ended: EndedDomains,
    pub(super) events: Events,
    pub(super) channels: Channels,
    pub(super) regions: RegionSnapshots,
    pub(super) outputs: OutputUsage,
    pub(super) budget: HistoryBudget,
    ticker: Ticker,
}

impl Observing {
    pub(super) fn new(machine: &Machine, limits: &Limits) -> Self {
        let mut versions = Versions::default();
        machine.nodes().iter().for_each(|node| versions.mark_changed(PartKey::Node(node.id)));
        let channels = Channels::new(machine);
        channels.links().for_each(|(a, b)| versions.mark_changed(PartKey::Link(a, b)));
        Observing {
            versions,
            waiting: BTreeMap::new(),
            nodes: machine.nodes().iter().map(|_| ObservedNode::default()).collect(),
            ended: EndedDomains::default(),
            events: Events::default(),
            channels,
            regions: RegionSnapshots::default(),
            outputs: OutputUsage::new(limits),
            budget: HistoryBudget::new(limits.of(Limit::HistoryMib)),
            ticker: Ticker::default(),
        }
    }

    /// Returns the sizes that must return to their previous values after clients leave. Retained history is
    /// bounded, and stays.
    pub(super) fn resource_counts(&self) -> [(&'static str, usize); 2] {
        [("observers that wait", self.waiting.len()), ("ends of channels", self.channels.ends())]
    }

    /// Returns the last sample of a node, unless it is too old.
    pub(super) fn fresh_sample(&self, now: Nanos, id: NodeId) -> Option<&NodeSample> {
        self.nodes.get(usize::from(id.0))?.fresh_sample(now)
    }

    pub(super) fn node(&mut self, id: NodeId) -> Option<&mut ObservedNode> {
        self.nodes.get_mut(usize::from(id.0))
    }

    /// Handles the end of a client.
    pub(super) fn client_left(&mut self, client: ClientId) {
        self.waiting.remove(&client);
    }
}

impl Core {
    /// Starts sampling on a node that is up.
    pub(super) fn start_node_sampling(&mut self, id: NodeId) {
        self.send_order(id, Order::Sample { period_ms: SAMPLE_MS });
    }

    pub(super) fn node_changed(&mut self, id: NodeId) {
        self.observing.versions.mark_changed(PartKey::Node(id));
    }

    pub(super) fn domain_changed(&mut self, id: tombolo_base::DomainId) {
        self.observing.versions.mark_changed(PartKey::Domain(id));
    }
}
