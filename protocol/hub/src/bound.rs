//! Upper bounds on the work of a hub per request, for worst-case analysis.
//!
//! A server keeps its hubs in tables in its own memory. A step is one operation on a table: a load is a
//! look-up or a visit to one entry, a store is an insertion or a removal. The time of a step grows with the
//! logarithm of the number of entries, see [`depth`]. The bounds hold for any behavior of clients. The rings
//! of the channel between client and server have bounds of their own.
//!
//! | request | grows with |
//! |---|---|
//! | put, get, give back of one item | nothing |
//! | put or get of a lent count, without a request | nothing |
//! | put or get of several values | the number of values |
//! | claim, unclaim, withdraw; a deadline that passes | requests that wait at the hub |
//! | close | requests that wait at the hub |
//! | status | requests that wait at the hub, blocks that are held |
//! | any of these at a resource with inheritance | hubs, clients and all requests that wait |
//!
//! `cargo xtask bounds` runs histories of all kinds of hubs and fails when a request exceeds its bound, or
//! when the bounds of single items are never reached.

use tombolo_base::Steps;

use crate::{Client, Hubs, Kind, Operation, Request};

/// Bounds a put or a get that changes a lent count: a single operation on shared memory, of at most four
/// attempts ([`CountWord::put`](crate::CountWord::put)). A task whose attempts fail sends a request.
pub const LENT_COUNT: Steps = Steps { read_modify_writes: 1, ..Steps::NONE };

/// Looks up the client, and whether the number of its request is free.
const LOOKUP: Steps = Steps::of(2, 0);

/// Adds a request to the queue of its hub, the table of its client and the table of deadlines, and checks
/// whether it must wait.
const ENQUEUE: Steps = Steps::of(2, 4);

/// Reads the heads of both queues.
const READ_HEADS: Steps = Steps::of(2, 0);

/// Serves the head of a queue and notifies its client.
const SERVE: Steps = Steps::of(3, 7);

/// Pairs two requests at a port and notifies both clients.
const PAIR: Steps = Steps::of(11, 14);

/// Moves one of several values.
const VALUE: Steps = Steps::of(1, 1);

/// Checks whether a request waits to put into a fifo that was emptied for several values.
const REFILL: Steps = Steps::of(2, 0);

/// Ends a request that is not done, and returns what was set aside for it.
const END: Steps = Steps::of(6, 8);

/// Bounds a request for `values` items at a hub of this kind without inheritance: put, get, and their
/// variants for several values.
///
/// Each value that is put may serve a waiting getter, and each that is taken may make room for a waiting
/// putter, so that two requests are served per value.
#[must_use]
pub const fn operation(kind: Kind, values: u64) -> Steps {
    let served = if matches!(kind, Kind::Port) {
        READ_HEADS.and(PAIR)
    } else if matches!(kind, Kind::Resource | Kind::Pool) {
        READ_HEADS.and(SERVE)
    } else {
        let moved = if values > 1 { VALUE.times(2 * values) } else { Steps::NONE };
        let refills = if matches!(kind, Kind::Fifo) { REFILL.times(values) } else { Steps::NONE };
        READ_HEADS.and(SERVE).times(2 * values).and(moved).and(refills)
    };
    // A tentative attempt that is not served is ended instead.
    let rest = if served.within(END) { END } else { served };
    LOOKUP.and(ENQUEUE).and(READ_HEADS).and(rest)
}

/// Bounds giving an item back at a hub without inheritance. The next waiter gets the item.
pub const GIVE_BACK: Steps = LOOKUP.and(Steps::of(3, 2)).and(READ_HEADS.and(SERVE).times(2)).and(READ_HEADS);

/// Bounds a claim, an unclaim, a withdrawal or a passed deadline at a hub without inheritance, where
/// `waiting` requests wait, each of which may be served by an item that becomes free.
#[must_use]
pub const fn resolution(kind: Kind, waiting: u64) -> Steps {
    let serve = if matches!(kind, Kind::Port) { PAIR } else { SERVE.and(VALUE).and(REFILL) };
    let served = READ_HEADS.and(serve).times(waiting + 1);
    // An item that is put back is inserted behind those that were put back before.
    LOOKUP.and(Steps::of(3 + waiting, 2)).and(END).and(served).and(READ_HEADS)
}

