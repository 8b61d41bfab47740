//! What agents sample: of their node, its domains and their channels.

use std::collections::BTreeMap;

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::Order;
use tombolo_control::observation::{DomainSample, EndSample, Happening, NodeSample, SeenEngine};

use super::show::line_of;
use super::{History, Tail};
use crate::root::steering::Launch;
use crate::root::{Core, Nanos};

/// How long what a sample says about a domain that was just paused, or let go on, may be of before that.
const SETTLING_NS: Nanos = 2_000_000_000;

/// What is seen of a node.
#[derive(Debug, Default)]
pub(in crate::root) struct WatchedNode {
    pub(super) sample: Option<NodeSample>,
    pub(super) sampled_ns: Nanos,
    /// Rounds of samples so far.
    pub(super) rounds: u64,
    /// Ends of channels through which something went in the last round, or in this one so far: in which.
    pub(super) moving: BTreeMap<(ChannelId, bool), u64>,
    pub(super) engines: Vec<SeenEngine>,
    /// The probe that it has not answered, and when that was sent.
    pub(super) probe: Option<(u64, Nanos)>,
    pub(in crate::root) history: Option<History>,
}

impl WatchedNode {
    /// How long its samples are good for.
    pub(super) fn patience_ns(&self) -> Nanos {
        let period_ms = self.sample.as_ref().map_or(0, |sample| sample.period_ms);
        2_500_000_000_u64.max(Nanos::from(period_ms).saturating_mul(2_500_000))
    }

    /// Its last sample, unless that is of long ago.
    pub(super) fn fresh(&self, now: Nanos) -> Option<&NodeSample> {
        let is_fresh = now.saturating_sub(self.sampled_ns) <= self.patience_ns();
        self.sample.as_ref().filter(|_| is_fresh)
    }
}

/// What is seen of a domain that lives, beside what the core has to know anyway.
#[derive(Debug, Default)]
pub(in crate::root) struct WatchedDomain {
    /// For people.
    pub(in crate::root) arguments: String,
    /// How to start the same again, if the machine started it.
    pub(in crate::root) launch: Option<Launch>,
    pub(in crate::root) paused: bool,
    /// When it was paused or let go on.
    pub(in crate::root) paused_at: Option<Nanos>,
    pub(super) sample: Option<DomainSample>,
    pub(in crate::root) output: Tail,
    pub(in crate::root) history: Option<History>,
}

impl WatchedDomain {
    /// Of a domain that the machine starts.
    pub(in crate::root) fn starting(launch: Launch) -> Self {
        let arguments = line_of(&launch.program.arguments);
        WatchedDomain { arguments, launch: Some(launch), ..WatchedDomain::default() }
    }
}

impl Core {
    /// An agent has taken samples.
    pub(in crate::root) fn sampled(
        &mut self,
        now: Nanos,
        id: NodeId,
        node: Option<NodeSample>,
        domains: Vec<DomainSample>,
        ends: Vec<EndSample>,
    ) {
        if !self.is_up(id) {
            return;
        }
        self.start_pulse(now);
        domains.into_iter().for_each(|sample| self.domain_sampled(now, id, sample));
        for end in ends {
            if end.domain.node() == id && self.lives(end.domain) {
                self.end_sampled(now, id, end);
            }
        }
        let (Some(sample), Some(watched)) = (node, self.observing.node(id)) else { return };
        watched.sample = Some(sample);
        watched.sampled_ns = now;
        watched.rounds += 1;
        self.node_changed(id);
        self.still_ends(id);
    }

    fn domain_sampled(&mut self, now: Nanos, node: NodeId, sample: DomainSample) {
        let domain = sample.domain;
        let Some(record) = self.domains.get_mut(domain).filter(|_| domain.node() == node) else { return };
        let started = record.parent.is_some();
        let watched = &mut record.watched;
        watched.sample = Some(sample);
        let settling = watched.paused_at.is_some_and(|at| now.saturating_sub(at) < SETTLING_NS && at <= now);
        let corrected = started && !settling && watched.paused != sample.stopped;
        if corrected {
            watched.paused = sample.stopped;
        }
        self.domain_changed(domain);
        if corrected {
            let happening = if sample.stopped { Happening::DOMAIN_PAUSED } else { Happening::DOMAIN_RESUMED };
            self.happened_to(domain, happening, "by a signal that was not the machine's");
        }
    }

    /// A node is lost, and what was known of it.
    pub(in crate::root) fn watched_lost(&mut self, id: NodeId) {
        if let Some(watched) = self.observing.node(id) {
            (watched.sample, watched.sampled_ns, watched.probe) = (None, 0, None);
            watched.moving.clear();
        }
        self.link_lost(id);
        self.node_changed(id);
    }

    /// Asks a node for an answer, to learn how long that takes.
    pub(super) fn probe(&mut self, now: Nanos, id: NodeId) {
        if !self.is_up(id) {
            return;
        }
        self.observing.channels.probes += 1;
        let ticket = self.observing.channels.probes;
        if let Some(watched) = self.observing.node(id) {
            watched.probe = Some((ticket, now));
            self.order(id, Order::Probe { ticket });
        }
    }

    /// A node has answered.
    pub(in crate::root) fn probed(&mut self, now: Nanos, id: NodeId, ticket: u64) {
        let Some(watched) = self.observing.node(id) else { return };
        if let Some((_, sent)) = watched.probe.take_if(|(expected, _)| *expected == ticket) {
            self.round_trip(id, now.saturating_sub(sent).max(1));
        }
    }

    /// Returns the load of a node's processors, or of its processes where it has none of its own, in
    /// thousandths of one.
    pub(in crate::root) fn node_load(sample: &NodeSample) -> u64 {
        let cores = sample.cores.iter().map(|core| u64::from(core.load_permille));
        cores.sum::<u64>() + u64::from(sample.own_load_permille)
    }

    /// Domains of a node.
    pub(in crate::root) fn domains_of(&self, node: NodeId) -> impl Iterator<Item = DomainId> + '_ {
        let from = DomainId::new(node, core::num::NonZeroU16::MIN, 0);
        let to = DomainId::new(node, core::num::NonZeroU16::MAX, u32::MAX);
        self.domains.range(from..=to).map(|(id, _)| *id)
    }
}
