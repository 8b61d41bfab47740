//! Simulated tasks, nodes, and the messages between them.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::Random;
use tombolo_hub::{
    Answer, BatchBuf, Client, Description, Fault, Hubs, Kind, Limits, Operation, Outcome, Output, Request,
    RequestKey, Select, SelectCommand, Taken,
};

use super::book::{HubLife, Open, OperationModel};

const NODES: usize = 2;
const TASKS: usize = 4;

/// Kind and capacity of each hub of a node.
const HUBS: [(Kind, u32); 6] = [
    (Kind::Port, 0),
    (Kind::Fifo, 2),
    (Kind::Semaphore, 2),
    (Kind::Resource, 1),
    (Kind::Pool, 2),
    (Kind::Fifo, 3),
];

/// Index of the FIFO that is also used with batches. Other values may come between those of a batch, so the
/// order is not checked.
const BATCHES: u32 = 5;

/// Number of steps with faults.
const FAULTY_STEPS: u64 = 400;
/// Number of steps without faults, in which all requests must complete.
const QUIET_STEPS: u64 = 4000;

/// Queue of messages in flight; `None` is the end of the other side.
type Line = VecDeque<Option<Vec<u8>>>;

struct Node {
    hubs: Hubs,
    life: u32,
}

/// Requests that a task waits for.
enum Waiting {
    Nothing,
    /// One request: node and number.
    One(usize, u32),
    /// A select: node and number of each arm.
    Several(Select, Vec<(usize, u32)>),
}

struct Task {
    /// Unique over the whole run.
    id: u64,
    operations: u32,
    next_number: u32,
    waiting: Waiting,
    /// Node, life of the node, hub and token of each block that it holds.
    holds: Vec<(usize, u32, u32, u64)>,
    to_node: [Line; NODES],
    from_node: [Line; NODES],
}

struct HubSimulation {
    random: Random,
    now: u64,
    nodes: [Node; NODES],
    tasks: Vec<Task>,
    book: OperationModel,
    values: u64,
    ids: u64,
    messages: u64,
    /// For each node, whether any task inherited a priority when its outputs were last sent.
    lifted: [bool; NODES],
}

/// Simulates the hubs of one seed. Returns the number of messages.
///
/// # Errors
/// Description of the invariant that was violated.
pub fn simulate(seed: u64) -> Result<u64, String> {
    let nodes = std::array::from_fn(|_| Node { hubs: hubs(), life: 0 });
    let random = Random::new(seed ^ 0x6875_6273);
    let mut town = HubSimulation {
        random,
        now: 0,
        nodes,
        tasks: Vec::new(),
        book: OperationModel::default(),
        values: 0,
        ids: 0,
        messages: 0,
        lifted: [false; NODES],
    };
    for _ in 0..TASKS {
        let task = town.new_task();
        town.tasks.push(task);
    }
    for _ in 0..FAULTY_STEPS {
        town.step(true)?;
    }
    for _ in 0..QUIET_STEPS {
        town.step(false)?;
    }
    town.check_completion()?;
    town.end()?;
    Ok(town.messages)
}

fn hubs() -> Hubs {
    let mut hubs = Hubs::new(Limits { requests_per_client: 16, offer_ns: 50_000 });
    for (kind, capacity) in HUBS {
        let name = format!("{kind}/{}", hubs.len());
        let description = Description { capacity, ..Description::new(&name, kind) };
        hubs.add(description).expect("the simulation has good hubs");
    }
    hubs
}

impl HubSimulation {
    fn new_task(&mut self) -> Task {
        self.ids += 1;
        for node in &mut self.nodes {
            node.hubs.add_client(Client(self.ids), self.ids);
        }
        Task {
            id: self.ids,
            operations: 0,
            next_number: 0,
            waiting: Waiting::Nothing,
            holds: Vec::new(),
            to_node: Default::default(),
            from_node: Default::default(),
        }
    }

