//! A task and its connections to the servers of hubs.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tombolo::names::{Record, Value as Attribute};
use tombolo::{Channel, Domain, Error, wait_any};
use tombolo_hub::{Answer, Fault, Kind, Operation, Outcome, Request, Status, Taken};

use crate::HubError;
use crate::chan::wrong_answer;
use crate::server::{RECORDS, options};

/// How long after the deadline of a request its answer is waited for.
const GRACE: Duration = Duration::from_secs(5);

/// The most answers to one request that wait to be looked at. Hubs offer and revoke; none does so this often
/// while a task looks at others.
const MAX_ANSWERS: usize = 4096;

/// The priority of a task that sets none, and whose application file sets none.
const DEFAULT_PRIORITY: u8 = 100;

/// The variable with the priority of the tasks of a program, which an application file sets.
pub const PRIORITY_VARIABLE: &str = "TOMBOLO_TASK_PRIORITY";

/// What uses hubs: one thread of a program, with a priority and a deadline for each of its waits.
///
/// Clones share connections, and are of the same thread. A task that ends, with its program or before, waits
/// for nothing and holds nothing any more.
#[derive(Clone, Debug)]
pub struct Task {
    connections: Rc<RefCell<Connections>>,
    priority: u8,
    timeout: Duration,
}

/// Where a hub is, and what.
#[derive(Clone, Debug)]
pub(crate) struct Hub {
    pub(crate) name: String,
    pub(crate) node: String,
    /// Index of the connection.
    service: usize,
    pub(crate) number: u32,
    pub(crate) capacity: u32,
    pub(crate) value_bytes: u32,
    /// Number of the capability to the memory of a pool.
    pub(crate) memory: u64,
}

/// What is known of a request.
#[derive(Debug)]
enum Pending {
    /// Waited for; these are its answers so far.
    Awaited(VecDeque<Outcome>),
    /// Not waited for any more. What it still brings is for the next operation on this hub.
    Late(u32),
    /// Its answer says nothing of interest.
    Ignored,
}

#[derive(Debug)]
struct Service {
    name: String,
    node: String,
    channel: Channel,
    pending: HashMap<u32, Pending>,
    /// What came too late for the request that asked for it, by hub.
    late: BTreeMap<u32, VecDeque<Taken>>,
    /// Blocks that came too late, to be given back.
    give_back: Vec<(u32, u64)>,
    inherits: u8,
    /// Its end, once that is known.
    lost: Option<String>,
}

#[derive(Debug)]
struct Connections {
    domain: Domain,
    services: Vec<Service>,
    next_number: u32,
    message: Vec<u8>,
}

/// A request that waits for its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    service: usize,
    number: u32,
}

impl Task {
    /// A task of this program.
    #[must_use]
    pub fn attach(domain: &Domain) -> Task {
        let (services, message) = (Vec::new(), Vec::new());
        let connections = Connections { domain: domain.clone(), services, next_number: 0, message };
        let connections = Rc::new(RefCell::new(connections));
        let declared = std::env::var(PRIORITY_VARIABLE).ok().and_then(|text| text.parse().ok());
        Task { connections, priority: declared.unwrap_or(DEFAULT_PRIORITY), timeout: Duration::from_secs(30) }
    }

