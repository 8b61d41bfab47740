//! A simulated process: a client of its monitor and a peer of other domains. It chooses its actions at random
//! by the weights of its habits, and may die at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::FINGERPRINT;
use tombolo_control::{
    CapabilityId, ClientMessage, Grant, MonitorMessage, ProgramSpec, Reply, Request, SpawnRequest, Wire,
    streams,
};
use tombolo_link::ChannelConfig;
use tombolo_naming::{Answer, Operation, Query, Scope};
use tombolo_ring::{SlotSize, Variant};

use crate::agent::PIPE_PACKETS;
use crate::bulk::{MIN_SLOTS, Pools};
use crate::conversation::Conversation;
use crate::descriptor::{Actor, Fd, SocketEnd};
use crate::memory::Holdings;
use crate::shared::{ProcessStart, Shared};

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnResult {
    /// It continues to run.
    Lives,
    /// It exited with a status.
    Exits(u8),
    /// It was killed by a signal.
    Killed(u8),
}

/// A request in flight, with what its reply handler needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PendingRequest {
    Attach,
    Export(String),
    Spawn {
        /// Inputs that are still open.
        fed: Vec<u8>,
    },
    Lock {
        scope: Scope,
        name: String,
    },
    /// A capability for another domain; a message on the channel carries its id.
    Grant {
        channel: ChannelId,
    },
    Give {
        capability: CapabilityId,
        channel: ChannelId,
    },
    Delete(CapabilityId),
    /// A request about a bulk channel.
    Bulk,
    Other,
}

/// An action that a process may choose in its turn.
pub(crate) type Action = fn(&mut Process, &mut Shared);

pub(crate) struct Child {
    pub(crate) domain: DomainId,
    /// Inputs that are still open.
    fed: Vec<u8>,
}

/// The prefix of the names of bulk channels.
const BULK_NAME: &str = "bulk";

fn is_bulk(name: &str) -> bool {
    name.starts_with(BULK_NAME)
}

/// A process in the simulation.
pub struct Process {
    pub(crate) pid: i32,
    /// Node whose monitor it is a client of.
    pub node: u16,
    life: Option<SocketEnd>,
    outputs: Vec<SocketEnd>,
    input: Option<SocketEnd>,
    side: Option<SocketEnd>,
    monitor: Option<SocketEnd>,
    /// Packets not yet accepted by the output pipes and, last, the side stream.
    unwritten: [Vec<Vec<u8>>; 3],
    pending: BTreeMap<u32, PendingRequest>,
    next_request: u32,
    attached: bool,
    /// Its identity, once it is attached.
    pub(crate) domain: Option<DomainId>,
    names: Vec<(String, u32)>,
    /// Listeners of bulk channels, including those of names withdrawn since.
    bulk_listeners: BTreeSet<u32>,
    /// Locks that it holds: scope, name and token.
    locks: Vec<(Scope, String, u64)>,
    pub(crate) children: Vec<Child>,
    pub(crate) conversations: Vec<Conversation>,
    /// Its memory.
    pub(crate) holdings: Holdings,
    /// Its state of bulk data.
    pools: Pools,
    next_action_at: u64,
    /// Set to kill it before any other event.
    pub(crate) dies: bool,
    /// Set if it takes no actions itself: the simulation acts through it.
    pub idle: bool,
}