    fn step(&mut self, faulty: bool) -> Result<(), String> {
        self.now += self.random.below(10_000);
        let (task, node) = (self.random.index(TASKS), self.random.index(NODES));
        match self.random.below(100) {
            0..40 => self.take(task, node)?,
            40..80 => self.deliver_message(task, node)?,
            80..95 if faulty => self.begin(task),
            80..95 => {}
            95 if faulty && self.random.chance(300) => self.kill(task)?,
            96 if faulty && self.random.chance(60) => self.restart_node(node),
            97 if faulty => self.release_stolen_token(task, node),
            _ => {
                self.nodes[node].hubs.tick(self.now);
                self.queue_outputs(node)?;
            }
        }
        Ok(())
    }

    /// Starts an operation of a task, unless the task waits.
    fn begin(&mut self, index: usize) {
        if !matches!(self.tasks[index].waiting, Waiting::Nothing) {
            return;
        }
        self.tasks[index].operations += 1;
        let held = self.tasks[index].holds.len();
        if held > 0 && self.random.chance(500) {
            let (node, life, hub, token) = self.tasks[index].holds.swap_remove(self.random.index(held));
            if self.nodes[node].life == life {
                self.send_request(index, node, hub, false, &Operation::GiveBack { token }, None);
            }
            return;
        }
        if self.random.chance(400) {
            self.begin_select(index);
            return;
        }
        let (node, hub) = (self.random.index(NODES), self.random.below(HUBS.len() as u64) as u32);
        let number = self.send_operation(index, node, hub, false);
        self.tasks[index].waiting = Waiting::One(node, number);
    }

    fn begin_select(&mut self, index: usize) {
        let mut arms = Vec::new();
        let mut places = Vec::new();
        for node in 0..NODES {
            for hub in 0..HUBS.len() as u32 {
                if self.random.chance(300) {
                    arms.push((node, self.send_operation(index, node, hub, true)));
                    places.push((node as u64, hub));
                }
            }
        }
        if let Ok(select) = Select::new(&places) {
            self.tasks[index].waiting = Waiting::Several(select, arms);
        }
    }

    /// Sends a put or a get, as the hub allows. Returns the request's number.
    fn send_operation(&mut self, index: usize, node: usize, hub: u32, tentative: bool) -> u32 {
        let (kind, _) = HUBS[hub as usize];
        if hub == BATCHES && !tentative && self.random.chance(600) {
            return self.send_batch(index, node);
        }
        if kind.has_holders() || self.random.chance(500) {
            return self.send_request(index, node, hub, tentative, &Operation::Get, None);
        }
        self.values += 1;
        let bytes = self.values.to_le_bytes();
        let value = kind.has_values().then_some((self.values, 1));
        let bytes: &[u8] = if kind.has_values() { &bytes } else { &[] };
        self.send_request(index, node, hub, tentative, &Operation::Put { value: bytes }, value)
    }

    /// Sends a put or a get of several values. Returns the request's number.
    fn send_batch(&mut self, index: usize, node: usize) -> u32 {
        let count = 1 + self.random.below(4);
        let mut batch = BatchBuf::new();
        if self.random.chance(500) {
            (1..=count).for_each(|value| assert!(batch.push(&(self.values + value).to_le_bytes())));
        }
        let (operation, values) = match batch.batch() {
            Some(values) => (Operation::PutMany { values }, Some((self.values + 1, count))),
            None => (Operation::GetMany { max_values: count as u32 }, None),
        };
        self.values += count;
        self.send_request(index, node, BATCHES, false, &operation, values)
    }

    fn send_request(
        &mut self,
        index: usize,
        node: usize,
        hub: u32,
        tentative: bool,
        operation: &Operation<'_>,
        values: Option<(u64, u64)>,
    ) -> u32 {
        let priority = self.random.below(4) as u8;
        let timeout_us = if self.random.chance(200) { 0 } else { self.random.magnitude(1, 2000) as u32 };
        let task = &mut self.tasks[index];
        task.next_number += 1;
        let number = task.next_number;
        let request = Request { number, hub, priority, tentative, timeout_us, operation: *operation };
        let life = self.nodes[node].life;
        let gets = matches!(operation, Operation::Get | Operation::GetMany { .. });
        if gets || matches!(operation, Operation::Put { .. } | Operation::PutMany { .. }) {
            let operation_id = (task.id, task.operations);
            let port = HUBS[hub as usize].0 == Kind::Port;
            let open = Open { operation_id, hub: (node, life, hub), priority, gets, tentative, port, values };
            task.send(node, &request);
            // Its priority counts once the request arrives at the node.
            self.book.open.insert((task.id, number), Open { priority: 0, ..open });
            self.book.arriving(task.id, number, priority);
        } else {
            task.send(node, &request);
        }
        number
    }