    /// The same task, whose operations wait up to `timeout`; with no time they only try.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Task {
        Task { timeout, ..self.clone() }
    }

    /// The same task with this priority, for hubs that are opened with it: 0 to 255, larger is more urgent,
    /// that of the application file, or else 100, where none was set.
    #[must_use]
    pub fn with_priority(&self, priority: u8) -> Task {
        Task { priority, ..self.clone() }
    }

    /// How long operations wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The highest priority that waits for a resource which this task owns, by what has been heard: while the
    /// task computes it hears nothing. 0 for none.
    ///
    /// # Errors
    /// [`HubError::Tombolo`].
    pub fn inherited_priority(&self) -> Result<u8, HubError> {
        let mut connections = self.connections.borrow_mut();
        connections.hear_all()?;
        Ok(connections.services.iter().map(|service| service.inherits).max().unwrap_or(0))
    }

    pub(crate) fn domain(&self) -> Ref<'_, Domain> {
        Ref::map(self.connections.borrow(), |connections| &connections.domain)
    }

    /// Finds a hub, waiting for its name, and checks that it is what the program takes it for.
    pub(crate) fn open(
        &self,
        name: &str,
        kinds: &'static [Kind],
        value_type: &'static str,
    ) -> Result<Hub, HubError> {
        let unknown = || HubError::Unknown { hub: name.to_owned() };
        let (domain, timeout) = (self.domain().clone(), self.timeout);
        let record = match domain.names().wait_for(&format!("{RECORDS}{name}"), timeout) {
            Ok(record) => record,
            Err(Error::TimedOut { .. } | Error::Text { .. }) => return Err(unknown()),
            Err(error) if error.name_fault().is_some() => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        let (Some(service), Some(node)) = (text(&record, "service"), text(&record, "node")) else {
            return Err(unknown());
        };
        let service = self.connections.borrow_mut().connect(service, node, name)?;
        let hub = Hub {
            name: name.to_owned(),
            node: node.to_owned(),
            service,
            number: 0,
            capacity: 0,
            value_bytes: 0,
            memory: 0,
        };
        let kind = if kinds.len() == 1 { Some(kinds[0]) } else { None };
        let operation = Operation::Open { name, kind, value_type: tombolo_hub::type_number(value_type) };
        let opened = self.ask(&hub, operation).map_err(|error| match error.fault() {
            Some(Fault::OtherKind(actual)) => other_kind(&hub, kinds, actual),
            Some(Fault::OtherType) => {
                HubError::OtherType { hub: name.to_owned(), node: node.to_owned(), wanted: value_type }
            }
            Some(Fault::NoSuchHub) => unknown(),
            _ => error,
        })?;
        let Outcome::Opened { hub: number, kind, capacity, value_bytes, memory } = opened else {
            return Err(unknown());
        };
        if !kinds.contains(&kind) {
            return Err(other_kind(&hub, kinds, kind));
        }
        Ok(Hub { number, capacity, value_bytes, memory, ..hub })
    }

    /// Asks something that is answered at once.
    pub(crate) fn ask(&self, hub: &Hub, operation: Operation<'_>) -> Result<Outcome, HubError> {
        let ticket = self.send(hub, operation, false)?;
        self.outcome(hub, ticket, Instant::now() + self.timeout + GRACE)
    }

    /// Does an operation that may wait up to the deadline of the task.
    pub(crate) fn operate(&self, hub: &Hub, operation: Operation<'_>) -> Result<Taken, HubError> {
        if matches!(operation, Operation::Get)
            && let Some(late) = self.connections.borrow_mut().take_late(hub)
        {
            return Ok(late);
        }
        let deadline = Instant::now() + self.timeout + GRACE;
        let ticket = self.send(hub, operation, false)?;
        match self.outcome(hub, ticket, deadline)? {
            Outcome::Done(taken) => Ok(taken),
            _ => wrong_answer(hub),
        }
    }

    /// Sends a request, and does not wait.
    pub(crate) fn send(
        &self,
        hub: &Hub,
        operation: Operation<'_>,
        tentative: bool,
    ) -> Result<Ticket, HubError> {
        let timeout_us = match u32::try_from(self.timeout.as_micros()) {
            // One that waits at all is not only tried.
            Ok(0) if !self.timeout.is_zero() => 1,
            Ok(micros) => micros,
            Err(_) => u32::MAX,
        };
        let mut connections = self.connections.borrow_mut();
        connections.next_number = connections.next_number.wrapping_add(1);
        let number = connections.next_number;
        let request =
            Request { number, hub: hub.number, priority: self.priority, tentative, timeout_us, operation };
        connections.send(hub, &request)?;
        let awaited = Pending::Awaited(VecDeque::new());
        connections.services[hub.service].pending.insert(number, awaited);
        Ok(Ticket { service: hub.service, number })
    }

    /// Gives a block back without waiting for the answer. When its server has ended, so has what it held.
    pub(crate) fn release(&self, hub: &Hub, token: u64) {
        if let Ok(ticket) = self.send(hub, Operation::GiveBack { token }, false) {
            let mut connections = self.connections.borrow_mut();
            connections.services[hub.service].pending.insert(ticket.number, Pending::Ignored);
        }
    }

    /// Sends what is about another request.
    pub(crate) fn send_about(
        &self,
        hub: &Hub,
        ticket: Ticket,
        operation: Operation<'_>,
    ) -> Result<(), HubError> {
        let (number, priority) = (ticket.number, self.priority);
        let request =
            Request { number, hub: hub.number, priority, tentative: false, timeout_us: 0, operation };
        self.connections.borrow_mut().send(hub, &request)
    }

    /// Waits for the last answer to a request.
    fn outcome(&self, hub: &Hub, ticket: Ticket, deadline: Instant) -> Result<Outcome, HubError> {
        loop {
            if let Some(outcome) = self.heard(hub, ticket)? {
                return match outcome {
                    Outcome::Failed(fault) => Err(of_hub(hub, fault)),
                    outcome => Ok(outcome),
                };
            }
            if !self.listen(deadline)? {
                self.forget(hub, ticket, true);
                return Err(HubError::NoAnswer { hub: hub.name.clone(), node: hub.node.clone() });
            }
        }
    }

    /// The next answer to a request, if one has come.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub(crate) fn heard(&self, hub: &Hub, ticket: Ticket) -> Result<Option<Outcome>, HubError> {
        let mut connections = self.connections.borrow_mut();
        let service = &mut connections.services[ticket.service];
        let outcome = match service.pending.get_mut(&ticket.number) {
            Some(Pending::Awaited(outcomes)) => outcomes.pop_front(),
            _ => None,
        };
        if outcome.as_ref().is_some_and(Outcome::is_final) {
            service.pending.remove(&ticket.number);
        }
        match (outcome, &service.lost) {
            (None, Some(why)) => {
                let (hub, node) = (hub.name.clone(), hub.node.clone());
                Err(HubError::Lost { hub, node, why: why.clone() })
            }
            (outcome, _) => Ok(outcome),
        }
    }

    /// Waits until something was heard of any hub; false at the deadline.
    pub(crate) fn listen(&self, deadline: Instant) -> Result<bool, HubError> {
        self.connections.borrow_mut().listen(deadline.saturating_duration_since(Instant::now()))
    }

    /// Stops waiting for a request, which is to be withdrawn unless that was done. What it still brings is
    /// for the next operation on this hub.
    pub(crate) fn forget(&self, hub: &Hub, ticket: Ticket, withdraw: bool) {
        let mut connections = self.connections.borrow_mut();
        let service = &mut connections.services[ticket.service];
        if service.pending.contains_key(&ticket.number) {
            service.pending.insert(ticket.number, Pending::Late(hub.number));
        }
        let (number, operation) = (ticket.number, Operation::Withdraw);
        let request =
            Request { number, hub: hub.number, priority: 0, tentative: false, timeout_us: 0, operation };
        if withdraw {
            // Without a server there is nothing to withdraw.
            let _ = connections.send(hub, &request);
        }
    }

    /// The rank of a hub that all tasks agree on.
    pub(crate) fn place(&self, hub: &Hub) -> (u64, u32) {
        let connections = self.connections.borrow();
        (connections.services[hub.service].channel.peer().to_bits(), hub.number)
    }
}

