//! Schedule of samples, and the differences that the root has not received yet.
//!
//! A round is paid for before the next begins: its processor time is at most [`SHARE_PPM`] of the time until
//! the next, however slow the machine and however much there is to sample.

use std::collections::BTreeMap;

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::Report;
use tombolo_control::observation::{CoreSample, DomainSample, EndSample, MAX_SAMPLES, NodeSample};
use tombolo_naming::Nanos;

use super::{Action, AgentCore};

/// Share of one processor that samples may use, in millionths. Waking the monitor for a round is not
/// included, so the value is below the promised limit of half a percent.
pub const SHARE_PPM: u64 = 3_000;

/// Minimum time between two rounds, in milliseconds.
const MIN_PERIOD_MS: u32 = 10;

/// Maximum length of a report without the node: with a node sample of usual size it stays well below the
/// limit on orders.
const REPORT_BYTES: usize = 48 * 1024;

/// Maximum length of a report that includes the node.
const LAST_REPORT_BYTES: usize = 60 * 1024;

/// Encoded length of a channel end, and of a domain, in a report.
const END_BYTES: usize = 120;
const DOMAIN_BYTES: usize = 32;

/// Result of a round.
#[derive(Debug)]
pub struct SampleRound<'a> {
    /// Sample of the node. The time of the next round and the cost of this one are filled in here.
    pub node: NodeSample,
    /// All sampled domains.
    pub domains: &'a [DomainSample],
    /// Ends of channels that changed since the previous round, and possibly unchanged ones.
    pub ends: &'a [EndSample],
    /// Processor time used so far, in nanoseconds.
    pub cost_ns: u64,
}

/// Process of a domain, either started by the agent or connected to it.
#[derive(Debug)]
struct SampledProcess {
    pid: i32,
    is_child: bool,
    connections: u32,
}

/// Last state of a domain reported to the root.
#[derive(Debug, Default)]
struct ReportedState {
    sample: Option<DomainSample>,
    /// Open ends of the domain.
    ends: BTreeMap<(ChannelId, bool), EndSample>,
}

/// Schedule of samples, and the state last reported.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    processes: BTreeMap<DomainId, SampledProcess>,
    /// Requested time between rounds; 0 while sampling is disabled.
    requested_period_ns: Nanos,
    /// Start time of the last round.
    round_start_ns: Nanos,
    /// Processor time of the last round, including the reports to the root.
    cost_ns: u64,
    /// Part of that time spent on the reports.
    reporting_ns: u64,
    reported: BTreeMap<DomainId, ReportedState>,
}

impl Sampling {
    pub(super) fn started(&mut self, domain: DomainId, pid: i32) {
        self.process(domain, pid).is_child = true;
    }

    pub(super) fn ended(&mut self, domain: DomainId) {
        if let Some(process) = self.processes.get_mut(&domain) {
            process.is_child = false;
        }
        self.remove_if_unused(domain);
    }

    pub(super) fn connected(&mut self, domain: DomainId, pid: i32) {
        self.process(domain, pid).connections += 1;
    }

    pub(super) fn disconnected(&mut self, domain: DomainId) {
        if let Some(process) = self.processes.get_mut(&domain) {
            process.connections = process.connections.saturating_sub(1);
        }
        self.remove_if_unused(domain);
    }

    fn process(&mut self, domain: DomainId, pid: i32) -> &mut SampledProcess {
        self.processes.entry(domain).or_insert(SampledProcess { pid, is_child: false, connections: 0 })
    }

    fn remove_if_unused(&mut self, domain: DomainId) {
        if self.processes.get(&domain).is_some_and(|process| !process.is_child && process.connections == 0) {
            self.processes.remove(&domain);
        }
    }

    pub(super) fn resource_counts(&self) -> [(&'static str, usize); 2] {
        let ends = self.reported.values().map(|reported| reported.ends.len()).sum();
        [("sampled processes", self.processes.len()), ("sampled ends", ends)]
    }

    fn period_ns(&self) -> Nanos {
        self.requested_period_ns.max(self.cost_ns.saturating_mul(1_000_000) / SHARE_PPM)
    }

    /// Returns the time of the next round.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        (self.requested_period_ns > 0).then(|| self.round_start_ns.saturating_add(self.period_ns()))
    }

    /// Returns an end if it differs from the last report.
    fn changed_end(&mut self, mut end: EndSample) -> Option<EndSample> {
        let lives = self.processes.contains_key(&end.domain);
        end.open &= lives;
        let key = (end.channel, end.accepting);
        if end.open {
            let reported = self.reported.entry(end.domain).or_default();
            let known = reported.ends.insert(key, end.clone());
            return (known.as_ref() != Some(&end)).then_some(end);
        }
        let known = self.reported.get_mut(&end.domain).and_then(|reported| reported.ends.remove(&key));
        // An end opened and closed since the last round is reported once, for its traffic.
        (lives || known.is_some()).then_some(end)
    }

