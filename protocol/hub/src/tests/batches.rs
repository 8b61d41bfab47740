//! Several values in one request.

use super::{CLOSED, Node, PUT, hub, request, tried, urgent, value};
use crate::{BatchBuf, Fault, Kind, MAX_BATCH, Operation, Outcome, Taken};

fn batch(values: &[&str]) -> BatchBuf {
    let mut batch = BatchBuf::new();
    values.iter().for_each(|value| assert!(batch.push(value.as_bytes())));
    batch
}

fn values(expected: &[&str]) -> Outcome {
    Outcome::Done(Taken::Values(batch(expected)))
}

fn put_many(values: &BatchBuf) -> Operation<'_> {
    Operation::PutMany { values: values.batch().expect("there are values") }
}

const fn partial(put: u32, fault: Option<Fault>) -> Outcome {
    Outcome::Partial { put, fault }
}

#[test]
fn values_are_put_as_room_comes_and_one_answer_says_so() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    let sent = batch(&["a", "b", "c", "d", "e"]);
    node.ask(1, request(1, 0, put_many(&sent)));
    node.put(2, 1, b"later");
    assert_eq!(node.said(), [], "two are in, and three wait at the head of the queue");
    node.get(3, 1);
    node.ask(3, request(2, 0, Operation::GetMany { most: 2 }));
    assert_eq!(node.said(), [(3, 1, value(b"a")), (3, 2, values(&["b", "c"])), (1, 1, PUT)]);
    node.ask(3, request(3, 0, Operation::GetMany { most: 1 }));
    assert_eq!(node.said(), [(3, 3, values(&["d"])), (2, 1, PUT)]);
    node.ask(3, tried(4, Operation::GetMany { most: 9 }));
    node.ask(3, tried(5, Operation::GetMany { most: 9 }));
    assert_eq!(node.said(), [(3, 4, values(&["e", "later"])), (3, 5, Outcome::Failed(Fault::WouldBlock))]);
    assert!(node.is_empty());
}

#[test]
fn one_that_takes_several_takes_those_that_wait_for_room_too() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    let sent = batch(&["a", "b", "c", "d", "e"]);
    node.ask(1, request(1, 0, put_many(&sent)));
    node.put(2, 1, b"f");
    node.put(2, 2, b"g");
    assert_eq!(node.said(), []);
    node.ask(3, request(1, 0, Operation::GetMany { most: 3 }));
    assert_eq!(node.said(), [(3, 1, values(&["a", "b", "c"])), (1, 1, PUT)]);
    node.ask(3, request(2, 0, Operation::GetMany { most: MAX_BATCH }));
    assert_eq!(node.said(), [(2, 1, PUT), (2, 2, PUT), (3, 2, values(&["d", "e", "f", "g"]))]);
    // A request takes the remaining values of a closed hub.
    node.ask(1, request(2, 0, put_many(&sent)));
    node.ask(2, request(3, 0, Operation::Close));
    node.said();
    node.ask(3, request(3, 0, Operation::GetMany { most: 9 }));
    assert_eq!(node.said(), [(3, 3, values(&["a", "b"]))]);
}

#[test]
fn one_that_waits_for_several_takes_the_first_that_come() {
    let mut node = Node::new(&[hub(Kind::Fifo, 8)]);
    node.ask(1, request(1, 0, Operation::GetMany { most: 2 }));
    node.get(2, 1);
    let sent = batch(&["a", "b", "c"]);
    node.ask(3, request(1, 0, put_many(&sent)));
    assert_eq!(node.said(), [(3, 1, PUT), (1, 1, values(&["a", "b"])), (2, 1, value(b"c"))]);
    assert!(node.is_empty());
}

#[test]
fn what_was_not_put_is_told_by_number() {
    let sent = batch(&["a", "b", "c"]);
    let full = || {
        let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
        node.ask(1, request(1, 0, put_many(&sent)));
        assert_eq!(node.said(), []);
        node
    };
    let mut node = full();
    node.ask(2, request(1, 0, Operation::Close));
    assert_eq!(node.said(), [(1, 1, partial(2, Some(Fault::Closed))), (2, 1, super::UNIT)]);
    node.ask(2, request(2, 0, Operation::GetMany { most: 9 }));
    node.ask(2, request(3, 0, Operation::GetMany { most: 9 }));
    assert_eq!(node.said(), [(2, 2, values(&["a", "b"])), (2, 3, CLOSED)]);
    node.ask(1, request(2, 0, put_many(&sent)));
    assert_eq!(node.said(), [(1, 2, CLOSED)]);

    let mut node = full();
    node.ask(1, request(1, 0, Operation::Withdraw));
    assert_eq!(node.said(), [(1, 1, partial(2, None))]);
    let mut node = full();
    node.pass(1_000_000_000);
    assert_eq!(node.said(), [(1, 1, partial(2, Some(Fault::TimedOut)))]);
    node.ask(1, tried(2, put_many(&sent)));
    assert_eq!(node.said(), [(1, 2, Outcome::Failed(Fault::WouldBlock))], "none had room");
    node.get(2, 1);
    assert_eq!(node.said(), [(2, 1, value(b"a"))]);
    node.ask(1, tried(3, put_many(&sent)));
    assert_eq!(node.said(), [(1, 3, partial(1, Some(Fault::WouldBlock)))]);
}

#[test]
fn values_of_a_client_that_ends_are_put_or_not() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    let sent = batch(&["a", "b", "c"]);
    node.ask(1, request(1, 0, put_many(&sent)));
    node.end(1);
    node.ask(2, request(1, 0, Operation::GetMany { most: 9 }));
    node.ask(2, tried(2, Operation::Get));
    assert_eq!(node.said(), [(2, 1, values(&["a", "b"])), (2, 2, Outcome::Failed(Fault::WouldBlock))]);
    assert!(node.is_empty());
}

#[test]
fn a_more_urgent_sender_goes_between() {
    let mut node = Node::new(&[hub(Kind::Fifo, 1)]);
    let sent = batch(&["a", "b"]);
    node.ask(1, request(1, 0, put_many(&sent)));
    node.ask(2, urgent(1, 9, Operation::Put { value: b"urgent" }));
    for number in 1..=3 {
        node.get(3, number);
    }
    let expected =
        [(3, 1, value(b"a")), (2, 1, PUT), (3, 2, value(b"urgent")), (1, 1, PUT), (3, 3, value(b"b"))];
    assert_eq!(node.said(), expected);
}

#[test]
fn batches_are_for_fifos_and_of_values_that_fit() {
    let sent = batch(&["a", "b"]);
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Fifo) {
        let mut node = Node::new(&[hub(kind, u32::from(kind != Kind::Port))]);
        node.ask(1, request(1, 0, put_many(&sent)));
        node.ask(1, request(2, 0, Operation::GetMany { most: 2 }));
        let wrong = Outcome::Failed(Fault::WrongOperation(kind));
        assert_eq!(node.said(), [(1, 1, wrong.clone()), (1, 2, wrong)]);
    }
    let mut node = Node::new(&[hub(Kind::Fifo, 8)]);
    let longer = "x".repeat(257);
    let sent = batch(&["a", &longer]);
    node.ask(1, request(1, 0, put_many(&sent)));
    node.ask(2, tried(1, Operation::Get));
    let expected = [(1, 1, Outcome::Failed(Fault::TooLong(256))), (2, 1, Outcome::Failed(Fault::WouldBlock))];
    assert_eq!(node.said(), expected, "none of the values is in");
}