pub(crate) fn of_hub(hub: &Hub, fault: Fault) -> HubError {
    HubError::Fault { hub: hub.name.clone(), node: hub.node.clone(), fault }
}

fn other_kind(hub: &Hub, kinds: &'static [Kind], actual: Kind) -> HubError {
    let wanted = if kinds.len() > 1 { "port or fifo" } else { kinds[0].name() };
    HubError::OtherKind { hub: hub.name.clone(), node: hub.node.clone(), wanted, actual }
}

fn text<'r>(record: &'r Record, attribute: &str) -> Option<&'r str> {
    match record.attributes.get(attribute) {
        Some(Attribute::Text(text)) => Some(text),
        _ => None,
    }
}

impl Connections {
    /// The connection to a server.
    fn connect(&mut self, name: &str, node: &str, hub: &str) -> Result<usize, HubError> {
        let known = |service: &Service| service.name == name && service.lost.is_none();
        if let Some(known) = self.services.iter().position(known) {
            return Ok(known);
        }
        let channel = match options()?.connect(&self.domain, name) {
            Err(Error::TimedOut { .. }) => return Err(HubError::Unknown { hub: hub.to_owned() }),
            channel => channel?,
        };
        self.services.push(Service {
            name: name.to_owned(),
            node: node.to_owned(),
            channel,
            pending: HashMap::new(),
            late: BTreeMap::new(),
            give_back: Vec::new(),
            inherits: 0,
            lost: None,
        });
        Ok(self.services.len() - 1)
    }

