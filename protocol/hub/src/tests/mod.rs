//! Hand-written tests of hubs of all kinds.

mod batches;
mod book;
mod inheritance;
mod selecting;
mod wire;

use alloc::vec::Vec;

use crate::{
    Client, Description, Fault, Hubs, Kind, Limits, Nanos, Operation, Outcome, Output, Request, RequestKey,
    Taken,
};

/// Node with one hub, and the answers sent to each of its clients.
pub(super) struct Node {
    pub(super) hubs: Hubs,
    pub(super) now: Nanos,
    answers: Vec<(Client, u32, Outcome)>,
    pub(super) inherits: Vec<(Client, u8)>,
}

pub(super) const FOREVER: u32 = 1_000_000;

impl Node {
    pub(super) fn new(descriptions: &[Description]) -> Node {
        let mut hubs = Hubs::new(Limits { requests_per_client: 8, offer_ns: 1000 });
        for description in descriptions {
            hubs.add(description.clone()).expect("it is a good description");
        }
        for client in 1..=4 {
            hubs.add_client(Client(client), 100 + client);
        }
        Node { hubs, now: 0, answers: Vec::new(), inherits: Vec::new() }
    }

    pub(super) fn send(&mut self, client: u64, request: Request<'_>) {
        self.hubs.request(&|| self.now, Client(client), &request).expect("clients keep to the protocol");
        self.collect_outputs();
    }

    fn collect_outputs(&mut self) {
        for output in self.hubs.take_outputs() {
            match output {
                Output::Answer(RequestKey { client, number }, outcome) => {
                    self.answers.push((client, number, outcome));
                }
                Output::Inherits(client, priority) => self.inherits.push((client, priority)),
            }
        }
    }

    pub(super) fn put(&mut self, client: u64, number: u32, value: &[u8]) {
        self.send(client, request(number, 0, Operation::Put { value }));
    }

    pub(super) fn get(&mut self, client: u64, number: u32) {
        self.send(client, request(number, 0, Operation::Get));
    }

    pub(super) fn end(&mut self, client: u64) {
        self.hubs.remove_client(self.now, Client(client));
        self.collect_outputs();
    }

    pub(super) fn advance_clock(&mut self, nanos: Nanos) {
        self.now += nanos;
        self.hubs.tick(self.now);
        self.collect_outputs();
    }

