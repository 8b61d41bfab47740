//! A chaos run: the machine, its population, and the results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tombolo::Domain;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo_e2e::{Machine, MachineFile, Random, actor_image, host_actor};

use crate::arguments::{Arguments, Beside};
use crate::kill::{Target, text};
use crate::late::{Cause, Deaths};
use crate::population::{Failure, Population};
use crate::sample::WatchedProcess;
use crate::watchdog::{MachineInspector, Watchdog};

/// Number of kills between two samples of resource usage.
const SAMPLE_EVERY: u64 = 5;

/// Longest pause between two kills, in milliseconds.
const MAX_PAUSE_MS: u64 = 20;

/// Number of kills between two progress lines.
const PROGRESS_EVERY: u64 = 250;

/// A chaos run in progress.
pub struct Chaos {
    pub(crate) arguments: Arguments,
    pub(crate) random: Random,
    pub(crate) machine: Machine,
    pub(crate) domain: Domain,
    pub(crate) population: Population,
    pub(crate) image: PathBuf,
    /// Name and kind of every node.
    pub(crate) kinds_of_nodes: Vec<(String, NodeKind)>,
    kills: BTreeMap<Target, u64>,
    /// Resource usage of the current root, of the member that is never killed, and of this program.
    watched: Vec<WatchedProcess>,
    /// Closed series, from roots that were killed.
    past: Vec<WatchedProcess>,
    inspector: MachineInspector,
    watchdog: Watchdog,
    /// Set when the user interrupts the run.
    interrupted: Arc<AtomicBool>,
}

/// Result of a chaos run.
pub struct Summary {
    /// Seed of the random choices.
    pub seed: u64,
    /// Command line that repeats the run.
    pub replay: String,
    /// Descriptions of all failures.
    pub failures: Vec<String>,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
    kills: BTreeMap<Target, u64>,
    deaths: Deaths,
    watched: Vec<WatchedProcess>,
    messages: u64,
    /// Number of channels that ended because their relay died.
    ended_with_relays: u64,
    time: Duration,
}

/// Builds the machine file for these nodes. If `rates` is not empty, the windows of virtual machines are not
/// coherent, and their emulated caches use the eviction rates in turn.
fn machine_file(beside: &[Beside], rates: &[u32], seed: u64) -> MachineFile {
    let mut rates = rates.iter().cycle();
    beside.iter().fold(MachineFile::host(), |file, node| match node {
        Beside::Arm0 | Beside::Arm1 => {
            let settings = rates.next().map(|one_in| {
                let seed = seed as u32;
                format!("coherence = \"flush\"\ncache_seed = {seed}\nevict_one_in = {one_in}")
            });
            file.with_vm(node.name(), &settings.unwrap_or_default())
        }
        Beside::Bare0 => file.with_board("bare0", "aarch64", ""),
        Beside::Bare1 => file.with_board("bare1", "riscv64", ""),
        Beside::RiscvUser => file.with_user("riscv-user", "riscv64"),
        Beside::S390xUser => file.with_user("s390x-user", "s390x"),
    })
}

impl Chaos {
    /// Brings the machine up and starts the population. The run ends early once `interrupted` is set.
    ///
    /// # Errors
    /// Description of what did not start, or of options that match nothing.
    pub fn start(arguments: Arguments, seed: u64, interrupted: Arc<AtomicBool>) -> Result<Chaos, String> {
        let beside = arguments.beside();
        let image = if beside.is_empty() { host_actor() } else { actor_image() };
        let machine = Machine::up(&machine_file(&beside, &arguments.evict_one_in, seed));
        let domain = Domain::attach_to_machine(machine.name()).map_err(text)?;
        let nodes = domain.nodes().map_err(text)?;
        let places: Vec<(String, u16)> = nodes
            .iter()
            .filter(|node| node.kind != NodeKind::Bare)
            .map(|node| (node.name.clone(), if node.kind == NodeKind::Host { arguments.members } else { 2 }))
            .collect();
        let inspector = MachineInspector::of(&machine);
        let mut chaos = Chaos {
            watchdog: Watchdog::start(inspector.clone()),
            inspector,
            random: Random::new(seed),
            population: Population::new(&places, arguments.latency_ms),
            kinds_of_nodes: nodes.into_iter().map(|node| (node.name, node.kind)).collect(),
            kills: BTreeMap::new(),
            watched: Vec::new(),
            past: Vec::new(),
            arguments,
            machine,
            domain,
            image,
            interrupted,
        };
        if chaos.kinds().is_empty() {
            return Err("nothing of what `--only` names is in a machine of these `--nodes`".into());
        }
        chaos.population.in_vms = chaos.virtual_machines().map(str::to_owned).collect();
        chaos.watch();
        chaos.population.listen(&chaos.domain);
        chaos.start_all()?;
        Ok(chaos)
    }

