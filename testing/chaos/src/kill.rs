//! Kill targets, how each is killed, and the invariants checked afterwards.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tombolo::nodes::NodeKind;
use tombolo::{Domain, Error};
use tombolo_e2e::{Machine, MachineFile, PATIENCE, eventually};

use crate::arguments::Only;
use crate::late::Cause;
use crate::pause::Class;
use crate::population::Failure;
use crate::state::Chaos;

/// Something to kill.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    Domain,
    Channel,
    Pause,
    Run,
    Up,
    Agent,
    Vm,
    Board,
    Relay,
    Root,
    Keeper,
}

impl Target {
    pub(crate) const ALL: [Target; 11] = [
        Target::Domain,
        Target::Channel,
        Target::Pause,
        Target::Run,
        Target::Up,
        Target::Agent,
        Target::Vm,
        Target::Board,
        Target::Relay,
        Target::Root,
        Target::Keeper,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Target::Domain => "domains",
            Target::Channel => "channels closed",
            Target::Pause => "processes stopped",
            Target::Run => "`tombolo run` half-way",
            Target::Up => "`tombolo up` half-way",
            Target::Agent => "monitors of nodes",
            Target::Vm => "virtual machines",
            Target::Board => "boards, and channels with them",
            Target::Relay => "relays",
            Target::Root => "root monitors",
            Target::Keeper => "keepers",
        }
    }

    /// Returns its weight in the random choice, per thousand; slow targets are rare.
    fn weight(self) -> u64 {
        match self {
            Target::Domain => 810,
            Target::Channel => 80,
            Target::Pause => 50,
            Target::Run => 20,
            Target::Up => 5,
            Target::Agent => 20,
            Target::Vm => 8,
            Target::Board => 20,
            Target::Relay => 200,
            Target::Root => 4,
            Target::Keeper => 3,
        }
    }

    fn belongs_to(self, only: Only) -> bool {
        match only {
            Only::Processes => matches!(self, Target::Domain | Target::Run | Target::Up),
            Only::Monitors => matches!(self, Target::Agent | Target::Root | Target::Keeper),
            Only::Vms => self == Target::Vm,
            Only::Boards => self == Target::Board,
            Only::Relays => matches!(self, Target::Relay | Target::Domain | Target::Vm),
            Only::Channels => self == Target::Channel,
            Only::Pauses => self == Target::Pause,
        }
    }
}

/// The longest time for which a process is stopped.
const MAX_STOP_MS: u64 = 300;

/// Program name of a relay in the list of domains.
const RELAY_PROGRAM: &str = "relay";

/// Command whose `tombolo run` is killed half-way.
const SLEEP_COMMAND: [&str; 2] = ["sleep", "1003"];

impl Chaos {
    /// The possible targets in this machine.
    pub(crate) fn kinds(&self) -> Vec<Target> {
        let has_node = |kind: NodeKind| self.kinds_of_nodes.iter().any(|(_, of)| *of == kind);
        Target::ALL
            .into_iter()
            .filter(|kind| self.arguments.only.is_none_or(|only| kind.belongs_to(only)))
            .filter(|kind| match kind {
                Target::Agent => has_node(NodeKind::User),
                Target::Vm => has_node(NodeKind::Vm),
                Target::Board => has_node(NodeKind::Bare),
                Target::Relay => self.virtual_machines().count() > 1,
                _ => true,
            })
            .collect()
    }

    /// Chooses something to kill.
    pub(crate) fn choose(&mut self) -> Target {
        let kinds = self.kinds();
        let total: u64 = kinds.iter().map(|kind| kind.weight()).sum();
        let mut ticket = self.random.below(total.max(1));
        for kind in &kinds {
            if ticket < kind.weight() {
                return *kind;
            }
            ticket -= kind.weight();
        }
        kinds[0]
    }

