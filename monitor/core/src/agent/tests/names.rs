//! A node's names are served by its agent, without the root.

use std::time::Duration;

use tombolo_control::{ClientMessage, Fault, MonitorMessage, NODE_LISTENERS, Reply, Request, Wire, request};
use tombolo_naming::{Answer, Condition, NameFault, Operation, Query, Scope};

use super::*;

const NODE: NodeId = NodeId(1);

/// Returns an agent that serves names, and its clients 1 and 2, which are domains.
fn serving() -> Agent {
    let mut agent = Agent::new();
    agent.tick(100);
    let serve = Order::ServeNames { node: NODE, generation: 3, records_per_domain: 10, waits_per_domain: 10 };
    agent.execute(serve, vec![]).unwrap();
    for connection in [1, 2] {
        agent.client_connected(50, true);
        agent.execute(Order::Admitted { connection, domain: domain(connection) }, vec![]).unwrap();
    }
    reports(&mut agent);
    agent
}

fn lock() -> Operation {
    Operation::Lock { name: "l".into(), timeout: Duration::from_nanos(50) }
}

fn ask(agent: &mut Agent, connection: u32, scope: Scope, operation: Operation) {
    let message = ClientMessage { request: 9, body: Request::Names { scope, operation } }.to_bytes().unwrap();
    agent.client_message_received(connection, message, false, None);
}

/// Returns the messages sent to clients.
fn sent_replies(agent: &mut Agent) -> Vec<(u32, Reply)> {
    let mut sent_replies = Vec::new();
    for action in actions(agent) {
        if let Action::Send { connection, message, .. } = action {
            sent_replies.push((connection, MonitorMessage::from_bytes(&message).unwrap().body));
        }
    }
    sent_replies
}