    /// Kills until the run is complete or something has failed. Then takes the machine down and checks for
    /// leftovers.
    #[must_use]
    pub fn run(mut self, seed: u64) -> Summary {
        let began = Instant::now();
        let mut failures: Vec<String> = self.run_kills(began).err().into_iter().collect();
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        if interrupted {
            // A signal from a terminal also reached the commands in progress, so their failures do not count.
            failures.iter().for_each(|failure| eprintln!("chaos: when it was interrupted: {failure}"));
            failures.clear();
        } else if failures.is_empty() {
            self.watchdog.begin_step("the end of the run".into());
            failures.extend(self.end().err());
        }
        if !failures.is_empty() {
            eprintln!("chaos: {}\n{}{}", failures[0], self.population.describe(), self.inspector.describe());
        }
        self.close_watch();
        failures.extend(self.past.iter().flat_map(WatchedProcess::grown));
        failures.extend(self.population.deaths.failure());
        let summary = Summary {
            seed,
            replay: self.arguments.replay(seed),
            failures,
            interrupted,
            kills: std::mem::take(&mut self.kills),
            deaths: self.population.deaths.clone(),
            watched: std::mem::take(&mut self.past),
            messages: self.population.messages,
            ended_with_relays: self.population.ended_with_relays,
            time: began.elapsed(),
        };
        if summary.failures.is_empty() {
            self.machine.down();
        }
        summary
    }

    fn run_kills(&mut self, began: Instant) -> Result<(), Failure> {
        let mut kills = 0;
        loop {
            let done = match self.arguments.duration() {
                Some(duration) => began.elapsed() >= duration,
                None => kills >= self.arguments.kills,
            };
            if done || self.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let pause = Duration::from_micros(self.random.below(MAX_PAUSE_MS * 1000));
            self.population.process_events(&self.domain, pause)?;
            let kind = self.choose();
            self.watchdog.begin_step(format!("kill {}, {},", kills + 1, kind.name()));
            self.kill(kind).map_err(|failure| format!("kill {}, {}: {failure}", kills + 1, kind.name()))?;
            self.population.assert_alive()?;
            kills += 1;
            *self.kills.entry(kind).or_default() += 1;
            if kills % SAMPLE_EVERY == 0 {
                self.sample(kills)?;
            }
            if kills % PROGRESS_EVERY == 0 {
                let (deaths, seconds) = (self.population.deaths.count, began.elapsed().as_secs());
                eprintln!("{kills} kills in {seconds} s, {deaths} deaths seen by survivors");
            }
        }
    }

    /// Checks, after the last kill, that the machine still works and that nothing is leaked.
    fn end(&mut self) -> Result<(), Failure> {
        self.population.pauses.finish();
        self.population.process_events(&self.domain, Duration::from_millis(200))?;
        for place in 0..self.population.members.len() {
            if let Some(child) = &self.population.members[place].child {
                let id = child.id();
                self.population.mark_dying(&[place], Cause::Across, None);
                self.admin().kill(id, tombolo_admin::Signal::KILL, Duration::ZERO).map_err(text)?;
            }
        }
        // Members that wait for their own end also see the ends of others; these latencies do not count.
        let seen = self.population.deaths.clone();
        self.population.settle(&self.domain)?;
        self.population.deaths = seen;
        self.population.assert_explained()?;
        let names = self.domain.names().find("_").map_err(text)?;
        if let Some(name) = names.first() {
            return Err(format!("the record '{name}' of a dead domain is left"));
        }
        let returned = tombolo_e2e::eventually(|| {
            self.domain.nodes().is_ok_and(|nodes| nodes.iter().all(|node| node.window_bytes.0 == 0))
        });
        if !returned {
            return Err("part of a window is still lent, and no domain that could hold it is alive".into());
        }
        self.boards().iter().try_for_each(|board| self.runs_on_board(board))?;
        for node in &self.with_system() {
            let finished =
                self.machine.tombolo(["run", "--on", node, &self.image.display().to_string(), "exit", "6"]);
            if finished.status != 6 {
                return Err(format!("a program on {node} does not run any more: {finished}"));
            }
        }
        Ok(())
    }

