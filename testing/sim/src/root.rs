//! The root: the real core and the host's real agent, with simulated execution of their effects.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use tombolo_base::{ChannelId, NodeId, WindowId};
use tombolo_control::FINGERPRINT;
use tombolo_control::{Order, Report, Wire};
use tombolo_link::window::{WindowHeader, WindowRange};
use tombolo_machine::{Image, Machine};
use tombolo_monitor_core::root::{Core, Effect, Resource};

use crate::agent::{SimAgent, leftover_entries};
use crate::descriptor::{Actor, Fd, SocketEnd};
use crate::line::MonitorLine;
use crate::shared::{Event, Shared};
use crate::window::{WindowPlace, WindowSide};

/// Maximum number of orders and reports handled in one turn.
const BURST: usize = 256;

/// Maximum number of consecutive reports handled of one node.
const REPORTS_IN_A_ROW: usize = 32;

/// The root's state of a node.
struct RootNode {
    generation: u16,
    line: MonitorLine,
    window: Option<u64>,
    /// Cause of its end, once it has ended.
    ended: Option<String>,
}

/// The root in the simulation.
pub struct Root {
    machine: Machine,
    /// The code under test.
    pub core: Core,
    agent: SimAgent,
    nodes: BTreeMap<u16, RootNode>,
    pairs: BTreeMap<ChannelId, SocketEnd>,
    programs: BTreeSet<[u8; 32]>,
    /// File passed with the request being served, and whether it is writable.
    offered: Option<bool>,
    /// Offset of its clock from virtual time, in nanoseconds.
    clock_offset_ns: i64,
    /// Far ends of lines, which nodes take when they start.
    pub far_ends: BTreeMap<(u16, u16), SocketEnd>,
}

impl Root {
    /// Creates the root of a machine that has not booted yet.
    pub fn new(shared: &mut Shared, machine: Machine) -> Self {
        let core = Core::new(machine.clone(), 0);
        let agent = SimAgent::new(shared, 0, None);
        Root {
            machine,
            core,
            agent,
            nodes: BTreeMap::new(),
            pairs: BTreeMap::new(),
            programs: BTreeSet::new(),
            offered: None,
            clock_offset_ns: 0,
            far_ends: BTreeMap::new(),
        }
    }

    fn clock(&self, shared: &Shared) -> u64 {
        shared.now.saturating_add_signed(self.clock_offset_ns)
    }

    /// Moves the clock of the root by an offset.
    pub fn jump_clock(&mut self, by_ns: i64) {
        self.clock_offset_ns += by_ns;
    }

    /// Returns the window of a running node.
    #[must_use]
    pub fn window(&self, node: u16) -> Option<u64> {
        self.nodes.get(&node).and_then(|node| node.window)
    }

    /// Returns the generation of a running node, as known to the root.
    #[must_use]
    pub fn generation(&self, node: u16) -> Option<u16> {
        self.nodes.get(&node).map(|node| node.generation)
    }

    /// Describes resources that the host's agent and the root still hold although no domain uses them.
    #[must_use]
    pub fn leftovers(&self, clients: usize) -> Option<String> {
        let pairs = (!self.pairs.is_empty()).then(|| format!("{} pairs of the root", self.pairs.len()));
        self.agent
            .leftovers(clients)
            .or(pairs)
            .or_else(|| leftover_entries(&self.core.resource_counts(), clients))
    }

    /// Starts every node of the machine.
    pub fn boot(&mut self, shared: &mut Shared) {
        self.core.boot_all(self.clock(shared));
        self.perform_all(shared);
        self.turn(shared);
    }

    /// Records that a node ended. Its earlier reports are still handled.
    pub fn node_ended(&mut self, shared: &mut Shared, node: u16, generation: u16, cause: String) {
        if let Some(record) = self.nodes.get_mut(&node)
            && record.generation == generation
        {
            record.ended = Some(cause);
            shared.wake(Actor::Root);
        }
    }

    /// Lets the root handle pending events.
    pub fn turn(&mut self, shared: &mut Shared) {
        for node in self.nodes.values_mut() {
            node.line.wake_up(shared);
        }
        self.agent.poll_events(shared);
        let now = self.clock(shared);
        shared.audit.rights.at(shared.now, now);
        self.core.tick(now);
        self.perform_all(shared);
        let mut unsettled = true;
        for _ in 0..BURST {
            let mut worked = false;
            while let Some((report, file)) = self.agent.next_report() {
                worked = true;
                self.report(shared, 0, report, file);
            }
            let mut nodes: Vec<u16> = self.nodes.keys().copied().collect();
            shared.random.shuffle(&mut nodes);
            for node in nodes {
                worked |= self.process_reports(shared, node);
            }
            if !worked {
                unsettled = false;
                break;
            }
        }
        if unsettled {
            shared.wake(Actor::Root);
        }
        for node in self.nodes.values_mut() {
            node.line.sleep(shared);
        }
        if let Some(at) = self.core.next_tick() {
            let delay_ns = at.saturating_sub(self.clock(shared));
            shared.schedule_turn(Actor::Root, delay_ns.max(1));
        }
    }

