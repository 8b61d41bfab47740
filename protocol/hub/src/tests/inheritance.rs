//! Priority inheritance.

use alloc::vec::Vec;

use super::{Node, hub, locked, request, request_with_priority};
use crate::{Client, Description, Kind, Operation, Request};

fn resource(name: &str, inheritance: bool) -> Description {
    Description { name: name.into(), inheritance, ..hub(Kind::Resource, 1) }
}

#[test]
fn an_owner_inherits_the_highest_priority_that_waits() {
    let mut node = Node::new(&[resource("r", true)]);
    node.send(1, request_with_priority(1, 1, Operation::Get));
    node.send(2, request_with_priority(1, 5, Operation::Get));
    node.send(3, request_with_priority(1, 9, Operation::Get));
    assert_eq!(node.inherits, [(Client(1), 5), (Client(1), 9)]);
    node.inherits.clear();
    node.send(3, request(1, 0, Operation::Withdraw));
    assert_eq!(node.inherits, [(Client(1), 5)], "it falls when the most urgent leaves");
    node.inherits.clear();
    node.send(1, request(2, 0, Operation::GiveBack { token: 1 }));
    assert_eq!(node.inherits, [(Client(1), 0)]);
    assert_eq!(node.take_answers().last(), Some(&(2, 1, locked(2, false))));
}

#[test]
fn inheritance_propagates_along_a_chain_of_owners() {
    let semaphore = Description { name: "s".into(), ..hub(Kind::Semaphore, 4) };
    let mut node = Node::new(&[resource("a", true), resource("b", true), semaphore]);
    let at = |hub, number, priority, operation| Request { hub, priority, ..request(number, 0, operation) };
    node.send(1, at(0, 1, 1, Operation::Get));
    node.send(2, at(1, 1, 2, Operation::Get));
    // Client 1 owns a and waits at the semaphore behind client 4; client 2 owns b and waits for a.
    node.send(4, at(2, 1, 4, Operation::Get));
    node.send(1, at(2, 2, 1, Operation::Get));
    node.send(2, at(0, 2, 2, Operation::Get));
    node.send(3, at(1, 1, 9, Operation::Get));
    assert_eq!(node.hubs.inherited(Client(2)), Ok(9));
    assert_eq!(node.hubs.inherited(Client(1)), Ok(9), "through client 2");
    node.take_answers();
    node.send(4, at(2, 3, 0, Operation::Put { value: b"" }));
    assert_eq!(node.take_answers()[1].0, 1, "client 1 has passed client 4 in the queue");
    node.end(3);
    assert_eq!(node.hubs.inherited(Client(1)), Ok(2), "client 2 still waits for a");
}

#[test]
fn remote_inheritance_raises_local_requests() {
    let mut node = Node::new(&[hub(Kind::Semaphore, 4)]);
    node.send(1, request_with_priority(1, 1, Operation::Get));
    node.send(2, request_with_priority(1, 5, Operation::Get));
    node.send(1, request_with_priority(0, 9, Operation::Raise));
    node.put(3, 1, b"");
    assert_eq!(node.take_answers()[1].0, 1);
}

#[test]
fn inheritance_terminates_for_deadlocked_owners() {
    let mut node = Node::new(&[resource("a", true), resource("b", true), resource("c", true)]);
    let at = |hub, number, priority| Request { hub, priority, ..request(number, 0, Operation::Get) };
    for next in 0..2 {
        for (client, hub) in [(1, 0), (2, 1), (3, 2)] {
            node.send(client, at((hub + next) % 3, 1 + next, client as u8));
        }
    }
    node.send(4, at(0, 1, 9));
    assert!((1..=3).all(|client| node.hubs.inherited(Client(client)) == Ok(9)));
    node.end(4);
    node.end(1);
    node.end(2);
    node.end(3);
    assert!(node.is_empty());
}

/// Next step of a task in the inversion test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Lock,
    Unlock,
    /// Computes for some units of time.
    Run(u32),
}

struct Task {
    client: u64,
    base: u8,
    inherited: u8,
    starts_at: u32,
    steps: Vec<Step>,
    waits: bool,
    token: u64,
    ended_at: Option<u32>,
}

/// Runs the most urgent ready task of one processor, a unit of time each. The result must not depend on
/// whether the low and the high task lock at the same node.
fn run(inheritance: bool) -> [u32; 3] {
    let mut node = Node::new(&[resource("r", inheritance)]);
    let task = |client, base, starts_at, steps: &[Step]| Task {
        client,
        base,
        inherited: 0,
        starts_at,
        steps: steps.iter().rev().copied().collect(),
        waits: false,
        token: 0,
        ended_at: None,
    };
    let mut tasks = [
        task(1, 1, 0, &[Step::Lock, Step::Run(10), Step::Unlock]),
        task(2, 5, 3, &[Step::Run(1000)]),
        task(3, 9, 5, &[Step::Lock, Step::Run(1), Step::Unlock]),
    ];
    for time in 0..2000 {
        let ready =
            tasks.iter_mut().filter(|task| task.ended_at.is_none() && !task.waits && task.starts_at <= time);
        if let Some(task) = ready.max_by_key(|task| task.base.max(task.inherited)) {
            match task.steps.pop() {
                Some(Step::Run(units)) if units > 1 => task.steps.push(Step::Run(units - 1)),
                Some(Step::Run(_)) => {}
                Some(Step::Lock) => {
                    task.waits = true;
                    node.send(task.client, request_with_priority(1, task.base, Operation::Get));
                }
                Some(Step::Unlock) => {
                    let token = task.token;
                    node.send(task.client, request(2, 0, Operation::GiveBack { token }));
                }
                None => task.ended_at = Some(time),
            }
        }
        for (client, number, outcome) in node.take_answers() {
            let task = tasks.iter_mut().find(|task| task.client == client).expect("it is one of the three");
            if let crate::Outcome::Done(crate::Taken::Block { token, .. }) = outcome {
                assert_eq!(number, 1);
                (task.waits, task.token) = (false, token);
            }
        }
        for (client, priority) in node.inherits.drain(..) {
            let task = tasks.iter_mut().find(|task| task.client == client.0).expect("it is one of the three");
            task.inherited = priority;
        }
    }
    [0, 1, 2].map(|task: usize| tasks[task].ended_at.expect("all end"))
}

#[test]
fn inheritance_prevents_priority_inversion() {
    let [low, medium, high] = run(true);
    assert!(high < 30 && high < low && low > medium, "{low} {medium} {high}");
    let [low, medium, high] = run(false);
    assert!(high > 1000 && medium < high, "the inversion: {low} {medium} {high}");
}
