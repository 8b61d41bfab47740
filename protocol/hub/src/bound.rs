//! How much a hub does for a request at most: bounds, as worst-case analysis needs them.
//!
//! A server keeps its hubs in tables in its own memory. A step is one thing done with a table: a load is a
//! look-up or a visit to one entry, a store an insertion or a removal. Each takes a time that grows with the
//! logarithm of the entries; [`depth`] has it. The bounds hold whatever clients do. What a request travels
//! through has bounds of its own: the rings of the channel between client and server.
//!
//! | request | grows with |
//! |---|---|
//! | put, get, give back of one item | nothing |
//! | put or get of a count that is lent, without a request | nothing |
//! | put or get of several values | the number of values |
//! | claim, take a claim back, withdraw; a deadline that passes | requests that wait at the hub |
//! | close | requests that wait at the hub |
//! | status | requests that wait at the hub, blocks that are held |
//! | any of these at a resource with inheritance | hubs, clients and all requests that wait |
//!
//! `cargo xtask bounds` runs histories of all kinds of hubs and fails when a request exceeds its bound, or
//! when the bounds of single items are never reached.

use tombolo_base::Steps;

use crate::{Client, Hubs, Kind, Operation, Request};

/// Of a put or a get that changes a count which is lent: a single operation on shared memory, of at most
/// four tries ([`CountWord::put`](crate::CountWord::put)). A task whose tries fail sends a request.
pub const LENT_COUNT: Steps = Steps { read_modify_writes: 1, ..Steps::NONE };

/// To find the client, and whether the number of its request is free.
const ASK: Steps = Steps::of(2, 0);

/// To put a request into the queue of its hub, its client's table and that of deadlines, and to see whether
/// it waits.
const ARRIVE: Steps = Steps::of(2, 4);

/// To look at the heads of both queues.
const TURN: Steps = Steps::of(2, 0);

/// To serve the head of a queue, and to tell its client.
const SERVE: Steps = Steps::of(3, 7);

/// To bring two together at a port, and to tell both.
const PAIR: Steps = Steps::of(11, 14);

/// To move a value of several.
const VALUE: Steps = Steps::of(1, 1);

/// To look whether one waits to put into a fifo that was emptied for several values.
const REFILL: Steps = Steps::of(2, 0);

/// To end a request that is not done, and to return what was set aside for it.
const END: Steps = Steps::of(6, 8);

/// Of a request for `values` items at a hub of this kind without inheritance: put, get, and their variants
/// for several values.
///
/// Each value that comes may be taken by one that waits, and each that is taken may make room for one, so
/// that two are served for each.
#[must_use]
pub const fn operation(kind: Kind, values: u64) -> Steps {
    let served = if matches!(kind, Kind::Port) {
        TURN.and(PAIR)
    } else if matches!(kind, Kind::Resource | Kind::Pool) {
        TURN.and(SERVE)
    } else {
        let moved = if values > 1 { VALUE.times(2 * values) } else { Steps::NONE };
        let refills = if matches!(kind, Kind::Fifo) { REFILL.times(values) } else { Steps::NONE };
        TURN.and(SERVE).times(2 * values).and(moved).and(refills)
    };
    // One that is not served is ended, if it is only tried.
    let rest = if served.within(END) { END } else { served };
    ASK.and(ARRIVE).and(TURN).and(rest)
}

/// Of giving an item back at a hub without inheritance: the next that waits gets it.
pub const GIVE_BACK: Steps = ASK.and(Steps::of(3, 2)).and(TURN.and(SERVE).times(2)).and(TURN);

/// Of a claim, a claim that is taken back, a withdrawal or a passed deadline at a hub without inheritance,
/// where `waiting` requests wait, each of which may be served by what comes free.
#[must_use]
pub const fn resolution(kind: Kind, waiting: u64) -> Steps {
    let serve = if matches!(kind, Kind::Port) { PAIR } else { SERVE.and(VALUE).and(REFILL) };
    let served = TURN.and(serve).times(waiting + 1);
    // An item that is put back goes past those that were put back before.
    ASK.and(Steps::of(3 + waiting, 2)).and(END).and(served).and(TURN)
}

