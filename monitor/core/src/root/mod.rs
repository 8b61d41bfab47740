//! State and decisions of the root monitor, without I/O.
//!
//! Everything that happens (an agent's report, a node that came up or was lost, console output, time) is an
//! input; every action is an [`Effect`]. So tests and simulators can drive the whole state of a machine.
//!
//! **Invariant:** nothing here blocks, reads a clock, or touches a descriptor.

mod attached;
mod channels;
mod console;
mod deferred_exits;
mod domain_table;
mod domains;
mod facts;
mod groups;
mod limits;
mod names;
mod nodes;
mod observing;
mod regions;
mod relays;
mod remote_names;
mod requests;
mod resource_counts;
mod routes;
mod services;
mod start_capabilities;
mod steering;
#[cfg(test)]
mod tests;
mod traces;
mod windows;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU16;
use std::time::Duration;

use tombolo_base::{ChannelId, DomainId, NodeId, Target, WindowId};
use tombolo_control::{
    Attachment, CapabilityId, Fault, MonitorMessage, Order, RegionId, Reply, Report, encode_or_fault,
};
use tombolo_link::window::WindowRange;
use tombolo_machine::image::Image;
use tombolo_machine::{Limit, Machine};

use channels::StreamChannel;
use console::ConsoleRecord;
use deferred_exits::DeferredExits;
use domain_table::DomainTable;
use observing::{ObservedDomain, ObserverState, Observing};
use regions::Regions;
use relays::Relays;
use remote_names::RemoteNames;
use steering::Steering;
use traces::Traces;
use windows::WindowRecord;

use crate::names::{NameService, scope_limits};

/// A point in time, in nanoseconds since an arbitrary origin.
pub type Nanos = u64;

/// A client's connection: the agent's node, and the agent's number for it.
pub type ClientId = (NodeId, u32);

/// A descriptor of the root that an agent needs. The order's attachment defines its use there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names of fields say what they are")]
pub enum Resource {
    /// One end of a socket pair between two domains of this kernel.
    PairEnd {
        channel: ChannelId,
        /// False for the connecting side.
        accepting: bool,
        /// A plain byte stream instead of rings.
        stream: bool,
    },
    /// This side's end of the link stream with a channel's number.
    LinkStream { node: NodeId, channel: ChannelId },
    /// The memory of a window.
    WindowMemory(WindowId),
    /// The event counter that rings a vector of a window's member, given by its peer number.
    Bell { window: WindowId, peer: u16, vector: u16 },
    /// An event counter for the host's end of a channel without its own vector: the root signals it when the
    /// peer has counted a ring on the channel.
    SharedBell {
        channel: ChannelId,
        window: WindowId,
        /// Offset of the channel in the window.
        offset_bytes: u64,
        /// Whether this end is the accepting one.
        accepting: bool,
        /// Offset of the word in the window that counts the rings of a group of peers, if any.
        group: Option<u64>,
    },
    /// A program, by its SHA-256 hash.
    Program([u8; 32]),
    /// The memory of a region that the host's agent keeps.
    Region { region: RegionId, writable: bool },
    /// The memory of a window, for a region.
    RegionInWindow { window: WindowId, writable: bool },
    /// The descriptor received with a request of a client.
    RequestFile(ClientId, u32),
}

/// Action of the root; effects are performed in order.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of fields say what they are")]
pub enum Effect {
    /// Send an order to a node's agent.
    Order {
        node: NodeId,
        order: Order,
        /// Descriptors sent with the order.
        passed: Vec<Resource>,
    },
    /// Write a program into a node's window. The order that names it follows.
    WriteProgram { node: NodeId, range: WindowRange, image: Image, target: Target },
    /// Keep a program in memory, so that it can be passed as a resource; on failure call
    /// [`Core::program_store_failed`].
    KeepProgram { node: NodeId, hash: [u8; 32], image: Image, target: Target },
    /// Send a program through a stream of the link with a node. The order that names it follows.
    StreamProgram { node: NodeId, stream: ChannelId, image: Image, target: Target },
    /// Zero a range of a window before it is lent.
    ClearWindow { window: WindowId, range: WindowRange },
    /// The channel of a [`Resource::SharedBell`] has ended.
    RemoveSharedBell { channel: ChannelId },
    /// Start a node.
    Boot { node: NodeId, generation: NonZeroU16 },
    /// Kill a node that does not respond.
    Destroy { node: NodeId },
    /// Write input to a node's console.
    ConsoleWrite { node: NodeId, bytes: Vec<u8> },
    /// Stop the machine.
    Shutdown,
}

