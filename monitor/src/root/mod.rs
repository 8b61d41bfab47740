//! The root monitor: carries out the decisions of [`tombolo_monitor_core::root`], and passes events to it.
//!
//! One loop, with a second thread that reads images. It waits only for descriptors. The loop never blocks,
//! except for the handshake with a virtual machine that has just rung for it, and for at most 50 ms for the
//! end of an emulator whose sockets have closed.

mod attached;
mod boot;
mod images;
mod node;
mod poller;
mod windows;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tombolo_base::{ChannelId, NodeId, WindowId};
use tombolo_control::{ClientMessage, NodeInfo, Order, Report, Request, Wire};
use tombolo_link::layout::PAGE_BYTES;
use tombolo_link::window::SHARED_VECTOR;
use tombolo_machine::kit::KitError;
use tombolo_machine::{Kit, Machine, Window};
use tombolo_platform::epoll::Epoll;
use tombolo_platform::event::{Interest, Ready, drain, poll};
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_platform::{Errno, OsError, memory, socket};

use crate::agent::{Agent, program_from_bytes};
use crate::orphans;
use crate::shared_bells::{SharedBells, WATCHED_BYTES, WatchedChannel};
use crate::streams::LinkStreams;
use crate::supervisor::Supervisor;
use attached::AttachEvent;
use boot::BootImage;
use images::ImageReader;
use node::RunningNode;
use poller::NodePoller;
use tombolo_monitor_core::root::{Core, Effect, Resource};
use windows::Windows;

/// Idle time after which the monitor of a plain host ends by itself.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of rounds of orders and reports before clients and timers are served.
const BURST: usize = 16;

/// Maximum number of reports of one node per round, so that a flood from one does not starve the others.
const REPORTS_PER_ROUND: usize = 64;