/// Of closing a hub where `waiting` requests wait.
#[must_use]
pub const fn close(waiting: u64) -> Steps {
    ASK.and(Steps::of(2 * waiting, 0)).and(END.times(waiting)).and(TURN.times(2)).and(Steps::of(1, 1))
}

/// How many entries of a table with `entries` are compared, at most, to find one: the factor between a step
/// and its time.
#[must_use]
pub const fn depth(entries: u64) -> u64 {
    // Nodes of an ordered map have 5 to 11 entries, and its root has at least one.
    let (mut levels, mut reached) = (1, 1_u64);
    while reached < entries && levels < 28 {
        levels += 1;
        reached = reached.saturating_mul(6);
    }
    11 * levels
}

impl Hubs {
    /// The most that [`request`](Hubs::request) does for this, as things are.
    #[must_use]
    pub fn bound(&self, client: Client, request: &Request<'_>) -> Steps {
        let hub = match request.operation {
            // The hub is that where the request waits.
            Operation::Claim { .. } | Operation::Unclaim { .. } | Operation::Withdraw => {
                self.waits_at(client, request.number)
            }
            _ => Some(request.hub),
        };
        let hub = hub.and_then(|hub| self.hubs.get(hub as usize));
        let Some(hub) = hub else {
            return ASK.and(Steps::of(2, 0)).and(self.inheritance());
        };
        let (kind, waiting) = (hub.description.kind, hub.waiting() as u64);
        let own = match request.operation {
            Operation::Put { .. } | Operation::Get => operation(kind, 1),
            Operation::PutMany { values } => operation(kind, values.count().into()),
            Operation::GetMany { most } => operation(kind, most.into()),
            Operation::GiveBack { .. } => GIVE_BACK,
            Operation::Claim { .. } | Operation::Unclaim { .. } | Operation::Withdraw => {
                resolution(kind, waiting)
            }
            Operation::Close => close(waiting),
            Operation::Status => ASK.and(Steps::of(3 + 2 * waiting + 3 * u64::from(hub.store.held()), 0)),
            Operation::Open { .. } | Operation::Raise => ASK.and(Steps::of(2, 0)),
        };
        let lifts = hub.description.inheritance || matches!(request.operation, Operation::Raise);
        own + if lifts { self.inheritance() } else { Steps::NONE }
    }

    /// The most that [`tick`](Hubs::tick) does, as things are.
    #[must_use]
    pub fn bound_of_tick(&self) -> Steps {
        let each = |hub: &crate::hub::Hub| resolution(hub.description.kind, hub.waiting() as u64);
        let longest = self.hubs.iter().map(each).fold(Steps::NONE, Steps::max);
        let due = self.deadlines.len() as u64;
        (longest + Steps::of(2, 2)).times(due) + Steps::of(2, 0) + self.inheritance()
    }

    /// The most that [`ended`](Hubs::ended) does, as things are.
    #[must_use]
    pub fn bound_of_end(&self, client: Client) -> Steps {
        let waits = self.clients.get(&client).map_or(0, |state| state.waits.len() as u64);
        let each = |hub: &crate::hub::Hub| resolution(hub.description.kind, hub.waiting() as u64);
        let longest = self.hubs.iter().map(each).fold(Steps::NONE, Steps::max);
        let held: u64 = self.hubs.iter().map(|hub| u64::from(hub.store.held())).sum();
        let abandoned = Steps::of(held, 2 * held) + SERVE.and(TURN).times(held);
        longest.times(waits + self.hubs.len() as u64) + abandoned + Steps::of(1, 1) + self.inheritance()
    }

    /// Of bringing priorities up to date. Each link of a chain of owners takes a turn.
    fn inheritance(&self) -> Steps {
        let (hubs, clients) = (self.hubs.len() as u64, self.clients.len() as u64);
        let waiting: u64 = self.hubs.iter().map(|hub| hub.waiting() as u64).sum();
        let turn = Steps::of(hubs + clients + clients * (4 * hubs + 2) + 2 * waiting, 2 * waiting);
        turn.times(2 * (hubs + clients)) + Steps::of(2 + 2 * waiting, 2 * waiting)
    }
}