/// State of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
enum NodeState {
    /// Started, but its agent has not reported yet.
    Booting { since: Nanos },
    /// The agent responds.
    Up,
    /// The node joins by itself and has not joined yet: its window is offered. The cause includes the error
    /// of the last attempt.
    AwaitingJoin { since: Nanos, cause: String },
    /// The node is not running.
    Down { cause: String },
}

impl NodeState {
    /// Returns the reason why a node in this state cannot serve requests; `None` if it is up.
    fn down_reason(&self) -> Option<String> {
        match self {
            NodeState::Up => None,
            NodeState::Booting { .. } => Some("it is starting".to_owned()),
            NodeState::AwaitingJoin { cause, .. } | NodeState::Down { cause } => Some(cause.clone()),
        }
    }
}

/// A node of the machine.
#[derive(Debug)]
struct NodeRecord {
    state: NodeState,
    generation: NonZeroU16,
    next_index: u32,
    cores: u16,
    pid: i32,
    boot: Duration,
    /// Programs that its agent has, the least recently used first.
    programs: VecDeque<[u8; 32]>,
    console: ConsoleRecord,
    /// Client that requested a restart, with its request.
    restarting: Option<(ClientId, u32)>,
}

/// A client of an agent.
#[derive(Debug, Default)]
struct ClientRecord {
    pid: i32,
    domain: Option<DomainId>,
    /// Domain as which the agent started it.
    spawned: Option<DomainId>,
    next_listener: u32,
    /// Number of channels granted to its listeners and not accepted yet.
    unaccepted: usize,
    /// Whether it has written to the input of a domain that may still be pending when the client leaves.
    has_pending_input: bool,
    observer: ObserverState,
}

/// A live domain.
#[derive(Debug)]
struct DomainRecord {
    program: String,
    pid: i32,
    since: Nanos,
    /// Parent domain, with its connection while it lasts; `None` for a domain that attached by itself.
    parent: Option<(DomainId, Option<ClientId>)>,
    image: Option<Image>,
    /// SHA-256 hash of the build that it runs; zeros for a domain that attached by itself.
    build: [u8; 32],
    channels: u32,
    /// Request to be answered once it has started.
    start_request: Option<u32>,
    /// Capabilities that it was started with.
    initial_capabilities: start_capabilities::InitialCapabilities,
    /// Requests to be answered once its inputs have been accepted, by stream.
    pending_inputs: Vec<(u8, ClientId, u32)>,
    observed: ObservedDomain,
}

/// An exported name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NameRecord {
    owner: DomainId,
    client: ClientId,
    listener: u32,
}

/// Name with its scope: a node, or `None` for the machine.
type NameKey = (Option<NodeId>, String);

/// Destination of a client's channel.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Destination {
    /// The domain that exports a name.
    Name(NameKey),
    /// The service of a capability that this domain holds.
    Service { by: DomainId, capability: CapabilityId },
}

/// A client that waits for a name, or for room in a backlog.
#[derive(Debug)]
struct WaitingConnect {
    client: ClientId,
    request: u32,
    to: Destination,
    config: tombolo_link::ChannelConfig,
    until: Nanos,
}

/// A channel in a window, with the resources to be freed.
#[derive(Debug)]
struct WindowChannel {
    /// Domain that opened it, whose limits it counts for.
    opener: DomainId,
    window: WindowId,
    range: WindowRange,
    /// Doorbells of the connecting and the accepting side: peer number and vector.
    bells: [(u16, u16); 2],
    /// For each side with a shared doorbell, the offset of the word in which its peer counts rings with
    /// others.
    groups: [Option<u64>; 2],
    /// Nodes whose agents hold a lifeline and have not reported its release.
    held_by: Vec<NodeId>,
}

