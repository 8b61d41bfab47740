//! Hubs under a model checker.
//!
//! Two nodes with one hub each and three clients, with a queue in each direction between each client and each
//! node. Hubs and selects are the real ones. The checker explores every order of messages, with the death of
//! a client or of a node at every step. In each state it checks that values are delivered once, that a select
//! takes exactly one, and that nothing is left behind. Counts of semaphores and events are lent, so a client
//! may change them directly or send a request.

use std::collections::{BTreeMap, VecDeque};

use stateright::{Model, Property};
use tombolo_base::sync::{AtomicU64, Ordering};
use tombolo_hub::{
    BatchBuf, Client, CountWord, Description, Fault, Hubs, Kind, Limits, Operation, Outcome, Output, Request,
    RequestKey, Select, SelectCommand, Taken,
};

/// Number of nodes, with one hub each.
pub const NODES: usize = 2;

/// Number of clients, all connected to both nodes.
pub const CLIENTS: usize = 3;

const OFFER_NS: u64 = 1000;

/// Operation of a client at a hub.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientOperation {
    /// Puts its value, or a unit.
    Put,
    /// Takes a value, a unit or a block; a block is given back afterwards.
    Get,
    /// Tries to take, without waiting.
    TryGet,
    /// Puts two values by one request.
    PutTwo,
    /// Takes up to two values by one request.
    GetTwo,
}

/// Program of a client: one operation at one node, or a select over both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientProgram {
    /// Does nothing.
    Nothing,
    /// One operation at this node.
    One(usize, ClientOperation),
    /// A select over both nodes.
    Either(ClientOperation, ClientOperation),
}

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct HubModel {
    /// Kind and capacity of the hub of each node.
    pub hubs: [(Kind, u32); NODES],
    /// Program of each client.
    pub programs: [ClientProgram; CLIENTS],
    /// Number of clients that may die.
    pub deaths: u8,
    /// Number of nodes that may die.
    pub losses: u8,
    /// Number of times that a client may give up waiting.
    pub gives_up: u8,
    /// Number of times that unclaimed offers may expire.
    pub ticks: u8,
    /// Whether a client that is done may close the first hub.
    pub closes: bool,
    /// Mistake that the checker must find, if any.
    pub mistake: HubMistake,
}

/// Mistakes that an implementation could make. They verify that the model can find faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HubMistake {
    /// None.
    None,
    /// A node does not notice that a client has died.
    ForgetsTheDead,
    /// A client claims every offer that it gets.
    ClaimsAll,
    /// A client does not withdraw its claim at a hub in favor of another offer.
    KeepsItsClaim,
    /// A client does not withdraw the arms of a select that it no longer needs.
    LeavesArms,
    /// A canary in the hubs themselves, by name. Only in builds with `--cfg sim`.
    Canary(&'static str),
}

/// Message from a client to a node. `Ended` is the last one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ToNode {
    Begin { wants: ClientOperation, tentative: bool },
    Claim(u32),
    Unclaim(u32),
    Withdraw,
    GiveBack(u64),
    Close,
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ToClient {
    Outcome(u32, Outcome),
    NodeLost,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ClientState {
    dead: bool,
    begun: bool,
    closed: bool,
    select: Option<Select>,
    /// Its single operation is over.
    over: bool,
    withdrawn: bool,
    /// Node and token of the block that it holds.
    holds: Option<(usize, u64)>,
    lost: [bool; NODES],
}

/// Both nodes, the clients, and the messages between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HubState {
    nodes: [Option<Hubs>; NODES],
    /// Shared word of each node's hub, to which the count may be lent.
    counts: [u64; NODES],
    now: u64,
    clients: [ClientState; CLIENTS],
    to_node: [[VecDeque<ToNode>; NODES]; CLIENTS],
    to_client: [[VecDeque<ToClient>; NODES]; CLIENTS],
    /// Number of times that the operation of each client was done, by any hub.
    done: [u8; CLIENTS],
    /// Number of deliveries of the first and the second value of each client.
    delivered: [[u8; 2]; CLIENTS],
    /// Whether each client puts two values by one request.
    puts_two: [bool; CLIENTS],
    /// Number of values of each client that were reported as accepted.
    accepted: [u8; CLIENTS],
    /// Number of units put minus units taken, for each node.
    balance: [i64; NODES],
    deaths: u8,
    losses: u8,
    gives_up: u8,
    ticks: u8,
    broken: Option<&'static str>,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HubAction {
    /// A client starts its program.
    Begin(usize),
    /// A client performs its operation directly on a lent count.
    AtOnce(usize),
    /// A node handles the next message of a client.
    Take(usize, usize),
    /// A client handles the next message of a node.
    Deliver(usize, usize),
    /// A client gives up waiting.
    GiveUp(usize),
    /// A client closes the first hub.
    Close(usize),
    /// A client dies.
    Die(usize),
    /// A node dies.
    Lose(usize),
    /// The time of the current offers expires.
    Tick,
}

