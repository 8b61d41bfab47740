//! Samples the kernel's measurements and the rows of domains' trace pages once per period, and sets the
//! frequencies of processors.
//!
//! [`agent`](tombolo_monitor_core::agent) decides when a round is due and which samples the root has not
//! received yet. The cost is measured here: the processor time of each round, including the reports to the
//! root.

mod page;

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use tombolo_base::DomainId;
use tombolo_control::Report;
use tombolo_control::observation::{CoreSample, DomainSample, EndSample, NodeSample, PowerSample};
use tombolo_platform::meters::{
    FrequencyControl, FrequencyMeter, FrequencySettings, LoadMeter, MAX_METERS, PowerMeters, ProcessMeter,
    Reader, SelfMeter, SystemPaths, rounds_per_ms,
};
use tombolo_platform::time::{now_ns, thread_cpu_ns};

use super::Agent;
use page::RowTracker;
use tombolo_monitor_core::agent::{FrequencyChange, SampleRound};

/// A sample without data.
const EMPTY: NodeSample = NodeSample {
    cores: Vec::new(),
    governors: Vec::new(),
    memory_used_bytes: 0,
    memory_bytes: 0,
    power: Vec::new(),
    speed: 0,
    period_ms: 0,
    cost_ppm: 0,
    own_load_permille: 0,
};

/// Index for an unknown governor.
const NO_GOVERNOR: u8 = 255;

/// Meters of a node.
#[derive(Debug)]
enum NodeMeters {
    /// Meters of the node's kernel.
    Kernel(KernelMeters),
    /// Meters of the node's own processes, for a node on the host's kernel.
    Processes(SelfMeter),
}

/// Meters of a kernel.
#[derive(Debug)]
struct KernelMeters {
    loads: LoadMeter,
    frequencies: FrequencyMeter,
    power: PowerMeters,
}

impl KernelMeters {
    fn open(paths: &SystemPaths, reader: &mut Reader) -> KernelMeters {
        KernelMeters {
            loads: LoadMeter::open(paths),
            frequencies: FrequencyMeter::open(paths),
            power: PowerMeters::open(paths, reader),
        }
    }

    /// Adds the kernel's measurements to the sample.
    fn sample(&mut self, reader: &mut Reader, now_ns: u64, sample: NodeSample) -> NodeSample {
        let memory = self.loads.memory(reader);
        self.power.sample(reader, now_ns);
        let loads = self.loads.processors(reader);
        self.frequencies.sample(reader, loads.len());
        let cores = loads.iter().zip(self.frequencies.processors()).map(|(load, frequency)| CoreSample {
            load_permille: *load,
            governor: frequency.governor.unwrap_or(NO_GOVERNOR),
            frequency_khz: frequency.khz,
            min_khz: frequency.min_khz,
            max_khz: frequency.max_khz,
            floor_khz: frequency.floor_khz,
            ceiling_khz: frequency.ceiling_khz,
        });
        let power = self.power.meters().take(MAX_METERS);
        NodeSample {
            cores: cores.collect(),
            governors: self.frequencies.governors().to_vec(),
            memory_used_bytes: memory.used_bytes,
            memory_bytes: memory.total_bytes,
            power: power
                .map(|meter| PowerSample { name: meter.name.to_owned(), power_mw: meter.power_mw })
                .collect(),
            ..sample
        }
    }
}

/// State of a domain kept from one round to the next.
#[derive(Debug, Default)]
struct DomainMeters {
    pid: i32,
    /// Meter of the process; `None` if it does not exist or has ended.
    process: Option<ProcessMeter>,
    rows: RowTracker,
    /// Number of the last round that measured it.
    round: u64,
}

/// A round whose cost is not known yet, in processor time of this thread. Other work of the thread in
/// between, such as starting a program, is excluded.
#[derive(Clone, Copy, Debug)]
struct RoundCost {
    /// Cost of the measurements.
    sampling_ns: u64,
    /// Cost of the reports so far.
    reporting_ns: u64,
    /// Time when a report of the round was handed out, and whether it was the last. Its transmission lasts
    /// until the next report is requested.
    report_started: Option<(u64, bool)>,
}

/// State of an agent's sampling.
#[derive(Debug)]
pub(super) struct Sampler {
    paths: SystemPaths,
    frequency_control: FrequencyControl,
    reader: Reader,
    /// Whether the kernel is the host's, which samples it.
    shares_kernel: bool,
    /// Meters, while sampling is enabled.
    node: Option<NodeMeters>,
    domains: HashMap<DomainId, DomainMeters>,
    round: u64,
    /// Result of [`rounds_per_ms`], once measured.
    speed: Option<u32>,
    round_cost: Option<RoundCost>,
    /// Samples of a round; the buffers are reused.
    found_domains: Vec<DomainSample>,
    found_ends: Vec<EndSample>,
    rows: Vec<u8>,
}