impl Process {
    /// Creates a process, which connects to its monitor and attaches.
    pub fn new(shared: &mut Shared, birth: ProcessStart) -> Self {
        let actor = Actor::Process(birth.pid);
        let monitor = shared.connect(birth.node, birth.pid);
        let mut process = Process {
            pid: birth.pid,
            node: birth.node,
            life: birth.life,
            outputs: birth.outputs.into_iter().map(|output| output.owned_by(actor)).collect(),
            input: birth.input.map(|input| input.owned_by(actor)),
            side: birth.side.map(|side| side.owned_by(actor)),
            monitor,
            unwritten: Default::default(),
            pending: BTreeMap::new(),
            next_request: 1,
            attached: false,
            domain: None,
            names: Vec::new(),
            bulk_listeners: BTreeSet::new(),
            locks: Vec::new(),
            children: Vec::new(),
            conversations: Vec::new(),
            holdings: Holdings::new(shared),
            pools: Pools::default(),
            next_action_at: 0,
            dies: false,
            idle: false,
        };
        let attach = Request::Attach { version: FINGERPRINT, program: format!("p{}", birth.pid) };
        process.ask(attach, PendingRequest::Attach, Vec::new());
        process.plan_action(shared);
        process
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor::Process(self.pid)
    }

    /// Returns whether it has no monitor any more.
    pub(crate) fn has_lost_monitor(&self) -> bool {
        self.monitor.as_ref().is_none_or(SocketEnd::is_gone)
    }

    /// Returns whether it has requests in flight.
    #[must_use]
    pub fn has_pending_requests(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether it was started by a monitor.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.life.is_some()
    }