/// Request number of a client's operation, at both nodes. Later requests use other numbers.
const OPERATION: u32 = 1;

impl HubModel {
    fn execute_commands(&self, state: &mut HubState, client: usize, orders: Vec<SelectCommand>) {
        for order in orders {
            let (arm, message) = match order {
                SelectCommand::Claim { arm, offer } => (arm, ToNode::Claim(offer)),
                SelectCommand::Unclaim { arm, offer } if self.mistake != HubMistake::KeepsItsClaim => {
                    (arm, ToNode::Unclaim(offer))
                }
                SelectCommand::Withdraw { arm } if self.mistake != HubMistake::LeavesArms => {
                    (arm, ToNode::Withdraw)
                }
                SelectCommand::Unclaim { .. } | SelectCommand::Withdraw { .. } => continue,
            };
            state.send(client, arm, message);
        }
    }

    fn take(&self, state: &mut HubState, client: usize, node: usize) -> Option<()> {
        let message = state.to_node[client][node].pop_front()?;
        let now = state.now;
        let id = Client(client as u64);
        let Some(hubs) = &mut state.nodes[node] else { return Some(()) };
        let taken_back = hubs
            .lent_capacity(0)
            .map(|capacity| with_count(&mut state.counts[node], |count| count.reclaim(capacity)));
        if let Some(count) = taken_back {
            hubs.reclaim_count(0, count);
        }
        let (value, second) = ([client as u8, 0], [client as u8, 1]);
        let mut both = BatchBuf::new();
        assert!(both.push(&value) && both.push(&second), "two short values fit");
        let values = both.batch()?;
        let has_values = self.hubs[node].0.has_values();
        let value: &[u8] = if has_values { &value } else { &[] };
        let (number, operation, tentative, timeout_us) = match message {
            ToNode::Ended => {
                if self.mistake != HubMistake::ForgetsTheDead {
                    hubs.remove_client(now, id);
                }
                self.send_outputs(state, node);
                return Some(());
            }
            ToNode::Begin { wants: ClientOperation::Put, tentative } => {
                (OPERATION, Operation::Put { value }, tentative, 1_000_000)
            }
            ToNode::Begin { wants: ClientOperation::Get, tentative } => {
                (OPERATION, Operation::Get, tentative, 1_000_000)
            }
            ToNode::Begin { wants: ClientOperation::PutTwo, tentative } => {
                (OPERATION, Operation::PutMany { values }, tentative, 1_000_000)
            }
            ToNode::Begin { wants: ClientOperation::GetTwo, tentative } => {
                (OPERATION, Operation::GetMany { max_values: 2 }, tentative, 1_000_000)
            }
            ToNode::Begin { wants: ClientOperation::TryGet, tentative } => {
                (OPERATION, Operation::Get, tentative, 0)
            }
            ToNode::Claim(offer) => (OPERATION, Operation::Claim { offer }, false, 0),
            ToNode::Unclaim(offer) => (OPERATION, Operation::Unclaim { offer }, false, 0),
            ToNode::Withdraw => (OPERATION, Operation::Withdraw, false, 0),
            ToNode::GiveBack(token) => (2, Operation::GiveBack { token }, false, 0),
            ToNode::Close => (3, Operation::Close, false, 0),
        };
        let request = Request { number, hub: 0, priority: client as u8, tentative, timeout_us, operation };
        if hubs.request(&|| now, id, &request).is_err() {
            state.broken = Some("a client broke the protocol");
        }
        self.send_outputs(state, node);
        Some(())
    }

