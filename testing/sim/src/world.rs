//! One run of one seed: a machine boots, runs under load and faults, heals, has to make progress, and shuts
//! down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_base::{NodeId, Random};
use tombolo_control::Request;
use tombolo_link::ChannelConfig;
use tombolo_link::window::WindowHeader;
use tombolo_machine::{Image, Machine};
use tombolo_naming::{Operation, Query, Scope};

use crate::audit::Audit;
use crate::descriptor::Actor;
use crate::line::MonitorLine;
use crate::node::Node;
use crate::plan::{Options, Plan};
use crate::process::{Process, TurnResult};
use crate::rights::Counts;
use crate::root::Root;
use crate::shared::{Event, ProcessStart, Shared};
use crate::window::{WindowPlace, WindowSide};

/// Maximum length of the phase with faults, in simulated nanoseconds.
const FAULTY_NS: u64 = 40_000_000_000;

/// Time limit for everything in progress to finish once faults have ended. The slowest case is a node that
/// hangs during boot: the root times out after a minute and boots it again.
const PATIENCE_NS: u64 = 400_000_000_000;

/// Number of events after which a run counts as livelocked.
const MAX_EVENTS: u64 = 8_000_000;

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The violated invariant, if any.
    pub failure: Option<String>,
    /// Hash of all events.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// Number of nodes, including the host.
    pub nodes: usize,
    /// Simulated time, in nanoseconds.
    pub simulated_ns: u64,
    /// Number of messages received on channels between domains.
    pub messages: u64,
    /// Number of buffer transfers received on bulk channels.
    pub transfers: u64,
    /// Number of channels that were opened.
    pub channels: u64,
    /// Number of processes that ran.
    pub processes: u64,
    /// Number of node deaths.
    pub deaths: u64,
    /// Counts of memory events.
    pub memory: Counts,
    /// The choices that the seed drew.
    pub plan: Plan,
    /// Most recent events, if the run was traced.
    pub trace: Vec<String>,
}

/// Runs one seed to its end.
#[must_use]
pub fn run(seed: u64, options: Options, traced: bool) -> Outcome {
    tap::start_recording();
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random, options);
    let mut world = World::new(random, plan, traced);
    world.run_phases();
    let mut outcome = world.outcome();
    if outcome.failure.is_none() {
        outcome.failure = crate::hubs::simulate(seed).err();
    }
    outcome
}

struct World {
    shared: Shared,
    root: Root,
    nodes: BTreeMap<u16, Node>,
    processes: BTreeMap<i32, Process>,
    born: u64,
    deaths: u64,
}

impl World {
    fn new(random: Random, plan: Plan, traced: bool) -> Self {
        let machine: Machine = plan.machine();
        let windowed: BTreeSet<u16> =
            (1..).zip(&plan.nodes).filter(|(_, node)| node.vm).map(|(number, _)| number).collect();
        let images = images(plan.images);
        let audit = Audit::new(windowed, u64::from(plan.revoke_ms) * 1_000_000);
        let mut shared = Shared::new(random, plan, audit, images, traced);
        let root = Root::new(&mut shared, machine);
        World { shared, root, nodes: BTreeMap::new(), processes: BTreeMap::new(), born: 0, deaths: 0 }
    }

    fn run_phases(&mut self) {
        self.root.boot(&mut self.shared);
        for _ in 0..1 + self.shared.random.below(4) {
            let delay_ns = self.shared.random.magnitude(1, 100_000_000);
            self.shared.schedule_after(delay_ns, Event::Newcomer);
        }
        self.shared.schedule_after(self.shared.plan.beat_ns, Event::Beat);
        self.run_for(FAULTY_NS, |world| world.shared.actions_left == 0);
        self.end_faults();
        self.settle("after everything healed");
        self.check_conversations();
        self.restart_all();
        self.probe();
        self.end_all();
        self.check_leftovers();
    }

    fn has_failed(&self) -> bool {
        self.shared.audit.failure().is_some()
    }

    fn fail(&mut self, what: impl Into<String>) {
        self.shared.audit.fail(what);
    }

    /// Runs the simulation for a time, or until `done`.
    fn run_for(&mut self, for_ns: u64, done: impl Fn(&World) -> bool) {
        let until_ns = self.shared.now + for_ns;
        self.flush();
        while !self.has_failed() && !done(self) {
            let Some(event) = self.shared.next(until_ns) else { return };
            self.handle(event);
            self.flush();
            if self.shared.events() > MAX_EVENTS {
                self.fail("it turns in circles");
            }
        }
    }

