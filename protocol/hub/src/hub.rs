//! State of one hub: its store, and the requests that wait to put or to get.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::batch;
use crate::hubs::{Client, Nanos, RequestKey};
use crate::status::{Status, Waiting};
use crate::store::{Item, Store};
use crate::table::{Ordered, Table};
use crate::{Batch, BatchBuf, Bytes, Description, Fault, Kind};

/// Result of an operation that was done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Taken {
    /// The item was stored, or taken by a receiver.
    Put,
    /// A value.
    Value(Bytes),
    /// One or more values in order, of several that were requested together.
    Values(BatchBuf),
    /// Event, or unit of a semaphore.
    Unit,
    /// Block of a pool, or lock of a resource.
    Block {
        /// Number of the block, from 0.
        number: u32,
        /// Fencing token, larger than that of every earlier holder. Needed to give the block back, and to be
        /// shown to the protected resource.
        token: u64,
        /// Whether the previous holder ended without giving it back, so that the protected data may be
        /// inconsistent.
        abandoned: bool,
    },
}

/// Answer of a hub to a request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The request was done.
    Done(Taken),
    /// A tentative request can be done. The item or place is set aside until the offer is claimed or
    /// withdrawn.
    Offered(u32),
    /// The offer is void, and the request waits again.
    Revoked,
    /// The claim was taken back, but the offer stands.
    Unclaimed,
    /// The request was withdrawn and had no effect.
    Withdrawn,
    /// The request failed and had no effect.
    Failed(Fault),
    /// Of several values the first ones, at least one, were put in. The sender still owns the others.
    Partial {
        /// Number of values that were put in.
        put: u32,
        /// Reason why the others were not; `None` if the request was withdrawn.
        fault: Option<Fault>,
    },
    /// The hub that was requested by name.
    Opened {
        /// Number of the hub on its node.
        hub: u32,
        /// Kind of the hub.
        kind: Kind,
        /// See [`Description::capacity`].
        capacity: u32,
        /// See [`Description::value_bytes`].
        value_bytes: u32,
        /// Number of a right to the memory of a pool, granted by the server; 0 for none.
        memory: u64,
    },
    /// Status of a hub.
    Status(Box<Status>),
}

impl Outcome {
    /// Whether the request has ended and its number is free.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Outcome::Offered(_) | Outcome::Revoked | Outcome::Unclaimed)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Side {
    Put,
    Get,
}

/// Resources that are set aside for an offer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Reservation {
    /// Place in the store.
    Room,
    /// Item from the store.
    Item(Item),
    /// Request of the other side at a port.
    Partner(RequestKey),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum State {
    Waiting,
    /// `until` is the time when an unclaimed offer passes to another waiter.
    Offered {
        offer: u32,
        claimed: bool,
        until: Nanos,
        reservation: Reservation,
    },
}

/// Number of values that a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Quantity {
    One,
    /// Puts the values packed in [`Waiter::value`]: the number already put, and the offset of the next.
    Put {
        done: u32,
        at: usize,
    },
    /// Takes up to this many.
    Get {
        max_values: u32,
    },
}

/// Waiting request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Waiter {
    pub(crate) side: Side,
    /// Priority of the request itself; the client may have inherited a higher one.
    pub(crate) priority: u8,
    pub(crate) effective: u8,
    /// Order of arrival.
    pub(crate) arrival: u64,
    /// Whether it waits for an offer, which it may decline.
    pub(crate) tentative: bool,
    pub(crate) deadline: Nanos,
    pub(crate) value: Bytes,
    pub(crate) quantity: Quantity,
    state: State,
}

impl Waiter {
    pub(crate) fn new(side: Side, (priority, effective): (u8, u8), arrival: u64, deadline: Nanos) -> Waiter {
        let (tentative, value, quantity, state) = (false, Bytes::default(), Quantity::One, State::Waiting);
        Waiter { side, priority, effective, arrival, tentative, deadline, value, quantity, state }
    }