    /// Sends the outputs of a node and records them.
    fn send_outputs(&self, state: &mut HubState, node: usize) {
        let Some(hubs) = &mut state.nodes[node] else { return };
        while let Some((_, count)) = hubs.lend_next_count() {
            with_count(&mut state.counts[node], |word| word.lend(count));
        }
        for output in hubs.take_outputs() {
            let Output::Answer(RequestKey { client, number }, outcome) = output else { continue };
            let client = client.0 as usize;
            if number == OPERATION {
                self.record_outcome(state, client, node, &outcome);
            }
            if !state.clients[client].dead {
                state.to_client[client][node].push_back(ToClient::Outcome(number, outcome));
            }
        }
    }

    /// Records the outcome of a client's operation.
    fn record_outcome(&self, state: &mut HubState, client: usize, node: usize, outcome: &Outcome) {
        state.balance[node] += match outcome {
            Outcome::Done(Taken::Put) => 1,
            Outcome::Done(Taken::Unit) => -1,
            _ => 0,
        };
        let mut deliver = |value: &[u8]| state.delivered[usize::from(value[0])][usize::from(value[1])] += 1;
        match outcome {
            Outcome::Done(Taken::Put) => {
                state.accepted[client] = if self.puts_two(client) { 2 } else { 1 };
            }
            Outcome::Partial { put, .. } => state.accepted[client] = *put as u8,
            Outcome::Done(Taken::Value(value)) => deliver(value),
            Outcome::Done(Taken::Values(values)) => values.iter().for_each(deliver),
            _ => {}
        }
        if matches!(outcome, Outcome::Done(_) | Outcome::Partial { .. }) {
            state.done[client] += 1;
        }
    }

    fn puts_two(&self, client: usize) -> bool {
        matches!(self.programs[client], ClientProgram::One(_, ClientOperation::PutTwo))
    }

    fn deliver_to_client(&self, state: &mut HubState, client: usize, node: usize) -> Option<()> {
        let message = state.to_client[client][node].pop_front()?;
        let outcome = match message {
            // Only answers to the operation itself are checked.
            ToClient::Outcome(number, _) if number != OPERATION => return Some(()),
            ToClient::Outcome(_, outcome) => outcome,
            ToClient::NodeLost => {
                state.clients[client].lost[node] = true;
                if matches!(self.programs[client], ClientProgram::One(at, _) if at != node) {
                    return Some(());
                }
                Outcome::Failed(Fault::NoSuchHub)
            }
        };
        if let Outcome::Done(Taken::Block { token, .. }) = &outcome {
            let others = state.clients.iter().filter(|other| !other.dead);
            if others.filter_map(|other| other.holds).any(|(at, _)| at == node)
                && self.hubs[node].0 == Kind::Resource
                && state.nodes[node].is_some()
            {
                state.broken = Some("two clients hold one resource");
            }
            state.clients[client].holds = Some((node, *token));
        }
        let record = &mut state.clients[client];
        if let Some(select) = &mut record.select {
            let mut orders = Vec::new();
            if self.mistake == HubMistake::ClaimsAll
                && let Outcome::Offered(offer) = outcome
            {
                state.send(client, node, ToNode::Claim(offer));
                return Some(());
            }
            select.handle_outcome(node, outcome, &mut orders);
            self.execute_commands(state, client, orders);
        } else if outcome.is_final() {
            record.over = true;
        }
        if let Some((at, token)) = state.clients[client].holds.filter(|_| state.is_over(client)) {
            state.clients[client].holds = None;
            state.send(client, at, ToNode::GiveBack(token));
        }
        Some(())
    }