    /// Makes a task return a token that another task holds, which must fail.
    fn release_stolen_token(&mut self, index: usize, node: usize) {
        let id = self.tasks[index].id;
        let held = self.book.held.iter().find(|((hub, _), holder)| hub.0 == node && **holder != id);
        if let Some((((_, _, hub), token), _)) = held {
            let (hub, token) = (*hub, *token);
            self.tasks[index].next_number += 1;
            let number = self.tasks[index].next_number + FIRST_STOLEN_NUMBER;
            let operation = Operation::GiveBack { token };
            let request = Request { number, hub, priority: 0, tentative: false, timeout_us: 0, operation };
            self.tasks[index].send(node, &request);
        }
    }

    /// Delivers the next message of a task to a node.
    fn take(&mut self, index: usize, node: usize) -> Result<(), String> {
        let Some(message) = self.tasks[index].to_node[node].pop_front() else { return Ok(()) };
        self.messages += 1;
        let id = self.tasks[index].id;
        if let Some(message) = message {
            let request = Request::decode(&message).map_err(|violation| violation.to_string())?;
            self.book.arrived(id, request.number);
            if let Operation::GiveBack { token } = request.operation
                && request.number < FIRST_STOLEN_NUMBER
            {
                let life = self.nodes[node].life;
                self.book.held.remove(&((node, life, request.hub), token));
            }
            let asked = self.nodes[node].hubs.request(&|| self.now, Client(id), &request);
            asked.map_err(|violation| violation.to_string())?;
        }
        self.queue_outputs(node)
    }

    /// Queues the outputs of a node for its tasks.
    fn queue_outputs(&mut self, node: usize) -> Result<(), String> {
        let hubs = &mut self.nodes[node].hubs;
        let lifts = self.tasks.iter().any(|task| hubs.inherited(Client(task.id)).unwrap_or(0) > 0);
        let lifted = std::mem::replace(&mut self.lifted[node], lifts) || lifts;
        for output in hubs.take_outputs() {
            let (client, answer) = match output {
                Output::Answer(RequestKey { client, number }, outcome) => {
                    self.book.check_answer((client.0, number), &outcome, lifted)?;
                    if number > FIRST_STOLEN_NUMBER && outcome != Outcome::Failed(Fault::NotHeld) {
                        return Err("a task gave back what another holds".into());
                    }
                    (client, Answer::Outcome(number, outcome))
                }
                Output::Inherits(client, priority) => (client, Answer::Inherits(priority)),
            };
            if let Some(task) = self.tasks.iter_mut().find(|task| task.id == client.0) {
                let mut message = Vec::new();
                answer.encode(&mut message);
                task.from_node[node].push_back(Some(message));
            }
        }
        self.check_inheritance(node)
    }

    /// Checks that the owner of a resource inherits the highest priority among the waiting requests.
    fn check_inheritance(&self, node: usize) -> Result<(), String> {
        let (hubs, life) = (&self.nodes[node].hubs, self.nodes[node].life);
        for ((hub, _), holder) in &self.book.held {
            if (hub.0, hub.1) != (node, life) || HUBS[hub.2 as usize].0 != Kind::Resource {
                continue;
            }
            let waiting = self.book.open.values().filter(|open| open.hub == *hub && !open.tentative);
            let highest = waiting.map(|open| open.priority).max().unwrap_or(0);
            if hubs.inherited(Client(*holder)).is_ok_and(|inherits| inherits < highest) {
                return Err(format!("an owner does not inherit priority {highest}"));
            }
        }
        Ok(())
    }