/// Bounds closing a hub where `waiting` requests wait.
#[must_use]
pub const fn close(waiting: u64) -> Steps {
    LOOKUP
        .and(Steps::of(2 * waiting, 0))
        .and(END.times(waiting))
        .and(READ_HEADS.times(2))
        .and(Steps::of(1, 1))
}

/// Returns the maximum number of entries compared to find one in a table of `entries`: the factor between a
/// step and its time.
#[must_use]
pub const fn depth(entries: u64) -> u64 {
    // Nodes of a B-tree map have 5 to 11 entries, and its root has at least one.
    let (mut levels, mut reached) = (1, 1_u64);
    while reached < entries && levels < 28 {
        levels += 1;
        reached = reached.saturating_mul(6);
    }
    11 * levels
}

impl Hubs {
    /// Bounds [`request`](Hubs::request) for this request in the current state.
    #[must_use]
    pub fn bound(&self, client: Client, request: &Request<'_>) -> Steps {
        let hub = match request.operation {
            // The hub is the one where the request waits.
            Operation::Claim { .. } | Operation::Unclaim { .. } | Operation::Withdraw => {
                self.hub_of_request(client, request.number)
            }
            _ => Some(request.hub),
        };
        let hub = hub.and_then(|hub| self.hubs.get(hub as usize));
        let Some(hub) = hub else {
            return LOOKUP.and(Steps::of(2, 0)).and(self.inheritance());
        };
        let (kind, waiting) = (hub.description.kind, hub.waiting() as u64);
        let own = match request.operation {
            Operation::Put { .. } | Operation::Get => operation(kind, 1),
            Operation::PutMany { values } => operation(kind, values.count().into()),
            Operation::GetMany { max_values } => operation(kind, max_values.into()),
            Operation::GiveBack { .. } => GIVE_BACK,
            Operation::Claim { .. } | Operation::Unclaim { .. } | Operation::Withdraw => {
                resolution(kind, waiting)
            }
            Operation::Close => close(waiting),
            Operation::Status => LOOKUP.and(Steps::of(3 + 2 * waiting + 3 * u64::from(hub.store.held()), 0)),
            Operation::Open { .. } | Operation::Raise => LOOKUP.and(Steps::of(2, 0)),
        };
        let lifts = hub.description.inheritance || matches!(request.operation, Operation::Raise);
        own + if lifts { self.inheritance() } else { Steps::NONE }
    }

    /// Bounds [`tick`](Hubs::tick) in the current state.
    #[must_use]
    pub fn tick_bound(&self) -> Steps {
        let each = |hub: &crate::hub::Hub| resolution(hub.description.kind, hub.waiting() as u64);
        let longest = self.hubs.iter().map(each).fold(Steps::NONE, Steps::max);
        let due = self.deadlines.len() as u64;
        (longest + Steps::of(2, 2)).times(due) + Steps::of(2, 0) + self.inheritance()
    }

    /// Bounds [`remove_client`](Hubs::remove_client) in the current state.
    #[must_use]
    pub fn removal_bound(&self, client: Client) -> Steps {
        let waits = self.clients.get(&client).map_or(0, |state| state.waiting_requests.len() as u64);
        let each = |hub: &crate::hub::Hub| resolution(hub.description.kind, hub.waiting() as u64);
        let longest = self.hubs.iter().map(each).fold(Steps::NONE, Steps::max);
        let held: u64 = self.hubs.iter().map(|hub| u64::from(hub.store.held())).sum();
        let abandoned = Steps::of(held, 2 * held) + SERVE.and(READ_HEADS).times(held);
        longest.times(waits + self.hubs.len() as u64) + abandoned + Steps::of(1, 1) + self.inheritance()
    }

    /// Bounds bringing priorities up to date. Each link of a chain of owners takes one round.
    fn inheritance(&self) -> Steps {
        let (hubs, clients) = (self.hubs.len() as u64, self.clients.len() as u64);
        let waiting: u64 = self.hubs.iter().map(|hub| hub.waiting() as u64).sum();
        let turn = Steps::of(hubs + clients + clients * (4 * hubs + 2) + 2 * waiting, 2 * waiting);
        turn.times(2 * (hubs + clients)) + Steps::of(2 + 2 * waiting, 2 * waiting)
    }
}