impl Sampler {
    /// Creates the state. `ledger`, a memory file, records the processor frequencies before the first change.
    /// A node that `shares_kernel` with the host reports only its own processes.
    pub(super) fn new(ledger: Option<OwnedFd>, shares_kernel: bool) -> Sampler {
        let paths = SystemPaths::from_environment();
        Sampler {
            frequency_control: FrequencyControl::new(&paths, ledger),
            paths,
            reader: Reader::default(),
            shares_kernel,
            node: None,
            domains: HashMap::new(),
            round: 0,
            speed: None,
            round_cost: None,
            found_domains: Vec::new(),
            found_ends: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Samples the node, after its domains.
    fn sample_node(&mut self, now_ns: u64) -> NodeSample {
        let Sampler { reader, paths, .. } = self;
        let node = self.node.get_or_insert_with(|| match self.shares_kernel {
            true => NodeMeters::Processes(SelfMeter::open(paths)),
            false => NodeMeters::Kernel(KernelMeters::open(paths, reader)),
        });
        let sample = NodeSample { speed: self.speed.unwrap_or(0), ..EMPTY };
        match node {
            NodeMeters::Kernel(meters) => meters.sample(reader, now_ns, sample),
            NodeMeters::Processes(monitor) => {
                let monitor = monitor.sample(reader, now_ns);
                let domains = &self.found_domains;
                let load = domains.iter().map(|domain| domain.load_permille).fold(0, u32::saturating_add);
                let memory = domains.iter().map(|domain| domain.resident_bytes).fold(0, u64::saturating_add);
                NodeSample {
                    own_load_permille: load.saturating_add(monitor.load_permille),
                    memory_used_bytes: memory.saturating_add(monitor.resident_bytes),
                    ..sample
                }
            }
        }
    }

    fn sample_domain(&mut self, domain: DomainId, pid: i32, now_ns: u64) {
        let seen = self.domains.entry(domain).or_default();
        seen.round = self.round;
        if seen.pid != pid {
            seen.pid = pid;
            seen.process = ProcessMeter::open(&self.paths, pid);
        }
        let Some(usage) = seen.process.as_mut().and_then(|meter| meter.sample(&mut self.reader, now_ns))
        else {
            // It has ended, and its number may have been reused: do not open it again.
            seen.process = None;
            return;
        };
        self.found_domains.push(DomainSample {
            domain,
            load_permille: usage.load_permille,
            resident_bytes: usage.resident_bytes,
            threads: usage.threads,
            stopped: usage.is_stopped,
        });
    }
}

impl Agent {
    /// Takes the first readings: counters since the start of the kernel do not describe the present.
    pub(super) fn start_sampling(&mut self) {
        // Emulated programs are not measured, because of the emulator's own cost.
        let is_native = self.emulator.is_none();
        let sampler = &mut self.sampler;
        sampler.speed.get_or_insert_with(|| if is_native { rounds_per_ms() } else { 0 });
        sampler.sample_node(now_ns());
    }

    pub(super) fn stop_sampling(&mut self) {
        self.sampler.node = None;
        self.sampler.domains.clear();
    }

    pub(super) fn sample(&mut self) {
        let began_ns = thread_cpu_ns();
        let sampler = &mut self.sampler;
        sampler.round += 1;
        sampler.found_domains.clear();
        sampler.found_ends.clear();
        let now_ns = now_ns();
        for (domain, pid) in self.core.processes() {
            sampler.sample_domain(domain, pid, now_ns);
        }
        let round = sampler.round;
        for (domain, seen) in &mut sampler.domains {
            // Includes ended ones, for the last time.
            if let Some(trace) = self.traces.get(domain) {
                seen.rows.scan(*domain, trace, &mut sampler.rows, &mut sampler.found_ends);
            }
        }
        sampler.domains.retain(|_, seen| seen.round == round);
        let node = sampler.sample_node(now_ns);
        let cost_ns = thread_cpu_ns().saturating_sub(began_ns);
        self.core.sampled(SampleRound {
            node,
            domains: &sampler.found_domains,
            ends: &sampler.found_ends,
            cost_ns,
        });
        let sampling_ns = thread_cpu_ns().saturating_sub(began_ns);
        sampler.round_cost = Some(RoundCost { sampling_ns, reporting_ns: 0, report_started: None });
    }

    /// Records that the next report is handed out to the root.
    pub(super) fn account_report(&mut self, report: Option<&Report>) {
        let Some(round_cost) = &mut self.sampler.round_cost else { return };
        let now_ns = thread_cpu_ns();
        if let Some((at_ns, is_last)) = round_cost.report_started.take() {
            round_cost.reporting_ns += now_ns.saturating_sub(at_ns);
            if is_last {
                let RoundCost { sampling_ns, reporting_ns, .. } = *round_cost;
                self.sampler.round_cost = None;
                return self.core.record_round_cost(sampling_ns + reporting_ns, reporting_ns);
            }
        }
        if let Some(Report::Sampled { node, .. }) = report {
            round_cost.report_started = Some((now_ns, node.is_some()));
        }
    }

    pub(super) fn set_frequency(&mut self, ticket: u64, change: &FrequencyChange) {
        let set = match &self.emulator {
            // If two agents of one kernel restored former values, each would restore the other's changes.
            Some(_) => Err("its processors are those of the host; set their frequencies there".to_owned()),
            None => {
                let FrequencyChange { cores, governor, min_khz, max_khz } = change.clone();
                let change = FrequencySettings { processors: cores, governor, min_khz, max_khz };
                self.sampler.frequency_control.set(&change).map_err(|refusal| refusal.to_string())
            }
        };
        self.core.frequency_set(ticket, set);
    }

    pub(super) fn restore_frequency(&mut self) {
        self.sampler.frequency_control.restore();
    }
}