    /// Returns the number of messages that it still has to send.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.conversations.iter().map(Conversation::unsent).sum()
    }

    /// Returns the channels that it has open.
    #[must_use]
    pub fn conversations(&self) -> &[Conversation] {
        &self.conversations
    }

    pub(crate) fn ask(&mut self, body: Request, pending: PendingRequest, fds: Vec<Fd>) {
        let request = self.next_request;
        self.next_request += 1;
        self.pending.insert(request, pending);
        self.send_request(request, body, fds);
    }

    pub(crate) fn send_request(&mut self, request: u32, body: Request, fds: Vec<Fd>) {
        if let Some(monitor) = &self.monitor {
            // Requests of a process are short enough to encode.
            let bytes = ClientMessage { request, body }.to_bytes().unwrap_or_default();
            monitor.send((bytes, fds));
        }
    }

    /// Sends a request on behalf of the simulation.
    pub fn request(&mut self, body: Request) {
        self.ask(body, PendingRequest::Other, Vec::new());
    }

    /// Exports a name on behalf of the simulation.
    pub fn export(&mut self, name: &str) {
        self.export_in(Scope::Machine, name);
    }

    fn export_in(&mut self, scope: Scope, name: &str) {
        let pending = PendingRequest::Export(name.to_owned());
        self.ask(Request::Export { scope, name: name.to_owned() }, pending, Vec::new());
    }

    /// Opens a channel on behalf of the simulation.
    pub fn connect(&mut self, name: &str, timeout: Duration, config: ChannelConfig) {
        self.request(Request::Connect {
            scope: Scope::Machine,
            name: name.to_owned(),
            timeout,
            config,
            by: None,
        });
    }

    /// Sends on every channel on behalf of the simulation.
    pub fn send_on_all(&mut self, count: u64) {
        self.conversations.iter_mut().for_each(|conversation| conversation.to_send += count);
    }

    fn plan_action(&mut self, shared: &mut Shared) {
        let delay_ns = shared.random.magnitude(1_000, shared.plan.pause_ns);
        self.next_action_at = shared.now + delay_ns;
        shared.schedule_turn(self.actor(), delay_ns);
    }

    /// Runs one turn: handles pending messages and, when it is time, takes an action.
    pub fn turn(&mut self, shared: &mut Shared) -> TurnResult {
        let Some(monitor) = &self.monitor else { return TurnResult::Exits(1) };
        let mut answers = Vec::new();
        while let Some(packet) = monitor.receive() {
            answers.push(packet);
        }
        let lost = monitor.is_gone();
        for (bytes, fds) in answers {
            match MonitorMessage::from_bytes(&bytes) {
                Ok(message) => self.handle_message(shared, message, fds),
                Err(error) => shared.audit.fail(format!("process {} hears nonsense: {error}", self.pid)),
            }
        }
        if lost {
            return TurnResult::Exits(2);
        }
        for input in self.input.iter().chain(&self.side) {
            while let Some((bytes, _)) = input.receive() {
                shared.record_event(&[6, bytes.len() as u64], || {
                    format!("process {} reads {} bytes", self.pid, bytes.len())
                });
                input.ring();
            }
        }
        self.release_mappings(shared);
        self.pools.apply_revocations(shared, self.pid);
        self.run_conversations(shared);
        self.flush_outputs();
        if self.dies {
            return TurnResult::Killed(9);
        }
        if !self.idle && self.attached && shared.now >= self.next_action_at {
            if shared.healed {
                return TurnResult::Lives;
            }
            let turn_result = self.act(shared);
            self.plan_action(shared);
            self.run_conversations(shared);
            return turn_result;
        }
        if !self.idle && !shared.healed && self.next_action_at > shared.now {
            shared.schedule_turn(self.actor(), self.next_action_at - shared.now);
        }
        TurnResult::Lives
    }

    fn run_conversations(&mut self, shared: &mut Shared) {
        let (mut open, mut over) = (Vec::new(), Vec::new());
        for mut conversation in std::mem::take(&mut self.conversations) {
            match conversation.exchange(shared, &mut self.pools) {
                true => open.push(conversation),
                false => over.push(conversation),
            }
        }
        let count = open.len();
        self.conversations = open;
        self.conversations.extend(over);
        self.accept_capabilities(shared);
        for conversation in self.conversations.split_off(count) {
            self.channel_is_over(&conversation);
            conversation.abandon(shared);
        }
    }

    /// Makes the monitor forget grants whose messages can no longer arrive, as their channel has ended.
    fn channel_is_over(&mut self, conversation: &Conversation) {
        let forget = Request::CapabilityForget { channel: conversation.id(), granter: conversation.peer };
        self.send_request(0, forget, Vec::new());
    }

    fn flush_outputs(&mut self) {
        for (output, unwritten) in self.outputs.iter().chain(&self.side).zip(&mut self.unwritten) {
            while !unwritten.is_empty() && output.unreceived_packets() < PIPE_PACKETS {
                output.send((unwritten.remove(0), Vec::new()));
            }
        }
    }

    fn handle_message(&mut self, shared: &mut Shared, message: MonitorMessage, fds: Vec<Fd>) {
        shared.record_event(&[7, self.pid as u64, message.request.into()], || {
            format!("process {} hears {message:?}", self.pid)
        });
        let request = message.number();
        let pending = self.pending.remove(&request);
        if request != 0 && pending.is_none() {
            shared.audit.fail(format!("process {} got an answer that it did not ask for", self.pid));
        }
        let (fds, of_memory) = match message.body {
            Reply::RegionMap { .. } => (Vec::new(), fds),
            _ => (fds, Vec::new()),
        };
        self.handle_memory_reply(shared, &message.body, pending.as_ref(), of_memory);
        match (message.body, pending) {
            (Reply::Attach { domain, .. }, _) => {
                self.attached = true;
                self.domain = Some(domain);
                self.plan_action(shared);
            }
            (Reply::Export { listener }, Some(PendingRequest::Export(name))) => {
                if is_bulk(&name) {
                    self.bulk_listeners.insert(listener);
                }
                self.names.push((name, listener));
            }
            (Reply::Spawn { domain }, Some(PendingRequest::Spawn { fed })) => {
                self.children.push(Child { domain, fed });
            }
            (
                Reply::Names { answer: Answer::Locked { token }, .. },
                Some(PendingRequest::Lock { scope, name }),
            ) => {
                self.locks.push((scope, name, token));
            }
            (Reply::Connect { grant }, pending) => {
                self.open_conversation(shared, &grant, fds, pending == Some(PendingRequest::Bulk));
            }
            (Reply::Incoming { grant, listener, .. }, _) => {
                self.open_conversation(shared, &grant, fds, self.bulk_listeners.contains(&listener));
                self.send_request(0, Request::Accepted { count: 1 }, Vec::new());
            }
            (Reply::Ended { domain, .. }, _) => self.children.retain(|child| child.domain != domain),
            (Reply::Output { domain, stream, bytes }, _) => {
                let bytes = bytes.len() as u32;
                self.send_request(0, Request::OutputTaken { domain, stream, bytes }, Vec::new());
            }
            (Reply::Console { node, bytes, .. }, _) => {
                let bytes = bytes.len() as u32;
                self.send_request(0, Request::ConsoleTaken { node, bytes }, Vec::new());
            }
            _ => {}
        }
    }

    fn open_conversation(&mut self, shared: &mut Shared, grant: &Grant, fds: Vec<Fd>, is_bulk: bool) {
        match Conversation::open(shared, self.pid, grant, fds, is_bulk) {
            Some(mut conversation) => {
                if !conversation.is_bulk() {
                    conversation.to_send = shared.random.below(4);
                }
                self.conversations.push(conversation);
            }
            // The grant's descriptors have been dropped, which shows the peer that it was not accepted.
            None => {
                let side = usize::from(grant.side == tombolo_link::Side::B);
                shared.channels.entry(grant.channel).or_default().abandoned[side] = true;
            }
        }
    }

    fn act(&mut self, shared: &mut Shared) -> TurnResult {
        if shared.actions_left == 0 {
            return TurnResult::Lives;
        }
        shared.actions_left -= 1;
        if shared.random.chance(shared.plan.faults.kill_process) {
            return TurnResult::Killed(9);
        }
        let weights = shared.plan.weights;
        let choices: [(u64, Action); 16] = [
            (weights.export, Self::act_export),
            (weights.withdraw, Self::act_withdraw),
            (weights.connect, Self::act_connect),
            (weights.spawn, Self::act_spawn),
            (weights.kill, Self::act_kill),
            (weights.feed, Self::act_feed),
            (weights.write, Self::act_write),
            (weights.send, Self::act_send),
            (weights.close, Self::act_close),
            (weights.list, Self::act_list),
            (weights.lock, Self::act_lock),
            (weights.console, Self::act_console),
            (weights.restart, Self::act_restart),
            (weights.memory, Self::act_memory),
            (weights.bulk, Self::act_bulk),
            (weights.nonsense, Self::act_send_garbage),
        ];
        let sum = choices.iter().map(|(weight, _)| weight).sum::<u64>() + weights.exit;
        let mut chosen = shared.random.below(sum);
        for (weight, action) in choices {
            if chosen < weight {
                action(self, shared);
                return TurnResult::Lives;
            }
            chosen -= weight;
        }
        TurnResult::Exits(shared.random.below(256) as u8)
    }

    fn name(shared: &mut Shared) -> String {
        let number = shared.random.below(shared.plan.names);
        format!("{}{number}", if number % 3 == 1 { BULK_NAME } else { "name" })
    }

    fn act_export(&mut self, shared: &mut Shared) {
        let name = if shared.random.chance(20) { "no name".to_owned() } else { Self::name(shared) };
        let scope = Self::scope(shared);
        self.export_in(scope, &name);
    }

    fn act_withdraw(&mut self, shared: &mut Shared) {
        let index = shared.random.below(self.names.len() as u64) as usize;
        if index < self.names.len() {
            let (_, listener) = self.names.remove(index);
            self.request(Request::Withdraw { listener });
        }
    }

    fn act_connect(&mut self, shared: &mut Shared) {
        let name = Self::name(shared);
        let timeout = Duration::from_nanos(match shared.random.below(3) {
            0 => 0,
            _ => shared.random.magnitude(1_000, 2_000_000_000),
        });
        let slot = shared.random.pick(&SlotSize::ALL).copied().unwrap_or(SlotSize::B64);
        let variant = if shared.random.chance(700) { Variant::EpochCredit } else { Variant::UsedFlag };
        let is_bulk = is_bulk(&name);
        let slots = if is_bulk { MIN_SLOTS << shared.random.below(3) } else { 2 << shared.random.below(6) };
        if let Ok(config) = ChannelConfig::new(slot, slots, variant) {
            let scope = Self::scope(shared);
            let pending = if is_bulk { PendingRequest::Bulk } else { PendingRequest::Other };
            self.ask(Request::Connect { scope, name, timeout, config, by: None }, pending, Vec::new());
        }
    }

    fn act_spawn(&mut self, shared: &mut Shared) {
        let number = shared.random.below(shared.plan.nodes.len() as u64 + 1);
        let node = match number {
            0 => "host".to_owned(),
            number => format!("n{number}"),
        };
        let own_image = self.is_child() && shared.random.chance(400);
        let (stdin, side) = (shared.random.chance(500), shared.random.chance(300));
        let fed = [stdin.then_some(streams::INPUT), side.then_some(streams::SIDE)].into_iter().flatten();
        let fed = fed.collect();
        let spawn = SpawnRequest {
            node,
            own_image,
            program: ProgramSpec {
                directory: "/".into(),
                stdin,
                side: side.then(|| "SIDE_FD".into()),
                ..ProgramSpec::new("p.tbi")
            },
            given: self.gifts(shared),
        };
        let image = shared.random.below(shared.images.len() as u64) as usize;
        // Descriptors can be passed to the root on the host's kernel only.
        let passes = !own_image && !shared.random.chance(30);
        let fds = if passes && self.is_on_hosts_kernel(shared) { vec![Fd::Image(image)] } else { vec![] };
        self.ask(Request::Spawn { spawn }, PendingRequest::Spawn { fed }, fds);
    }

    fn is_on_hosts_kernel(&self, shared: &Shared) -> bool {
        self.node == 0 || !shared.plan.nodes[usize::from(self.node) - 1].vm
    }

    fn act_kill(&mut self, shared: &mut Shared) {
        if let Some(child) = shared.random.pick(&self.children) {
            let signal = *shared.random.pick(&[9, 15, 15, 0, 65]).unwrap_or(&9);
            let grace = Duration::from_nanos(shared.random.magnitude(1_000, 1_000_000_000));
            let domain = child.domain;
            self.request(Request::Kill { domain, signal, grace });
        }
    }

    fn act_feed(&mut self, shared: &mut Shared) {
        let fed = |child: &Child| child.fed.iter().map(|stream| (child.domain, *stream)).collect::<Vec<_>>();
        let fed: Vec<(DomainId, u8)> = self.children.iter().flat_map(fed).collect();
        if let Some((domain, stream)) = shared.random.pick(&fed).copied() {
            let length = if shared.random.chance(200) { 0 } else { shared.random.magnitude(1, 20_000) };
            let bytes = vec![7; length as usize];
            self.request(Request::Input { domain, stream, bytes });
        }
    }

    fn act_write(&mut self, shared: &mut Shared) {
        let streams = self.outputs.len() + self.side.iter().len();
        let stream = shared.random.below(streams.max(1) as u64) as usize;
        if stream == 2 && shared.random.chance(100) {
            self.side = None;
        }
        if self.outputs.len() == 2 {
            for _ in 0..shared.random.magnitude(1, 16) {
                let length = shared.random.magnitude(1, 8192) as usize;
                let byte = shared.random.word() as u8;
                self.unwritten[stream].push(vec![byte; length]);
            }
            self.flush_outputs();
        }
    }

    fn act_send(&mut self, shared: &mut Shared) {
        let index = shared.random.below(self.conversations.len() as u64) as usize;
        if let Some(conversation) = self.conversations.get_mut(index).filter(|open| !open.is_bulk()) {
            conversation.to_send += shared.random.magnitude(1, 40);
        }
    }

    /// Performs operations on pools, mostly a few transfers.
    fn act_bulk(&mut self, shared: &mut Shared) {
        if shared.random.chance(500) {
            let mut ends: Vec<_> = self.conversations.iter_mut().filter_map(Conversation::bulk_end).collect();
            return self.pools.act(shared, self.pid, &mut ends);
        }
        for _ in 0..shared.random.magnitude(1, 20) {
            let index = shared.random.below(self.conversations.len() as u64) as usize;
            if let Some(conversation) = self.conversations.get_mut(index) {
                conversation.transfer(shared, &mut self.pools);
            }
        }
    }

    fn act_close(&mut self, shared: &mut Shared) {
        let index = shared.random.below(self.conversations.len() as u64) as usize;
        if index < self.conversations.len() {
            let conversation = self.conversations.remove(index);
            self.channel_is_over(&conversation);
            conversation.close(shared, &mut self.pools);
        }
    }

    fn act_list(&mut self, shared: &mut Shared) {
        self.request(match shared.random.below(3) {
            0 => Request::Domains { after: 0 },
            1 => Request::Nodes { from: 0 },
            _ => {
                let operation = Operation::Find { query: Query::any(), after: String::new(), limit: 100 };
                Request::Names { scope: Self::scope(shared), operation }
            }
        });
    }

    /// Draws a scope, mostly the machine's, sometimes a node's.
    fn scope(shared: &mut Shared) -> Scope {
        match shared.random.below(4) {
            0 => Scope::Own,
            1 => Scope::Node(format!("n{}", shared.random.below(shared.plan.nodes.len() as u64 + 1))),
            _ => Scope::Machine,
        }
    }

    /// Acquires or releases a lock.
    fn act_lock(&mut self, shared: &mut Shared) {
        if !self.locks.is_empty() && shared.random.chance(600) {
            let index = shared.random.below(self.locks.len() as u64) as usize;
            let (scope, name, token) = self.locks.remove(index);
            return self.request(Request::Names { scope, operation: Operation::Unlock { name, token } });
        }
        let name = format!("lock{}", shared.random.below(3));
        let scope = Self::scope(shared);
        let timeout = Duration::from_nanos(shared.random.magnitude(1_000, 3_000_000_000));
        let pending = PendingRequest::Lock { scope: scope.clone(), name: name.clone() };
        self.ask(Request::Names { scope, operation: Operation::Lock { name, timeout } }, pending, Vec::new());
    }

    fn act_console(&mut self, shared: &mut Shared) {
        let node = format!("n{}", shared.random.below(shared.plan.nodes.len() as u64 + 1));
        self.request(Request::ConsoleOpen { node });
    }

    fn act_restart(&mut self, shared: &mut Shared) {
        let node = format!("n{}", shared.random.below(shared.plan.nodes.len() as u64 + 1));
        let force = shared.random.below(4) == 0;
        self.request(Request::Restart { node, force });
    }

    fn act_send_garbage(&mut self, shared: &mut Shared) {
        let length = shared.random.between(1, 40) as usize;
        if let Some(monitor) = &self.monitor {
            monitor.send((vec![255; length], Vec::new()));
        }
    }

    /// Ends the process and reports its fate. Its channels are closed in order only if it exited.
    pub fn end(mut self, shared: &mut Shared, turn_result: TurnResult) {
        shared.record_event(&[8, self.pid as u64], || format!("process {} ends: {turn_result:?}", self.pid));
        self.flush_outputs();
        std::mem::take(&mut self.holdings).end(shared);
        let in_order = matches!(turn_result, TurnResult::Exits(_));
        self.pools.apply_revocations(shared, self.pid);
        for conversation in std::mem::take(&mut self.conversations) {
            if in_order {
                conversation.close(shared, &mut self.pools);
            } else {
                conversation.abandon(shared);
            }
        }
        shared.bulk.ended(self.pid);
        let word = match turn_result {
            TurnResult::Exits(status) => [0, status],
            TurnResult::Killed(signal) => [1, signal],
            TurnResult::Lives => [1, 0],
        };
        if let Some(life) = self.life.take() {
            life.send((word.to_vec(), Vec::new()));
        }
    }
}