    /// Returns the administrative interface of the machine.
    pub(crate) fn admin(&self) -> tombolo_admin::Machine {
        tombolo_admin::Machine::of(&self.domain)
    }

    /// Lists the virtual machines.
    pub(crate) fn virtual_machines(&self) -> impl Iterator<Item = &str> {
        let vms = self.kinds_of_nodes.iter().filter(|(_, kind)| *kind == NodeKind::Vm);
        vms.map(|(name, _)| name.as_str())
    }

    pub(crate) fn is_in_vm(&self, node: &str) -> bool {
        self.kinds_of_nodes.iter().any(|(name, kind)| name == node && *kind == NodeKind::Vm)
    }

    pub(crate) fn start_member(&mut self, place: usize) -> Result<(), Failure> {
        self.population.start(&self.domain, &self.image, place, self.arguments.pause_us)
    }

    pub(crate) fn start_all(&mut self) -> Result<(), Failure> {
        self.know_images_of_boards()?;
        (0..self.population.members.len()).try_for_each(|place| self.start_member(place))
    }

    /// Attaches to the machine after it came up again.
    pub(crate) fn attach(&mut self) -> Result<(), Failure> {
        self.domain = Domain::attach_to_machine(self.machine.name()).map_err(text)?;
        self.population.listen(&self.domain);
        self.watch();
        Ok(())
    }

    pub(crate) fn node<T>(&self, name: &str, look: impl FnOnce(&NodeInfo) -> T) -> Result<T, Failure> {
        let nodes = self.domain.nodes().map_err(text)?;
        nodes.iter().find(|node| node.name == name).map(look).ok_or_else(|| format!("no node {name}"))
    }

    pub(crate) fn root_pid(&self) -> Result<i32, Failure> {
        self.node("host", |info| info.pid)
    }

    /// Starts new series for the processes that remain.
    fn watch(&mut self) {
        self.watched = vec![
            WatchedProcess::new("root monitor"),
            WatchedProcess::new("member never killed"),
            WatchedProcess::harness(),
        ];
    }

    /// Closes the current series: the processes are gone, or the run is over.
    pub(crate) fn close_watch(&mut self) {
        self.past.append(&mut self.watched);
    }

    fn sample(&mut self, kills: u64) -> Result<(), Failure> {
        let pids = [Some(self.root_pid()?), self.population.members[0].pid, Some(std::process::id() as i32)];
        for (watched, pid) in self.watched.iter_mut().zip(pids) {
            if let Some(pid) = pid {
                watched.sample(pid, kills);
            }
        }
        Ok(())
    }
}

impl Summary {
    /// Formats the results as a human-readable table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut lines = vec![format!("{:<28}{:>8}", "killed", "times")];
        lines.extend(self.kills.iter().map(|(kind, count)| format!("{:<28}{count:>8}", kind.name())));
        let all: u64 = self.kills.values().sum();
        lines.push(format!("{:<28}{all:>8}  in {:.1} s", "all", self.time.as_secs_f64()));
        lines.push(String::new());
        lines.extend(self.deaths.rows());
        let rows: Vec<String> = self.watched.iter().flat_map(WatchedProcess::rows).collect();
        if !rows.is_empty() {
            lines.push(format!(
                "\n{:<24}{:<16}{:>10}{:>10}{:>10}",
                "process", "quantity", "mean", "growth", "doubt"
            ));
            lines.extend(rows);
        }
        lines.push(format!(
            "\n{} deaths seen by survivors, {} messages checked, {} ends of channels that ended with their relay",
            self.deaths.count, self.messages, self.ended_with_relays
        ));
        lines.join("\n")
    }

    /// Converts the results to JSON.
    #[must_use]
    pub fn to_json(&self, commit: &str) -> Value {
        let kills: serde_json::Map<String, Value> =
            self.kills.iter().map(|(kind, count)| (kind.name().replace('`', ""), json!(count))).collect();
        let watched: Vec<Value> = self.watched.iter().map(WatchedProcess::to_json).collect();
        json!({
            "seed": self.seed,
            "commit": commit,
            "replay": self.replay,
            "failures": self.failures,
            "interrupted": self.interrupted,
            "kills": kills,
            "deaths": self.deaths.to_json(),
            "watched": watched,
            "deaths_seen": self.deaths.count,
            "messages": self.messages,
            "ended_with_relays": self.ended_with_relays,
            "seconds": self.time.as_secs_f64(),
        })
    }
}