    fn send(&mut self, hub: &Hub, request: &Request<'_>) -> Result<(), HubError> {
        let lost = |why: String| HubError::Lost { hub: hub.name.clone(), node: hub.node.clone(), why };
        let service = &mut self.services[hub.service];
        if let Some(why) = &service.lost {
            return Err(lost(why.clone()));
        }
        self.message.clear();
        request.encode(&mut self.message);
        match service.channel.within(GRACE).send(&self.message) {
            Ok(()) => Ok(()),
            Err(Error::TimedOut { .. }) => {
                Err(HubError::NoAnswer { hub: hub.name.clone(), node: hub.node.clone() })
            }
            Err(error @ Error::TooLong { .. }) => Err(error.into()),
            Err(error) => {
                let why = service.ended(&error);
                Err(lost(why))
            }
        }
    }

    /// Waits for a message of any server, and takes in what came; false when nothing did.
    fn listen(&mut self, timeout: Duration) -> Result<bool, HubError> {
        let mut alive: Vec<usize> = Vec::new();
        alive.extend((0..self.services.len()).filter(|index| self.services[*index].lost.is_none()));
        if let [only] = alive[..] {
            return self.hear(only, timeout);
        }
        let mut channels: Vec<&mut Channel> = Vec::with_capacity(alive.len());
        let live = self.services.iter_mut().filter(|service| service.lost.is_none());
        channels.extend(live.map(|service| &mut service.channel));
        if channels.is_empty() {
            return Ok(true);
        }
        match wait_any(&mut channels, timeout) {
            Ok(index) => self.hear(alive[index], Duration::ZERO).map(|_| true),
            Err(Error::TimedOut { .. }) => Ok(false),
            // One that has ended says so when it is received from.
            Err(_) => self.hear_all().map(|()| true),
        }
    }

    fn hear_all(&mut self) -> Result<(), HubError> {
        for index in 0..self.services.len() {
            while self.services[index].lost.is_none() && self.hear(index, Duration::ZERO)? {}
        }
        Ok(())
    }

    /// Takes in the next message of a server; false when none came in time.
    fn hear(&mut self, index: usize, timeout: Duration) -> Result<bool, HubError> {
        let service = &mut self.services[index];
        let received = if timeout.is_zero() {
            service.channel.try_recv_into(&mut self.message).map(|received| received.is_some())
        } else {
            service.channel.within(timeout).recv_into(&mut self.message).map(|_| true)
        };
        match received {
            Ok(true) => {}
            Ok(false) | Err(Error::TimedOut { .. }) => return Ok(false),
            Err(error) => {
                service.ended(&error);
                return Ok(true);
            }
        }
        let answer = Answer::decode(&self.message)
            .map_err(|violation| HubError::Violation { node: service.node.clone(), violation })?;
        match answer {
            Answer::Outcome(number, outcome) => service.take_in(number, outcome),
            Answer::Inherits(priority) => {
                service.inherits = priority;
                self.pass_on();
            }
        }
        self.return_blocks();
        Ok(true)
    }

