//! Hubs under a model checker.
//!
//! Two nodes with a hub each and three clients, with a queue in each direction between each client and each
//! node. Hubs and selects are the real ones. The checker takes every order of messages, with the death of a
//! client or of a node at every step, and looks at each state whether values are delivered once, a select
//! takes exactly one, and nothing is left behind. Counts of semaphores and events are lent, so that a client
//! changes them by itself or sends a request.

use std::collections::{BTreeMap, VecDeque};

use stateright::{Model, Property};
use tombolo_base::sync::{AtomicU64, Ordering};
use tombolo_hub::{
    BatchBuf, Client, CountWord, Description, Fault, Hubs, Key, Kind, Limits, Operation, Order, Outcome,
    Output, Request, Select, Taken,
};

/// Nodes, with one hub each.
pub const NODES: usize = 2;

/// Clients of both nodes.
pub const CLIENTS: usize = 3;

const OFFER_NS: u64 = 1000;

/// One operation of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wants {
    /// Puts its value, or a unit, in.
    Put,
    /// Takes something; what it holds then is given back.
    Get,
    /// Only tries to take something.
    TryGet,
    /// Puts two values by one request.
    PutTwo,
    /// Takes up to two values by one request.
    GetTwo,
}

/// What a client does: one operation at one node, or a select over both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Does {
    /// Nothing.
    Nothing,
    /// At this node.
    One(usize, Wants),
    /// At both nodes, whichever is first.
    Either(Wants, Wants),
}

/// What may happen in a run.
#[derive(Clone, Debug)]
pub struct HubModel {
    /// The hub of each node.
    pub hubs: [(Kind, u32); NODES],
    /// What each client does.
    pub does: [Does; CLIENTS],
    /// Clients that die, in all.
    pub deaths: u8,
    /// Nodes that die, in all.
    pub losses: u8,
    /// Clients that wait no longer, in all.
    pub gives_up: u8,
    /// Times that an offer which is not claimed may end.
    pub ticks: u8,
    /// Whether a client that has ended what it does closes the first hub.
    pub closes: bool,
    /// The mistake that is to be found, if one is made.
    pub mistake: HubMistake,
}

/// Mistakes that an implementation could make: a model that does not find them proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HubMistake {
    /// None.
    None,
    /// A node does not notice that a client has died.
    ForgetsTheDead,
    /// A client claims every offer that it gets.
    ClaimsAll,
    /// A client that has claimed waits at that hub, whatever else is offered.
    KeepsItsClaim,
    /// A client does not withdraw what it does not need any more.
    LeavesArms,
    /// A mistake in the hubs themselves, by the name of its canary. Only in builds with `--cfg sim`.
    Canary(&'static str),
}

/// A message to a node: the number of a request, and what is asked. The end of a client is the last one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ToNode {
    Begin { wants: Wants, tentative: bool },
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
    /// The one operation is over, or it was withdrawn.
    over: bool,
    withdrawn: bool,
    /// The node and token of what it holds.
    holds: Option<(usize, u64)>,
    lost: [bool; NODES],
}

/// Both nodes, the clients, and the messages between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HubState {
    nodes: [Option<Hubs>; NODES],
    /// The word of each node's hub, whose count may be lent.
    counts: [u64; NODES],
    now: u64,
    clients: [ClientState; CLIENTS],
    to_node: [[VecDeque<ToNode>; NODES]; CLIENTS],
    to_client: [[VecDeque<ToClient>; NODES]; CLIENTS],
    /// How often the operation of each client was done, by any hub.
    done: [u8; CLIENTS],
    /// How often the first and the second value of each client were delivered.
    delivered: [[u8; 2]; CLIENTS],
    /// Whether each client puts two values by one request.
    puts_two: [bool; CLIENTS],
    /// How many of each client's values were accepted, as it was told.
    accepted: [u8; CLIENTS],
    /// What was put at each node less what was taken there.
    balance: [i64; NODES],
    deaths: u8,
    losses: u8,
    gives_up: u8,
    ticks: u8,
    broken: Option<&'static str>,
}

/// A step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HubAction {
    /// A client begins.
    Begin(usize),
    /// A client does its operation by itself, with a count that is lent.
    AtOnce(usize),
    /// A node takes the next message of a client.
    Take(usize, usize),
    /// A client hears the next message of a node.
    Hear(usize, usize),
    /// A client gives up waiting.
    GiveUp(usize),
    /// A client closes the first hub.
    Close(usize),
    /// A client dies.
    Die(usize),
    /// A node dies.
    Lose(usize),
    /// Offers have stood for their time.
    Tick,
}