    fn begin(&self, state: &mut HubState, client: usize) {
        state.clients[client].begun = true;
        match self.programs[client] {
            ClientProgram::Nothing => state.clients[client].over = true,
            ClientProgram::One(node, wants) => {
                state.send(client, node, ToNode::Begin { wants, tentative: false });
            }
            ClientProgram::Either(first, second) => {
                let select = Select::new(&[(0, 0), (1, 0)]);
                state.clients[client].select = select.ok();
                for (node, wants) in [first, second].into_iter().enumerate() {
                    state.send(client, node, ToNode::Begin { wants, tentative: true });
                }
            }
        }
    }

    /// Performs an operation of a client on a lent count. Returns `None` if it must send a request.
    fn operate_on_lent_count(&self, state: &mut HubState, client: usize) -> Option<()> {
        let ClientProgram::One(node, wants) = self.programs[client] else { return None };
        // The memory outlives the node. A client that knows of its death no longer uses the count.
        if state.clients[client].lost[node] {
            return None;
        }
        let capacity = self.hubs[node].1;
        let taken = with_count(&mut state.counts[node], |count| match wants {
            ClientOperation::Put if count.put(capacity) => Some(Taken::Put),
            ClientOperation::Get | ClientOperation::TryGet if count.get() => Some(Taken::Unit),
            _ => None,
        });
        self.record_outcome(state, client, node, &Outcome::Done(taken?));
        state.clients[client].begun = true;
        state.clients[client].over = true;
        Some(())
    }

    fn give_up(&self, state: &mut HubState, client: usize) {
        state.gives_up -= 1;
        state.clients[client].withdrawn = true;
        if let Some(select) = &mut state.clients[client].select {
            let mut orders = Vec::new();
            select.abandon(&mut orders);
            self.execute_commands(state, client, orders);
        } else if let ClientProgram::One(node, _) = self.programs[client] {
            state.send(client, node, ToNode::Withdraw);
        }
    }
}