    /// Kills one target and checks the invariants.
    pub(crate) fn kill(&mut self, kind: Target) -> Result<(), Failure> {
        match kind {
            Target::Domain => self.kill_domain(),
            Target::Channel => self.close_channel(),
            Target::Pause => self.stop_random_process(),
            Target::Run => self.kill_run(),
            Target::Up => self.kill_up(),
            Target::Agent => self.kill_node(NodeKind::User, Cause::Monitor),
            Target::Vm => self.kill_node(NodeKind::Vm, Cause::Vm),
            Target::Board => self.kill_board(),
            Target::Relay => self.kill_relay(),
            Target::Root => self.kill_machine(false),
            Target::Keeper => self.kill_machine(true),
        }
    }

    fn kill_domain(&mut self) -> Result<(), Failure> {
        // The first is never killed: one member has to survive the whole run.
        let count = self.population.members.len() as u64 - 1;
        let place = 1 + self.random.below(count) as usize;
        let member = &self.population.members[place];
        let (pid, in_vm) = (member.pid, self.is_in_vm(&member.node));
        let control = pid.filter(|_| !in_vm);
        let id = member.child.as_ref().map(tombolo::Child::id).ok_or("a place is empty")?;
        match pid.and_then(Pid::from_raw) {
            Some(pid) if !in_vm => {
                self.population.mark_dying(&[place], Cause::Domain, control);
                // A domain of this process, not reaped before its end is known, so its process id is not
                // reused.
                kill_process(pid, Signal::KILL).map_err(|errno| format!("kill process {pid:?}: {errno}"))?;
            }
            // The process id is not known yet, or belongs to another kernel: its monitor kills it.
            _ => {
                let cause = if in_vm { Cause::Across } else { Cause::Domain };
                self.population.mark_dying(&[place], cause, control);
                self.admin().kill(id, tombolo_admin::Signal::KILL, Duration::ZERO).map_err(text)?;
            }
        }
        self.population.settle(&self.domain)?;
        self.start_member(place)
    }

    /// Makes one side close a channel in order, which its peer must not report as a death.
    fn close_channel(&mut self) -> Result<(), Failure> {
        let place = self.random.below(self.population.members.len() as u64) as usize;
        if let Some(child) = &self.population.members[place].child {
            child.input(b"drop\n", std::time::Duration::from_secs(30)).map_err(text)?;
        }
        Ok(())
    }

    /// Stops a process of the machine for a moment, as a scheduler or a debugger may, without waiting for it.
    fn stop_random_process(&mut self) -> Result<(), Failure> {
        let all = tombolo_e2e::leftovers::processes(self.machine.name());
        let of = |class: Class| -> Vec<i32> {
            all.iter()
                .filter(|found| Class::of(&found.command_line) == class)
                .map(|found| found.pid)
                .collect()
        };
        let class = Class::ALL[self.random.below(Class::ALL.len() as u64) as usize];
        let candidates =
            Some(of(class)).filter(|found| !found.is_empty()).unwrap_or_else(|| of(Class::Monitor));
        let time = Duration::from_millis(1 + self.random.below(MAX_STOP_MS));
        if candidates.is_empty() {
            return Err("the machine has no process".into());
        }
        let pid = candidates[self.random.below(candidates.len() as u64) as usize];
        self.population.pauses.stop(pid, time);
        Ok(())
    }

