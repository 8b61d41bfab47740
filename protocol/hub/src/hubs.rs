//! Hubs of a node, and the clients that use them.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::hub::{Context, Hub, Outcome, Quantity, Side, Waiter};
use crate::table::{Ordered, Table};
use crate::{BadDescription, Batch, Description, Fault, Kind, Operation, Request, Violation};

/// Point in time, in nanoseconds from an arbitrary origin.
pub type Nanos = u64;

/// Clock that returns the current time.
pub type Clock<'a> = &'a dyn Fn() -> Nanos;

/// Connection of a client, whose end is known by evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Client(pub u64);

/// Identity of a client's request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestKey {
    /// Client that sent the request.
    pub client: Client,
    /// Number chosen by the client.
    pub number: u32,
}

/// Limits of a node's hubs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Maximum number of waiting requests of one client.
    pub requests_per_client: u32,
    /// Time that an unclaimed offer stands while others wait, in nanoseconds. A client that is not running
    /// delays others by this time, for each offer.
    pub offer_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { requests_per_client: 1024, offer_ns: 20_000_000 }
    }
}

/// Message to a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Outcome of a request.
    Answer(RequestKey, Outcome),
    /// Priority that a client inherits through the resources that it owns here: the highest that waits for
    /// them, 0 for none. It applies to the client's requests on other nodes.
    Inherits(Client, u8),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ClientState {
    /// Domain of the client, as a number.
    domain: u64,
    /// Hub of each waiting request.
    pub(crate) waiting_requests: Table<u32, u32>,
    /// Priority inherited through resources on other nodes, as reported by the client.
    remote_priority: u8,
    /// Priority inherited through resources here.
    pub(crate) inherited_priority: u8,
}

impl ClientState {
    pub(crate) fn priority(&self) -> u8 {
        self.remote_priority.max(self.inherited_priority)
    }
}

/// All hubs of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Hubs {
    pub(crate) hubs: Vec<Hub>,
    names: Table<String, u32>,
    pub(crate) clients: Table<Client, ClientState>,
    pub(crate) deadlines: Ordered<(Nanos, u32, RequestKey)>,
    arrivals: u64,
    answers: Vec<(RequestKey, Outcome)>,
    pub(crate) outputs: Vec<Output>,
    limits: Limits,
    /// Whether counts are lent, and the recently used hubs whose counts may be lent.
    lending_enabled: bool,
    lend_candidates: Vec<u32>,
}

impl Hubs {
    /// Creates a node without hubs.
    #[must_use]
    pub fn new(limits: Limits) -> Hubs {
        // An offer with no duration would be renewed forever.
        let limits = Limits { offer_ns: limits.offer_ns.max(1), ..limits };
        Hubs {
            hubs: Vec::new(),
            names: Table::default(),
            clients: Table::default(),
            deadlines: Ordered::default(),
            arrivals: 0,
            answers: Vec::new(),
            outputs: Vec::new(),
            limits,
            lending_enabled: false,
            lend_candidates: Vec::new(),
        }
    }

    /// Adds a hub and returns its number. A hub with an existing name replaces the earlier one for clients
    /// that open it later; the declarer of hubs must refuse duplicate names.
    ///
    /// # Errors
    /// [`BadDescription`].
    pub fn add(&mut self, description: Description) -> Result<u32, BadDescription> {
        description.check()?;
        let number = u32::try_from(self.hubs.len()).unwrap_or(u32::MAX);
        self.names.insert(description.name.clone(), number);
        self.hubs.push(Hub::new(description));
        self.add_lend_candidate(number);
        Ok(number)
    }

    /// Enables lending of the counts of semaphores and events ([`CountWord`](crate::CountWord)). The caller
    /// asks for those to [`lend_next_count`](Self::lend_next_count) after each call, and takes one back
    /// ([`reclaim_count`](Self::reclaim_count)) before a request for its hub.
    pub fn share_counts(&mut self) {
        self.lending_enabled = true;
        self.lend_candidates = (0..).take(self.hubs.len()).collect();
    }

    /// Returns a hub whose count must be lent now, and the count.
    #[must_use]
    pub fn lend_next_count(&mut self) -> Option<(u32, u32)> {
        while let Some(number) = self.lend_candidates.pop() {
            if let Some(hub) =
                self.hubs.get_mut(number as usize).filter(|hub| !hub.lent && hub.can_lend_count())
            {
                hub.lent = true;
                return Some((number, u32::try_from(hub.store.depth()).unwrap_or(u32::MAX)));
            }
        }
        None
    }