/// Reason why a machine did not come up, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A machine of this name is already up.
    #[error(
        "machine '{0}' is up already: see `tombolo status`, or bring it down first with `tombolo down --machine {0}`"
    )]
    AlreadyUp(String),
    /// The machine was taken down before all nodes were up.
    #[error("machine '{0}' was taken down while it came up")]
    Stopped(String),
    /// A node did not come up.
    #[error("node {node} did not come up: {cause}")]
    Node {
        /// The node.
        node: String,
        /// The cause.
        cause: String,
    },
    /// A window could not be created.
    #[error("{0}")]
    Window(String),
    /// A part of the kit is missing.
    #[error(transparent)]
    Kit(#[from] KitError),
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// A report whose image is being read.
struct PendingReport {
    node: NodeId,
    losses: u64,
    report: Report,
}

/// The root monitor: carries out the decisions of [`Core`], and serves the host as its agent.
pub struct Root {
    machine: Machine,
    /// The kit, or the reason why it is missing; the host alone needs none.
    kit: Result<Kit, KitError>,
    core: Core,
    agent: Agent,
    nodes: HashMap<NodeId, RunningNode>,
    windows: Windows,
    /// Shared doorbells of domains on this kernel.
    shared_bells: SharedBells,
    node_poller: NodePoller,
    /// Whether agents are read; false while there is no room for their requests.
    requests_enabled: bool,
    /// Ends of socket pairs whose other end was handed out.
    pairs: HashMap<ChannelId, OwnedFd>,
    /// Programs that are being passed to agents of this kernel.
    programs: HashMap<[u8; 32], OwnedFd>,
    /// Boot images, kept for restarts.
    boot_images: HashMap<boot::BootImageKey, BootImage>,
    images: ImageReader<PendingReport>,
    /// Files that came with requests, by node, connection and request.
    request_files: HashMap<(NodeId, u32, u32), OwnedFd>,
    /// Number of losses of each node; distinguishes requests of a node's previous life from new ones.
    losses: HashMap<NodeId, u64>,
    stopping: bool,
    /// Whether there is more to do even if no descriptor is ready.
    has_pending: bool,
    /// Readable when the supervisor, which would clean up after this process, is gone.
    supervisor: OwnedFd,
    /// Readable when the command that requested the machine is gone before it is up, so that the machine is
    /// not needed.
    requester_closed: Option<Epoll>,
    idle_exit: bool,
}

impl Root {
    /// Creates a root monitor for `machine`. It serves clients from now on, as long as its `supervisor`
    /// lives.
    ///
    /// # Errors
    /// [`RootError::AlreadyUp`] if a machine of this name is up.
    pub fn new(
        machine: Machine,
        kit: Result<Kit, KitError>,
        supervisor: Supervisor,
        idle_exit: bool,
    ) -> Result<Self, RootError> {
        let agent = Agent::new(machine.name(), None, None, Some(supervisor.ledger)).map_err(|error| {
            if error.errno == tombolo_platform::Errno::ADDRINUSE {
                RootError::AlreadyUp(machine.name().to_owned())
            } else {
                error.into()
            }
        })?;
        let windows = Windows::new(&machine).map_err(RootError::Window)?;
        Ok(Root {
            core: Core::new(machine.clone(), now_ns()),
            machine,
            kit,
            agent,
            nodes: HashMap::new(),
            windows,
            shared_bells: SharedBells::default(),
            node_poller: NodePoller::new()?,
            requests_enabled: true,
            pairs: HashMap::new(),
            programs: HashMap::new(),
            boot_images: HashMap::new(),
            images: ImageReader::start()?,
            request_files: HashMap::new(),
            losses: HashMap::new(),
            stopping: false,
            has_pending: false,
            supervisor: supervisor.exited,
            requester_closed: None,
            idle_exit,
        })
    }

    /// Starts all nodes and waits until they are up, reporting each by `report`, which returns false if its
    /// reader is gone; `end` becomes readable then.
    ///
    /// # Errors
    /// The first node that did not come up; [`RootError::Stopped`]. Nodes that were started end when this is
    /// dropped.
    pub fn boot(
        &mut self,
        mut report: impl FnMut(String) -> bool,
        end: Option<Epoll>,
    ) -> Result<(), RootError> {
        self.requester_closed = end;
        self.core.boot_all(now_ns());
        let mut reported = Vec::new();
        loop {
            self.process_pending();
            if self.stopping {
                return Err(RootError::Stopped(self.machine.name().to_owned()));
            }
            let progress = self.core.boot_progress();
            for node in progress.up.iter().filter(|node| node.id != NodeId::HOST) {
                if !reported.contains(&node.id) {
                    reported.push(node.id);
                    let NodeInfo { name, kind, isa, boot, .. } = node;
                    // The process that requested the machine may be gone: then it is not needed.
                    self.stopping |=
                        !report(format!("{name}: {kind} {isa} up in {:.2} s", boot.as_secs_f64()));
                }
            }
            if let Some(node) = progress.down.first() {
                let tail = self.core.console_tail(node.id, 12);
                let shown = if tail.is_empty() { tail } else { format!("\nits console ends with:\n{tail}") };
                return Err(RootError::Node { node: node.name.clone(), cause: node.cause.clone() + &shown });
            }
            if progress.booting.is_empty() && !self.stopping {
                self.requester_closed = None;
                return Ok(());
            }
            self.wait_and_handle()?;
        }
    }

    /// Serves until the machine is taken down or, with `idle_exit`, until it has been idle for a while.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn serve(&mut self) -> Result<(), RootError> {
        loop {
            self.process_pending();
            if self.stopping {
                return Ok(());
            }
            let idle_ns = IDLE_TIMEOUT.as_nanos() as u64;
            if self.idle_exit && self.core.idle_since().is_some_and(|since| now_ns() >= since + idle_ns) {
                return Ok(());
            }
            self.wait_and_handle()?;
        }
    }

    /// Processes reports and effects until there is nothing left to do, or others should get their turn.
    fn process_pending(&mut self) {
        self.has_pending = true;
        self.core.set_wall_clock(now_ns(), wall_ns());
        self.core.tick(now_ns());
        self.agent.tick();
        for _ in 0..BURST {
            let mut did_work = false;
            while let Some((report, file)) = self.agent.next_report() {
                did_work = true;
                self.handle_report(NodeId::HOST, report, file);
            }
            for id in self.node_poller.active_nodes() {
                did_work |= self.process_node_input(id);
            }
            did_work |= self.process_images();
            for effect in self.core.take_effects() {
                did_work = true;
                self.execute_effect(effect);
            }
            // Close files that were offered but not used.
            self.request_files.clear();
            if !did_work {
                self.has_pending = false;
                // Not earlier: an orphan is kept until its domain is known to have ended.
                let nodes: Vec<i32> = self.nodes.values().map(RunningNode::pid).collect();
                return self.agent.kill_orphans(&nodes, |domain| self.core.is_alive(domain));
            }
        }
    }

    /// Processes a report; one with a file is processed when that has been read.
    fn handle_report(&mut self, node: NodeId, report: Report, file: Option<OwnedFd>) {
        match file {
            None => self.core.report(now_ns(), node, report, None),
            Some(file) if let Some((connection, request)) = region_file_request(&report) => {
                self.request_files.insert((node, connection, request), file);
                self.core.report(now_ns(), node, report, None);
            }
            Some(file) => {
                let losses = self.losses_of(node);
                self.images.read(PendingReport { node, losses, report }, file);
            }
        }
    }

    /// Processes the reports whose images have been read. Returns whether there were any.
    fn process_images(&mut self) -> bool {
        let mut did_work = false;
        while let Some((PendingReport { node, losses, report }, image)) = self.images.next() {
            did_work = true;
            // A restarted node numbers its connections from the start.
            if losses == self.losses_of(node) {
                self.core.report(now_ns(), node, report, Some(image));
            }
        }
        did_work
    }

    fn losses_of(&self, node: NodeId) -> u64 {
        self.losses.get(&node).copied().unwrap_or(0)
    }

    /// Processes reports of a node's agent. Returns whether there were any.
    fn process_node_input(&mut self, id: NodeId) -> bool {
        let mut did_work = false;
        let mut received = 0;
        let lost = loop {
            let Some(node) = self.nodes.get_mut(&id) else { return did_work };
            if received == REPORTS_PER_ROUND || self.images.is_full() {
                break None;
            }
            match node.receive() {
                Ok(Some((bytes, fds))) => {
                    did_work = true;
                    received += 1;
                    // An agent of another node is a peer: its messages are validated like any other's.
                    match Report::from_bytes(&bytes) {
                        Ok(report) => {
                            if matches!(report, Report::Ended { .. }) {
                                self.agent.expect_orphans();
                            }
                            self.handle_report(id, report, fds.into_iter().next());
                        }
                        Err(error) => break Some(format!("its monitor broke the protocol: {error}")),
                    }
                }
                Ok(None) => break None,
                Err(cause) => break Some(cause),
            }
        };
        let Some(node) = self.nodes.get_mut(&id) else { return did_work };
        for event in node.take_events() {
            did_work = true;
            match event {
                AttachEvent::Joined { base_bytes } => self.core.node_joining(now_ns(), id, base_bytes),
                AttachEvent::Refused(why) => self.core.joiner_refused(id, &why),
                AttachEvent::Lost(_) => {}
            }
        }
        let ended = node.streams().map(LinkStreams::take_ended).unwrap_or_default();
        ended.into_iter().for_each(|channel| self.core.stream_ended(channel));
        let printed = node.take_console();
        self.core.set_pending_console_input(id, node.pending_input_bytes());
        if !printed.is_empty() {
            did_work = true;
            self.core.console_output(id, &printed);
        }
        if let Some(cause) = lost {
            did_work = true;
            self.handle_node_loss(id, &cause);
        }
        did_work
    }

    fn handle_node_loss(&mut self, id: NodeId, cause: &str) {
        self.node_poller.remove(id);
        if let Some(mut node) = self.nodes.remove(&id) {
            node.destroy();
            self.agent.expect_orphans();
            let printed = node.take_console();
            self.core.console_output(id, &printed);
        }
        *self.losses.entry(id).or_default() += 1;
        self.windows.node_lost(&self.machine, id);
        self.core.node_lost(id, cause);
    }

    fn execute_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Order { node, order, passed } => self.send_order(node, order, &passed),
            Effect::WriteProgram { node, range, image, target } => {
                if let (Some(window), Ok(program)) = (self.machine.own_window(node), image.program(target)) {
                    self.windows.write(window.id, range, program.bytes);
                }
            }
            Effect::KeepProgram { node, hash, image, target } => {
                let program = image.program(target).map_err(|error| error.to_string());
                let kept = program
                    .and_then(|program| program_from_bytes(program.bytes).map_err(|error| error.to_string()));
                match kept {
                    Ok(file) => {
                        self.programs.insert(hash, file);
                    }
                    Err(why) => self.core.program_store_failed(node, hash, &why),
                }
            }
            Effect::StreamProgram { node, stream, image, target } => {
                let Some(streams) = self.nodes.get(&node).and_then(RunningNode::streams) else { return };
                let program = image.program(target).ok();
                match program.and_then(|program| program_from_bytes(program.bytes).ok()) {
                    Some(file) => streams.send_file(stream, file),
                    // The agent detects the missing program and reports it when it is to be started.
                    None => streams.send_empty(stream),
                }
            }
            Effect::ClearWindow { window, range } => self.windows.clear(window, range),
            Effect::RemoveSharedBell { channel } => self.shared_bells.forget(channel),
            Effect::Boot { node, generation } => self.boot_node(node, generation),
            Effect::Destroy { node } => {
                *self.losses.entry(node).or_default() += 1;
                self.node_poller.remove(node);
                if let Some(mut running) = self.nodes.remove(&node) {
                    running.destroy();
                    self.agent.expect_orphans();
                }
                self.windows.node_lost(&self.machine, node);
            }
            Effect::ConsoleWrite { node, bytes } => {
                if let Some(running) = self.nodes.get_mut(&node) {
                    self.node_poller.mark_active(node, running);
                    running.write_console(&bytes);
                }
            }
            Effect::Shutdown => self.stopping = true,
        }
    }

    fn send_order(&mut self, id: NodeId, order: Order, passed: &[Resource]) {
        // A missing resource leaves a gap; the agent that needs it reports the error.
        let fds: Vec<OwnedFd> = passed.iter().filter_map(|resource| self.resource(*resource)).collect();
        if id == NodeId::HOST {
            // The host's agent is stopped by ending this process, not by an order.
            let _ = self.agent.execute(order, fds);
        } else if let Some(node) = self.nodes.get_mut(&id) {
            self.node_poller.mark_active(id, node);
            node.send_order(&order, fds);
        }
    }

    fn resource(&mut self, resource: Resource) -> Option<OwnedFd> {
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().ok();
        match resource {
            Resource::PairEnd { channel, .. } => match self.pairs.remove(&channel) {
                Some(other) => Some(other),
                None => {
                    let (first, second) = socket::pair(socket::SocketKind::Stream).ok()?;
                    self.pairs.insert(channel, second);
                    Some(first)
                }
            },
            Resource::LinkStream { node, channel } => self.nodes.get(&node)?.streams()?.open(channel).ok(),
            Resource::WindowMemory(window) => copy(self.windows.memory(window)?),
            Resource::Bell { window, peer, vector } => copy(self.windows.bell(window, peer, vector)?),
            Resource::SharedBell { channel, window, offset_bytes, accepting, group } => {
                let part = self.windows.part(window, offset_bytes, WATCHED_BYTES)?;
                let page = |at| {
                    let page = self.windows.part(window, at, PAGE_BYTES).map(|(page, _)| page);
                    page.ok_or_else(|| {
                        OsError::new(format!("watch a group of channels in {window}"), Errno::NODEV)
                    })
                };
                let watched = WatchedChannel { channel, window, accepting, group };
                self.shared_bells.make(&watched, part, page).ok()
            }
            Resource::Program(hash) => self.programs.remove(&hash),
            Resource::Region { region, writable } => self.agent.region_memory(region, writable).ok(),
            Resource::RegionInWindow { window, writable } => {
                let memory = self.windows.memory(window)?;
                if writable { copy(memory) } else { memory::open_read_only(memory).ok() }
            }
            Resource::RequestFile((node, connection), request) => {
                self.request_files.remove(&(node, connection, request))
            }
        }
    }

    /// Sleeps until an event and handles it.
    fn wait_and_handle(&mut self) -> Result<(), RootError> {
        let requests_enabled = !self.images.is_full();
        if requests_enabled != self.requests_enabled {
            self.requests_enabled = requests_enabled;
            self.node_poller.mark_all_active(&mut self.nodes);
        }
        for (id, error) in self.node_poller.arm(&mut self.nodes, requests_enabled) {
            self.handle_node_loss(id, &error.to_string());
            self.has_pending = true;
        }
        let quiet = self.node_poller.is_armed() && !self.has_pending && !self.stopping;
        self.agent.set_requests_enabled(requests_enabled);
        self.agent.arm();
        let mut sources = vec![
            (self.agent.ready_fd(), Interest::Read),
            (self.node_poller.fd(), Interest::Read),
            (self.images.ready_fd(), Interest::Read),
        ];
        let bells = sources.len();
        let shared = self.shared_vectors();
        sources.extend(shared.iter().map(|(_, bell)| (*bell, Interest::Read)));
        let ends = sources.len();
        sources.push((self.supervisor.as_fd(), Interest::Read));
        sources.extend(self.requester_closed.iter().map(|end| (end.as_fd(), Interest::Read)));
        let deadline = if quiet { self.next_deadline() } else { Some(Deadline::after(Duration::ZERO)) };
        let ready: Vec<Ready> = poll(&sources, deadline)?;
        drop(sources);
        let rung = shared.iter().zip(&ready[bells..ends]).filter(|(_, ready)| ready.any());
        let rung: Vec<WindowId> = rung.map(|((window, bell), _)| (drain(bell), *window).1).collect();
        rung.into_iter().for_each(|window| self.shared_bells.forward(window));
        self.images.clear_ready();
        self.stopping |= ready[ends..].iter().any(|end| end.any());
        self.node_poller.process_events(&mut self.nodes)?;
        self.agent.tick();
        if ready[0].any() {
            self.agent.serve()?;
        }
        Ok(())
    }

    /// Returns the counters of the vectors that channels of this kernel share, by window.
    fn shared_vectors(&self) -> Vec<(WindowId, BorrowedFd<'_>)> {
        let waits = |window: &&Window| self.shared_bells.has_any(window.id);
        let bell = |window: &Window| {
            let host = window.peer(NodeId::HOST)?;
            Some((window.id, self.windows.bell(window.id, host, SHARED_VECTOR)?))
        };
        self.machine.windows().iter().filter(waits).filter_map(bell).collect()
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let idle_ns = IDLE_TIMEOUT.as_nanos() as u64;
        let idle = self.core.idle_since().filter(|_| self.idle_exit).map(|since| since + idle_ns);
        let next = self.core.next_tick().into_iter().chain(self.agent.next_tick()).chain(idle).min()?;
        Some(Deadline::after(Duration::from_nanos(next.saturating_sub(now_ns()))))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.agent.destroy_children();
        self.nodes.values_mut().for_each(RunningNode::destroy);
        orphans::kill_all();
    }
}

/// Returns the text of an error, for a message to another process.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns nanoseconds since 1970 in UTC; 0 if the clock is set to an earlier time.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the connection and number of a region request whose memory is the accompanying file. Other files
/// are images.
fn region_file_request(report: &Report) -> Option<(u32, u32)> {
    let Report::Asked { connection, message } = report else { return None };
    let request = ClientMessage::from_bytes(message).ok()?;
    matches!(request.body, Request::RegionCreate { .. }).then_some((*connection, request.request))
}
