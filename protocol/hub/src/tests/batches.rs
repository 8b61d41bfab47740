//! Several values in one request.

use super::{CLOSED, Node, PUT, hub, request, request_with_priority, try_request, value};
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
fn put_many_completes_with_one_answer_as_room_appears() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    let sent = batch(&["a", "b", "c", "d", "e"]);
    node.send(1, request(1, 0, put_many(&sent)));
    node.put(2, 1, b"later");
    assert_eq!(node.take_answers(), [], "two are in, and three wait at the head of the queue");
    node.get(3, 1);
    node.send(3, request(2, 0, Operation::GetMany { max_values: 2 }));
    assert_eq!(node.take_answers(), [(3, 1, value(b"a")), (3, 2, values(&["b", "c"])), (1, 1, PUT)]);
    node.send(3, request(3, 0, Operation::GetMany { max_values: 1 }));
    assert_eq!(node.take_answers(), [(3, 3, values(&["d"])), (2, 1, PUT)]);
    node.send(3, try_request(4, Operation::GetMany { max_values: 9 }));
    node.send(3, try_request(5, Operation::GetMany { max_values: 9 }));
    assert_eq!(
        node.take_answers(),
        [(3, 4, values(&["e", "later"])), (3, 5, Outcome::Failed(Fault::WouldBlock))]
    );
    assert!(node.is_empty());
}

#[test]
fn get_many_includes_values_that_wait_for_room() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    let sent = batch(&["a", "b", "c", "d", "e"]);
    node.send(1, request(1, 0, put_many(&sent)));
    node.put(2, 1, b"f");
    node.put(2, 2, b"g");
    assert_eq!(node.take_answers(), []);
    node.send(3, request(1, 0, Operation::GetMany { max_values: 3 }));
    assert_eq!(node.take_answers(), [(3, 1, values(&["a", "b", "c"])), (1, 1, PUT)]);
    node.send(3, request(2, 0, Operation::GetMany { max_values: MAX_BATCH }));
    assert_eq!(node.take_answers(), [(2, 1, PUT), (2, 2, PUT), (3, 2, values(&["d", "e", "f", "g"]))]);
    // A request takes the remaining values of a closed hub.
    node.send(1, request(2, 0, put_many(&sent)));
    node.send(2, request(3, 0, Operation::Close));
    node.take_answers();
    node.send(3, request(3, 0, Operation::GetMany { max_values: 9 }));
    assert_eq!(node.take_answers(), [(3, 3, values(&["a", "b"]))]);
}

#[test]
fn waiting_get_many_takes_the_first_values() {
    let mut node = Node::new(&[hub(Kind::Fifo, 8)]);
    node.send(1, request(1, 0, Operation::GetMany { max_values: 2 }));
    node.get(2, 1);
    let sent = batch(&["a", "b", "c"]);
    node.send(3, request(1, 0, put_many(&sent)));
    assert_eq!(node.take_answers(), [(3, 1, PUT), (1, 1, values(&["a", "b"])), (2, 1, value(b"c"))]);
    assert!(node.is_empty());
}

#[test]
fn partial_put_reports_the_number_of_values_put() {
    let sent = batch(&["a", "b", "c"]);
    let full = || {
        let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
        node.send(1, request(1, 0, put_many(&sent)));
        assert_eq!(node.take_answers(), []);
        node
    };
    let mut node = full();
    node.send(2, request(1, 0, Operation::Close));
    assert_eq!(node.take_answers(), [(1, 1, partial(2, Some(Fault::Closed))), (2, 1, super::UNIT)]);
    node.send(2, request(2, 0, Operation::GetMany { max_values: 9 }));
    node.send(2, request(3, 0, Operation::GetMany { max_values: 9 }));
    assert_eq!(node.take_answers(), [(2, 2, values(&["a", "b"])), (2, 3, CLOSED)]);
    node.send(1, request(2, 0, put_many(&sent)));
    assert_eq!(node.take_answers(), [(1, 2, CLOSED)]);

    let mut node = full();
    node.send(1, request(1, 0, Operation::Withdraw));
    assert_eq!(node.take_answers(), [(1, 1, partial(2, None))]);
    let mut node = full();
    node.advance_clock(1_000_000_000);
    assert_eq!(node.take_answers(), [(1, 1, partial(2, Some(Fault::TimedOut)))]);
    node.send(1, try_request(2, put_many(&sent)));
    assert_eq!(node.take_answers(), [(1, 2, Outcome::Failed(Fault::WouldBlock))], "none had room");
    node.get(2, 1);
    assert_eq!(node.take_answers(), [(2, 1, value(b"a"))]);
    node.send(1, try_request(3, put_many(&sent)));
    assert_eq!(node.take_answers(), [(1, 3, partial(1, Some(Fault::WouldBlock)))]);
}

#[test]
fn removed_client_keeps_put_values_and_drops_waiting_ones() {
    let mut node = Node::new(&[hub(Kind::Fifo, 2)]);
    let sent = batch(&["a", "b", "c"]);
    node.send(1, request(1, 0, put_many(&sent)));
    node.end(1);
    node.send(2, request(1, 0, Operation::GetMany { max_values: 9 }));
    node.send(2, try_request(2, Operation::Get));
    assert_eq!(
        node.take_answers(),
        [(2, 1, values(&["a", "b"])), (2, 2, Outcome::Failed(Fault::WouldBlock))]
    );
    assert!(node.is_empty());
}

#[test]
fn higher_priority_sender_interleaves_with_a_batch() {
    let mut node = Node::new(&[hub(Kind::Fifo, 1)]);
    let sent = batch(&["a", "b"]);
    node.send(1, request(1, 0, put_many(&sent)));
    node.send(2, request_with_priority(1, 9, Operation::Put { value: b"urgent" }));
    for number in 1..=3 {
        node.get(3, number);
    }
    let expected =
        [(3, 1, value(b"a")), (2, 1, PUT), (3, 2, value(b"urgent")), (1, 1, PUT), (3, 3, value(b"b"))];
    assert_eq!(node.take_answers(), expected);
}

#[test]
fn batches_require_a_fifo_and_values_that_fit() {
    let sent = batch(&["a", "b"]);
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Fifo) {
        let mut node = Node::new(&[hub(kind, u32::from(kind != Kind::Port))]);
        node.send(1, request(1, 0, put_many(&sent)));
        node.send(1, request(2, 0, Operation::GetMany { max_values: 2 }));
        let wrong = Outcome::Failed(Fault::WrongOperation(kind));
        assert_eq!(node.take_answers(), [(1, 1, wrong.clone()), (1, 2, wrong)]);
    }
    let mut node = Node::new(&[hub(Kind::Fifo, 8)]);
    let longer = "x".repeat(257);
    let sent = batch(&["a", &longer]);
    node.send(1, request(1, 0, put_many(&sent)));
    node.send(2, try_request(1, Operation::Get));
    let expected = [(1, 1, Outcome::Failed(Fault::TooLong(256))), (2, 1, Outcome::Failed(Fault::WouldBlock))];
    assert_eq!(node.take_answers(), expected, "none of the values is in");
}