    fn sample_changed(&mut self, sample: &DomainSample) -> bool {
        if !self.processes.contains_key(&sample.domain) {
            return false;
        }
        self.reported.entry(sample.domain).or_default().sample.replace(*sample) != Some(*sample)
    }

    /// Returns the ends of dead domains that were not reported as closed.
    fn take_unclosed_ends(&mut self) -> Vec<EndSample> {
        let gone: Vec<DomainId> =
            self.reported.keys().filter(|domain| !self.processes.contains_key(domain)).copied().collect();
        let reported = gone.iter().filter_map(|domain| self.reported.remove(domain));
        reported
            .flat_map(|reported| reported.ends.into_values())
            .map(|end| EndSample { open: false, ..end })
            .collect()
    }
}

/// Packs samples into as few reports as possible.
#[derive(Default)]
struct Reports {
    domains: Vec<DomainSample>,
    ends: Vec<EndSample>,
    full: Vec<Report>,
}

impl Reports {
    fn length_bytes(&self) -> usize {
        self.ends.len() * END_BYTES + self.domains.len() * DOMAIN_BYTES
    }

    fn domain(&mut self, sample: DomainSample) {
        self.domains.push(sample);
        self.close_if_full();
    }

    fn end(&mut self, sample: EndSample) {
        self.ends.push(sample);
        self.close_if_full();
    }

    fn close_if_full(&mut self) {
        let most = self.domains.len().max(self.ends.len());
        if most as u64 == MAX_SAMPLES || self.length_bytes() + END_BYTES > REPORT_BYTES {
            self.close(None);
        }
    }

    fn close(&mut self, node: Option<NodeSample>) {
        let (domains, ends) = (std::mem::take(&mut self.domains), std::mem::take(&mut self.ends));
        self.full.push(Report::Sampled { node, domains, ends });
    }

    fn close_with(mut self, node: NodeSample) -> Vec<Report> {
        if self.length_bytes() + node_bytes(&node) > LAST_REPORT_BYTES {
            self.close(None);
        }
        self.close(Some(node));
        self.full
    }
}

/// Returns a lower estimate of a node's length in a report.
fn node_bytes(node: &NodeSample) -> usize {
    let governors: usize = node.governors.iter().map(|name| name.len() + 16).sum();
    let power: usize = node.power.iter().map(|meter| meter.name.len() + 24).sum();
    64 + node.cores.len() * size_of::<CoreSample>() + governors + power
}

impl<D> AgentCore<D> {
    pub(super) fn sample(&mut self, period_ms: u32) {
        let was_off = self.sampling.requested_period_ns == 0;
        let period_ms = if period_ms == 0 { 0 } else { period_ms.max(MIN_PERIOD_MS) };
        self.sampling.requested_period_ns = Nanos::from(period_ms) * 1_000_000;
        match (was_off, period_ms == 0) {
            (true, false) => {
                self.sampling.round_start_ns = self.now;
                self.actions.push_back(Action::StartSampling);
            }
            (false, true) => {
                self.sampling.reported.clear();
                self.actions.push_back(Action::StopSampling);
            }
            _ => {}
        }
    }

    pub(super) fn tick_samples(&mut self) {
        if self.sampling.next_at().is_some_and(|at| at <= self.now) {
            self.sampling.round_start_ns = self.now;
            // A root that is behind gets the current state when it has caught up.
            if self.requests_enabled {
                self.actions.push_back(Action::Sample);
            }
        }
    }

    /// Returns the domains of this node, and their processes.
    pub fn processes(&self) -> impl Iterator<Item = (DomainId, i32)> + '_ {
        self.sampling.processes.iter().map(|(domain, process)| (*domain, process.pid))
    }

    /// Handles the result of a round.
    pub fn sampled(&mut self, round: SampleRound<'_>) {
        let SampleRound { mut node, domains, ends, cost_ns } = round;
        let sampling = &mut self.sampling;
        sampling.cost_ns = cost_ns + sampling.reporting_ns;
        let mut reports = Reports::default();
        domains
            .iter()
            .filter(|sample| sampling.sample_changed(sample))
            .for_each(|sample| reports.domain(*sample));
        for end in ends {
            if let Some(end) = sampling.changed_end(end.clone()) {
                reports.end(end);
            }
        }
        sampling.take_unclosed_ends().into_iter().for_each(|end| reports.end(end));
        let period_ns = sampling.period_ns().max(1);
        node.period_ms = u32::try_from(period_ns / 1_000_000).unwrap_or(u32::MAX);
        let cost_ppm = sampling.cost_ns.saturating_mul(1_000_000) / period_ns;
        node.cost_ppm = u32::try_from(cost_ppm).unwrap_or(u32::MAX);
        reports.close_with(node).into_iter().for_each(|report| self.report(report));
    }

    /// Records the total processor time of a round once the root has been informed.
    pub fn record_round_cost(&mut self, cost_ns: u64, reporting_ns: u64) {
        self.sampling.cost_ns = cost_ns;
        self.sampling.reporting_ns = reporting_ns;
    }
}