    fn report(&mut self, shared: &mut Shared, node: u16, report: Report, file: Option<Fd>) {
        shared.record_event(&[1, node.into(), shared.now, kind(&report)], || {
            format!("node {node} reports {report:?}")
        });
        self.offered = match &file {
            Some(Fd::File { writable }) => Some(*writable),
            _ => None,
        };
        let image: Option<Result<Image, String>> = file.map(|file| match file {
            Fd::Image(number) => shared.images.get(number).cloned().ok_or_else(|| "empty".to_owned()),
            _ => Err("not a regular file".to_owned()),
        });
        shared.audit.rights.at(shared.now, self.clock(shared));
        shared.audit.before_report(node, &report);
        self.core.report(self.clock(shared), NodeId(node), report, image);
        self.perform_all(shared);
    }

    /// Handles the reports of a node's agent; returns whether there were any.
    fn process_reports(&mut self, shared: &mut Shared, node: u16) -> bool {
        let mut worked = false;
        for _ in 0..REPORTS_IN_A_ROW {
            let Some(record) = self.nodes.get_mut(&node) else { return worked };
            let Some((bytes, fds)) = record.line.receive(shared) else {
                let broken = record.line.is_gone().then(|| "its monitor is gone".to_owned());
                if let Some(cause) = record.ended.take().or(broken) {
                    self.on_node_lost(shared, node, &cause);
                    return true;
                }
                return worked;
            };
            worked = true;
            match Report::from_bytes(&bytes) {
                Ok(report) => self.report(shared, node, report, fds.into_iter().next()),
                Err(error) => shared.audit.fail(format!("node {node} reports nonsense: {error}")),
            }
        }
        worked
    }

    fn on_node_lost(&mut self, shared: &mut Shared, node: u16, cause: &str) {
        shared.record_event(&[2, node.into(), shared.now], || format!("node {node} is lost: {cause}"));
        self.destroy(shared, node);
        shared.audit.before_node_lost(node);
        self.core.node_lost(NodeId(node), cause);
        self.perform_all(shared);
    }

    fn destroy(&mut self, shared: &mut Shared, node: u16) {
        if let Some(record) = self.nodes.remove(&node) {
            let cause = "it was destroyed".to_owned();
            shared.schedule_after(0, Event::Die { node, generation: record.generation, cause });
        }
    }

    /// Passes console output of a node to the core.
    pub fn console_output(&mut self, shared: &mut Shared, node: u16, bytes: &[u8]) {
        self.core.console_output(NodeId(node), bytes);
        self.perform_all(shared);
    }

    fn perform_all(&mut self, shared: &mut Shared) {
        loop {
            let effects = self.core.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in &effects {
                shared.audit.effect(effect);
                if let Effect::Order { order: Order::Start { order }, .. } = effect {
                    shared.audit.started_with(order.domain, self.core.initial_capabilities(order.domain));
                }
            }
            shared.audit.check_effects();
            effects.into_iter().for_each(|effect| self.perform(shared, effect));
        }
        shared.audit.check_effects();
    }

    fn perform(&mut self, shared: &mut Shared, effect: Effect) {
        match effect {
            Effect::Order { node, order, passed } => self.give_order(shared, node.0, order, &passed),
            Effect::WriteProgram { node, range, image, target } => {
                if let (Some(memory), Ok(program)) = (self.near_memory(shared, node.0), image.program(target))
                {
                    let _ = memory.copy_in(range.offset_bytes as usize, program.bytes);
                }
            }
            Effect::KeepProgram { hash, .. } => {
                self.programs.insert(hash);
            }
            Effect::StreamProgram { node, .. } => {
                shared
                    .audit
                    .fail(format!("the root streams a program to node {}, which has a window", node.0));
            }
            Effect::ClearWindow { window, range } => self.clear(shared, self.node_of(window), range),
            Effect::RemoveSharedBell { .. } => {}
            Effect::Boot { node, generation } => self.start_node(shared, node.0, generation),
            Effect::Destroy { node } => self.destroy(shared, node.0),
            Effect::ConsoleWrite { .. } => {}
            Effect::Shutdown => shared.audit.fail("the root shuts the machine down unasked"),
        }
    }

    fn near_memory(&self, shared: &Shared, node: u16) -> Option<tombolo_base::SharedMemory> {
        shared.windows.memory(WindowPlace { window: self.window(node)?, side: WindowSide::Near })
    }

    /// The node whose window with the host this is; a simulated machine has no other windows.
    fn node_of(&self, window: WindowId) -> u16 {
        self.machine.window(window).and_then(|window| window.private_to).map_or(0, |node| node.0)
    }

    fn clear(&mut self, shared: &mut Shared, node: u16, range: WindowRange) {
        let part = self
            .near_memory(shared, node)
            .and_then(|memory| memory.slice(range.offset_bytes as usize, range.length_bytes as usize).ok());
        match part {
            Some(part) => part.clear(),
            None => shared.audit.fail(format!("{range:?} does not lie in the window of node {node}")),
        }
    }