/// State of a machine.
#[derive(Debug)]
pub struct Core {
    machine: Machine,
    nodes: Vec<NodeRecord>,
    /// Windows by id; the window of a node with the host exists while the node runs.
    windows: Vec<Option<WindowRecord>>,
    clients: BTreeMap<ClientId, ClientRecord>,
    domains: DomainTable,
    names: NameService,
    /// Exported names of nodes, as reported by their agents.
    node_exports: BTreeMap<(NodeId, String), NameRecord>,
    services: services::Services,
    remote_names: RemoteNames,
    waiting: Vec<WaitingConnect>,
    channels: BTreeMap<ChannelId, WindowChannel>,
    /// Channels in streams of links.
    streams: BTreeMap<ChannelId, StreamChannel>,
    next_channel: u64,
    /// Domains to be killed at a given time.
    pending_kills: Vec<(Nanos, DomainId)>,
    deferred_exits: DeferredExits,
    traces: Traces,
    regions: Regions,
    relays: Relays,
    observing: Observing,
    steering: Steering,
    /// Latest time of any input.
    now: Nanos,
    /// Wall clock time at instant 0, in nanoseconds.
    wall_offset_ns: u64,
    /// Time since which the machine has been unused.
    idle_since: Option<Nanos>,
    effects: Vec<Effect>,
}

/// Returns a client's name for something, truncated to fit into a message.
fn truncate_name(name: &str) -> String {
    name.chars().take(200).collect()
}

/// Timeout of a node from start to its first report.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a program name kept for lists, in characters.
const MAX_PROGRAM_CHARS: usize = 64;

/// Maximum number of programs that an agent keeps for later starts.
const MAX_PROGRAMS: usize = 16;

impl Core {
    /// Creates a machine whose nodes are all down.
    #[must_use]
    pub fn new(machine: Machine, now: Nanos) -> Self {
        let down = || NodeState::Down { cause: "not started".into() };
        let nodes = machine
            .nodes()
            .iter()
            .map(|_| NodeRecord {
                state: down(),
                generation: NonZeroU16::MIN,
                next_index: 1,
                cores: 0,
                pid: 0,
                boot: Duration::ZERO,
                programs: VecDeque::new(),
                console: ConsoleRecord::default(),
                restarting: None,
            })
            .collect();
        let limits = machine.limits();
        let regions = Regions::new(limits);
        let observing = Observing::new(&machine, limits);
        let limits = scope_limits(limits.of(Limit::NamesPerDomain), limits.of(Limit::WaitingPerDomain));
        Core {
            names: NameService::new(None, limits, 1),
            windows: machine.windows().iter().map(WindowRecord::for_shared).collect(),
            machine,
            nodes,
            clients: BTreeMap::new(),
            domains: DomainTable::default(),
            node_exports: BTreeMap::new(),
            services: services::Services::default(),
            remote_names: RemoteNames::default(),
            waiting: Vec::new(),
            channels: BTreeMap::new(),
            streams: BTreeMap::new(),
            next_channel: 1,
            pending_kills: Vec::new(),
            deferred_exits: DeferredExits::default(),
            traces: Traces::default(),
            regions,
            relays: Relays::default(),
            observing,
            steering: Steering::default(),
            now,
            wall_offset_ns: 0,
            idle_since: Some(now),
            effects: Vec::new(),
        }
    }