/// The number of a client's operation at both nodes; another is that of what comes after.
const OPERATION: u32 = 1;

impl HubModel {
    fn carry_out(&self, state: &mut HubState, client: usize, orders: Vec<Order>) {
        for order in orders {
            let (arm, message) = match order {
                Order::Claim { arm, offer } => (arm, ToNode::Claim(offer)),
                Order::Unclaim { arm, offer } if self.mistake != HubMistake::KeepsItsClaim => {
                    (arm, ToNode::Unclaim(offer))
                }
                Order::Withdraw { arm } if self.mistake != HubMistake::LeavesArms => (arm, ToNode::Withdraw),
                Order::Unclaim { .. } | Order::Withdraw { .. } => continue,
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
            .lent(0)
            .map(|capacity| with_count(&mut state.counts[node], |count| count.take_back(capacity)));
        if let Some(count) = taken_back {
            hubs.take_back(0, count);
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
                    hubs.ended(now, id);
                }
                self.spread(state, node);
                return Some(());
            }
            ToNode::Begin { wants: Wants::Put, tentative } => {
                (OPERATION, Operation::Put { value }, tentative, 1_000_000)
            }
            ToNode::Begin { wants: Wants::Get, tentative } => {
                (OPERATION, Operation::Get, tentative, 1_000_000)
            }
            ToNode::Begin { wants: Wants::PutTwo, tentative } => {
                (OPERATION, Operation::PutMany { values }, tentative, 1_000_000)
            }
            ToNode::Begin { wants: Wants::GetTwo, tentative } => {
                (OPERATION, Operation::GetMany { most: 2 }, tentative, 1_000_000)
            }
            ToNode::Begin { wants: Wants::TryGet, tentative } => (OPERATION, Operation::Get, tentative, 0),
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
        self.spread(state, node);
        Some(())
    }

    /// Sends what a node has to say, and keeps the book.
    fn spread(&self, state: &mut HubState, node: usize) {
        let Some(hubs) = &mut state.nodes[node] else { return };
        while let Some((_, count)) = hubs.lend() {
            with_count(&mut state.counts[node], |word| word.lend(count));
        }
        for output in hubs.take_outputs() {
            let Output::Answer(Key { client, number }, outcome) = output else { continue };
            let client = client.0 as usize;
            if number == OPERATION {
                self.note(state, client, node, &outcome);
            }
            if !state.clients[client].dead {
                state.to_client[client][node].push_back(ToClient::Outcome(number, outcome));
            }
        }
    }

    /// Keeps the book of what became of a client's operation.
    fn note(&self, state: &mut HubState, client: usize, node: usize, outcome: &Outcome) {
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
        matches!(self.does[client], Does::One(_, Wants::PutTwo))
    }

    fn hear(&self, state: &mut HubState, client: usize, node: usize) -> Option<()> {
        let message = state.to_client[client][node].pop_front()?;
        let outcome = match message {
            // What comes after is not what is looked at.
            ToClient::Outcome(number, _) if number != OPERATION => return Some(()),
            ToClient::Outcome(_, outcome) => outcome,
            ToClient::NodeLost => {
                state.clients[client].lost[node] = true;
                if matches!(self.does[client], Does::One(at, _) if at != node) {
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
            select.heard(node, outcome, &mut orders);
            self.carry_out(state, client, orders);
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
        match self.does[client] {
            Does::Nothing => state.clients[client].over = true,
            Does::One(node, wants) => state.send(client, node, ToNode::Begin { wants, tentative: false }),
            Does::Either(first, second) => {
                let select = Select::new(&[(0, 0), (1, 0)]);
                state.clients[client].select = select.ok();
                for (node, wants) in [first, second].into_iter().enumerate() {
                    state.send(client, node, ToNode::Begin { wants, tentative: true });
                }
            }
        }
    }

    /// Does an operation of a client with the count of a hub; `None` when it has to send a request.
    fn at_once(&self, state: &mut HubState, client: usize) -> Option<()> {
        let Does::One(node, wants) = self.does[client] else { return None };
        // The memory outlives the node. A client that knows its end does nothing there.
        if state.clients[client].lost[node] {
            return None;
        }
        let capacity = self.hubs[node].1;
        let taken = with_count(&mut state.counts[node], |count| match wants {
            Wants::Put if count.put(capacity) => Some(Taken::Put),
            Wants::Get | Wants::TryGet if count.get() => Some(Taken::Unit),
            _ => None,
        });
        self.note(state, client, node, &Outcome::Done(taken?));
        state.clients[client].begun = true;
        state.clients[client].over = true;
        Some(())
    }

    fn give_up(&self, state: &mut HubState, client: usize) {
        state.gives_up -= 1;
        state.clients[client].withdrawn = true;
        if let Some(select) = &mut state.clients[client].select {
            let mut orders = Vec::new();
            select.give_up(&mut orders);
            self.carry_out(state, client, orders);
        } else if let Does::One(node, _) = self.does[client] {
            state.send(client, node, ToNode::Withdraw);
        }
    }
}

/// Does something with the count in a word.
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
            // It cannot be reached, which the client learns at once.
            self.to_client[client][node].push_back(ToClient::NodeLost);
        }
    }

    /// How many values of a client were delivered.
    fn received(&self, client: usize) -> u8 {
        self.delivered[client].iter().sum()
    }

    /// Whether a client has what it wanted, or never will.
    fn is_over(&self, client: usize) -> bool {
        let record = &self.clients[client];
        match &record.select {
            Some(select) => select.result().is_some() || select.is_over(),
            None => record.over,
        }
    }

    fn is_quiet(&self) -> bool {
        let to_nodes = self.to_node.iter().flatten().all(VecDeque::is_empty);
        let to_clients = self.to_client.iter().flatten().all(VecDeque::is_empty);
        to_nodes && to_clients && self.clients.iter().all(|client| client.begun || client.dead)
    }

    fn held(&self, node: usize) -> BTreeMap<&'static str, usize> {
        self.nodes[node].as_ref().map(|hubs| hubs.held().into_iter().collect()).unwrap_or_default()
    }

