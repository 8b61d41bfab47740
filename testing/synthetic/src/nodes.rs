//! Simulated nodes: their agents, their domains and what the agents report about these.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::{ChannelId, DomainId, Isa, NodeId, Random};
use tombolo_control::observation::{
    CoreSample, DomainSample, EndSample, MAX_SAMPLES, NodeSample, PowerSample,
};
use tombolo_control::{Exit, FINGERPRINT, Order, Report};
use tombolo_link::TransportKind;
use tombolo_machine::{Image, Machine};
use tombolo_monitor_core::root::Nanos;

/// Reports of agents, in order.
type Reports = VecDeque<(NodeId, Report, Option<Image>)>;

/// The sampling period.
const ROUND_NS: Nanos = 1_000_000_000;

/// Number of processors per node.
const CORES: u16 = 4;

/// In each sampling period, one in this many domains changes its load, moves bytes, or writes a line.
const CHANGES: u64 = 10;
const MOVES: u64 = 5;
const WRITES: u64 = 100;

/// Channel numbers start here, above those that the monitor allocates.
const FIRST_CHANNEL: u64 = 1 << 40;

/// Frequency governors that processors offer.
const GOVERNORS: [&str; 3] = ["performance", "schedutil", "powersave"];

/// Range of processor frequencies, in kHz.
const MIN_KHZ: u32 = 600_000;
const MAX_KHZ: u32 = 3_200_000;

const SIGCONT: u8 = 18;
const SIGSTOP: u8 = 19;

/// A simulated domain.
#[derive(Debug)]
struct Domain {
    sample: DomainSample,
    /// A signal received while stopped; it ends the domain when the domain continues.
    pending: Option<u8>,
    /// The domain's end of its channel to another domain.
    end: Option<EndSample>,
}

/// A simulated node.
#[derive(Debug)]
struct Node {
    isa: Isa,
    is_user: bool,
    up: bool,
    sampling: bool,
    next_round: Nanos,
    next_pid: i32,
    domains: BTreeMap<DomainId, Domain>,
    loads: [u16; CORES as usize],
    setting: Setting,
}

/// The frequency setting of all processors of a node.
#[derive(Clone, Copy, Debug)]
struct Setting {
    governor: u8,
    floor_khz: u32,
    ceiling_khz: u32,
}

const DEFAULT_SETTING: Setting = Setting { governor: 1, floor_khz: MIN_KHZ, ceiling_khz: MAX_KHZ };

/// All simulated nodes.
#[derive(Debug)]
pub(crate) struct SyntheticNodes {
    /// By node number; `None` for the host.
    nodes: Vec<Option<Node>>,
    random: Random,
    domains: usize,
    /// A domain that has no channel to another one yet.
    unpaired: Option<DomainId>,
    next_channel: u64,
    /// Domains in the order of their start: the oldest are ended first.
    order: VecDeque<DomainId>,
}

impl SyntheticNodes {
    pub(crate) fn new(machine: &Machine, seed: u64) -> Self {
        let nodes = machine.nodes().iter().map(|node| {
            (node.id != NodeId::HOST).then(|| Node {
                isa: node.isa,
                is_user: node.as_user().is_some(),
                up: false,
                sampling: false,
                next_round: 0,
                next_pid: 100,
                domains: BTreeMap::new(),
                loads: [100; CORES as usize],
                setting: DEFAULT_SETTING,
            })
        });
        SyntheticNodes {
            nodes: nodes.collect(),
            random: Random::new(seed),
            domains: 0,
            unpaired: None,
            next_channel: FIRST_CHANNEL,
            order: VecDeque::new(),
        }
    }

    pub(crate) fn domains(&self) -> usize {
        self.domains
    }

    fn node(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(usize::from(id.0))?.as_mut()
    }

    pub(crate) fn is_up(&self, id: NodeId) -> bool {
        self.nodes.get(usize::from(id.0)).and_then(Option::as_ref).is_some_and(|node| node.up)
    }