    /// Returns the answers since the last call, without the tokens of offers.
    pub(super) fn take_answers(&mut self) -> Vec<(u64, u32, Outcome)> {
        self.answers.drain(..).map(|(client, number, outcome)| (client.0, number, outcome)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hubs.resource_counts().iter().skip(1).all(|(_, count)| *count == 0)
    }
}

pub(super) fn request(number: u32, hub: u32, operation: Operation<'_>) -> Request<'_> {
    Request { number, hub, priority: 0, tentative: false, timeout_us: FOREVER, operation }
}

pub(super) fn try_request(number: u32, operation: Operation<'_>) -> Request<'_> {
    Request { timeout_us: 0, ..request(number, 0, operation) }
}

pub(super) fn request_with_priority(number: u32, priority: u8, operation: Operation<'_>) -> Request<'_> {
    Request { priority, ..request(number, 0, operation) }
}

pub(super) fn value(bytes: &[u8]) -> Outcome {
    Outcome::Done(Taken::Value(bytes.into()))
}

pub(super) const PUT: Outcome = Outcome::Done(Taken::Put);
pub(super) const UNIT: Outcome = Outcome::Done(Taken::Unit);
const WOULD_BLOCK: Outcome = Outcome::Failed(Fault::WouldBlock);
pub(super) const CLOSED: Outcome = Outcome::Failed(Fault::Closed);

pub(super) fn hub(kind: Kind, capacity: u32) -> Description {
    Description { capacity, ..Description::new("it", kind) }
}

fn locked(token: u64, abandoned: bool) -> Outcome {
    Outcome::Done(Taken::Block { number: 0, token, abandoned })
}

#[test]
fn a_port_is_a_rendezvous() {
    let mut node = Node::new(&[hub(Kind::Port, 0)]);
    node.put(1, 1, b"one");
    node.put(2, 1, b"two");
    assert_eq!(node.take_answers(), []);
    node.get(3, 1);
    assert_eq!(node.take_answers(), [(3, 1, value(b"one")), (1, 1, PUT)]);
    node.send(3, try_request(2, Operation::Get));
    assert_eq!(node.take_answers(), [(3, 2, value(b"two")), (2, 1, PUT)]);
    node.send(3, try_request(3, Operation::Get));
    node.send(1, try_request(2, Operation::Put { value: b"three" }));
    assert_eq!(node.take_answers(), [(3, 3, WOULD_BLOCK), (1, 2, WOULD_BLOCK)]);
    assert!(node.is_empty());
}

#[test]
fn fifo_preserves_order_and_capacity() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    for number in 1..=3 {
        node.put(1, number, &[number as u8]);
    }
    assert_eq!(node.take_answers(), [(1, 1, PUT), (1, 2, PUT)], "the third waits");
    node.send(2, try_request(9, Operation::Put { value: b"x" }));
    assert_eq!(node.take_answers(), [(2, 9, WOULD_BLOCK)]);
    node.get(2, 1);
    assert_eq!(node.take_answers(), [(2, 1, value(&[1])), (1, 3, PUT)]);
    node.get(2, 2);
    node.get(2, 3);
    node.get(2, 4);
    assert_eq!(node.take_answers(), [(2, 2, value(&[2])), (2, 3, value(&[3]))]);
    node.put(1, 4, &[4]);
    assert_eq!(node.take_answers(), [(1, 4, PUT), (2, 4, value(&[4]))]);
    assert!(node.is_empty());
}

#[test]
fn an_event_is_raised_once_and_a_semaphore_counts() {
    let mut node = Node::new(&[hub(Kind::Event, 1)]);
    node.put(1, 1, b"");
    node.send(1, try_request(2, Operation::Put { value: b"" }));
    node.get(2, 1);
    node.send(2, try_request(2, Operation::Get));
    assert_eq!(node.take_answers(), [(1, 1, PUT), (1, 2, WOULD_BLOCK), (2, 1, UNIT), (2, 2, WOULD_BLOCK)]);

    let mut node = Node::new(&[Description { initial: 1, ..hub(Kind::Semaphore, 2) }]);
    node.get(1, 1);
    node.get(1, 2);
    assert_eq!(node.take_answers(), [(1, 1, UNIT)]);
    node.put(2, 1, b"");
    assert_eq!(node.take_answers(), [(2, 1, PUT), (1, 2, UNIT)]);
    for number in 2..=4 {
        node.send(2, try_request(number, Operation::Put { value: b"" }));
    }
    assert_eq!(node.take_answers(), [(2, 2, PUT), (2, 3, PUT), (2, 4, WOULD_BLOCK)]);
}

#[test]
fn a_resource_has_one_owner_and_fencing_tokens_that_increase() {
    let mut node = Node::new(&[hub(Kind::Resource, 1)]);
    node.get(1, 1);
    node.get(2, 1);
    assert_eq!(node.take_answers(), [(1, 1, locked(1, false))]);
    node.get(1, 2);
    assert_eq!(
        node.take_answers(),
        [(1, 2, Outcome::Failed(Fault::AlreadyHeld))],
        "it would wait for itself"
    );
    node.send(2, request(2, 0, Operation::GiveBack { token: 1 }));
    assert_eq!(node.take_answers(), [(2, 2, Outcome::Failed(Fault::NotHeld))]);
    node.send(1, request(3, 0, Operation::GiveBack { token: 1 }));
    assert_eq!(node.take_answers(), [(1, 3, PUT), (2, 1, locked(2, false))]);
    node.send(1, request(4, 0, Operation::GiveBack { token: 1 }));
    assert_eq!(node.take_answers(), [(1, 4, Outcome::Failed(Fault::NotHeld))], "a stale token");
    node.get(3, 1);
    node.end(2);
    assert_eq!(
        node.take_answers(),
        [(3, 1, locked(3, true))],
        "the next owner learns that the last one died"
    );
    node.put(1, 5, b"");
    assert_eq!(node.take_answers(), [(1, 5, Outcome::Failed(Fault::WrongOperation(Kind::Resource)))]);
}

#[test]
fn pool_allocates_each_block_once() {
    let mut node = Node::new(&[hub(Kind::Pool, 2)]);
    for number in 1..=3 {
        node.get(1, number);
    }
    let block = |number, token| Outcome::Done(Taken::Block { number, token, abandoned: false });
    assert_eq!(node.take_answers(), [(1, 1, block(0, 1)), (1, 2, block(1, 2))]);
    node.send(1, request(4, 0, Operation::GiveBack { token: 1 }));
    assert_eq!(node.take_answers(), [(1, 4, PUT), (1, 3, block(0, 3))]);
    node.end(1);
    assert!(node.is_empty());
    assert_eq!(node.hubs.resource_counts()[0].1, 3, "the others are still there");
}

#[test]
fn waiters_are_served_by_priority_then_arrival() {
    let mut node = Node::new(&[hub(Kind::Semaphore, 10)]);
    for (client, priority) in [(1, 5), (2, 9), (3, 5), (4, 9)] {
        node.send(client, request_with_priority(1, priority, Operation::Get));
    }
    for number in 2..=5 {
        node.put(1, number, b"");
    }
    let served: Vec<u64> =
        node.take_answers().iter().filter(|(_, _, what)| *what == UNIT).map(|(client, ..)| *client).collect();
    assert_eq!(served, [2, 4, 1, 3]);
}

#[test]
fn receivers_drain_a_closed_hub_before_the_error() {
    let mut node = Node::new(&[hub(Kind::Fifo, 1)]);
    node.put(1, 1, b"in");
    node.put(2, 1, b"not in");
    node.send(3, request(1, 0, Operation::Close));
    assert_eq!(node.take_answers(), [(1, 1, PUT), (2, 1, CLOSED), (3, 1, UNIT)]);
    node.put(1, 2, b"late");
    node.get(3, 2);
    node.get(3, 3);
    node.send(3, request(4, 0, Operation::Close));
    let twice = Outcome::Failed(Fault::AlreadyClosed);
    assert_eq!(node.take_answers(), [(1, 2, CLOSED), (3, 2, value(b"in")), (3, 3, CLOSED), (3, 4, twice)]);
    assert!(node.is_empty());
}

#[test]
fn close_fails_all_waiters() {
    for kind in Kind::ALL {
        let mut node = Node::new(&[Description::new("it", kind)]);
        if kind.has_holders() {
            node.get(1, 1);
            node.take_answers();
        }
        node.get(2, 1);
        node.get(3, 1);
        node.send(4, request(1, 0, Operation::Close));
        let answers = node.take_answers();
        assert_eq!(answers[..2], [(2, 1, CLOSED), (3, 1, CLOSED)], "{kind}");
        if kind.has_holders() {
            node.send(1, request(2, 0, Operation::GiveBack { token: 1 }));
            assert_eq!(node.take_answers(), [(1, 2, PUT)], "what is held can still be given back");
        }
        assert!(node.is_empty(), "{kind}");
    }
}

#[test]
fn deadlines_end_only_waiting_requests() {
    let mut node = Node::new(&[hub(Kind::Port, 0)]);
    node.send(1, Request { timeout_us: 5, ..request(1, 0, Operation::Put { value: b"early" }) });
    node.send(2, Request { timeout_us: 9, ..request(1, 0, Operation::Put { value: b"late" }) });
    assert_eq!(node.hubs.next_tick(), Some(5000));
    node.advance_clock(4999);
    assert_eq!(node.take_answers(), []);
    node.advance_clock(1);
    assert_eq!(node.take_answers(), [(1, 1, Outcome::Failed(Fault::TimedOut))]);
    node.get(3, 1);
    assert_eq!(node.take_answers(), [(3, 1, value(b"late")), (2, 1, PUT)]);
    assert_eq!(node.hubs.next_tick(), None);
}

#[test]
fn removed_client_leaves_no_resources() {
    let mut node = Node::new(&[hub(Kind::Port, 0)]);
    node.put(1, 1, b"dead");
    node.end(1);
    node.send(2, try_request(1, Operation::Get));
    assert_eq!(node.take_answers(), [(2, 1, WOULD_BLOCK)], "what a dead sender had not delivered is gone");
    node.get(2, 2);
    node.end(2);
    node.send(3, try_request(1, Operation::Put { value: b"kept" }));
    assert_eq!(node.take_answers(), [(3, 1, WOULD_BLOCK)], "a dead receiver takes nothing");
    assert!(node.is_empty());
    assert!(
        node.hubs.request(&|| 0, Client(1), &request(1, 0, Operation::Get)).is_err(),
        "it has not joined"
    );
}

#[test]
fn client_errors_have_their_own_faults() {
    let typed = Description { value_type: 7, value_bytes: 4, ..hub(Kind::Fifo, 1) };
    let mut node = Node::new(&[typed]);
    let open = |kind, value_type| Operation::Open { name: "it", kind, value_type };
    node.send(1, request(1, 0, open(Some(Kind::Port), 0)));
    node.send(1, request(2, 0, open(None, 8)));
    node.send(1, request(3, 0, Operation::Open { name: "other", kind: None, value_type: 0 }));
    node.send(1, request(4, 1, Operation::Get));
    node.put(1, 5, b"12345");
    node.put(1, 6, b"1234");
    let failed = Outcome::Failed;
    let expected = [
        (1, 1, failed(Fault::OtherKind(Kind::Fifo))),
        (1, 2, failed(Fault::OtherType)),
        (1, 3, failed(Fault::NoSuchHub)),
        (1, 4, failed(Fault::NoSuchHub)),
        (1, 5, failed(Fault::TooLong(4))),
        (1, 6, PUT),
    ];
    assert_eq!(node.take_answers(), expected);
    node.send(1, request(7, 0, open(Some(Kind::Fifo), 7)));
    let opened = Outcome::Opened { hub: 0, kind: Kind::Fifo, capacity: 1, value_bytes: 4, memory: 0 };
    assert_eq!(node.take_answers(), [(1, 7, opened)]);
    for number in 10..18 {
        node.put(1, number, b"");
    }
    assert_eq!(node.take_answers(), [], "eight wait");
    node.put(1, 18, b"");
    assert_eq!(node.take_answers(), [(1, 18, failed(Fault::TooManyRequests(8)))]);
    let twice = node.hubs.request(&|| 0, Client(1), &request(10, 0, Operation::Get));
    assert_eq!(twice, Err(crate::Violation::DuplicateRequest(10)));
}

#[test]
fn descriptions_are_checked_at_their_limits() {
    use crate::{MAX_BLOCKS, MAX_CAPACITY, MAX_COUNT, MAX_VALUE_BYTES};
    let capacities = [
        (Kind::Port, 0, 0),
        (Kind::Fifo, 1, MAX_CAPACITY),
        (Kind::Event, 1, 1),
        (Kind::Semaphore, 1, MAX_COUNT),
        (Kind::Resource, 1, 1),
        (Kind::Pool, 1, MAX_BLOCKS),
    ];
    for (kind, min, max) in capacities {
        for (capacity, fits) in [(min, true), (max, true), (max + 1, false)] {
            assert_eq!(hub(kind, capacity).check().is_ok(), fits, "{kind} of {capacity}");
        }
        assert!(min == 0 || hub(kind, min - 1).check().is_err(), "{kind} of {}", min - 1);
    }
    let longest = Description { value_bytes: MAX_VALUE_BYTES, ..hub(Kind::Fifo, 1) };
    assert!(longest.check().is_ok());
    assert!(Description { value_bytes: MAX_VALUE_BYTES + 1, ..longest.clone() }.check().is_err());
    assert!(Description { capacity: MAX_CAPACITY, ..longest }.check().is_err(), "it takes a gigabyte");
    assert!(Description { initial: 2, ..hub(Kind::Semaphore, 1) }.check().is_err());
    assert!(Description { initial: 1, ..hub(Kind::Fifo, 1) }.check().is_err());
    for name in ["", "a b", "ü", &"n".repeat(97)] {
        assert!(Description::new(name, Kind::Port).check().is_err(), "{name}");
    }
    assert!(Description::new(&"n".repeat(96), Kind::Port).check().is_ok());
}

#[test]
fn status_describes_a_hub() {
    let mut node = Node::new(&[hub(Kind::Resource, 1)]);
    node.get(1, 1);
    node.send(2, request_with_priority(1, 3, Operation::Get));
    node.send(3, request_with_priority(1, 7, Operation::Get));
    node.send(4, request_with_priority(1, 3, Operation::Get));
    node.take_answers();
    node.send(4, request(9, 0, Operation::Status));
    let answers = node.take_answers();
    let [(4, 9, Outcome::Status(status))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((status.depth, status.held, status.owner), (0, 1, Some((101, 1))));
    let waiting: Vec<(u8, u32)> =
        status.getters.iter().map(|waiting| (waiting.priority, waiting.count)).collect();
    assert_eq!(waiting, [(7, 1), (3, 2)]);
}