    fn left(&self, node: usize, what: &str) -> usize {
        self.held(node).get(what).copied().unwrap_or(0)
    }

    /// What does not hold.
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
        // One answer is for both values of a request, and comes when it is over.
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

    /// When all is quiet a count is what was put less what was taken, and no client waits for what is there.
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

    /// When all is quiet a value that was accepted and not delivered is in a store, or was lost with a node.
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
        if let Some(capacity) = hubs.lent(0) {
            let mut word = self.counts[node];
            hubs.take_back(0, with_count(&mut word, |count| count.take_back(capacity)));
        }
        let (asking, number) = (Client(99), 1);
        hubs.joined(asking, 0);
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
            (0..CLIENTS).for_each(|client| hubs.joined(Client(client as u64), client as u64));
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
        (0..NODES).for_each(|node| self.spread(&mut state, node));
        vec![state]
    }

    fn actions(&self, state: &HubState, actions: &mut Vec<HubAction>) {
        for (client, record) in state.clients.iter().enumerate() {
            for node in 0..NODES {
                if state.nodes[node].is_some() && !state.to_node[client][node].is_empty() {
                    actions.push(HubAction::Take(client, node));
                }
                if !record.dead && !state.to_client[client][node].is_empty() {
                    actions.push(HubAction::Hear(client, node));
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
        tombolo_base::canary::plant(match self.mistake {
            HubMistake::Canary(name) => name,
            _ => "",
        });
        let mut state = before.clone();
        match action {
            HubAction::Begin(client) => self.begin(&mut state, client),
            HubAction::AtOnce(client) => self.at_once(&mut state, client)?,
            HubAction::Take(client, node) => self.take(&mut state, client, node)?,
            HubAction::Hear(client, node) => self.hear(&mut state, client, node)?,
            HubAction::GiveUp(client) => self.give_up(&mut state, client),
            HubAction::Close(client) => {
                state.clients[client].closed = true;
                state.send(client, 0, ToNode::Close);
            }
            HubAction::Die(client) => {
                state.deaths -= 1;
                state.clients[client].dead = true;
                for node in 0..NODES {
                    // A node reads what was sent before it learns of the end.
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
                    self.spread(&mut state, node);
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

/// What does not hold in a state, if something does not.
#[must_use]
pub fn fault_of(state: &HubState) -> Option<&'static str> {
    state.fault()
}