    /// Length of the window of a node in bytes and its number of doorbells; `None` for `user` nodes.
    pub(crate) fn window(&self, id: NodeId) -> Option<(u64, u16)> {
        let node = self.nodes.get(usize::from(id.0)).and_then(Option::as_ref)?;
        (!node.is_user).then_some((64 << 20, 32))
    }

    /// When the next node is due to be sampled.
    pub(crate) fn next_round(&self) -> Option<Nanos> {
        let sampling = self.nodes.iter().flatten().filter(|node| node.up && node.sampling);
        sampling.map(|node| node.next_round).min()
    }

    pub(crate) fn boot(&mut self, now: Nanos, id: NodeId) -> Report {
        let count = self.nodes.len().max(1) as u64;
        let Some(node) = self.node(id) else {
            return Report::Ready { version: FINGERPRINT, isa: Isa::current(), cores: 0, pid: 0 };
        };
        node.up = true;
        // Spreads the samples of all nodes over the period.
        node.next_round = now + ROUND_NS * u64::from(id.0) / count;
        Report::Ready { version: FINGERPRINT, isa: node.isa, cores: CORES, pid: 1 }
    }

    /// Takes a node down, with all its domains.
    pub(crate) fn take_down(&mut self, id: NodeId) {
        let Some(node) = self.node(id) else { return };
        (node.up, node.sampling, node.setting) = (false, false, DEFAULT_SETTING);
        let lost = std::mem::take(&mut node.domains);
        self.domains -= lost.len();
        lost.into_values().for_each(|record| self.close(record));
    }

    /// Executes an order as the agent of the node would.
    pub(crate) fn execute(&mut self, id: NodeId, order: Order, reports: &mut Reports) {
        let mut report = |report| reports.push_back((id, report, None));
        match order {
            Order::Program { hash, window_offset_bytes: Some(_), .. } => {
                report(Report::ProgramTaken { hash });
            }
            Order::Start { order } => {
                let domain = order.domain;
                let pid = self.start(id, domain);
                report(Report::Started { domain, pid });
                report(Report::Output {
                    domain,
                    stream: 1,
                    bytes: format!("{} is here as {domain}\n", order.program.name).into_bytes(),
                });
            }
            Order::Signal { domain, signal } => {
                if let Some(ended) = self.signal(domain, signal) {
                    report(ended);
                }
            }
            Order::Probe { ticket } => report(Report::Probed { ticket }),
            Order::Sample { period_ms } => {
                if let Some(node) = self.node(id) {
                    node.sampling = period_ms > 0;
                }
            }
            Order::SetFrequency { ticket, governor, min_khz, max_khz, .. } => {
                let failed = self.set(id, governor, min_khz, max_khz).err();
                report(Report::FrequencySet { ticket, failed });
            }
            Order::RestoreFrequency => {
                if let Some(node) = self.node(id) {
                    node.setting = DEFAULT_SETTING;
                }
            }
            Order::Input { domain, stream, .. } => report(Report::InputTaken { domain, stream }),
            Order::TraceRead { ticket, .. } => report(Report::TraceBytes { ticket, bytes: None }),
            Order::RegionMake { region, .. } => {
                report(Report::RegionMade { region, failed: None, read_only: false });
            }
            Order::RegionSeal { region, .. } => report(Report::RegionSealed { region, failed: None }),
            _ => {}
        }
    }

    fn start(&mut self, id: NodeId, domain: DomainId) -> i32 {
        let load_permille = self.random.below(1000) as u32;
        let resident_bytes = (1 + self.random.below(256)) << 20;
        let unpaired = self.unpaired.take();
        let Some(node) = self.nodes.get_mut(usize::from(id.0)).and_then(Option::as_mut) else { return 0 };
        node.next_pid += 1;
        let pid = node.next_pid;
        let sample = DomainSample { domain, load_permille, resident_bytes, threads: 2, stopped: false };
        node.domains.insert(domain, Domain { sample, pending: None, end: None });
        self.domains += 1;
        self.order.push_back(domain);
        // Domains are paired by channels in the order of their start.
        match unpaired.filter(|other| self.domain(*other).is_some()) {
            None => self.unpaired = Some(domain),
            Some(other) => {
                let channel = ChannelId(self.next_channel);
                self.next_channel += 1;
                for (own, peer, accepting) in [(other, domain, false), (domain, other, true)] {
                    if let Some(record) = self.domain(own) {
                        record.end = Some(end(own, peer, channel, accepting));
                    }
                }
            }
        }
        pid
    }