    /// Returns the outcome of a request that ends like this, if some of its values were put in before.
    fn final_outcome(&self, outcome: Outcome) -> Outcome {
        match (self.quantity, outcome) {
            (Quantity::Put { done: put @ 1.., .. }, Outcome::Failed(fault)) => {
                Outcome::Partial { put, fault: Some(fault) }
            }
            (Quantity::Put { done: put @ 1.., .. }, Outcome::Withdrawn) => {
                Outcome::Partial { put, fault: None }
            }
            (_, outcome) => outcome,
        }
    }
}

/// State around a hub that it needs.
pub(crate) struct Context<'a> {
    pub(crate) now: Nanos,
    /// Number of the hub.
    pub(crate) hub: u32,
    /// Time that an offer stands while other requests wait.
    pub(crate) offer_ns: u64,
    pub(crate) answers: &'a mut Vec<(RequestKey, Outcome)>,
    pub(crate) deadlines: &'a mut Ordered<(Nanos, u32, RequestKey)>,
}

impl Context<'_> {
    fn answer(&mut self, key: RequestKey, outcome: Outcome) {
        self.answers.push((key, outcome));
    }
}

/// Requests in the order in which they are served: by priority, then by arrival.
type Queue = Ordered<(u8, u64, RequestKey)>;

