//! `tombolo-synthetic`: see the help text.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo_base::{Isa, NodeId};
use tombolo_control::{FINGERPRINT, Report};
use tombolo_machine::Image;
use tombolo_machine::image::MAX_IMAGE_BYTES;
use tombolo_monitor_core::root::Effect;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_synthetic::{Observed, Plan, SyntheticMachine};
use tombolod::agent::Agent;

/// Serve a synthetic machine, to test programs that watch machines
///
/// The monitor is real and serves clients at the usual address; the host is this one. All other nodes and
/// their domains are simulated: they report starts, ends, processor load and messages, but run nothing. Ends
/// on SIGTERM.
#[derive(Parser, Debug)]
#[command(after_help = "\
Examples:
  tombolo-synthetic                          1,000 nodes and 10,000 domains, as machine `synthetic`
  tombolo-synthetic --nodes 20 --domains 50 --machine few
  tombolo top --machine synthetic")]
struct Options {
    /// The machine's name
    #[arg(long, value_name = "NAME", default_value = "synthetic")]
    machine: String,

    /// Number of simulated nodes
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u16).range(1..=1023))]
    nodes: u16,

    /// Number of domains alive at the same time
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    domains: u32,

    /// Number of domains that end per second and are replaced
    #[arg(long, value_name = "COUNT", default_value = "10")]
    ends: u32,

    /// Seconds from one node failure to the next
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    down_every: u32,

    /// Number of simulated watchers; each requests all news as fast as it is answered
    #[arg(long, value_name = "COUNT", default_value = "0")]
    watchers: u32,

    /// Seed of the simulation
    #[arg(long, default_value = "1")]
    seed: u64,

    /// Print the processor time of the monitor every second
    #[arg(long)]
    costs: bool,
}

/// Processor time since the last line of figures, by what it was used for.
#[derive(Default)]
struct Costs {
    since_ns: u64,
    synthesis_ns: u64,
    monitor_ns: u64,
    clients_ns: u64,
    effects: usize,
    observed: Observed,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tombolo-synthetic: {why}");
            ExitCode::FAILURE
        }
    }
}

fn plan(options: &Options) -> Plan {
    Plan {
        machine: options.machine.clone(),
        nodes: options.nodes,
        domains: options.domains as usize,
        ends_per_second: options.ends as usize,
        down_every_ns: u64::from(options.down_every) * 1_000_000_000,
        down_for_ns: 10_000_000_000,
        watchers: options.watchers,
        seed: options.seed,
    }
}

fn run(options: &Options) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| error.to_string())?;
    }
    tombolod::allow_many_descriptors();
    let mut agent = Agent::new(&options.machine, None, None, None)
        .map_err(|error| format!("machine '{}' cannot be served: {error}", options.machine))?;
    let mut machine = SyntheticMachine::new(plan(options), now_ns())?;
    let (mut announced, mut costs) = (false, Costs { since_ns: now_ns(), ..Costs::default() });
    let mut stopping = false;
    while !stopping && !stop.load(Ordering::Relaxed) {
        let began = processor_ns();
        machine.core.set_wall_clock(now_ns(), wall_ns());
        machine.step(now_ns())?;
        let synthesized = processor_ns();
        let mut effects = machine.settle(now_ns())?;
        let served = processor_ns();
        agent.tick();
        loop {
            for effect in std::mem::take(&mut effects) {
                stopping |= perform_on_host(&mut machine, &mut agent, effect);
                costs.effects += 1;
            }
            while let Some((report, file)) = agent.next_report() {
                let image = file.map(read_image);
                machine.core.report(now_ns(), NodeId::HOST, report, image);
            }
            effects = machine.settle(now_ns())?;
            if effects.is_empty() {
                break;
            }
        }
        costs.synthesis_ns += synthesized - began;
        costs.monitor_ns += served - synthesized;
        costs.clients_ns += processor_ns() - served;
        if options.costs {
            costs.print(&machine);
        }
        if !announced && machine.domains() >= options.domains as usize {
            announced = true;
            let line = writeln!(std::io::stdout(), "ready");
            line.map_err(|error| format!("cannot write to standard output: {error}"))?;
        }
        wait(&mut agent, &machine)?;
    }
    agent.destroy_children();
    Ok(())
}

/// Performs an effect on the host. Returns whether the machine is to shut down.
fn perform_on_host(machine: &mut SyntheticMachine, agent: &mut Agent, effect: Effect) -> bool {
    match effect {
        Effect::Order { node: NodeId::HOST, order, .. } => {
            let _ = agent.execute(order, Vec::new());
        }
        Effect::Boot { .. } => {
            let (version, isa) = (FINGERPRINT, Isa::current());
            let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u16);
            let ready = Report::Ready { version, isa, cores, pid: std::process::id() as i32 };
            machine.core.report(now_ns(), NodeId::HOST, ready, None);
        }
        Effect::KeepProgram { node, hash, .. } => {
            machine.core.program_store_failed(
                node,
                hash,
                "the host of a synthetic machine runs no domains: start the program on a simulated node",
            );
        }
        Effect::Shutdown => return true,
        _ => {}
    }
    false
}

/// Reads the image that a client passed.
fn read_image(file: OwnedFd) -> Result<Image, String> {
    let mut bytes = Vec::new();
    let read = File::from(file).take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Image::from_bytes("the image", bytes).map_err(|error| error.to_string())
}

/// Sleeps until a client sends a request or a simulated event is due.
fn wait(agent: &mut Agent, machine: &SyntheticMachine) -> Result<(), String> {
    // Signals only set a flag, which is polled at this interval.
    let longest = now_ns() + 100_000_000;
    let due =
        machine.core.next_tick().into_iter().chain(agent.next_tick()).chain([machine.next_step(), longest]);
    // Batches the samples of several nodes into one wake-up.
    let at = due.min().unwrap_or(longest).max(now_ns() + 5_000_000);
    agent.arm();
    let deadline = Deadline::after(Duration::from_nanos(at.saturating_sub(now_ns())));
    let ready =
        poll(&[(agent.ready_fd(), Interest::Read)], Some(deadline)).map_err(|error| error.to_string())?;
    if ready[0].any() {
        agent.serve().map_err(|error| error.to_string())?;
    }
    Ok(())
}

impl Costs {
    fn print(&mut self, machine: &SyntheticMachine) {
        let time_ns = now_ns() - self.since_ns;
        if time_ns < 1_000_000_000 {
            return;
        }
        let percent = |ns: u64| 100.0 * ns as f64 / time_ns as f64;
        eprintln!(
            "processor time: simulation {:.2} %, monitor {:.2} %, clients {:.2} % ({} effects)",
            percent(self.synthesis_ns),
            percent(self.monitor_ns),
            percent(self.clients_ns),
            self.effects
        );
        let observed = machine.observed();
        let kib = (observed.bytes - self.observed.bytes) >> 10;
        eprintln!(
            "watchers: {} observations in {} replies of {kib} KiB",
            observed.observations - self.observed.observations,
            observed.replies - self.observed.replies
        );
        *self = Costs { since_ns: now_ns(), observed, ..Costs::default() };
    }
}

/// Processor time of this process, in ns.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since 1970 in UTC.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
