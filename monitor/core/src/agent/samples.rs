//! When samples are taken, and what of them the root has not heard yet.
//!
//! A round is paid for before the next begins: what it cost of a processor's time is at most [`SHARE_PPM`] of
//! the time from it to the next, however slow the machine and however much there is to see.

use std::collections::BTreeMap;

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::Report;
use tombolo_control::observation::{CoreSample, DomainSample, EndSample, MAX_SAMPLES, NodeSample};
use tombolo_naming::Nanos;

use super::{Action, AgentCore};

/// The share of one processor that samples may cost, in millionths. What wakes the monitor for a round is not
/// in it, so it is less than what is promised: half a hundredth.
pub const SHARE_PPM: u64 = 3_000;

/// The shortest time from one round to the next.
const MIN_PERIOD_MS: u32 = 10;

/// Bytes of one report: with a sample of the node of usual size, far from what an order may have.
const REPORT_BYTES: usize = 48 * 1024;

/// Bytes of a report that also has the node.
const LAST_REPORT_BYTES: usize = 60 * 1024;

/// Bytes of an end of a channel in a report, and of a domain.
const END_BYTES: usize = 120;
const DOMAIN_BYTES: usize = 32;

/// What a round found.
#[derive(Debug)]
pub struct Round<'a> {
    /// The node. When the next round is and what this one costs is filled in here.
    pub node: NodeSample,
    /// All domains that could be looked at.
    pub domains: &'a [DomainSample],
    /// Ends of channels that are not as they were in the round before, and perhaps others.
    pub ends: &'a [EndSample],
    /// Processor time that it took so far, in nanoseconds.
    pub cost_ns: u64,
}

/// A process that is a domain: the agent started it, or it connected.
#[derive(Debug)]
struct SampledProcess {
    pid: i32,
    is_child: bool,
    connections: u32,
}

/// What the root has heard of a domain.
#[derive(Debug, Default)]
struct Told {
    sample: Option<DomainSample>,
    /// Its ends that are open.
    ends: BTreeMap<(ChannelId, bool), EndSample>,
}

/// The schedule of samples, and what was told of them.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    processes: BTreeMap<DomainId, SampledProcess>,
    /// The requested time between rounds; 0 while no samples are wanted.
    wanted_ns: Nanos,
    /// When the last round began.
    began: Nanos,
    /// What it cost, in processor time, with all that came after it until the root was told.
    cost_ns: u64,
    /// What of that came after it.
    telling_ns: u64,
    told: BTreeMap<DomainId, Told>,
}

impl Sampling {
    pub(super) fn started(&mut self, domain: DomainId, pid: i32) {
        self.process(domain, pid).is_child = true;
    }

    pub(super) fn ended(&mut self, domain: DomainId) {
        if let Some(process) = self.processes.get_mut(&domain) {
            process.is_child = false;
        }
        self.forget_if_gone(domain);
    }

    pub(super) fn connected(&mut self, domain: DomainId, pid: i32) {
        self.process(domain, pid).connections += 1;
    }

    pub(super) fn disconnected(&mut self, domain: DomainId) {
        if let Some(process) = self.processes.get_mut(&domain) {
            process.connections = process.connections.saturating_sub(1);
        }
        self.forget_if_gone(domain);
    }

    fn process(&mut self, domain: DomainId, pid: i32) -> &mut SampledProcess {
        self.processes.entry(domain).or_insert(SampledProcess { pid, is_child: false, connections: 0 })
    }

    fn forget_if_gone(&mut self, domain: DomainId) {
        if self.processes.get(&domain).is_some_and(|process| !process.is_child && process.connections == 0) {
            self.processes.remove(&domain);
        }
    }

    pub(super) fn held(&self) -> [(&'static str, usize); 2] {
        let ends = self.told.values().map(|told| told.ends.len()).sum();
        [("sampled processes", self.processes.len()), ("sampled ends", ends)]
    }

    fn period_ns(&self) -> Nanos {
        self.wanted_ns.max(self.cost_ns.saturating_mul(1_000_000) / SHARE_PPM)
    }

    /// When the next round is due.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        (self.wanted_ns > 0).then(|| self.began.saturating_add(self.period_ns()))
    }