fn rank(waiter: &Waiter, key: RequestKey) -> (u8, u64, RequestKey) {
    let first_come = tombolo_base::canary!("hub serves in order of arrival");
    (if first_come { 0 } else { u8::MAX - waiter.effective }, waiter.arrival, key)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hub {
    pub(crate) description: Description,
    pub(crate) store: Store,
    pub(crate) closed: bool,
    /// Whether its count is in memory shared with tasks. The store then holds the value at the time of
    /// lending.
    pub(crate) lent: bool,
    waiters: Table<RequestKey, Waiter>,
    /// Waiting putters without an offer.
    putters: Queue,
    getters: Queue,
    last_offer: u32,
}

impl Hub {
    pub(crate) fn new(description: Description) -> Hub {
        let store = Store::new(&description);
        Hub {
            description,
            store,
            closed: false,
            lent: false,
            waiters: Table::default(),
            putters: Queue::default(),
            getters: Queue::default(),
            last_offer: 0,
        }
    }

    fn queue(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::Put => &mut self.putters,
            Side::Get => &mut self.getters,
        }
    }

    /// Whether tasks may change the count themselves: no request waits here, and none has an offer.
    pub(crate) fn can_lend_count(&self) -> bool {
        let is_alone = self.waiting() == 0 || tombolo_base::canary!("hub lends the count while one waits");
        self.store.is_count() && !self.closed && is_alone && self.store.reserved() == 0
    }

    /// Completes a request at once if no other waits here, with the same result as [`enqueue`](Self::enqueue)
    /// but without a place in queues and tables. Returns `None` if the request has to wait, or must be queued
    /// to be served in part.
    pub(crate) fn try_complete_now(
        &mut self,
        client: Client,
        side: Side,
        quantity: Quantity,
        value: &[u8],
    ) -> Option<Taken> {
        if self.waiting() > 0 || self.description.kind == Kind::Port {
            return None;
        }
        match (side, quantity) {
            (Side::Put, Quantity::Put { .. }) => self.put_all(value),
            (Side::Put, _) => {
                let may_put = self.store.has_room() && !self.closed;
                may_put.then(|| self.store.put(value.into())).map(|()| Taken::Put)
            }
            (Side::Get, _) if !self.may_get() => None,
            (Side::Get, Quantity::Get { max_values }) => {
                let mut values = BatchBuf::new();
                self.take_values(&mut values, max_values);
                Some(Taken::Values(values))
            }
            (Side::Get, _) => self.store.take().map(|item| self.complete_item(client, item)),
        }
    }

    /// Puts packed values in, if there is room for all of them.
    fn put_all(&mut self, packed: &[u8]) -> Option<Taken> {
        let batch = Batch::read(packed)?;
        if self.closed || self.store.room() < batch.count() {
            return None;
        }
        batch.iter().for_each(|value| self.store.put(value.into()));
        Some(Taken::Put)
    }

    /// Queues a request and serves as many as possible. A request with `try_only` fails if it would wait.
    pub(crate) fn enqueue(
        &mut self,
        context: &mut Context<'_>,
        key: RequestKey,
        waiter: Waiter,
        try_only: bool,
    ) {
        let side = waiter.side;
        self.queue(side).insert(rank(&waiter, key));
        context.deadlines.insert((waiter.deadline, context.hub, key));
        self.waiters.insert(key, waiter);
        self.serve_waiters(context);
        let waits = self.waiters.get(&key).is_some_and(|waiter| waiter.state == State::Waiting);
        if try_only && waits {
            self.end(context, key, Outcome::Failed(Fault::WouldBlock));
        }
    }

    /// Serves as many requests as possible.
    pub(crate) fn serve_waiters(&mut self, context: &mut Context<'_>) {
        loop {
            let putter = self.putters.first().map(|(_, _, key)| *key);
            let getter = self.getters.first().map(|(_, _, key)| *key);
            let rendezvous = self.description.kind == Kind::Port;
            match (putter, getter) {
                (Some(putter), Some(getter)) if rendezvous => self.pair(context, putter, getter),
                (_, Some(getter)) if !rendezvous && self.may_get() => self.serve_getter(context, getter),
                (Some(putter), _) if !rendezvous && self.store.has_room() && !self.closed => {
                    self.serve_putter(context, putter);
                }
                _ => break,
            }
        }
        if self.closed {
            self.fail_remaining(context);
        }
    }

    /// Whether a getter may be served. Blocks of a closed hub are not handed out any more; items of others
    /// are, until the hub is empty.
    fn may_get(&self) -> bool {
        self.store.depth() > 0 && !(self.closed && self.description.kind.has_holders())
    }

    fn fail_remaining(&mut self, context: &mut Context<'_>) {
        // Items set aside for offers may come back, and then belong to the waiters.
        let drained = self.description.kind.has_holders() || self.store.reserved() == 0;
        let mut ended: Vec<RequestKey> = self.putters.iter().map(|(_, _, key)| *key).collect();
        if drained {
            ended.extend(self.getters.iter().map(|(_, _, key)| *key));
        }
        for key in ended {
            self.end(context, key, Outcome::Failed(Fault::Closed));
        }
    }

    fn serve_putter(&mut self, context: &mut Context<'_>, key: RequestKey) {
        let Some(waiter) = self.waiters.get_mut(&key) else { return };
        if waiter.tentative {
            self.store.reserve_place();
            self.offer(context, key, Reservation::Room, false);
            return;
        }
        match &mut waiter.quantity {
            Quantity::Put { done, at } => {
                while self.store.has_room() {
                    let Some((value, rest)) = waiter.value.get(*at..).and_then(batch::first) else { break };
                    self.store.put(value.into());
                    *done += 1;
                    *at = waiter.value.len() - rest.len();
                }
                if *at < waiter.value.len() {
                    return;
                }
            }
            _ => self.store.put(core::mem::take(&mut waiter.value)),
        }
        self.finish(context, key, Outcome::Done(Taken::Put));
    }

    fn serve_getter(&mut self, context: &mut Context<'_>, key: RequestKey) {
        let Some(waiter) = self.waiters.get(&key) else { return };
        if let Quantity::Get { max_values } = waiter.quantity {
            let mut values = BatchBuf::new();
            loop {
                self.take_values(&mut values, max_values);
                // Putters waiting for the room that this makes are served too, so that a small store does not
                // make small batches.
                if values.count() >= max_values || self.store.depth() > 0 || !self.refill(context) {
                    break;
                }
            }
            self.finish(context, key, Outcome::Done(Taken::Values(values)));
            return;
        }
        let tentative = waiter.tentative;
        let Some(item) = self.store.take() else { return };
        if tentative {
            self.store.reserve_place();
            self.offer(context, key, Reservation::Item(item), false);
        } else {
            let taken = self.complete_item(key.client, item);
            self.finish(context, key, Outcome::Done(taken));
        }
    }

    /// Moves values out of the store until there are `max_values`, or there is no room for the next.
    fn take_values(&mut self, values: &mut BatchBuf, max_values: u32) {
        while values.count() < max_values && self.store.first_value().is_some_and(|value| values.push(value))
        {
            self.store.take();
        }
    }

    /// Serves the first waiting putter on behalf of a getter that has emptied the store. Returns whether
    /// there is a value now.
    fn refill(&mut self, context: &mut Context<'_>) -> bool {
        let first = self.putters.first().map(|(_, _, key)| *key);
        let firm = |key: &RequestKey| self.waiters.get(key).is_some_and(|waiter| !waiter.tentative);
        let Some(putter) = first.filter(firm).filter(|_| !self.closed) else { return false };
        self.serve_putter(context, putter);
        self.store.depth() > 0
    }

    /// Pairs two requests at a port. Requests that wait for nothing else have claimed already.
    fn pair(&mut self, context: &mut Context<'_>, putter: RequestKey, getter: RequestKey) {
        let firm = |key: &RequestKey| self.waiters.get(key).is_some_and(|waiter| !waiter.tentative);
        let (putter_firm, getter_firm) = (firm(&putter), firm(&getter));
        self.offer(context, putter, Reservation::Partner(getter), putter_firm);
        self.offer(context, getter, Reservation::Partner(putter), getter_firm);
        self.complete(context, putter, getter);
    }

    fn offer(&mut self, context: &mut Context<'_>, key: RequestKey, reservation: Reservation, claimed: bool) {
        self.last_offer = self.last_offer.wrapping_add(1);
        let offer = self.last_offer;
        let until = context.now.saturating_add(context.offer_ns);
        let Some(waiter) = self.waiters.get_mut(&key) else { return };
        let (side, ranked) = (waiter.side, rank(waiter, key));
        waiter.state = State::Offered { offer, claimed, until, reservation };
        self.queue(side).remove(&ranked);
        if !claimed {
            context.deadlines.insert((until, context.hub, key));
            context.answer(key, Outcome::Offered(offer));
        }
    }

    /// Transfers the value of a pair at a port if both sides have claimed.
    fn complete(&mut self, context: &mut Context<'_>, one: RequestKey, other: RequestKey) {
        let claimed = |key: &RequestKey| match self.waiters.get(key).map(|waiter| &waiter.state) {
            Some(State::Offered { claimed, .. }) => *claimed,
            _ => false,
        };
        let enough = if tombolo_base::canary!("hub does with one claim of two") {
            claimed(&one) || claimed(&other)
        } else {
            claimed(&one) && claimed(&other)
        };
        if !enough {
            return;
        }
        let is_putter = self.waiters.get(&one).is_some_and(|waiter| waiter.side == Side::Put);
        let (putter, getter) = if is_putter { (one, other) } else { (other, one) };
        let value = self.remove_waiter(context, putter).map(|waiter| waiter.value);
        self.remove_waiter(context, getter);
        context.answer(getter, Outcome::Done(Taken::Value(value.unwrap_or_default())));
        context.answer(putter, Outcome::Done(Taken::Put));
    }

    fn complete_item(&mut self, client: Client, item: Item) -> Taken {
        match item {
            Item::Value(_, value) => Taken::Value(value),
            Item::Unit => Taken::Unit,
            Item::Block(block) => {
                let token = self.store.hold(client, block);
                Taken::Block { number: block.number, token, abandoned: block.abandoned }
            }
        }
    }

    /// Handles a claim of an offer. A claim of a void offer has no effect: the client was notified, or will
    /// be.
    pub(crate) fn claim(&mut self, context: &mut Context<'_>, key: RequestKey, claimed_offer: u32) {
        let Some(waiter) = self.waiters.get_mut(&key) else { return };
        let State::Offered { offer, claimed, until, reservation } = &mut waiter.state else { return };
        if *offer != claimed_offer || *claimed {
            return;
        }
        *claimed = true;
        context.deadlines.remove(&(*until, context.hub, key));
        match reservation.clone() {
            Reservation::Partner(partner) => self.complete(context, key, partner),
            Reservation::Room => {
                let value = core::mem::take(&mut waiter.value);
                self.store.release_place();
                self.store.put(value);
                self.remove_waiter(context, key);
                context.answer(key, Outcome::Done(Taken::Put));
            }
            Reservation::Item(item) => {
                self.store.release_place();
                let taken = self.complete_item(key.client, item);
                self.remove_waiter(context, key);
                context.answer(key, Outcome::Done(taken));
            }
        }
        self.serve_waiters(context);
    }

    /// Handles an unclaim: the client keeps the offer.
    pub(crate) fn unclaim(&mut self, context: &mut Context<'_>, key: RequestKey, claimed_offer: u32) {
        let Some(waiter) = self.waiters.get_mut(&key) else { return };
        if let State::Offered { offer, claimed, until, .. } = &mut waiter.state
            && *offer == claimed_offer
            && *claimed
        {
            *claimed = false;
            *until = context.now.saturating_add(context.offer_ns);
            context.deadlines.insert((*until, context.hub, key));
            context.answer(key, Outcome::Unclaimed);
        }
    }

    /// Ends a request at the wish of its client.
    pub(crate) fn withdraw(&mut self, context: &mut Context<'_>, key: RequestKey) {
        if self.waiters.get(&key).is_some() {
            self.end(context, key, Outcome::Withdrawn);
            self.serve_waiters(context);
        }
    }

    /// Removes a request whose client has ended.
    pub(crate) fn remove_request(&mut self, context: &mut Context<'_>, key: RequestKey) {
        self.remove_and_release(context, key);
    }

    /// Ends a request that was not completed.
    fn end(&mut self, context: &mut Context<'_>, key: RequestKey, outcome: Outcome) {
        let outcome = match self.waiters.get(&key) {
            Some(waiter) => waiter.final_outcome(outcome),
            None => outcome,
        };
        self.remove_and_release(context, key);
        context.answer(key, outcome);
    }

    /// Ends a request that was completed.
    fn finish(&mut self, context: &mut Context<'_>, key: RequestKey, outcome: Outcome) {
        self.remove_waiter(context, key);
        context.answer(key, outcome);
    }

    /// Removes a waiter and releases the basis of its offer.
    fn remove_and_release(&mut self, context: &mut Context<'_>, key: RequestKey) {
        let waiter = self.remove_waiter(context, key);
        if let Some(Waiter { state: State::Offered { reservation, .. }, .. }) = waiter {
            self.release(context, key, reservation);
        }
    }

    /// Removes a waiter whose offer, if it had one, is used up.
    fn remove_waiter(&mut self, context: &mut Context<'_>, key: RequestKey) -> Option<Waiter> {
        let waiter = self.waiters.remove(&key)?;
        let ranked = rank(&waiter, key);
        self.queue(waiter.side).remove(&ranked);
        context.deadlines.remove(&(waiter.deadline, context.hub, key));
        if let State::Offered { until, .. } = waiter.state {
            context.deadlines.remove(&(until, context.hub, key));
        }
        Some(waiter)
    }

    /// Releases the basis of an offer.
    fn release(&mut self, context: &mut Context<'_>, removed_key: RequestKey, reservation: Reservation) {
        match reservation {
            Reservation::Room => self.store.release_place(),
            Reservation::Item(item) => {
                self.store.release_place();
                if !tombolo_base::canary!("hub loses what was not claimed") {
                    self.store.restore(item);
                }
            }
            Reservation::Partner(partner) => self.requeue_partner(context, removed_key, partner),
        }
    }

    /// Returns the partner of a removed request to its place in the queue.
    fn requeue_partner(&mut self, context: &mut Context<'_>, from: RequestKey, partner: RequestKey) {
        let Some(waiter) = self.waiters.get_mut(&partner) else { return };
        let State::Offered { until, reservation: Reservation::Partner(other), .. } = &waiter.state else {
            return;
        };
        if *other != from {
            return;
        }
        context.deadlines.remove(&(*until, context.hub, partner));
        waiter.state = State::Waiting;
        let (side, ranked, tentative) = (waiter.side, rank(waiter, partner), waiter.tentative);
        self.queue(side).insert(ranked);
        if tentative {
            context.answer(partner, Outcome::Revoked);
        }
    }

    /// Handles a timer of a request: its deadline, or the end of its offer.
    pub(crate) fn expire(&mut self, context: &mut Context<'_>, key: RequestKey, arrival: u64) {
        let Some(waiter) = self.waiters.get_mut(&key) else { return };
        if waiter.deadline <= context.now {
            self.end(context, key, Outcome::Failed(Fault::TimedOut));
            self.serve_waiters(context);
            return;
        }
        let side = waiter.side;
        let State::Offered { claimed: false, until, .. } = &mut waiter.state else { return };
        if *until > context.now {
            return;
        }
        let others_wait = match side {
            Side::Put => !self.putters.is_empty(),
            Side::Get => !self.getters.is_empty(),
        };
        if !others_wait {
            *until = context.now.saturating_add(context.offer_ns);
            context.deadlines.insert((*until, context.hub, key));
            return;
        }
        // Moves it behind the others of its priority, so that the next offer goes to one of them.
        if let State::Offered { reservation, .. } = core::mem::replace(&mut waiter.state, State::Waiting) {
            waiter.arrival = arrival;
            let ranked = rank(waiter, key);
            self.queue(side).insert(ranked);
            context.answer(key, Outcome::Revoked);
            self.release(context, key, reservation);
            self.serve_waiters(context);
        }
    }

    /// Closes the hub. Putters are notified now, getters when it is empty.
    pub(crate) fn close(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        if self.closed {
            return Err(Fault::AlreadyClosed);
        }
        self.closed = true;
        let putters = self.waiters.iter().filter(|(_, waiter)| waiter.side == Side::Put);
        for key in putters.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.end(context, key, Outcome::Failed(Fault::Closed));
        }
        self.serve_waiters(context);
        Ok(())
    }

    /// Handles a change of the client's priority. Returns whether the order of the queue changed.
    pub(crate) fn update_priority(&mut self, key: RequestKey, inherited: u8) -> bool {
        let Some(waiter) = self.waiters.get_mut(&key) else { return false };
        let effective = waiter.priority.max(inherited);
        if waiter.effective == effective {
            return false;
        }
        let (side, before) = (waiter.side, rank(waiter, key));
        waiter.effective = effective;
        let after = rank(waiter, key);
        if self.queue(side).remove(&before) {
            self.queue(side).insert(after);
        }
        true
    }

    /// Returns the highest priority that waits for the owner of a resource.
    pub(crate) fn waiting_priority(&self) -> u8 {
        let first = self.getters.first().and_then(|(_, _, key)| self.waiters.get(key));
        first.map_or(0, |waiter| waiter.effective)
    }

    /// Returns the number of waiting requests, with an offer or without.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn offered(&self) -> usize {
        self.waiters.len() - self.putters.len() - self.getters.len()
    }

    pub(crate) fn status(&self, domain: impl Fn(Client) -> u64) -> Status {
        let waiting = |side: Side| {
            let mut by_priority: BTreeMap<u8, u32> = BTreeMap::new();
            let waiters = self.waiters.iter().map(|(_, waiter)| waiter);
            for waiter in waiters.filter(|waiter| waiter.side == side) {
                *by_priority.entry(waiter.effective).or_default() += 1;
            }
            let all = by_priority.into_iter().rev();
            all.take(Status::MAX_PRIORITIES).map(|(priority, count)| Waiting { priority, count }).collect()
        };
        let owner = self.store.holders().next();
        Status {
            description: self.description.clone(),
            depth: u32::try_from(self.store.depth()).unwrap_or(u32::MAX),
            held: self.store.held(),
            owner: owner.map(|(token, holding)| (domain(holding.client), token)),
            closed: self.closed,
            putters: waiting(Side::Put),
            getters: waiting(Side::Get),
        }
    }
}