    fn domain(&mut self, domain: DomainId) -> Option<&mut Domain> {
        self.node(domain.node())?.domains.get_mut(&domain)
    }

    fn signal(&mut self, domain: DomainId, signal: u8) -> Option<Report> {
        let record = self.domain(domain)?;
        let ended = match signal {
            SIGSTOP => {
                record.sample.stopped = true;
                None
            }
            SIGCONT => {
                record.sample.stopped = false;
                record.pending.take()
            }
            9 => Some(9),
            // A stopped domain handles signals when it continues.
            other if record.sample.stopped => {
                record.pending = Some(other);
                None
            }
            other => Some(other),
        }?;
        Some(self.end(domain, Exit::Signalled { signal: ended }))
    }

    /// Closes the channel of a domain that has ended at its peer.
    fn close(&mut self, record: Domain) {
        let peer = record.end.and_then(|end| end.peer);
        if let Some(other) = peer.and_then(|peer| self.domain(peer)) {
            other.end = None;
        }
    }

    fn end(&mut self, domain: DomainId, exit: Exit) -> Report {
        if let Some(record) = self.node(domain.node()).and_then(|node| node.domains.remove(&domain)) {
            self.domains -= 1;
            self.close(record);
        }
        Report::Ended { domain, exit }
    }

    /// Ends up to `count` of the oldest domains.
    pub(crate) fn end_oldest(&mut self, count: usize) -> Vec<(NodeId, Report, Option<Image>)> {
        let mut reports = Vec::new();
        // Lets the number of domains grow first.
        let mut left = if self.order.len() > 50 * count { count } else { 0 };
        while left > 0
            && let Some(domain) = self.order.pop_front()
        {
            // Skips domains that have ended otherwise, and stopped ones.
            if self.domain(domain).is_none_or(|record| record.sample.stopped) {
                continue;
            }
            left -= 1;
            let exit = match self.random.below(20) {
                0 => Exit::Signalled { signal: 11 },
                1 => Exit::Exited { status: 1 },
                _ => Exit::Exited { status: 0 },
            };
            reports.push((domain.node(), self.end(domain, exit), None));
        }
        reports
    }

    fn set(
        &mut self,
        id: NodeId,
        governor: Option<String>,
        min_khz: Option<u32>,
        max_khz: Option<u32>,
    ) -> Result<(), String> {
        let Some(node) = self.node(id) else { return Err("there is no such node".into()) };
        if let Some(wanted) = governor {
            let known = GOVERNORS.iter().position(|governor| *governor == wanted);
            node.setting.governor = known.ok_or(format!("there is no governor {wanted:?}"))? as u8;
        }
        let within = |khz: u32| {
            (MIN_KHZ..=MAX_KHZ).contains(&khz).then_some(khz).ok_or("the frequency is out of range")
        };
        if let Some(khz) = min_khz {
            node.setting.floor_khz = within(khz)?;
        }
        if let Some(khz) = max_khz {
            node.setting.ceiling_khz = within(khz)?;
        }
        Ok(())
    }

    /// Reports samples of all nodes that are due.
    pub(crate) fn sample_due(&mut self, now: Nanos, reports: &mut Reports) {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let Some(node) = node.as_mut().filter(|node| node.up && node.sampling && node.next_round <= now)
            else {
                continue;
            };
            // Missed periods are skipped.
            node.next_round = (node.next_round + ROUND_NS).max(now + ROUND_NS / 2);
            node.round(NodeId(number as u16), &mut self.random, reports);
        }
    }
}