/// Calls `act` with the count in a word.
fn with_count<R>(word: &mut u64, act: impl FnOnce(CountWord<'_>) -> R) -> R {
    let shared = AtomicU64::new(*word);
    let result = act(CountWord::new(&shared));
    *word = shared.load(Ordering::Relaxed);
    result
}

impl HubState {
    fn send(&mut self, client: usize, node: usize, message: ToNode) {
        if self.nodes[node].is_some() {
            self.to_node[client][node].push_back(message);
        } else if matches!(message, ToNode::Begin { .. }) && !self.clients[client].lost[node] {
            // The client learns at once that the node is unreachable.
            self.to_client[client][node].push_back(ToClient::NodeLost);
        }
    }

    /// Number of values of a client that were delivered.
    fn received(&self, client: usize) -> u8 {
        self.delivered[client].iter().sum()
    }

    /// Returns whether the operation or select of a client is over.
    fn is_over(&self, client: usize) -> bool {
        let record = &self.clients[client];
        match &record.select {
            Some(select) => select.result().is_some() || select.is_finished(),
            None => record.over,
        }
    }

    fn is_quiet(&self) -> bool {
        let to_nodes = self.to_node.iter().flatten().all(VecDeque::is_empty);
        let to_clients = self.to_client.iter().flatten().all(VecDeque::is_empty);
        to_nodes && to_clients && self.clients.iter().all(|client| client.begun || client.dead)
    }

    fn held(&self, node: usize) -> BTreeMap<&'static str, usize> {
        self.nodes[node].as_ref().map(|hubs| hubs.resource_counts().into_iter().collect()).unwrap_or_default()
    }

    fn left(&self, node: usize, what: &str) -> usize {
        self.held(node).get(what).copied().unwrap_or(0)
    }

    /// Describes the violated invariant, if there is one.
    fn fault(&self) -> Option<&'static str> {
        if self.broken.is_some() {
            return self.broken;
        }
        if self.done.iter().any(|done| *done > 1) {
            return Some("a select took two");
        }
        if self.delivered.iter().flatten().any(|delivered| *delivered > 1) {
            return Some("a value was delivered twice");
        }
        // A request with two values has one answer, when it is over.
        let told = |client: usize| self.done[client] > 0 || !self.puts_two[client];
        if (0..CLIENTS).any(|client| told(client) && self.received(client) > self.accepted[client]) {
            return Some("a value was delivered, and its sender was not told that it was sent");
        }
        if !self.is_quiet() {
            return None;
        }
        for node in 0..NODES {
            if self.left(node, "offers") + self.left(node, "set aside") > 0 {
                return Some("an offer stands, and no client will claim it");
            }
            let over = (0..CLIENTS).all(|client| self.clients[client].dead || self.is_over(client));
            let kept = ["waiting requests", "blocks held", "deadlines"];
            if over && kept.iter().any(|what| self.left(node, what) > 0) {
                return Some("all clients are done or dead, and something is left of them");
            }
        }
        self.miscount().or_else(|| self.lost_value())
    }

    /// Checks, at rest, that each count equals the units put minus those taken, and that no client waits for
    /// a unit that is available.
    fn miscount(&self) -> Option<&'static str> {
        for node in 0..NODES {
            let Some(status) = self.status(node) else { continue };
            let kind = status.description.kind;
            if !matches!(kind, Kind::Semaphore | Kind::Event) {
                continue;
            }
            if status.depth > 0 && !status.getters.is_empty() {
                return Some("a client waits for a unit that is there");
            }
            if i64::from(status.depth) != self.balance[node] {
                return Some("a count is not what was put less what was taken");
            }
        }
        None
    }

    /// Checks, at rest, that each value that was accepted and not delivered is stored in a hub, unless a node
    /// died.
    fn lost_value(&self) -> Option<&'static str> {
        let missing = (0..CLIENTS).map(|client| self.accepted[client].saturating_sub(self.received(client)));
        let missing: usize = missing.map(usize::from).sum();
        let all_alive = self.nodes.iter().all(Option::is_some);
        let stored: usize = (0..NODES).map(|node| self.depth(node)).sum();
        let values = all_alive && (0..NODES).any(|node| self.has_values(node));
        (values && missing > stored).then_some("a value that was accepted is nowhere")
    }

    fn status(&self, node: usize) -> Option<tombolo_hub::Status> {
        let mut hubs = self.nodes[node].clone()?;
        if let Some(capacity) = hubs.lent_capacity(0) {
            let mut word = self.counts[node];
            hubs.reclaim_count(0, with_count(&mut word, |count| count.reclaim(capacity)));
        }
        let (asking, number) = (Client(99), 1);
        hubs.add_client(asking, 0);
        let (operation, tentative) = (Operation::Status, false);
        let request = Request { number, hub: 0, priority: 0, tentative, timeout_us: 0, operation };
        hubs.request(&|| self.now, asking, &request).ok()?;
        hubs.take_outputs().into_iter().find_map(|output| match output {
            Output::Answer(_, Outcome::Status(status)) => Some(*status),
            _ => None,
        })
    }

    fn depth(&self, node: usize) -> usize {
        self.status(node).map_or(0, |status| status.depth as usize)
    }

    fn has_values(&self, node: usize) -> bool {
        self.status(node).is_some_and(|status| status.description.kind.has_values())
    }
}

impl Model for HubModel {
    type State = HubState;
    type Action = HubAction;

    fn init_states(&self) -> Vec<HubState> {
        let nodes = self.hubs.map(|(kind, capacity)| {
            let mut hubs = Hubs::new(Limits { requests_per_client: 8, offer_ns: OFFER_NS });
            let description = Description { capacity, ..Description::new("hub", kind) };
            hubs.add(description).expect("models have good hubs");
            (0..CLIENTS).for_each(|client| hubs.add_client(Client(client as u64), client as u64));
            hubs.share_counts();
            Some(hubs)
        });
        let client = ClientState {
            dead: false,
            begun: false,
            closed: false,
            select: None,
            over: false,
            withdrawn: false,
            holds: None,
            lost: [false; NODES],
        };
        let mut state = HubState {
            nodes,
            counts: [0; NODES],
            now: 0,
            clients: std::array::from_fn(|_| client.clone()),
            to_node: Default::default(),
            to_client: Default::default(),
            done: [0; CLIENTS],
            delivered: [[0; 2]; CLIENTS],
            puts_two: std::array::from_fn(|client| self.puts_two(client)),
            accepted: [0; CLIENTS],
            balance: [0; NODES],
            deaths: self.deaths,
            losses: self.losses,
            gives_up: self.gives_up,
            ticks: self.ticks,
            broken: None,
        };
        (0..NODES).for_each(|node| self.send_outputs(&mut state, node));
        vec![state]
    }