    /// What the root has not heard of an end.
    fn news_of_end(&mut self, mut end: EndSample) -> Option<EndSample> {
        let lives = self.processes.contains_key(&end.domain);
        end.open &= lives;
        let key = (end.channel, end.accepting);
        if end.open {
            let told = self.told.entry(end.domain).or_default();
            let known = told.ends.insert(key, end.clone());
            return (known.as_ref() != Some(&end)).then_some(end);
        }
        let known = self.told.get_mut(&end.domain).and_then(|told| told.ends.remove(&key));
        // One that was opened and closed since the round before is told once, for what went through it.
        (lives || known.is_some()).then_some(end)
    }

    fn is_news(&mut self, sample: &DomainSample) -> bool {
        if !self.processes.contains_key(&sample.domain) {
            return false;
        }
        self.told.entry(sample.domain).or_default().sample.replace(*sample) != Some(*sample)
    }

    /// Returns the ends of dead domains that were not reported as closed.
    fn take_left_open(&mut self) -> Vec<EndSample> {
        let gone: Vec<DomainId> =
            self.told.keys().filter(|domain| !self.processes.contains_key(domain)).copied().collect();
        let told = gone.iter().filter_map(|domain| self.told.remove(domain));
        told.flat_map(|told| told.ends.into_values()).map(|end| EndSample { open: false, ..end }).collect()
    }
}

/// Puts what is told into as few reports as it fits into.
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

/// Bytes of a node in a report, or somewhat less.
fn node_bytes(node: &NodeSample) -> usize {
    let governors: usize = node.governors.iter().map(|name| name.len() + 16).sum();
    let power: usize = node.power.iter().map(|meter| meter.name.len() + 24).sum();
    64 + node.cores.len() * size_of::<CoreSample>() + governors + power
}

impl<D> AgentCore<D> {
    pub(super) fn sample(&mut self, period_ms: u32) {
        let was_off = self.sampling.wanted_ns == 0;
        let period_ms = if period_ms == 0 { 0 } else { period_ms.max(MIN_PERIOD_MS) };
        self.sampling.wanted_ns = Nanos::from(period_ms) * 1_000_000;
        match (was_off, period_ms == 0) {
            (true, false) => {
                self.sampling.began = self.now;
                self.actions.push_back(Action::StartSampling);
            }
            (false, true) => {
                self.sampling.told.clear();
                self.actions.push_back(Action::StopSampling);
            }
            _ => {}
        }
    }

    pub(super) fn tick_samples(&mut self) {
        if self.sampling.next_at().is_some_and(|at| at <= self.now) {
            self.sampling.began = self.now;
            // A root that is behind hears what is so when it has caught up.
            if self.clients_may_ask {
                self.actions.push_back(Action::Sample);
            }
        }
    }

    /// Returns the domains of this node, and their processes.
    pub fn processes(&self) -> impl Iterator<Item = (DomainId, i32)> + '_ {
        self.sampling.processes.iter().map(|(domain, process)| (*domain, process.pid))
    }

    /// A round was done.
    pub fn sampled(&mut self, round: Round<'_>) {
        let Round { mut node, domains, ends, cost_ns } = round;
        let sampling = &mut self.sampling;
        sampling.cost_ns = cost_ns + sampling.telling_ns;
        let mut reports = Reports::default();
        domains.iter().filter(|sample| sampling.is_news(sample)).for_each(|sample| reports.domain(*sample));
        for end in ends {
            if let Some(end) = sampling.news_of_end(end.clone()) {
                reports.end(end);
            }
        }
        sampling.take_left_open().into_iter().for_each(|end| reports.end(end));
        let period_ns = sampling.period_ns().max(1);
        node.period_ms = u32::try_from(period_ns / 1_000_000).unwrap_or(u32::MAX);
        let cost_ppm = sampling.cost_ns.saturating_mul(1_000_000) / period_ns;
        node.cost_ppm = u32::try_from(cost_ppm).unwrap_or(u32::MAX);
        reports.close_with(node).into_iter().for_each(|report| self.report(report));
    }

    /// The root was told, and the round took so much processor time in all.
    pub fn round_took(&mut self, cost_ns: u64, of_which_telling_ns: u64) {
        self.sampling.cost_ns = cost_ns;
        self.sampling.telling_ns = of_which_telling_ns;
    }
}
