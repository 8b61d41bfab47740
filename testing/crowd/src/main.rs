//! `tombolo-crowd`: see the help text.

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
use tombolo_crowd::{Crowd, Plan, Told};
use tombolo_machine::Image;
use tombolo_machine::image::MAX_IMAGE_BYTES;
use tombolo_platform::event::poll;
use tombolo_platform::time::{Deadline, now_ns};
use tombolod::agent::Agent;
use tombolod::core::Effect;

/// Serves a machine that is made up, for those who watch machines
///
/// The monitor is the real one, and serves clients at the usual place; the host is this one. All other nodes and their domains do
/// not exist: they start, end, use processors and pass messages only as far as they say so. Ends with SIGTERM.
#[derive(Parser, Debug)]
#[command(after_help = "\
Examples:
  tombolo-crowd                          1,000 nodes and 10,000 domains, as machine `crowd`
  tombolo-crowd --nodes 20 --domains 50 --machine few
  tombolo top --machine crowd")]
struct Options {
    /// The machine's name
    #[arg(long, value_name = "NAME", default_value = "crowd")]
    machine: String,

    /// Nodes, beside the host
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u16).range(1..=1023))]
    nodes: u16,

    /// Domains that live at a time
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    domains: u32,

    /// Domains that end in a second, and that others start for
    #[arg(long, value_name = "COUNT", default_value = "10")]
    ends: u32,

    /// Time from one loss of a node to the next, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    down_every: u32,

    /// Watchers that are made up as well, and ask for all that is new as fast as they are told
    #[arg(long, value_name = "COUNT", default_value = "0")]
    watchers: u32,

    /// What decides everything that is not said
    #[arg(long, default_value = "1")]
    seed: u64,

    /// Say each second what the monitor's part of it cost
    #[arg(long)]
    costs: bool,
}

/// What the core does for the crowd and its watchers, and what making things up takes.
#[derive(Default)]
struct Costs {
    since_ns: u64,
    making_up_ns: u64,
    crowd_ns: u64,
    clients_ns: u64,
    answers: usize,
    told: Told,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tombolo-crowd: {why}");
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
    let mut crowd = Crowd::new(plan(options), now_ns())?;
    let (mut said, mut costs) = (false, Costs { since_ns: now_ns(), ..Costs::default() });
    let mut stopping = false;
    while !stopping && !stop.load(Ordering::Relaxed) {
        let began = processor_ns();
        crowd.core.set_wall_clock(now_ns(), wall_ns());
        crowd.step(now_ns())?;
        let made_up = processor_ns();
        let mut effects = crowd.settle(now_ns())?;
        let served = processor_ns();
        agent.tick();
        loop {
            for effect in std::mem::take(&mut effects) {
                stopping |= host_does(&mut crowd, &mut agent, effect);
                costs.answers += 1;
            }
            while let Some((report, file)) = agent.next_report() {
                let image = file.map(read_image);
                crowd.core.report(now_ns(), NodeId::HOST, report, image);
            }
            effects = crowd.settle(now_ns())?;
            if effects.is_empty() {
                break;
            }
        }
        costs.making_up_ns += made_up - began;
        costs.crowd_ns += served - made_up;
        costs.clients_ns += processor_ns() - served;
        if options.costs {
            costs.say(&crowd);
        }
        if !said && crowd.domains() >= options.domains as usize {
            said = true;
            let line = writeln!(std::io::stdout(), "ready");
            line.map_err(|error| format!("nobody listens: {error}"))?;
        }
        wait(&mut agent, &crowd)?;
    }
    agent.destroy_children();
    Ok(())
}

/// Has the host's agent do something; whether the machine is to go down.
fn host_does(crowd: &mut Crowd, agent: &mut Agent, effect: Effect) -> bool {
    match effect {
        Effect::Order { node: NodeId::HOST, order, .. } => {
            let _ = agent.execute(order, Vec::new());
        }
        Effect::Boot { .. } => {
            let (version, isa) = (FINGERPRINT, Isa::current());
            let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u16);
            let ready = Report::Ready { version, isa, cores, pid: std::process::id() as i32 };
            crowd.core.report(now_ns(), NodeId::HOST, ready, None);
        }
        Effect::KeepProgram { node, hash, .. } => {
            crowd.core.program_not_kept(
                node,
                hash,
                "the host of a crowd runs nothing: start it on a node that is made up",
            );
        }
        Effect::Shutdown => return true,
        _ => {}
    }
    false
}

/// What a client passed to be started.
fn read_image(file: OwnedFd) -> Result<Image, String> {
    let mut bytes = Vec::new();
    let read = File::from(file).take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    Image::from_bytes("the image", bytes).map_err(|error| error.to_string())
}

/// Sleeps until a client asks for something, or something is due.
fn wait(agent: &mut Agent, crowd: &Crowd) -> Result<(), String> {
    // A signal is looked for as often.
    let longest = now_ns() + 100_000_000;
    let due = crowd.core.next_tick().into_iter().chain(agent.next_tick()).chain([crowd.next_step(), longest]);
    // Nodes take samples at any time: a few of them together wake this process once.
    let at = due.min().unwrap_or(longest).max(now_ns() + 5_000_000);
    let (mut sources, mut tokens) = (Vec::new(), Vec::new());
    agent.sources(&mut sources, &mut tokens);
    let deadline = Deadline::after(Duration::from_nanos(at.saturating_sub(now_ns())));
    let ready = poll(&sources, Some(deadline)).map_err(|error| error.to_string())?;
    drop(sources);
    for (token, ready) in tokens.into_iter().zip(ready) {
        if ready.any() {
            agent.handle(token, ready);
        }
    }
    Ok(())
}

impl Costs {
    fn say(&mut self, crowd: &Crowd) {
        let time_ns = now_ns() - self.since_ns;
        if time_ns < 1_000_000_000 {
            return;
        }
        let percent = |ns: u64| 100.0 * ns as f64 / time_ns as f64;
        eprintln!(
            "of a processor {:.2} % make the crowd up, {:.2} % are its monitor's, and {:.2} % its clients', who were told {} things",
            percent(self.making_up_ns),
            percent(self.crowd_ns),
            percent(self.clients_ns),
            self.answers
        );
        let told = crowd.told();
        let kib = (told.bytes - self.told.bytes) >> 10;
        eprintln!(
            "made-up watchers were told {} parts in {} answers of {kib} KiB",
            told.parts - self.told.parts,
            told.answers - self.told.answers
        );
        *self = Costs { since_ns: now_ns(), told, ..Costs::default() };
    }
}

/// Processor time of this process.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since 1970 in UTC.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