    /// Returns the capacity of a hub whose count is lent.
    #[must_use]
    pub fn lent_capacity(&self, hub: u32) -> Option<u32> {
        self.hubs.get(hub as usize).filter(|hub| hub.lent).map(|hub| hub.description.capacity)
    }

    /// Records that a lent count was taken back from the tasks, with this value.
    pub fn reclaim_count(&mut self, number: u32, count: u32) {
        if let Some(hub) = self.hubs.get_mut(number as usize).filter(|hub| hub.lent) {
            hub.store.set_count(count);
            hub.lent = false;
            self.add_lend_candidate(number);
        }
    }

    /// Records a hub whose count may be lent again.
    fn add_lend_candidate(&mut self, number: u32) {
        let is_count = |hub: &Hub| hub.store.is_count();
        if self.lending_enabled && self.hubs.get(number as usize).is_some_and(is_count) {
            self.lend_candidates.push(number);
        }
    }

    /// Returns the number of hubs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hubs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hubs.is_empty()
    }

    /// Returns the name of a hub, the number of its items, and the number of requests that wait there.
    #[must_use]
    pub fn load(&self, hub: u32) -> Option<(&str, u64, u64)> {
        let hub = self.hubs.get(hub as usize)?;
        Some((&hub.description.name, hub.store.depth() as u64, hub.waiting() as u64))
    }

    /// Returns the sizes of all tables, by content, for leak checks.
    #[must_use]
    pub fn resource_counts(&self) -> [(&'static str, usize); 6] {
        [
            ("clients", self.clients.len()),
            ("waiting requests", self.hubs.iter().map(Hub::waiting).sum()),
            ("offers", self.hubs.iter().map(Hub::offered).sum()),
            ("set aside", self.hubs.iter().map(|hub| hub.store.reserved() as usize).sum()),
            ("blocks held", self.hubs.iter().map(|hub| hub.store.holders().count()).sum()),
            ("deadlines", self.deadlines.len()),
        ]
    }

    /// Adds a client. `domain` identifies it in [`Status`](crate::Status).
    pub fn add_client(&mut self, client: Client, domain: u64) {
        self.clients.get_or_default(client).domain = domain;
    }

    /// Removes a client that has ended, with all its requests and everything it held.
    pub fn remove_client(&mut self, now: Nanos, client: Client) {
        let Some(state) = self.clients.remove(&client) else { return };
        if tombolo_base::canary!("hub keeps the requests of the dead") {
            return;
        }
        let mut touched: BTreeSet<u32> = BTreeSet::new();
        for (number, hub) in state.waiting_requests.iter() {
            let (number, hub) = (*number, *hub);
            self.with_hub(now, hub, |hub, context| {
                hub.remove_request(context, RequestKey { client, number });
            });
            touched.insert(hub);
        }
        for (number, hub) in self.hubs.iter_mut().enumerate() {
            if !tombolo_base::canary!("hub leaves blocks with the dead") && hub.store.abandon(client) {
                touched.insert(u32::try_from(number).unwrap_or(u32::MAX));
            }
        }
        for hub in &touched {
            self.with_hub(now, *hub, |hub, context| hub.serve_waiters(context));
        }
        self.update_inheritance(touched);
    }

    /// Returns the hub where a request of a client waits.
    pub(crate) fn hub_of_request(&self, client: Client, number: u32) -> Option<u32> {
        self.clients.get(&client)?.waiting_requests.get(&number).copied()
    }

    /// Returns when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        self.deadlines.first().map(|(at, _, _)| *at)
    }

    /// Ends requests whose deadline passed, and offers that were not claimed in time.
    pub fn tick(&mut self, now: Nanos) {
        let mut touched: BTreeSet<u32> = BTreeSet::new();
        // Each due entry is processed once, regardless of the result.
        while let Some((_, number, key)) = self.deadlines.first().copied().filter(|(at, _, _)| *at <= now) {
            self.deadlines.pop_first();
            let arrival = self.next_arrival();
            self.with_hub(now, number, |hub, context| hub.expire(context, key, arrival));
            touched.insert(number);
        }
        self.update_inheritance(touched);
    }

    /// Returns the messages to send, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.outputs)
    }

    /// Handles a request of a client. Reads the clock only if the request may have to wait.
    ///
    /// # Errors
    /// The client violated the protocol. Close its connection and call
    /// [`remove_client`](Self::remove_client).
    pub fn request(
        &mut self,
        now: Clock<'_>,
        client: Client,
        request: &Request<'_>,
    ) -> Result<(), Violation> {
        let state = self.clients.get_mut(&client).ok_or(Violation::NotJoined)?;
        let key = RequestKey { client, number: request.number };
        let hub_of_request = state.waiting_requests.get(&request.number).copied();
        match request.operation {
            Operation::Claim { offer } => {
                if let Some(hub) = hub_of_request {
                    self.with_hub(now(), hub, |hub, context| hub.claim(context, key, offer));
                    self.update_inheritance([hub]);
                }
                return Ok(());
            }
            Operation::Unclaim { offer } => {
                if let Some(hub) = hub_of_request {
                    self.with_hub(now(), hub, |hub, context| hub.unclaim(context, key, offer));
                }
                return Ok(());
            }
            Operation::Withdraw => {
                // A request that has ended was answered, and the client has that answer or will get it.
                if let Some(hub) = hub_of_request {
                    self.with_hub(now(), hub, |hub, context| hub.withdraw(context, key));
                    self.update_inheritance([hub]);
                }
                return Ok(());
            }
            Operation::Raise => {
                state.remote_priority = request.priority;
                self.propagate_priority(client);
                return Ok(());
            }
            _ => {}
        }
        if hub_of_request.is_some() {
            return Err(Violation::DuplicateRequest(request.number));
        }
        if let Err(fault) = self.start(now, key, request) {
            self.outputs.push(Output::Answer(key, Outcome::Failed(fault)));
        }
        Ok(())
    }

    /// Starts a request, or returns why it failed.
    fn start(&mut self, now: Clock<'_>, key: RequestKey, request: &Request<'_>) -> Result<(), Fault> {
        if let Operation::Open { name, kind, value_type } = request.operation {
            let opened = self.open(name, kind, value_type)?;
            self.outputs.push(Output::Answer(key, opened));
            return Ok(());
        }
        let hub = self.hubs.get_mut(request.hub as usize).ok_or(Fault::NoSuchHub)?;
        match request.operation {
            Operation::Status => {
                let clients = &self.clients;
                let status = hub.status(|client| clients.get(&client).map_or(0, |state| state.domain));
                self.outputs.push(Output::Answer(key, Outcome::Status(status.into())));
            }
            Operation::Close => {
                let closed = self.with_hub(now(), request.hub, |hub, context| hub.close(context));
                closed.unwrap_or(Err(Fault::NoSuchHub))?;
                self.outputs.push(Output::Answer(key, Outcome::Done(crate::Taken::Unit)));
            }
            Operation::GiveBack { token } => {
                if !hub.description.kind.has_holders() {
                    return Err(Fault::WrongOperation(hub.description.kind));
                }
                if !hub.store.give_back(key.client, token) {
                    return Err(Fault::NotHeld);
                }
                self.outputs.push(Output::Answer(key, Outcome::Done(crate::Taken::Put)));
                self.with_hub(now(), request.hub, |hub, context| hub.serve_waiters(context));
            }
            Operation::Put { value } => self.put(now, key, request, value)?,
            Operation::Get => self.get(now, key, request)?,
            Operation::PutMany { values } => self.put_many(now, key, request, values)?,
            Operation::GetMany { max_values } => {
                let kind = hub.description.kind;
                if kind != Kind::Fifo {
                    return Err(Fault::WrongOperation(kind));
                }
                self.submit(now, key, request, (Side::Get, Quantity::Get { max_values }), &[])?;
            }
            // Handled before.
            _ => return Ok(()),
        }
        self.update_inheritance([request.hub]);
        Ok(())
    }

    fn open(&self, name: &str, kind: Option<Kind>, value_type: u64) -> Result<Outcome, Fault> {
        let hub = *self.names.get(name).ok_or(Fault::NoSuchHub)?;
        let described = &self.hubs.get(hub as usize).ok_or(Fault::NoSuchHub)?.description;
        if kind.is_some_and(|kind| kind != described.kind) {
            return Err(Fault::OtherKind(described.kind));
        }
        if value_type != 0 && described.value_type != 0 && value_type != described.value_type {
            return Err(Fault::OtherType);
        }
        let Description { kind, capacity, value_bytes, .. } = *described;
        Ok(Outcome::Opened { hub, kind, capacity, value_bytes, memory: 0 })
    }

    fn put(
        &mut self,
        now: Clock<'_>,
        key: RequestKey,
        request: &Request<'_>,
        value: &[u8],
    ) -> Result<(), Fault> {
        let hub = self.hubs.get(request.hub as usize).ok_or(Fault::NoSuchHub)?;
        let description = &hub.description;
        if description.kind.has_holders() {
            return Err(Fault::WrongOperation(description.kind));
        }
        if hub.closed {
            return Err(Fault::Closed);
        }
        if value.len() > description.value_bytes as usize {
            return Err(Fault::TooLong(description.value_bytes));
        }
        self.submit(now, key, request, (Side::Put, Quantity::One), value)
    }

    fn put_many(
        &mut self,
        now: Clock<'_>,
        key: RequestKey,
        request: &Request<'_>,
        values: Batch<'_>,
    ) -> Result<(), Fault> {
        let hub = self.hubs.get(request.hub as usize).ok_or(Fault::NoSuchHub)?;
        let Description { kind, value_bytes, .. } = hub.description;
        if kind != Kind::Fifo {
            return Err(Fault::WrongOperation(kind));
        }
        if hub.closed {
            return Err(Fault::Closed);
        }
        if values.iter().any(|value| value.len() > value_bytes as usize) {
            return Err(Fault::TooLong(value_bytes));
        }
        self.submit(now, key, request, (Side::Put, Quantity::Put { done: 0, at: 0 }), values.bytes())
    }

    fn get(&mut self, now: Clock<'_>, key: RequestKey, request: &Request<'_>) -> Result<(), Fault> {
        let hub = self.hubs.get(request.hub as usize).ok_or(Fault::NoSuchHub)?;
        let is_resource = hub.description.kind == Kind::Resource;
        if is_resource && hub.store.holders().any(|(_, holding)| holding.client == key.client) {
            return Err(Fault::AlreadyHeld);
        }
        self.submit(now, key, request, (Side::Get, Quantity::One), &[])
    }

    fn submit(
        &mut self,
        now: Clock<'_>,
        key: RequestKey,
        request: &Request<'_>,
        (side, quantity): (Side, Quantity),
        value: &[u8],
    ) -> Result<(), Fault> {
        let max_requests = self.limits.requests_per_client;
        let arrival = self.next_arrival();
        let state = self.clients.get_mut(&key.client).ok_or(Fault::NoSuchHub)?;
        if state.waiting_requests.len() >= max_requests as usize {
            return Err(Fault::TooManyRequests(max_requests));
        }
        let hub = self.hubs.get_mut(request.hub as usize).ok_or(Fault::NoSuchHub)?;
        if !request.tentative
            && let Some(taken) = hub.try_complete_now(key.client, side, quantity, value)
        {
            self.outputs.push(Output::Answer(key, Outcome::Done(taken)));
            self.add_lend_candidate(request.hub);
            return Ok(());
        }
        state.waiting_requests.insert(key.number, request.hub);
        let effective = request.priority.max(state.priority());
        let try_only = request.timeout_us == 0;
        // An offer to a tentative request that only tries must be claimed too.
        let grace_ns = if request.tentative { self.limits.offer_ns.saturating_mul(10) } else { 0 };
        let timeout_ns = u64::from(request.timeout_us) * 1000;
        let now = now();
        let deadline = now.saturating_add(timeout_ns).saturating_add(grace_ns);
        let mut waiter = Waiter::new(side, (request.priority, effective), arrival, deadline);
        waiter.tentative = request.tentative;
        waiter.value = value.into();
        waiter.quantity = quantity;
        self.with_hub(now, request.hub, |hub, context| hub.enqueue(context, key, waiter, try_only));
        Ok(())
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Runs an operation on a hub, and forwards its answers.
    fn with_hub<R>(
        &mut self,
        now: Nanos,
        number: u32,
        act: impl FnOnce(&mut Hub, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let hub = self.hubs.get_mut(number as usize)?;
        let (offer_ns, answers) = (self.limits.offer_ns, &mut self.answers);
        let mut context = Context { now, hub: number, offer_ns, answers, deadlines: &mut self.deadlines };
        let result = act(hub, &mut context);
        for (key, outcome) in self.answers.drain(..) {
            // A client that ended gets no more answers.
            let Some(state) = self.clients.get_mut(&key.client) else { continue };
            if outcome.is_final() {
                state.waiting_requests.remove(&key.number);
            }
            self.outputs.push(Output::Answer(key, outcome));
        }
        self.add_lend_candidate(number);
        Some(result)
    }
}