impl Node {
    fn round(&mut self, id: NodeId, random: &mut Random, reports: &mut Reports) {
        let (mut domains, mut ends) = (Vec::new(), Vec::new());
        let mut report = |report| reports.push_back((id, report, None));
        for (domain, record) in &mut self.domains {
            let sample = &mut record.sample;
            if random.below(CHANGES) == 0 && !sample.stopped {
                sample.load_permille = near(random, sample.load_permille.into(), 200, 1000) as u32;
                sample.resident_bytes = near(random, sample.resident_bytes, 4 << 20, 1 << 30);
                domains.push(*sample);
            }
            if let Some(end) = &mut record.end
                && random.below(MOVES) == 0
                && !sample.stopped
            {
                let messages = random.below(10_000);
                let bytes = messages * random.below(4096);
                (end.sent, end.sent_bytes) = (end.sent + messages, end.sent_bytes + bytes);
                (end.received, end.received_bytes) = (end.received + messages, end.received_bytes + bytes);
                end.credit_slots = random.below(u64::from(end.slots)) as u32;
                ends.push(end.clone());
            }
            if random.below(WRITES) == 0 && !sample.stopped {
                let bytes = format!("load {} of 1000\n", sample.load_permille).into_bytes();
                report(Report::Output { domain: *domain, stream: 1, bytes });
            }
            if ends.len() + 1 >= MAX_SAMPLES as usize || domains.len() + 1 >= MAX_SAMPLES as usize {
                let (domains, ends) = (std::mem::take(&mut domains), std::mem::take(&mut ends));
                report(Report::Sampled { node: None, domains, ends });
            }
        }
        let node = self.sample(id, random);
        report(Report::Sampled { node: Some(node), domains, ends });
    }

    fn sample(&mut self, id: NodeId, random: &mut Random) -> NodeSample {
        let Setting { governor, floor_khz, ceiling_khz } = self.setting;
        for load in &mut self.loads {
            *load = near(random, u64::from(*load), 150, 1000) as u16;
        }
        let core = |load: u16| CoreSample {
            load_permille: load,
            governor,
            frequency_khz: floor_khz + (ceiling_khz.saturating_sub(floor_khz) / 1000) * u32::from(load),
            min_khz: MIN_KHZ,
            max_khz: MAX_KHZ,
            floor_khz,
            ceiling_khz,
        };
        let load: u32 = self.loads.iter().map(|load| u32::from(*load)).sum();
        NodeSample {
            cores: self.loads.iter().map(|load| core(*load)).collect(),
            governors: GOVERNORS.map(str::to_owned).into(),
            memory_used_bytes: self.domains.values().map(|domain| domain.sample.resident_bytes).sum(),
            memory_bytes: 4 << 30,
            power: vec![PowerSample { name: "package".into(), power_mw: 2_000 + 5 * load }],
            speed: 200_000 + 1_000 * u32::from(id.0 % 50),
            period_ms: (ROUND_NS / 1_000_000) as u32,
            cost_ppm: 300,
            own_load_permille: 0,
        }
    }
}

/// Returns a random number at most `step` away from `value`, between 0 and `max`.
fn near(random: &mut Random, value: u64, step: u64, max: u64) -> u64 {
    (value + random.below(2 * step + 1)).saturating_sub(step).min(max)
}

fn end(domain: DomainId, peer: DomainId, channel: ChannelId, accepting: bool) -> EndSample {
    EndSample {
        domain,
        channel,
        accepting,
        transport: if domain.node() == peer.node() { TransportKind::Shm } else { TransportKind::Window },
        peer: Some(peer),
        open: true,
        sent: 0,
        sent_bytes: 0,
        received: 0,
        received_bytes: 0,
        rings: 0,
        sleeps: 0,
        stalls: 0,
        slots: 256,
        credit_slots: 256,
        max_message_bytes: 4096,
    }
}