    /// Stops the samples of all nodes, so that the simulation can become idle.
    pub fn end_samples(&mut self, shared: &mut Shared) {
        let nodes: Vec<u16> = [0].into_iter().chain(self.nodes.keys().copied()).collect();
        for node in nodes {
            self.give_order(shared, node, Order::Sample { period_ms: 0 }, &[]);
        }
    }

    fn give_order(&mut self, shared: &mut Shared, node: u16, order: Order, passed: &[Resource]) {
        if shared.healed && matches!(order, Order::Sample { period_ms: 1.. }) {
            return;
        }
        shared.record_event(&[3, node.into(), shared.now], || {
            format!("the root orders node {node}: {order:?}")
        });
        let fds: Vec<Fd> = passed.iter().filter_map(|resource| self.resource(shared, *resource)).collect();
        if node == 0 {
            let _ = self.agent.execute(shared, order, fds);
        } else if let Some(record) = self.nodes.get_mut(&node) {
            match order.to_bytes() {
                Ok(bytes) => record.line.send(shared, (bytes, fds)),
                Err(error) => shared.audit.fail(format!("the root cannot say {order:?}: {error}")),
            }
        }
    }

    fn resource(&mut self, shared: &mut Shared, resource: Resource) -> Option<Fd> {
        match resource {
            Resource::PairEnd { channel, .. } => Some(Fd::SocketEnd(match self.pairs.remove(&channel) {
                Some(other) => other,
                None => {
                    let (first, second) = SocketEnd::pair(&shared.wakes);
                    self.pairs.insert(channel, second);
                    first
                }
            })),
            // Simulated nodes are behind windows, or on the host's kernel.
            Resource::LinkStream { .. } => None,
            Resource::WindowMemory(window) => {
                let window = self.window(self.node_of(window))?;
                Some(Fd::Window(WindowPlace { window, side: WindowSide::Near }))
            }
            // A store that arrives wakes the party that listens for it, so a shared bell needs no monitor.
            Resource::Bell { window, .. } | Resource::SharedBell { window, .. } => {
                self.window(self.node_of(window)).map(|_| Fd::Bell)
            }
            Resource::Region { region, writable } => self.agent.region_memory(region, writable),
            Resource::RegionInWindow { window, writable } => {
                let window = self.window(self.node_of(window))?;
                let place = WindowPlace { window, side: WindowSide::Near };
                Some(if writable { Fd::Window(place) } else { Fd::WindowToRead(place) })
            }
            Resource::RequestFile(..) => self.offered.take().map(|writable| Fd::File { writable }),
            Resource::Program(hash) => self.programs.remove(&hash).then_some(Fd::Program(hash)),
        }
    }

    fn start_node(&mut self, shared: &mut Shared, node: u16, generation: NonZeroU16) {
        if node == 0 {
            let isa = self.machine.host().isa;
            let ready = Report::Ready { version: FINGERPRINT, isa, cores: 2, pid: 1 };
            return self.report(shared, 0, ready, None);
        }
        let plan = shared.plan.nodes[usize::from(node) - 1];
        if !shared.healed && shared.random.chance(shared.plan.faults.boot / 3) {
            return self.on_node_lost(shared, node, "its emulator is missing");
        }
        let pid = shared.pid();
        let number = generation.get();
        let (line, window) = if plan.vm {
            let length_bytes = 1 << 20;
            let window = shared.windows.make(length_bytes, plan.coherent);
            let place = WindowPlace { window, side: WindowSide::Near };
            if let Some(memory) = shared.windows.memory(place) {
                let length_bytes = length_bytes as u64;
                let id = self.machine.own_window(NodeId(node)).map(|window| window.id).unwrap_or_default();
                WindowHeader { window: id, node: NodeId(node), generation, length_bytes, caches: None }
                    .write(&memory);
            }
            (MonitorLine::over_window(shared, node, number, place), Some(window))
        } else {
            let (ours, theirs) = SocketEnd::pair(&shared.wakes);
            self.far_ends.insert((node, number), theirs);
            (Some(MonitorLine::over_socket(node, number, ours, true)), None)
        };
        let Some(mut line) = line else { return self.on_node_lost(shared, node, "no line") };
        let name = self.machine.node(NodeId(node)).map(|node| node.name.clone()).unwrap_or_default();
        let welcome = Order::Welcome { node: NodeId(node), name, machine: self.machine.name().to_owned() };
        match welcome.to_bytes() {
            Ok(bytes) => line.send(shared, (bytes, Vec::new())),
            Err(error) => shared.audit.fail(format!("the root cannot welcome: {error}")),
        }
        self.core.node_started(NodeId(node), pid, window.map(|_| (1 << 20, plan.doorbells)));
        self.nodes.insert(node, RootNode { generation: number, line, window, ended: None });
        let delay_ns = shared.random.magnitude(100_000, 500_000_000);
        if shared.healed || !shared.random.chance(shared.plan.faults.boot / 3) {
            // Otherwise it hangs, and the root times out.
            shared.schedule_after(delay_ns, Event::Boot { node, generation: number });
        }
    }
}

/// The form of a report that is hashed.
fn kind(report: &Report) -> u64 {
    tombolo_base::hash::fnv1a(&report.to_bytes().unwrap_or_default())
}
