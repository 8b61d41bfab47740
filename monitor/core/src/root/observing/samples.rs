//! Samples of agents: of their node, its domains and their channels.

use std::collections::BTreeMap;

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::Order;
use tombolo_control::observation::{DomainSample, EndSample, Happening, NodeSample, SeenEngine};

use super::conversion::command_line;
use super::{History, OutputTail};
use crate::root::steering::Launch;
use crate::root::{Core, Nanos};

/// Time after pausing or resuming a domain during which a sample may still show the previous state.
const SETTLING_NS: Nanos = 2_000_000_000;

/// Observed state of a node.
#[derive(Debug, Default)]
pub(in crate::root) struct ObservedNode {
    pub(super) sample: Option<NodeSample>,
    pub(super) sampled_ns: Nanos,
    /// Number of sample rounds so far.
    pub(super) rounds: u64,
    /// Ends of channels with traffic, by the last round in which they had any.
    pub(super) active_ends: BTreeMap<(ChannelId, bool), u64>,
    pub(super) engines: Vec<SeenEngine>,
    /// Outstanding probe, with the time it was sent.
    pub(super) probe: Option<(u64, Nanos)>,
    pub(in crate::root) history: Option<History>,
}

impl ObservedNode {
    /// Returns the time for which its samples stay valid.
    pub(super) fn sample_timeout_ns(&self) -> Nanos {
        let period_ms = self.sample.as_ref().map_or(0, |sample| sample.period_ms);
        2_500_000_000_u64.max(Nanos::from(period_ms).saturating_mul(2_500_000))
    }

    /// Returns its last sample, unless that is outdated.
    pub(super) fn fresh_sample(&self, now: Nanos) -> Option<&NodeSample> {
        let is_fresh = now.saturating_sub(self.sampled_ns) <= self.sample_timeout_ns();
        self.sample.as_ref().filter(|_| is_fresh)
    }
}

/// Observed state of a living domain, beside the core's own.
#[derive(Debug, Default)]
pub(in crate::root) struct ObservedDomain {
    /// Arguments, for display.
    pub(in crate::root) arguments: String,
    /// Parameters to start it again, if the machine started it.
    pub(in crate::root) launch: Option<Launch>,
    pub(in crate::root) paused: bool,
    /// Time when it was paused or resumed.
    pub(in crate::root) paused_at: Option<Nanos>,
    pub(super) sample: Option<DomainSample>,
    pub(in crate::root) output: OutputTail,
    pub(in crate::root) history: Option<History>,
}

impl ObservedDomain {
    /// Creates the state of a domain that the machine starts.
    pub(in crate::root) fn starting(launch: Launch) -> Self {
        let arguments = command_line(&launch.program.arguments);
        ObservedDomain { arguments, launch: Some(launch), ..ObservedDomain::default() }
    }
}

impl Core {
    /// Handles the samples of an agent.
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
        self.start_ticker(now);
        domains.into_iter().for_each(|sample| self.domain_sampled(now, id, sample));
        for end in ends {
            if end.domain.node() == id && self.is_alive(end.domain) {
                self.end_sampled(now, id, end);
            }
        }
        let (Some(sample), Some(observed)) = (node, self.observing.node(id)) else { return };
        observed.sample = Some(sample);
        observed.sampled_ns = now;
        observed.rounds += 1;
        self.node_changed(id);
        self.clear_idle_rates(id);
    }

    fn domain_sampled(&mut self, now: Nanos, node: NodeId, sample: DomainSample) {
        let domain = sample.domain;
        let Some(record) = self.domains.get_mut(domain).filter(|_| domain.node() == node) else { return };
        let started = record.parent.is_some();
        let observed = &mut record.observed;
        observed.sample = Some(sample);
        let settling = observed.paused_at.is_some_and(|at| now.saturating_sub(at) < SETTLING_NS && at <= now);
        let corrected = started && !settling && observed.paused != sample.stopped;
        if corrected {
            observed.paused = sample.stopped;
        }
        self.domain_changed(domain);
        if corrected {
            let happening = if sample.stopped { Happening::DOMAIN_PAUSED } else { Happening::DOMAIN_RESUMED };
            self.record_domain_event(domain, happening, "by a signal that was not the machine's");
        }
    }

    /// Discards the samples of a lost node.
    pub(in crate::root) fn discard_node_samples(&mut self, id: NodeId) {
        if let Some(observed) = self.observing.node(id) {
            (observed.sample, observed.sampled_ns, observed.probe) = (None, 0, None);
            observed.active_ends.clear();
        }
        self.reset_link_round_trip(id);
        self.node_changed(id);
    }

    /// Sends a probe to a node, to measure its round trip.
    pub(super) fn probe(&mut self, now: Nanos, id: NodeId) {
        if !self.is_up(id) {
            return;
        }
        self.observing.channels.probes += 1;
        let ticket = self.observing.channels.probes;
        if let Some(observed) = self.observing.node(id) {
            observed.probe = Some((ticket, now));
            self.send_order(id, Order::Probe { ticket });
        }
    }

    /// Handles a node's answer to a probe.
    pub(in crate::root) fn probed(&mut self, now: Nanos, id: NodeId, ticket: u64) {
        let Some(observed) = self.observing.node(id) else { return };
        if let Some((_, sent)) = observed.probe.take_if(|(expected, _)| *expected == ticket) {
            self.round_trip(id, now.saturating_sub(sent).max(1));
        }
    }

    /// Returns the load of a node's processors, or of its processes if it has no processors of its own, in
    /// thousandths of one.
    pub(in crate::root) fn node_load(sample: &NodeSample) -> u64 {
        let cores = sample.cores.iter().map(|core| u64::from(core.load_permille));
        cores.sum::<u64>() + u64::from(sample.own_load_permille)
    }

    /// Returns the domains of a node.
    pub(in crate::root) fn domains_of(&self, node: NodeId) -> impl Iterator<Item = DomainId> + '_ {
        let from = DomainId::new(node, core::num::NonZeroU16::MIN, 0);
        let to = DomainId::new(node, core::num::NonZeroU16::MAX, u32::MAX);
        self.domains.range(from..=to).map(|(id, _)| *id)
    }
}