    /// Delivers the next message of a node to a task.
    fn deliver_message(&mut self, index: usize, node: usize) -> Result<(), String> {
        let Some(message) = self.tasks[index].from_node[node].pop_front() else { return Ok(()) };
        self.messages += 1;
        let life = self.nodes[node].life;
        let task = &mut self.tasks[index];
        let Some(message) = message else {
            task.lost(node);
            return Ok(());
        };
        let answer = Answer::decode(&message).map_err(|violation| violation.to_string())?;
        let Answer::Outcome(number, outcome) = answer else { return Ok(()) };
        if let Outcome::Done(Taken::Block { token, .. }) = &outcome {
            let held = self.book.held.iter().find(|((hub, held), holder)| {
                (hub.0, hub.1, *held, **holder) == (node, life, *token, task.id)
            });
            if let Some(((hub, token), _)) = held {
                task.holds.push((node, life, hub.2, *token));
            }
        }
        task.on_outcome(node, number, outcome);
        Ok(())
    }

    /// Kills a task and replaces it with a new one.
    fn kill(&mut self, index: usize) -> Result<(), String> {
        let fresh = self.new_task();
        let dead = std::mem::replace(&mut self.tasks[index], fresh);
        self.book.ended(dead.id);
        for node in &mut self.nodes {
            // Its messages in flight are lost with it; those already delivered count.
            node.hubs.remove_client(self.now, Client(dead.id));
        }
        (0..NODES).try_for_each(|node| self.queue_outputs(node))
    }

    /// Restarts a node with empty hubs.
    fn restart_node(&mut self, node: usize) {
        self.book.lost(node, self.nodes[node].life);
        self.nodes[node] = Node { hubs: hubs(), life: self.nodes[node].life + 1 };
        for task in &mut self.tasks {
            self.nodes[node].hubs.add_client(Client(task.id), task.id);
            task.to_node[node].clear();
            task.from_node[node].clear();
            task.from_node[node].push_back(None);
        }
    }

    /// Checks that all requests complete after the last fault.
    fn check_completion(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            self.now += 1_000_000_000;
            self.nodes[node].hubs.tick(self.now);
            self.queue_outputs(node)?;
        }
        for _ in 0..QUIET_STEPS {
            self.now += 1000;
            let (task, node) = (self.random.index(TASKS), self.random.index(NODES));
            self.take(task, node)?;
            self.deliver_message(task, node)?;
        }
        if let Some(task) = self.tasks.iter().find(|task| !matches!(task.waiting, Waiting::Nothing)) {
            return Err(format!("task {} waits for ever", task.id));
        }
        for node in &self.nodes {
            let held: BTreeMap<_, _> = node.hubs.resource_counts().into_iter().collect();
            for what in ["waiting requests", "offers", "set aside", "deadlines"] {
                if held[what] > 0 {
                    return Err(format!("{} {what} are left when no task waits", held[what]));
                }
            }
        }
        Ok(())
    }

    /// Checks the remaining contents of the hubs, then ends all tasks.
    fn end(&mut self) -> Result<(), String> {
        let reader = Client(u64::MAX);
        for node in 0..NODES {
            self.nodes[node].hubs.add_client(reader, 0);
            for hub in 0..HUBS.len() as u32 {
                let life = self.nodes[node].life;
                self.drain(reader, (node, life, hub))?;
            }
            let hubs = &mut self.nodes[node].hubs;
            self.tasks.iter().for_each(|task| hubs.remove_client(self.now, Client(task.id)));
            hubs.remove_client(self.now, reader);
            if let Some((what, count)) = hubs.resource_counts().into_iter().find(|(_, count)| *count > 0) {
                return Err(format!("{count} {what} are left when all tasks have ended"));
            }
        }
        Ok(())
    }

    /// Takes everything out of a hub and compares it with the book.
    fn drain(&mut self, reader: Client, hub: HubLife) -> Result<(), String> {
        let hubs = &mut self.nodes[hub.0].hubs;
        let (mut values, mut units, mut blocks) = (Vec::new(), 0, 0);
        for number in 1.. {
            let operation = Operation::Get;
            let request =
                Request { number, hub: hub.2, priority: 0, tentative: false, timeout_us: 0, operation };
            hubs.request(&|| self.now, reader, &request).map_err(|violation| violation.to_string())?;
            let taken = hubs.take_outputs().into_iter().find_map(|output| match output {
                Output::Answer(key, Outcome::Done(taken)) if key.client == reader => Some(taken),
                _ => None,
            });
            match taken {
                Some(Taken::Value(bytes)) => {
                    values.push(u64::from_le_bytes(
                        (*bytes).try_into().map_err(|_| "a value of another length")?,
                    ));
                }
                Some(Taken::Unit) => units += 1,
                Some(Taken::Block { .. }) => blocks += 1,
                Some(Taken::Put | Taken::Values(_)) | None => break,
            }
        }
        let (kind, capacity) = HUBS[hub.2 as usize];
        let held = self.book.held.keys().filter(|(of, _)| *of == hub).count() as u32;
        match kind {
            Kind::Fifo if hub.2 == BATCHES => self.book.check_no_value_left(hub, &values),
            Kind::Port | Kind::Fifo if values != self.book.remaining_values(hub) => {
                Err(format!("{values:?} are in {hub:?}, and should be {:?}", self.book.remaining_values(hub)))
            }
            Kind::Semaphore if units != self.book.units.get(&hub).copied().unwrap_or(0) => {
                Err(format!("{units} units are in {hub:?}"))
            }
            Kind::Resource | Kind::Pool if blocks + held != capacity => {
                Err(format!("{blocks} blocks are free in {hub:?}, and {held} held, of {capacity}"))
            }
            _ => Ok(()),
        }
    }
}