    /// Returns the effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.apply_region_consequences();
        self.send_name_messages();
        std::mem::take(&mut self.effects)
    }

    /// Returns the time when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        let boots = self.nodes.iter().filter_map(|node| match node.state {
            NodeState::Booting { since } => Some(since + BOOT_TIMEOUT.as_nanos() as Nanos),
            _ => None,
        });
        let waits = self.waiting.iter().map(|waiting| waiting.until);
        boots
            .chain(self.joins_due())
            .chain(waits)
            .chain(self.names.next_tick())
            .chain(self.traces.shutdown_at())
            .chain(self.regions.table.next_tick())
            .chain(self.pending_kills.iter().map(|(at, _)| *at))
            .chain(self.relays.next_tick())
            .chain(self.observing_due())
            .min()
    }

    /// Runs the work due at `now`.
    pub fn tick(&mut self, now: Nanos) {
        self.now = now;
        self.expire_waiting(now);
        self.expire_relay_starts(now);
        self.names.tick(now);
        self.trace_tick(now);
        self.regions.table.tick(now);
        self.run_pending_kills(now);
        self.expire_boots(now);
        self.observing_tick(now);
    }

    /// Returns the time since which no domain has been attached; `None` while one is.
    #[must_use]
    pub fn idle_since(&self) -> Option<Nanos> {
        self.idle_since
    }

    /// Handles an agent's report. `image` is the content of the accompanying file.
    pub fn report(&mut self, now: Nanos, node: NodeId, report: Report, image: Option<Result<Image, String>>) {
        self.now = now;
        if !self.is_authorized_report(node, &report) {
            return;
        }
        match report {
            Report::Ready { version, isa, cores, pid } => {
                self.node_ready(now, node, (version, isa), cores, pid);
            }
            Report::Joined { connection, pid, domain } => {
                self.client_connected((node, connection), pid, domain);
            }
            Report::Asked { connection, message } => {
                self.handle_request(now, (node, connection), &message, image);
            }
            Report::NamesSay { domain, connection, message } => {
                self.handle_names_message(node, domain, connection, &message);
            }
            Report::Exported { connection, name, listener } => {
                self.node_exported((node, connection), name, listener);
            }
            Report::Withdrawn { name } => {
                if let Some(record) = self.node_exports.remove(&(node, name)) {
                    self.listener_withdrawn(record.client, Some(record.listener));
                }
            }
            Report::Left { connection } => self.client_left((node, connection)),
            Report::Started { domain, pid } => self.domain_started(domain, pid),
            Report::NotStarted { domain, why } => self.domain_not_started(domain, why),
            Report::Ended { domain, exit } => self.domain_ended(domain, exit),
            Report::Output { domain, stream, bytes } => self.domain_output(domain, stream, bytes),
            Report::ProgramTaken { hash } => self.program_taken(node, hash),
            Report::Released { channel } => self.channel_released(node, channel),
            Report::InputTaken { domain, stream } => self.input_taken(domain, stream),
            Report::TraceBytes { ticket, bytes } => self.trace_read_done(node, ticket, bytes),
            Report::RegionMade { region, failed, read_only } => self.region_made(region, failed, read_only),
            Report::RegionSealed { region, failed } => self.region_sealed(region, failed),
            Report::Sampled { node: sample, domains, ends } => self.sampled(now, node, sample, domains, ends),
            Report::Probed { ticket } => self.probed(now, node, ticket),
            Report::FrequencySet { ticket, failed } => self.frequency_set(node, ticket, failed),
        }
        if self.clients.is_empty() && self.domains.is_empty() {
            self.idle_since.get_or_insert(now);
        }
    }

    /// Returns whether a report about a domain or region comes from its own node. Reports of other nodes are
    /// ignored.
    fn is_authorized_report(&self, node: NodeId, report: &Report) -> bool {
        match report {
            Report::Started { domain, .. }
            | Report::NotStarted { domain, .. }
            | Report::Ended { domain, .. }
            | Report::Output { domain, .. }
            | Report::InputTaken { domain, .. }
            | Report::Joined { domain: Some(domain), .. } => domain.node() == node,
            Report::RegionMade { region, .. } | Report::RegionSealed { region, .. } => region.node() == node,
            _ => true,
        }
    }

    /// Returns whether a domain is alive.
    #[must_use]
    pub fn is_alive(&self, domain: DomainId) -> bool {
        self.domains.contains_key(&domain)
    }

    fn node(&mut self, id: NodeId) -> Option<&mut NodeRecord> {
        self.nodes.get_mut(usize::from(id.0))
    }

    fn node_name(&self, id: NodeId) -> String {
        self.machine.node(id).map_or_else(|| id.to_string(), |node| node.name.clone())
    }

    fn send_order(&mut self, node: NodeId, order: Order) {
        self.effects.push(Effect::Order { node, order, passed: Vec::new() });
    }

    /// Sends a message to a client.
    fn deliver(&mut self, client: ClientId, request: u32, body: Reply) {
        self.deliver_with(client, request, body, ChannelId(0), Vec::new(), Vec::new());
    }

    fn deliver_with(
        &mut self,
        (node, connection): ClientId,
        request: u32,
        body: Reply,
        channel: ChannelId,
        attachments: Vec<Attachment>,
        passed: Vec<Resource>,
    ) {
        let message = encode_or_fault(&MonitorMessage { request, body });
        let order = Order::Deliver { connection, channel, attachments, message };
        self.effects.push(Effect::Order { node, order, passed });
    }

    fn answer(&mut self, client: ClientId, request: u32, result: Result<Reply, Fault>) {
        // Request number 0 expects no answer.
        if let Err(fault) = &result {
            let domain = self.clients.get(&client).and_then(|record| record.domain);
            self.record_limit_event(domain, fault);
        }
        if request != 0 {
            let body = result.unwrap_or_else(|fault| Reply::Failed { fault });
            self.deliver(client, request, body);
        }
    }
}