fn token(reply: &Reply) -> u64 {
    match reply {
        Reply::Names { origin: Some(NODE), answer: Answer::Locked { token } } => *token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn own_names_are_answered_locally_others_by_the_root() {
    let mut agent = serving();
    ask(&mut agent, 1, Scope::Own, lock());
    let answers = sent_replies(&mut agent);
    assert_eq!((answers.len(), answers[0].0), (1, 1));
    assert_eq!(token(&answers[0].1) >> 48, 3, "tokens of a later generation are larger");
    assert_eq!(reports(&mut agent), []);
    for scope in [Scope::Machine, Scope::Node("other".into())] {
        ask(&mut agent, 1, scope, lock());
        assert!(matches!(reports(&mut agent)[..], [Report::Asked { connection: 1, .. }]));
    }
    // A client has no names until the root has identified it.
    agent.client_connected(51, true);
    ask(&mut agent, 3, Scope::Own, lock());
    assert!(matches!(sent_replies(&mut agent)[..], [(3, Reply::Failed { fault: Fault::Refused { .. } })]));
}

#[test]
fn locks_are_released_however_a_client_ends() {
    let ends: [fn(&mut Agent); 3] = [
        |agent| agent.client_disconnected(1),
        |agent| agent.execute(Order::Dismiss { connection: 1 }, vec![]).unwrap(),
        |agent| agent.child_exited(domain(1), Exit::Exited { status: 0 }),
    ];
    for end in ends {
        let mut agent = serving();
        agent.child_started(domain(1), 60, &[]);
        ask(&mut agent, 1, Scope::Own, lock());
        ask(&mut agent, 2, Scope::Own, lock());
        assert_eq!(sent_replies(&mut agent).len(), 1);
        end(&mut agent);
        let answers = sent_replies(&mut agent);
        assert_eq!(answers.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [2]);
    }
}

#[test]
fn name_wait_times_out() {
    let mut agent = serving();
    ask(&mut agent, 1, Scope::Own, lock());
    ask(&mut agent, 2, Scope::Own, lock());
    sent_replies(&mut agent);
    assert_eq!(agent.next_tick(), Some(150));
    agent.tick(149);
    assert_eq!(sent_replies(&mut agent), []);
    agent.tick(150);
    let fault = Fault::Name { fault: NameFault::Locked { name: "l".into(), holder: domain(1) } };
    assert_eq!(sent_replies(&mut agent), [(2, Reply::Failed { fault })]);
    assert_eq!(agent.next_tick(), None);
}

#[test]
fn clients_of_other_nodes_are_served_through_the_root() {
    let mut agent = serving();
    let far = DomainId::new(NodeId(0), NonZeroU16::MIN, 4);
    let names_order = |operation| Order::NamesAsked {
        node: NodeId(0),
        connection: 1,
        domain: far,
        request: request(Request::NAMES, 5),
        operation,
    };
    agent.execute(names_order(lock()), vec![]).unwrap();
    let reported = reports(&mut agent);
    let [Report::NamesSay { domain, connection: 1, message }] = reported.as_slice() else {
        panic!("{reported:?}")
    };
    assert_eq!(*domain, far, "the root tells by it whether the client is still the one that asked");
    assert_eq!(MonitorMessage::from_bytes(message).unwrap().number(), 5);
    // A connection of this node with the same number is another client.
    ask(&mut agent, 1, Scope::Own, lock());
    assert_eq!(sent_replies(&mut agent), []);
    agent.execute(Order::NamesLeft { node: NodeId(0), connection: 1 }, vec![]).unwrap();
    let answers = sent_replies(&mut agent);
    token(&answers[0].1);
    let find = Operation::Find { query: Query::any(), after: String::new(), limit: 1 };
    agent.execute(names_order(find), vec![]).unwrap();
    assert_eq!(reports(&mut agent).len(), 1, "it may come back");
}

#[test]
fn local_exports_are_reported_to_the_root() {
    let mut agent = serving();
    let send_request = |agent: &mut Agent, connection: u32, body: Request| {
        agent.client_message_received(
            connection,
            ClientMessage { request: 9, body }.to_bytes().unwrap(),
            false,
            None,
        );
        sent_replies(agent).pop()
    };
    let export = || Request::Export { scope: Scope::Own, name: "svc".into() };
    let exported = |listener| Report::Exported { connection: 1, name: "svc".into(), listener };
    let withdrawn = || Report::Withdrawn { name: "svc".into() };
    let (first, second) = (NODE_LISTENERS, NODE_LISTENERS + 1);
    assert_eq!(send_request(&mut agent, 1, export()), Some((1, Reply::Export { listener: first })));
    assert_eq!(reports(&mut agent), [exported(first)]);
    let fault = Fault::NameTaken { name: "svc".into(), owner: domain(1) };
    assert_eq!(send_request(&mut agent, 2, export()), Some((2, Reply::Failed { fault })));
    let delete = Operation::Delete { name: "svc".into(), condition: Condition::Always, want_previous: false };
    let delete = || Request::Names { scope: Scope::Own, operation: delete.clone() };
    let fault = Fault::Name { fault: NameFault::NotYours { name: "svc".into(), owner: domain(1) } };
    assert_eq!(send_request(&mut agent, 2, delete()), Some((2, Reply::Failed { fault })));
    assert_eq!(send_request(&mut agent, 2, Request::Withdraw { listener: first }), Some((2, Reply::Done)));
    assert_eq!(reports(&mut agent), [], "it is not that one's to take back");
    assert_eq!(send_request(&mut agent, 1, Request::Withdraw { listener: first }), Some((1, Reply::Done)));
    assert_eq!(reports(&mut agent), [withdrawn()]);
    assert_eq!(send_request(&mut agent, 1, export()), Some((1, Reply::Export { listener: second })));
    assert!(matches!(send_request(&mut agent, 1, delete()), Some((1, Reply::Names { .. }))));
    assert_eq!(reports(&mut agent), [exported(second), withdrawn()]);
    send_request(&mut agent, 1, export());
    reports(&mut agent);
    agent.client_disconnected(1);
    assert_eq!(reports(&mut agent), [withdrawn(), Report::Left { connection: 1 }]);
    let bad = Request::Export { scope: Scope::Own, name: "a b".into() };
    let fault = Fault::BadName { name: "a b".into() };
    assert_eq!(send_request(&mut agent, 2, bad), Some((2, Reply::Failed { fault })));
    // Names of the machine belong to the root.
    assert_eq!(
        send_request(&mut agent, 2, Request::Export { scope: Scope::Machine, name: "svc".into() }),
        None
    );
    assert_eq!(send_request(&mut agent, 2, Request::Withdraw { listener: 1 }), None);
    assert_eq!(reports(&mut agent).len(), 2);
}

#[test]
fn late_request_of_a_departed_client_acquires_nothing() {
    let mut agent = serving();
    let before = agent.resource_counts();
    let by_name = |connection| Order::NamesAsked {
        node: NODE,
        connection,
        domain: domain(connection),
        request: 0,
        operation: lock(),
    };
    // It refers to its own node by name, so the request goes through the root, and the client has left before
    // it returns.
    agent.client_connected(50, true);
    agent.execute(Order::Admitted { connection: 3, domain: domain(3) }, vec![]).unwrap();
    agent.client_disconnected(3);
    agent.execute(by_name(3), vec![]).unwrap();
    reports(&mut agent);
    actions(&mut agent);
    assert_eq!(agent.resource_counts(), before);
    ask(&mut agent, 1, Scope::Own, lock());
    token(&sent_replies(&mut agent)[0].1);
}
