//! Select, over hubs of two nodes.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::{CLOSED, FOREVER, Node, PUT, hub, request, value};
use crate::{Fault, Kind, Operation, Outcome, Request, Select, SelectCommand, SelectError, Taken};

/// Client that selects over hub 0 of several nodes. Its request for node `n` has number 50 + `n`.
struct Selecting {
    client: u64,
    select: Select,
    orders: VecDeque<SelectCommand>,
}

impl Selecting {
    fn begin(client: u64, nodes: &mut [Node], operations: &[Operation<'_>]) -> Selecting {
        let places: Vec<_> = (0..nodes.len()).map(|node| (node as u64, 0)).collect();
        for (node, operation) in operations.iter().enumerate() {
            let arm = Request { tentative: true, ..request(50 + node as u32, 0, *operation) };
            nodes[node].send(client, arm);
        }
        Selecting { client, select: Select::new(&places).expect("each once"), orders: VecDeque::new() }
    }

    /// Handles the answers of the nodes, and carries out at most one order.
    fn step(&mut self, nodes: &mut [Node]) -> bool {
        let mut orders = Vec::new();
        for (arm, node) in nodes.iter_mut().enumerate() {
            let (mine, others) = node
                .take_answers()
                .into_iter()
                .partition::<Vec<_>, _>(|answers| (answers.0, answers.1) == (self.client, 50 + arm as u32));
            node.answers.extend(
                others.into_iter().map(|(client, number, what)| (crate::Client(client), number, what)),
            );
            for (.., outcome) in mine {
                self.select.handle_outcome(arm, outcome, &mut orders);
            }
        }
        self.orders.extend(orders);
        let Some(order) = self.orders.pop_front() else { return false };
        let (arm, operation) = match order {
            SelectCommand::Claim { arm, offer } => (arm, Operation::Claim { offer }),
            SelectCommand::Unclaim { arm, offer } => (arm, Operation::Unclaim { offer }),
            SelectCommand::Withdraw { arm } => (arm, Operation::Withdraw),
        };
        nodes[arm].send(self.client, request(50 + arm as u32, 0, operation));
        true
    }
}

fn run_until_idle(nodes: &mut [Node], selecting: &mut [Selecting]) {
    for _ in 0..100 {
        if !selecting.iter_mut().map(|one| one.step(nodes)).fold(false, |any, did| any | did) {
            return;
        }
    }
    panic!("they go round in circles");
}

fn two(kind: Kind, capacity: u32) -> Vec<Node> {
    vec![Node::new(&[hub(kind, capacity)]), Node::new(&[hub(kind, capacity)])]
}

#[test]
fn select_takes_one_of_two_values() {
    let mut nodes = two(Kind::Fifo, 2);
    for (node, bytes) in [(0, b"a1"), (0, b"a2"), (1, b"b1")] {
        let number = nodes[node].hubs.resource_counts()[1].1 as u32 + u32::from(bytes[1]);
        nodes[node].put(1, number, bytes);
    }
    let mut selecting = [Selecting::begin(2, &mut nodes, &[Operation::Get, Operation::Get])];
    run_until_idle(&mut nodes, &mut selecting);
    let [Selecting { select, .. }] = &selecting;
    let taken = Ok(Taken::Value((*b"a1").into()));
    assert_eq!(select.result(), Some(&(0, taken)));
    assert!(select.is_finished());
    nodes[0].take_answers();
    nodes[1].take_answers();
    nodes[0].get(3, 1);
    nodes[1].get(3, 1);
    assert_eq!(nodes[0].take_answers(), [(3, 1, value(b"a2"))]);
    assert_eq!(nodes[1].take_answers(), [(3, 1, value(b"b1"))]);
    assert!(nodes.iter().all(Node::is_empty));
}

#[test]
fn both_sides_may_select_and_meet_at_one_port() {
    let mut nodes = two(Kind::Port, 0);
    let send = Operation::Put { value: b"x" };
    // Each sends at one node and receives at the other, so that they match at both.
    let one = Selecting::begin(1, &mut nodes, &[send, Operation::Get]);
    let other = Selecting::begin(2, &mut nodes, &[Operation::Get, send]);
    let mut selecting = [one, other];
    run_until_idle(&mut nodes, &mut selecting);
    let [one, other] = selecting.map(|selecting| selecting.select.result().cloned().expect("they met"));
    assert_eq!(one.0, other.0, "at the same port");
    assert_ne!(one.1, other.1, "one sent and the other received");
    assert!(nodes.iter().all(Node::is_empty));
}

#[test]
fn circular_claims_are_resolved_at_the_lower_hub() {
    let mut nodes = two(Kind::Port, 0);
    let send = Operation::Put { value: b"x" };
    let mut one = Selecting::begin(1, &mut nodes, &[send, Operation::Get]);
    let mut other = Selecting::begin(2, &mut nodes, &[Operation::Get, send]);
    // Client 1 gets only the higher hub's offer at first and claims there; client 2 only that of the lower
    // one.
    let mut orders = Vec::new();
    for (selecting, arm) in [(&mut one, 1), (&mut other, 0)] {
        let answers = core::mem::take(&mut nodes[arm].answers);
        for (client, number, outcome) in answers {
            if client.0 == selecting.client {
                selecting.select.handle_outcome(arm, outcome, &mut orders);
                selecting.orders.extend(orders.drain(..));
            } else {
                nodes[arm].answers.push((client, number, outcome));
            }
        }
    }
    assert!(matches!(one.orders[0], SelectCommand::Claim { arm: 1, .. }));
    assert!(matches!(other.orders[0], SelectCommand::Claim { arm: 0, .. }));
    let mut selecting = [one, other];
    run_until_idle(&mut nodes, &mut selecting);
    let results = selecting.map(|selecting| selecting.select.result().cloned().expect("they met").0);
    assert_eq!(results, [0, 0]);
    assert!(nodes.iter().all(Node::is_empty));
}

#[test]
fn death_of_the_partner_revokes_the_offer() {
    let mut nodes = two(Kind::Port, 0);
    nodes[1].put(3, 1, b"dies");
    let mut selecting = [Selecting::begin(1, &mut nodes, &[Operation::Get, Operation::Get])];
    nodes[1].end(3);
    run_until_idle(&mut nodes, &mut selecting);
    assert_eq!(selecting[0].select.result(), None);
    nodes[0].put(2, 1, b"lives");
    run_until_idle(&mut nodes, &mut selecting);
    assert_eq!(selecting[0].select.result(), Some(&(0, Ok(Taken::Value((*b"lives").into())))));
    assert!(nodes.iter().all(Node::is_empty));
}

#[test]
fn abandoned_select_completes_at_most_one_arm() {
    let mut nodes = two(Kind::Semaphore, 1);
    let mut selecting = [Selecting::begin(1, &mut nodes, &[Operation::Get, Operation::Get])];
    let mut orders = Vec::new();
    selecting[0].select.abandon(&mut orders);
    selecting[0].orders.extend(orders);
    // It becomes ready while the withdrawal is in transit.
    nodes[0].put(2, 1, b"");
    run_until_idle(&mut nodes, &mut selecting);
    assert_eq!((selecting[0].select.result(), selecting[0].select.is_finished()), (None, true));
    nodes[0].take_answers();
    nodes[0].get(3, 1);
    assert_eq!(nodes[0].take_answers(), [(3, 1, super::UNIT)], "the unit is there for others");
}

#[test]
fn unclaimed_offer_passes_to_another_waiter() {
    let mut nodes = [Node::new(&[hub(Kind::Fifo, 1)])];
    let node = &mut nodes[0];
    node.send(1, Request { tentative: true, ..request(50, 0, Operation::Get) });
    node.put(3, 1, b"v");
    node.get(2, 1);
    let answers = node.take_answers();
    assert_eq!(answers, [(3, 1, PUT), (1, 50, Outcome::Offered(1))]);
    node.advance_clock(1000);
    assert_eq!(node.take_answers(), [(1, 50, Outcome::Revoked), (2, 1, value(b"v"))]);
    node.send(1, request(50, 0, Operation::Claim { offer: 1 }));
    assert_eq!(node.take_answers(), [], "the claim came too late");
    node.put(3, 2, b"w");
    assert_eq!(node.take_answers(), [(3, 2, PUT), (1, 50, Outcome::Offered(2))]);
    node.advance_clock(5000);
    assert_eq!(node.take_answers(), [], "it stands while no other waits");
    node.send(1, request(50, 0, Operation::Claim { offer: 2 }));
    assert_eq!(node.take_answers(), [(1, 50, value(b"w"))]);
    assert!(node.is_empty());
}

#[test]
fn closed_hubs_end_a_select_unless_another_is_done() {
    let mut nodes = two(Kind::Fifo, 1);
    nodes[0].send(3, request(1, 0, Operation::Close));
    let mut selecting = [Selecting::begin(1, &mut nodes, &[Operation::Get, Operation::Get])];
    run_until_idle(&mut nodes, &mut selecting);
    assert_eq!(selecting[0].select.result(), Some(&(0, Err(Fault::Closed))));
    assert!(nodes.iter().all(Node::is_empty));
    // An offer has set the last value aside: other clients are notified of the end when it is claimed.
    nodes[1].put(3, 1, b"last");
    nodes[1].send(1, Request { tentative: true, ..request(60, 0, Operation::Get) });
    nodes[1].send(3, request(2, 0, Operation::Close));
    nodes[1].get(2, 1);
    nodes[1].take_answers();
    nodes[1].send(1, request(60, 0, Operation::Claim { offer: 1 }));
    assert_eq!(nodes[1].take_answers(), [(1, 60, value(b"last")), (2, 1, CLOSED)]);
}

#[test]
fn invalid_selects_are_refused() {
    assert_eq!(Select::new(&[]), Err(SelectError::Empty));
    assert_eq!(Select::new(&[(1, 1), (1, 2), (2, 1), (1, 2)]), Err(SelectError::DuplicateHub(1, 3)));
    let many: Vec<_> = (0..257).map(|hub| (0, hub)).collect();
    assert_eq!(Select::new(&many), Err(SelectError::TooMany(257)));
    assert!(Select::new(&many[..256]).is_ok());
    assert_eq!(FOREVER, 1_000_000, "longer than any test takes");
}