    fn flush(&mut self) {
        for birth in std::mem::take(&mut self.shared.born) {
            self.born += 1;
            let pid = birth.pid;
            let process = Process::new(&mut self.shared, birth);
            self.processes.insert(pid, process);
        }
        self.shared.flush();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Turn(Actor::Root) => self.root.turn(&mut self.shared),
            Event::Turn(Actor::Node(number)) => {
                if let Some(node) = self.nodes.get_mut(&number)
                    && let Err(cause) = node.turn(&mut self.shared)
                {
                    let generation = node.generation;
                    self.die(number, generation, cause);
                }
            }
            Event::Turn(Actor::Process(pid)) => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    let turn_result = process.turn(&mut self.shared);
                    self.end_process(pid, turn_result);
                }
            }
            Event::Arrive(place) => self.shared.arrive(place),
            Event::Signal { pid, signal } => self.signal(pid, signal),
            Event::Boot { node, generation } => self.boot(node, generation),
            Event::Die { node, generation, cause } => self.die(node, generation, cause),
            Event::Beat => self.inject_faults(),
            Event::Newcomer => self.start_random_process(),
            Event::Mend { node, to_node } => {
                let window = self.root.window(node);
                self.shared.set_cut(node, window, to_node, false);
            }
            Event::Hasten { node } => {
                self.shared.slow.remove(&node);
            }
        }
    }

    fn signal(&mut self, pid: i32, signal: u8) {
        // Some programs ignore every signal but SIGKILL.
        let deaf = signal != 9 && pid % 3 == 0;
        if !deaf {
            self.end_process(pid, TurnResult::Killed(signal));
        }
    }

    fn end_process(&mut self, pid: i32, turn_result: TurnResult) {
        if turn_result != TurnResult::Lives
            && let Some(process) = self.processes.remove(&pid)
        {
            process.end(&mut self.shared, turn_result);
        }
    }

    fn start_random_process(&mut self) {
        if self.shared.healed {
            return;
        }
        if self.processes.len() < self.shared.plan.processes {
            let nodes: Vec<u16> = self.shared.listeners.keys().copied().collect();
            let node = self.shared.random.pick(&nodes).copied().unwrap_or(0);
            self.start_process(node);
        }
        let delay_ns = self.shared.random.magnitude(1_000, self.shared.plan.pause_ns * 2);
        self.shared.schedule_after(delay_ns, Event::Newcomer);
    }

    fn start_process(&mut self, node: u16) -> i32 {
        let pid = self.shared.pid();
        let birth = ProcessStart {
            pid,
            node,
            domain: None,
            life: None,
            outputs: Vec::new(),
            input: None,
            side: None,
        };
        let process = Process::new(&mut self.shared, birth);
        self.born += 1;
        self.processes.insert(pid, process);
        pid
    }

    fn boot(&mut self, number: u16, generation: u16) {
        if self.root.generation(number) != Some(generation) {
            return;
        }
        let node = match self.root.window(number) {
            Some(window) => {
                let place = WindowPlace { window, side: WindowSide::Far };
                let header = self.shared.windows.memory(place).map(|memory| WindowHeader::read(&memory));
                match header {
                    Some(Ok(header))
                        if (header.node, header.generation.get()) == (NodeId(number), generation) => {}
                    Some(Err(_)) => {
                        // It has not arrived yet.
                        return self
                            .shared
                            .schedule_after(5_000_000, Event::Boot { node: number, generation });
                    }
                    other => {
                        return self.fail(format!("node {number} finds the window of another: {other:?}"));
                    }
                }
                MonitorLine::over_window(&mut self.shared, number, generation, place)
                    .map(|line| Node::new(number, generation, line, Some(place)))
            }
            None => self.root.far_ends.remove(&(number, generation)).map(|end| {
                let line = MonitorLine::over_socket(number, generation, end, false);
                Node::new(number, generation, line, None)
            }),
        };
        if let Some(node) = node {
            self.nodes.insert(number, node);
            self.shared.wake(Actor::Node(number));
        }
    }

    /// Ends a node and all its processes.
    fn die(&mut self, number: u16, generation: u16, cause: String) {
        if self.nodes.get(&number).is_some_and(|node| node.generation == generation)
            && let Some(node) = self.nodes.remove(&number)
        {
            self.deaths += 1;
            self.shared.record_event(&[9, number.into()], || format!("node {number} dies: {cause}"));
            self.shared.listeners.remove(&number);
            let children = node.pids();
            let is_vm = node.place.is_some();
            let here: Vec<i32> = self
                .processes
                .iter()
                .filter(|(pid, process)| process.node == number && (is_vm || children.contains(pid)))
                .map(|(pid, _)| *pid)
                .collect();
            here.into_iter().for_each(|pid| self.end_process(pid, TurnResult::Killed(9)));
            for (pid, process) in self.processes.iter().filter(|(_, process)| process.node == number) {
                process.conversations().iter().for_each(|lost| lost.is_lost(&mut self.shared));
                self.shared.audit.rights.maps.drop_process_mappings(*pid);
                self.shared.bulk.ended(*pid);
            }
            self.shared.flush();
            if let Some(place) = node.place {
                let woken = self.shared.windows.on_far_death(place.window, &mut self.shared.random);
                woken.into_iter().for_each(|actor| self.shared.wake(actor));
            }
            self.shared.cuts.remove(&(number, true));
            self.shared.cuts.remove(&(number, false));
            self.shared.slow.remove(&number);
        }
        self.root.far_ends.remove(&(number, generation));
        self.root.node_ended(&mut self.shared, number, generation, cause);
    }

    /// Injects the larger faults at random.
    fn inject_faults(&mut self) {
        if self.shared.healed {
            return;
        }
        self.shared.schedule_after(self.shared.plan.beat_ns, Event::Beat);
        let faults = self.shared.plan.faults;
        let up: Vec<u16> = self.nodes.keys().copied().collect();
        let node = self.shared.random.pick(&up).copied();
        let chance = |world: &mut World, permille| world.shared.random.chance(permille);
        if let Some(number) = node {
            if chance(self, faults.kill_node)
                && let Some(generation) = self.nodes.get(&number).map(|node| node.generation)
            {
                self.die(number, generation, "its process was ended by signal 9".into());
            }
            if chance(self, faults.cut) {
                self.cut(number);
            }
            if self.shared.plan.nodes[usize::from(number) - 1].vm {
                let bytes = vec![b'x'; self.shared.random.magnitude(1, 2000) as usize];
                self.root.console_output(&mut self.shared, number, &bytes);
            }
        }
        if chance(self, faults.slow) {
            let number = if chance(self, 300) { 0 } else { node.unwrap_or(0) };
            let times = self.shared.random.magnitude(2, 200);
            self.shared.slow.insert(number, times);
            let delay_ns = self.shared.random.magnitude(1_000_000, 2_000_000_000);
            self.shared.schedule_after(delay_ns, Event::Hasten { node: number });
        }
        if chance(self, faults.clock) {
            let by_ns = self.shared.random.magnitude(1_000, 3_000_000_000) as i64;
            let by_ns = if chance(self, 300) { -by_ns.min(self.shared.now as i64 / 4) } else { by_ns };
            self.shared.record_event(&[10, by_ns as u64], || format!("the root's clock jumps by {by_ns} ns"));
            self.root.jump_clock(by_ns);
            self.shared.audit.rights.clock_jumps(by_ns);
            self.shared.wake(Actor::Root);
        }
    }

    fn cut(&mut self, node: u16) {
        let directions: &[bool] = match self.shared.random.below(3) {
            0 => &[true],
            1 => &[false],
            _ => &[true, false],
        };
        let window = self.root.window(node);
        let delay_ns = self.shared.random.magnitude(1_000_000, 5_000_000_000);
        for to_node in directions.iter().copied() {
            self.shared
                .record_event(&[11, node.into()], || format!("node {node} is cut, towards it: {to_node}"));
            self.shared.set_cut(node, window, to_node, true);
            self.shared.schedule_after(delay_ns, Event::Mend { node, to_node });
        }
    }

    fn end_faults(&mut self) {
        self.shared.record_event(&[12], || "everything heals".to_owned());
        self.shared.healed = true;
        self.root.end_samples(&mut self.shared);
        self.shared.slow.clear();
        for number in 1..=self.shared.plan.nodes.len() as u16 {
            for to_node in [true, false] {
                let window = self.root.window(number);
                self.shared.set_cut(number, window, to_node, false);
            }
        }
        self.shared.cuts.clear();
    }

    /// Runs until no event is left, then checks that every request was answered.
    fn settle(&mut self, when: &str) {
        self.run_for(PATIENCE_NS, |_| false);
        if self.has_failed() {
            return;
        }
        if let Some(at) = self.shared.next_at() {
            return self.fail(format!("{when} there is still something to happen at {at} ns"));
        }
        let unanswered = self.shared.audit.unanswered();
        if let Some((client, request, body)) = unanswered.first() {
            let what = format!("{when} {client:?} waits for an answer to its request {request}: {body:?}");
            return self.fail(what);
        }
        if let Some((holder, capability)) = self.shared.audit.find_unkilled_domain() {
            return self
                .fail(format!("{when} {holder} lives, and still holds what {capability} was revoked from"));
        }
        if let Some(pid) =
            self.processes.iter().find(|(_, process)| process.has_pending_requests()).map(|(pid, _)| *pid)
        {
            return self.fail(format!("{when} process {pid} waits for an answer that was given"));
        }
        if !self.shared.windows.are_quiet() {
            self.fail(format!("{when} stores are on their way and do not arrive"));
        }
    }

    /// Checks that everything sent has been received, and that no channel to a dead domain is in use.
    fn check_conversations(&mut self) {
        if self.has_failed() {
            return;
        }
        for (pid, process) in &self.processes {
            for conversation in process.conversations() {
                let id = conversation.id();
                let Some(log) = self.shared.channels.get(&id) else { continue };
                let wrong = if log.abandoned.contains(&true) {
                    Some(format!("process {pid} has {id} open though its peer let go of it"))
                } else if log.open == [true; 2] && (log.sent != [log.received[1], log.received[0]]) {
                    Some(format!(
                        "of {id}, which is open, {:?} were sent and {:?} received",
                        log.sent, log.received
                    ))
                } else if conversation.unsent() > 0 {
                    Some(format!("process {pid} has {} messages left for {id}", conversation.unsent()))
                } else {
                    None
                };
                if let Some(wrong) = wrong {
                    return self.shared.audit.fail(wrong);
                }
            }
        }
        if let Some(lost) = self.shared.bulk.lost_buffer() {
            self.shared.audit.fail(lost);
        }
    }

    /// Restarts every node that is down.
    fn restart_all(&mut self) {
        if self.has_failed() {
            return;
        }
        let operator = self.start_operator(0);
        for number in 1..=self.shared.plan.nodes.len() as u16 {
            if !self.nodes.contains_key(&number)
                && let Some(operator) = self.processes.get_mut(&operator)
            {
                operator.request(Request::Restart { node: format!("n{number}"), force: false });
            }
        }
        self.settle("after all nodes were started again");
        let down = (1..=self.shared.plan.nodes.len() as u16).find(|number| !self.nodes.contains_key(number));
        if let Some(down) = down {
            self.fail(format!("node {down} did not start again"));
        }
        self.end_process(operator, TurnResult::Exits(0));
    }

    /// Starts an idle process, through which the simulation acts.
    fn start_operator(&mut self, node: u16) -> i32 {
        let pid = self.start_process(node);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.idle = true;
        }
        pid
    }

    /// Checks that the healed machine works: every node can reach the host.
    fn probe(&mut self) {
        if self.has_failed() {
            return;
        }
        let listener = self.start_operator(0);
        self.with_process(listener, |process| process.export("probe"));
        let count = self.shared.plan.nodes.len().min(12) as u16;
        let probes: Vec<i32> = (0..=count).map(|node| self.start_operator(node)).collect();
        self.settle("after probes were started");
        for pid in &probes {
            self.with_process(*pid, |process| {
                process.connect("probe", Duration::from_secs(1), ChannelConfig::default());
            });
        }
        self.settle("after probes have connected");
        for pid in probes.iter().chain([&listener]) {
            self.with_process(*pid, |process| process.send_on_all(100));
            self.shared.wake(Actor::Process(*pid));
        }
        self.settle("after probes have talked");
        self.check_conversations();
        let open = |pid: &i32| self.processes.get(pid).map_or(0, |process| process.conversations().len());
        // A window may have no free doorbell or memory left for a probe's channel.
        let without = probes.iter().filter(|pid| open(pid) != 1).count();
        let full = self.windows_in_use();
        if without > full && !self.has_failed() {
            self.fail(format!("{without} of {} probes have no channel to the host", probes.len()));
        }
    }

    /// Returns the number of nodes whose windows may have no free doorbell, or no memory for a channel left.
    fn windows_in_use(&self) -> usize {
        let up = self.root.core.boot_progress().up;
        let crowded = |number: u16| {
            let node = up.iter().find(|node| node.id == NodeId(number));
            node.is_some_and(|node| node.window_bytes.0 > node.window_bytes.1 / 4)
        };
        let channels = |number: u16| {
            self.processes
                .values()
                .filter(|process| process.node == number)
                .map(|process| process.conversations().len())
                .sum::<usize>()
        };
        (1..)
            .zip(&self.shared.plan.nodes)
            .filter(|(number, node)| {
                node.vm && (crowded(*number) || channels(*number) + 2 >= usize::from(node.doorbells))
            })
            .count()
    }

    fn with_process(&mut self, pid: i32, what: impl FnOnce(&mut Process)) {
        if let Some(process) = self.processes.get_mut(&pid) {
            what(process);
        }
    }

    /// Makes all processes exit.
    fn end_all(&mut self) {
        if self.has_failed() {
            return;
        }
        let all: Vec<i32> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|pid| self.end_process(pid, TurnResult::Exits(0)));
        self.settle("after everybody ended");
    }

    fn check_leftovers(&mut self) {
        if self.has_failed() {
            return;
        }
        let operator = self.start_operator(0);
        let find = || Operation::Find { query: Query::any(), after: String::new(), limit: 100 };
        let names = Request::Names { scope: Scope::Machine, operation: find() };
        self.with_process(operator, |process| process.request(names));
        self.with_process(operator, |process| process.request(Request::Domains { after: 0 }));
        self.settle("at the end");
        if let Some(left) = self.shared.audit.leftovers(1) {
            return self.fail(format!("the machine is left with {left}"));
        }
        let in_windows =
            self.root.core.boot_progress().up.iter().find(|node| node.window_bytes.0 > 0).cloned();
        if let Some(node) = in_windows {
            let bytes = node.window_bytes.0;
            return self.fail(format!(
                "{bytes} bytes of the window of {} are lent, but no domain holds them",
                node.name
            ));
        }
        if let Some(left) = self.root.leftovers(1) {
            return self.fail(format!("the host's agent is left with {left}"));
        }
        let left = self.nodes.iter().find_map(|(number, node)| Some((*number, node.leftovers(0)?)));
        if let Some((number, left)) = left {
            self.fail(format!("the agent of node {number} is left with {left}"));
        }
    }

    fn outcome(self) -> Outcome {
        let shared = &self.shared;
        Outcome {
            failure: shared.audit.failure().map(str::to_owned),
            hash: shared.hash(),
            events: shared.events(),
            nodes: shared.plan.nodes.len() + 1,
            simulated_ns: shared.now,
            messages: shared.channels.values().map(|log| log.received.iter().sum::<u64>()).sum(),
            transfers: shared.bulk.transfers(),
            channels: shared.channels.len() as u64,
            processes: self.born,
            deaths: self.deaths,
            memory: shared.audit.rights.counts,
            plan: shared.plan.clone(),
            trace: shared.trace(),
        }
    }
}

/// Creates image files, each for one instruction set, some smaller and some larger than a chunk of a window.
fn images(count: usize) -> Vec<Image> {
    let machines = [62_u8, 183, 243];
    (0..count.max(1))
        .filter_map(|number| {
            // The header of an executable, and one segment to be loaded.
            let mut elf = vec![0; 64 + 56 + 512 * number];
            elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            let machine = machines[number % machines.len()];
            for (offset, value) in
                [(16, 2), (18, machine), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1), (64, 1)]
            {
                elf[offset] = value;
            }
            elf.extend((0..64).map(|byte| byte ^ number as u8));
            Image::from_bytes("p.tbi", elf).ok()
        })
        .collect()
}

#[cfg(sim)]
mod tap {
    pub(super) use tombolo_base::tap::start_recording;
}

/// Without the tap all windows are coherent.
#[cfg(not(sim))]
mod tap {
    pub(super) fn start_recording() {}
}