    fn kill_run(&mut self) -> Result<(), Failure> {
        let nodes = self.with_system();
        let on = &nodes[self.random.below(nodes.len() as u64) as usize];
        let image = self.image.display().to_string();
        let words = ["run", "--on", on, &image].into_iter().chain(SLEEP_COMMAND);
        let run = self.machine.start(words);
        let pause = Duration::from_millis(self.random.below(300));
        self.population.process_events(&self.domain, pause)?;
        run.signal([Signal::KILL, interrupt(), Signal::TERM][self.random.below(3) as usize]);
        let finished = run.finish();
        if finished.status == 0 {
            return Err(format!("it was killed and went well: {finished}"));
        }
        let own = self.domain.id();
        let others = |domain: &Domain| -> Result<usize, Failure> {
            let all = tombolo_admin::Machine::of(domain).domains().map_err(text)?;
            Ok(all.iter().filter(|other| other.parent.is_some_and(|parent| parent != own)).count())
        };
        let until = Instant::now() + PATIENCE;
        while others(&self.domain)? > 0 {
            if Instant::now() > until {
                return Err("a domain of a `tombolo run` that was killed goes on".into());
            }
            self.population.process_events(&self.domain, Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Starts another machine and kills it while it comes up.
    fn kill_up(&mut self) -> Result<(), Failure> {
        let mut file = MachineFile::host();
        if self.kinds_of_nodes.iter().any(|(node, _)| node == "riscv-user") {
            file = file.with_user("riscv-user", "riscv64");
        }
        let machine = Machine::new(&file);
        let up = machine.start(["up".as_ref(), machine.file().as_os_str()]);
        let pause = Duration::from_millis(self.random.below(200));
        self.population.process_events(&self.domain, pause)?;
        let signal = [Signal::KILL, interrupt()][self.random.below(2) as usize];
        up.signal(signal);
        let finished = up.finish();
        if finished.status == 0 {
            // The command finished before it was killed.
            machine.tombolo(["down"]).ok();
        } else if signal == Signal::KILL {
            // Between the report that the machine is up and the end of the command the machine may be up or
            // not: if it is, it can be taken down.
            let _ = machine.tombolo(["down"]);
        }
        machine.has_ended();
        Ok(())
    }

    /// Kills the relay of the host, if channels have started one. Both ends of each relayed channel must
    /// report the death of the relay, not of the peer.
    fn kill_relay(&mut self) -> Result<(), Failure> {
        let all = self.admin().domains().map_err(text)?;
        let Some(relay) = all.iter().find(|domain| domain.program == RELAY_PROGRAM) else { return Ok(()) };
        let relayed = self.population.mark_relay_dying();
        self.machine.kill(relay.pid);
        self.population.relay_died(&self.domain, &relayed)
    }

    /// Kills the process that a node runs in, and restarts the node.
    fn kill_node(&mut self, kind: NodeKind, cause: Cause) -> Result<(), Failure> {
        let nodes: Vec<String> =
            self.kinds_of_nodes.iter().filter(|(_, of)| *of == kind).map(|(node, _)| node.clone()).collect();
        let node = nodes[self.random.below(nodes.len() as u64) as usize].clone();
        let (before, pid) = self.node(&node, |info| (info.generation, info.pid))?;
        let places: Vec<usize> = (0..self.population.members.len())
            .filter(|place| self.population.members[*place].node == node)
            .collect();
        self.population.mark_dying(&places, cause, Some(pid));
        self.machine.kill(pid);
        self.population.settle(&self.domain)?;
        let until = Instant::now() + PATIENCE;
        while self.node(&node, |info| info.up)? {
            if Instant::now() > until {
                return Err(format!("hangs: node {node} was killed and is said to be up"));
            }
            self.population.process_events(&self.domain, Duration::from_millis(5))?;
        }
        self.admin().restart_node(&node).map_err(text)?;
        let after = self.node(&node, |info| info.generation)?;
        if after != before + 1 {
            return Err(format!("node {node} of generation {before} was restarted as generation {after}"));
        }
        places.into_iter().try_for_each(|place| self.start_member(place))
    }

    /// Kills the root or its keeper. The whole machine has to go down without leftovers and boot again.
    fn kill_machine(&mut self, keeper: bool) -> Result<(), Failure> {
        let root = self.root_pid()?;
        let pid = if keeper { parent_of(root).ok_or("the root has no keeper")? } else { root };
        self.machine.kill(pid);
        let lost = eventually(|| matches!(self.domain.nodes(), Err(Error::MonitorLost { .. })));
        if !lost {
            return Err(
                "hangs: the root was killed, and a domain is not told that its monitor is gone".into()
            );
        }
        self.machine.assert_gone();
        self.population.forget_all();
        self.close_watch();
        self.machine.bring_up();
        self.attach()?;
        self.start_all()
    }
}

/// Returns the signal of Ctrl-C, or SIGTERM if this process ignores it, as background jobs of a shell do.
/// Children inherit the ignored signal.
fn interrupt() -> Signal {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if mask & (1 << (Signal::INT.as_raw() - 1)) == 0 { Signal::INT } else { Signal::TERM }
}

fn parent_of(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

pub(crate) fn text(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}