/// First number of requests that must fail.
const FIRST_STOLEN_NUMBER: u32 = 1 << 30;

impl Task {
    fn send(&mut self, node: usize, request: &Request<'_>) {
        let mut message = Vec::new();
        request.encode(&mut message);
        self.to_node[node].push_back(Some(message));
    }

    fn on_outcome(&mut self, node: usize, number: u32, outcome: Outcome) {
        let mut waiting = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        match &mut waiting {
            Waiting::One(at, awaited) if (*at, *awaited) == (node, number) && outcome.is_final() => return,
            Waiting::Several(select, arms) => {
                if let Some(arm) = arms.iter().position(|arm| *arm == (node, number)) {
                    let mut orders = Vec::new();
                    select.handle_outcome(arm, outcome, &mut orders);
                    self.execute_commands(arms, &orders);
                }
                if select.is_finished() {
                    return;
                }
            }
            _ => {}
        }
        self.waiting = waiting;
    }

    /// Handles the loss of a node, whose hubs never answer.
    fn lost(&mut self, node: usize) {
        self.holds.retain(|(at, ..)| *at != node);
        let mut waiting = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        match &mut waiting {
            Waiting::One(at, _) if *at == node => return,
            Waiting::Several(select, arms) => {
                for arm in (0..arms.len()).filter(|arm| arms[*arm].0 == node).collect::<Vec<_>>() {
                    let mut orders = Vec::new();
                    select.handle_loss(arm, Fault::NoSuchHub, &mut orders);
                    self.execute_commands(arms, &orders);
                }
                if select.is_finished() {
                    return;
                }
            }
            _ => {}
        }
        self.waiting = waiting;
    }

    fn execute_commands(&mut self, arms: &[(usize, u32)], orders: &[SelectCommand]) {
        for order in orders {
            let (arm, operation) = match *order {
                SelectCommand::Claim { arm, offer } => (arm, Operation::Claim { offer }),
                SelectCommand::Unclaim { arm, offer } => (arm, Operation::Unclaim { offer }),
                SelectCommand::Withdraw { arm } => (arm, Operation::Withdraw),
            };
            let (node, number) = arms[arm];
            let request = Request { number, hub: 0, priority: 0, tentative: false, timeout_us: 0, operation };
            self.send(node, &request);
        }
    }
}