    fn actions(&self, state: &HubState, actions: &mut Vec<HubAction>) {
        for (client, record) in state.clients.iter().enumerate() {
            for node in 0..NODES {
                if state.nodes[node].is_some() && !state.to_node[client][node].is_empty() {
                    actions.push(HubAction::Take(client, node));
                }
                if !record.dead && !state.to_client[client][node].is_empty() {
                    actions.push(HubAction::Deliver(client, node));
                }
            }
            if record.dead {
                continue;
            }
            if !record.begun {
                actions.extend([HubAction::Begin(client), HubAction::AtOnce(client)]);
            } else if !state.is_over(client) && !record.withdrawn && state.gives_up > 0 {
                actions.push(HubAction::GiveUp(client));
            }
            if self.closes && record.begun && state.is_over(client) && !record.closed {
                actions.push(HubAction::Close(client));
            }
            if state.deaths > 0 {
                actions.push(HubAction::Die(client));
            }
        }
        if state.losses > 0 {
            let alive = (0..NODES).filter(|node| state.nodes[*node].is_some());
            actions.extend(alive.map(HubAction::Lose));
        }
        if state.ticks > 0 && state.nodes.iter().flatten().any(|hubs| hubs.next_tick().is_some()) {
            actions.push(HubAction::Tick);
        }
    }

    fn next_state(&self, before: &HubState, action: HubAction) -> Option<HubState> {
        #[cfg(sim)]
        tombolo_base::canary::enable(match self.mistake {
            HubMistake::Canary(name) => name,
            _ => "",
        });
        let mut state = before.clone();
        match action {
            HubAction::Begin(client) => self.begin(&mut state, client),
            HubAction::AtOnce(client) => self.operate_on_lent_count(&mut state, client)?,
            HubAction::Take(client, node) => self.take(&mut state, client, node)?,
            HubAction::Deliver(client, node) => self.deliver_to_client(&mut state, client, node)?,
            HubAction::GiveUp(client) => self.give_up(&mut state, client),
            HubAction::Close(client) => {
                state.clients[client].closed = true;
                state.send(client, 0, ToNode::Close);
            }
            HubAction::Die(client) => {
                state.deaths -= 1;
                state.clients[client].dead = true;
                for node in 0..NODES {
                    // A node reads all earlier messages before it learns of the death.
                    state.to_client[client][node].clear();
                    state.send(client, node, ToNode::Ended);
                }
            }
            HubAction::Lose(node) => {
                state.losses -= 1;
                state.nodes[node] = None;
                for client in 0..CLIENTS {
                    state.to_node[client][node].clear();
                    if !state.clients[client].dead {
                        state.to_client[client][node].push_back(ToClient::NodeLost);
                    }
                }
            }
            HubAction::Tick => {
                state.ticks -= 1;
                state.now += OFFER_NS;
                for node in 0..NODES {
                    if let Some(hubs) = &mut state.nodes[node] {
                        hubs.tick(state.now);
                    }
                    self.send_outputs(&mut state, node);
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("hubs keep what they promise", |_, state: &HubState| state.fault().is_none()),
            Property::sometimes("an operation is done", |_, state: &HubState| {
                state.done.iter().any(|done| *done > 0)
            }),
        ]
    }
}

/// Describes the invariant that a state violates, if any.
#[must_use]
pub fn fault_of(state: &HubState) -> Option<&'static str> {
    state.fault()
}