    /// Tells each server what this task inherits by resources elsewhere.
    fn pass_on(&mut self) {
        for index in 0..self.services.len() {
            let others = self.services.iter().enumerate().filter(|(other, _)| *other != index);
            let priority = others.map(|(_, service)| service.inherits).max().unwrap_or(0);
            let operation = Operation::Raise;
            let request = Request { number: 0, hub: 0, priority, tentative: false, timeout_us: 0, operation };
            self.tell(index, &request);
        }
    }

    fn return_blocks(&mut self) {
        for index in 0..self.services.len() {
            for (hub, token) in std::mem::take(&mut self.services[index].give_back) {
                self.next_number = self.next_number.wrapping_add(1);
                let (number, operation) = (self.next_number, Operation::GiveBack { token });
                let request =
                    Request { number, hub, priority: 0, tentative: false, timeout_us: 0, operation };
                self.services[index].pending.insert(number, Pending::Ignored);
                self.tell(index, &request);
            }
        }
    }

    /// Sends to a server that may have ended, which is heard of when it is received from.
    fn tell(&mut self, index: usize, request: &Request<'_>) {
        let service = &mut self.services[index];
        if service.lost.is_none() {
            self.message.clear();
            request.encode(&mut self.message);
            let _ = service.channel.within(GRACE).send(&self.message);
        }
    }

    fn take_late(&mut self, hub: &Hub) -> Option<Taken> {
        let late = self.services[hub.service].late.get_mut(&hub.number)?;
        late.pop_front()
    }
}

impl Service {
    fn take_in(&mut self, number: u32, outcome: Outcome) {
        let is_final = outcome.is_final();
        match self.pending.get_mut(&number) {
            Some(Pending::Awaited(outcomes)) if outcomes.len() < MAX_ANSWERS => {
                outcomes.push_back(outcome);
                return;
            }
            Some(Pending::Awaited(_)) => self.lost = Some("it broke the protocol".to_owned()),
            Some(Pending::Late(hub)) => match outcome {
                Outcome::Done(Taken::Block { token, .. }) => self.give_back.push((*hub, token)),
                Outcome::Done(taken @ (Taken::Value(_) | Taken::Unit)) => {
                    self.late.entry(*hub).or_default().push_back(taken);
                }
                _ => {}
            },
            Some(Pending::Ignored) | None => {}
        }
        if is_final {
            self.pending.remove(&number);
        }
    }

    /// Notes the end of the server: the evidence, as text.
    fn ended(&mut self, error: &Error) -> String {
        let why = match error {
            Error::PeerDied { .. } => "it died".to_owned(),
            Error::Closed { .. } => "it closed the channel".to_owned(),
            error => error.to_string(),
        };
        self.lost.get_or_insert(why).clone()
    }
}

/// What all hubs of the machine look like, by name: with the node of each.
///
/// # Errors
/// [`HubError::Tombolo`]. Hubs that end meanwhile are left out.
pub fn list(domain: &Domain) -> Result<Vec<(String, Status)>, HubError> {
    let task = Task::attach(domain).within(Duration::from_secs(5));
    let mut all = Vec::new();
    for record in domain.names().find(&format!("r'^{RECORDS}'"))? {
        let Some(name) = record.name.strip_prefix(RECORDS) else { continue };
        let Ok(hub) = task.open(name, &Kind::ALL, "") else { continue };
        if let Ok(Outcome::Status(status)) = task.ask(&hub, Operation::Status) {
            all.push((hub.node, status));
        }
    }
    Ok(all)
}
