//! Names of the machine, and those of a node requested by clients of others.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::{Exit, Fault, MonitorMessage, Order, Reply, Report, Request, Wire, request};
use tombolo_naming::{
    Answer, Condition, EndCause, Event, EventMask, Lifetime, NameFault, Notice, Operation, Query, Scope,
    SetMode,
};

use super::{ARM0, ARM1, Bench, HOST, SECOND};
use crate::root::ClientId;

const FIRST: ClientId = (HOST, 1);
const SECOND_CLIENT: ClientId = (ARM0, 1);

fn names(bench: &mut Bench, client: ClientId, operation: Operation) -> Option<Reply> {
    bench.ask(client, Request::Names { scope: Scope::Machine, operation })
}

fn set(name: &str) -> Operation {
    Operation::Set {
        name: name.into(),
        attributes: Default::default(),
        remove: vec![],
        mode: SetMode::Replace,
        lifetime: Lifetime::Transient,
        condition: Condition::Always,
        want_previous: false,
    }
}

fn found(reply: Option<Reply>) -> Vec<String> {
    match reply {
        Some(Reply::Names { origin: None, answer: Answer::Found { records, next: None } }) => {
            records.into_iter().map(|record| record.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn find(query: Query) -> Operation {
    Operation::Find { query, after: String::new(), limit: 100 }
}

fn lock(name: &str) -> Operation {
    Operation::Lock { name: name.into(), timeout: Duration::from_secs(1) }
}

fn request_remote(bench: &mut Bench, operation: Operation) -> Option<Reply> {
    bench.ask(FIRST, Request::Names { scope: Scope::Node("arm0".into()), operation })
}

/// Request number 9 about names.
const NAMES_REQUEST_9: u32 = request(Request::NAMES, 9);

/// Sends a message of arm0's agent to the first client.
fn send_from_agent(bench: &mut Bench, from: tombolo_base::NodeId, request: u32, body: Reply) {
    let domain = bench.core.clients.get(&FIRST).and_then(|client| client.domain).expect("it is attached");
    send_from_agent_to(bench, from, domain, request, body);
}

/// Sends a message of a node's agent to the client with number 1 that is that domain.
fn send_from_agent_to(
    bench: &mut Bench,
    from: tombolo_base::NodeId,
    domain: DomainId,
    request: u32,
    body: Reply,
) {
    let message = MonitorMessage { request, body }.to_bytes().unwrap();
    bench.delivered.clear();
    bench.report(from, Report::NamesSay { domain, connection: 1, message });
}

#[test]
fn late_answer_does_not_reach_a_reused_client_number() {
    let mut bench = Bench::up(4);
    let client = (ARM1, 1);
    let lock_at_arm0 = |bench: &mut Bench| {
        bench.ask(client, Request::Names { scope: Scope::Node("arm0".into()), operation: lock("l") })
    };
    bench.attach(FIRST);
    let before = bench.attach(client);
    assert_eq!(lock_at_arm0(&mut bench), None);
    bench.core.node_lost(ARM1, "gone");
    bench.collect();
    assert_eq!(bench.ask(FIRST, Request::Restart { node: "arm1".into(), force: false }), None);
    bench.core.node_started(ARM1, 101, Some((1 << 20, 4)));
    let version = tombolo_control::FINGERPRINT;
    bench.report(ARM1, Report::Ready { version, isa: tombolo_base::Isa::Aarch64, cores: 1, pid: 1 });
    let after = bench.attach(client);
    assert_ne!(before, after);
    assert_eq!(lock_at_arm0(&mut bench), None);
    // Sent before the agent learned that the first client is gone, and in flight since.
    let locked = |token| Reply::Names { origin: Some(ARM0), answer: Answer::Locked { token } };
    send_from_agent_to(&mut bench, ARM0, before, NAMES_REQUEST_9, locked(3));
    assert_eq!(bench.delivered, []);
    send_from_agent_to(&mut bench, ARM0, after, NAMES_REQUEST_9, locked(4));
    assert_eq!(bench.answer(client), Some(locked(4)));
}

#[test]
fn records_and_exports_share_names_and_end_with_owner() {
    let mut bench = Bench::up(4);
    let owner = bench.attach(FIRST);
    bench.attach(SECOND_CLIENT);
    bench.export(FIRST, "pong");
    names(&mut bench, FIRST, set("plain"));
    assert_eq!(found(names(&mut bench, SECOND_CLIENT, find(Query::any()))), ["plain", "pong"]);
    let taken = Fault::NameTaken { name: "plain".into(), owner };
    assert_eq!(bench.export(SECOND_CLIENT, "plain"), Some(Reply::Failed { fault: taken }));
    assert_eq!(bench.connect(SECOND_CLIENT, "plain"), None, "nobody accepts there: it waits");
    bench.report(HOST, Report::Left { connection: 1 });
    assert_eq!(found(names(&mut bench, SECOND_CLIENT, find(Query::any()))), [""; 0]);
}

#[test]
fn lock_passes_on_at_death_and_lookup_times_out() {
    let mut bench = Bench::up(4);
    bench.attach(FIRST);
    bench.attach(SECOND_CLIENT);
    assert!(matches!(
        names(&mut bench, FIRST, lock("l")),
        Some(Reply::Names { answer: Answer::Locked { .. }, .. })
    ));
    assert_eq!(names(&mut bench, SECOND_CLIENT, lock("l")), None);
    assert_eq!(bench.core.next_tick(), Some(SECOND));
    bench.report(HOST, Report::Left { connection: 1 });
    let answer = bench.answer(SECOND_CLIENT);
    assert!(matches!(answer, Some(Reply::Names { answer: Answer::Locked { .. }, .. })), "{answer:?}");
    let query = Query::exact("never");
    let wait = Operation::Await { query, timeout: Duration::from_secs(1) };
    assert_eq!(names(&mut bench, SECOND_CLIENT, wait), None);
    bench.core.tick(SECOND);
    bench.collect();
    let fault = Fault::Name { fault: NameFault::NoSuchName { name: "never".into() } };
    assert_eq!(bench.answer(SECOND_CLIENT), Some(Reply::Failed { fault }));
}

#[test]
fn names_of_an_ended_domain_are_removed_despite_its_connection() {
    let mut bench = Bench::up(4);
    bench.attach(FIRST);
    let domain = super::start(&mut bench, FIRST);
    bench.report(ARM0, Report::Joined { connection: 5, pid: 9, domain: Some(domain) });
    let version = tombolo_control::FINGERPRINT;
    bench.ask((ARM0, 5), Request::Attach { version, program: "test".into() });
    assert_eq!(bench.orders.last(), Some(&(ARM0, Order::Admitted { connection: 5, domain })));
    names(&mut bench, (ARM0, 5), set("mine"));
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
    assert_eq!(found(names(&mut bench, FIRST, find(Query::any()))), [""; 0]);
}

#[test]
fn names_of_a_node_are_asked_of_its_agent_and_answers_come_back() {
    let mut bench = Bench::up(4);
    let domain: DomainId = bench.attach(FIRST);
    bench.orders.clear();
    assert_eq!(request_remote(&mut bench, lock("l")), None);
    let forwarded = Order::NamesAsked {
        node: HOST,
        connection: 1,
        domain,
        request: NAMES_REQUEST_9,
        operation: lock("l"),
    };
    assert_eq!(bench.orders, [(ARM0, forwarded)]);
    let body = || Reply::Names { origin: Some(ARM0), answer: Answer::Locked { token: 3 } };
    send_from_agent(&mut bench, ARM1, NAMES_REQUEST_9, body());
    assert_eq!(bench.delivered, [], "another node has no say in it");
    send_from_agent(&mut bench, ARM0, NAMES_REQUEST_9 - 1, body());
    assert_eq!(bench.delivered, [], "nothing was asked under that number");
    send_from_agent(&mut bench, ARM0, request(Request::DOWN, 9), Reply::Done);
    assert_eq!(bench.delivered, [], "that is nothing names say");
    send_from_agent(&mut bench, ARM0, NAMES_REQUEST_9, body());
    assert_eq!(bench.answer(FIRST), Some(body()));
    send_from_agent(&mut bench, ARM0, NAMES_REQUEST_9, body());
    assert_eq!(bench.delivered, [], "an answer comes once");
    bench.orders.clear();
    bench.report(HOST, Report::Left { connection: 1 });
    assert!(bench.orders.contains(&(ARM0, Order::NamesLeft { node: HOST, connection: 1 })));
}

#[test]
fn lost_node_removes_its_names_and_notifies_waiters() {
    let mut bench = Bench::up(4);
    bench.attach(FIRST);
    let watch = Operation::Watch { query: Query::any(), events: EventMask::SET, once: false, capacity: 4 };
    assert_eq!(request_remote(&mut bench, watch), None);
    let notice = |last, event| Reply::Noticed {
        origin: Some(ARM0),
        notice: Notice { watch: 5, lost: 0, last, event },
    };
    send_from_agent(&mut bench, ARM0, 0, notice(false, Event::Lost));
    assert_eq!(bench.delivered, [], "nothing is watched yet");
    let answer = Answer::Watching { watch: 5, records: vec![], next: None };
    send_from_agent(&mut bench, ARM0, NAMES_REQUEST_9, Reply::Names { origin: Some(ARM0), answer });
    send_from_agent(&mut bench, ARM0, 0, notice(false, Event::Lost));
    assert_eq!(bench.delivered.len(), 1);
    assert_eq!(request_remote(&mut bench, lock("l")), None);
    bench.delivered.clear();
    bench.core.node_lost(ARM0, "killed");
    bench.collect();
    let fault = Fault::NodeDown { node: "arm0".into(), cause: "killed".into() };
    let told: Vec<Reply> = bench.delivered.iter().map(|(_, message, ..)| message.body.clone()).collect();
    assert_eq!(
        told,
        [Reply::Failed { fault: fault.clone() }, notice(true, Event::Ended { cause: EndCause::NodeLost })]
    );
    assert_eq!(request_remote(&mut bench, lock("l")), Some(Reply::Failed { fault }));
    let unknown = Request::Names { scope: Scope::Node("arm9".into()), operation: lock("l") };
    assert!(matches!(bench.ask(FIRST, unknown), Some(Reply::Failed { fault: Fault::NoSuchNode { .. } })));
    let own = Request::Names { scope: Scope::Own, operation: lock("l") };
    assert!(matches!(bench.ask(FIRST, own), Some(Reply::Failed { fault: Fault::Refused { .. } })));
}

#[test]
fn requests_to_an_agent_that_does_not_answer_are_limited() {
    let mut bench = Bench::up_with(4, "[limits]\nwaiting_per_domain = 2");
    bench.attach(FIRST);
    for (request, refused) in [(1, false), (2, false), (3, true)] {
        let body = Request::Names { scope: Scope::Node("arm0".into()), operation: lock("l") };
        let message = tombolo_control::ClientMessage { request, body }.to_bytes().unwrap();
        bench.delivered.clear();
        bench.report(HOST, Report::Asked { connection: 1, message });
        assert_eq!(!bench.delivered.is_empty(), refused, "{request}");
    }
}

#[test]
fn request_to_own_node_is_not_tracked_by_the_root() {
    let mut bench = Bench::up(4);
    bench.attach(FIRST);
    let own = || Request::Names { scope: Scope::Node("host".into()), operation: lock("l") };
    // Its agent answers each of them: they do not accumulate to a limit.
    for _ in 0..2000 {
        assert_eq!(bench.ask(FIRST, own()), None);
        assert!(matches!(bench.orders.last(), Some((HOST, Order::NamesAsked { connection: 1, .. }))));
    }
    bench.report(HOST, Report::Left { connection: 1 });
    assert!(!matches!(bench.orders.last(), Some((_, Order::NamesLeft { .. }))), "it knows that itself");
}

fn of_node(bench: &mut Bench, client: ClientId, scope: Scope) -> Option<Reply> {
    bench.connect_in(client, scope, "svc", Duration::from_secs(1))
}

fn exported(listener: u32) -> Report {
    Report::Exported { connection: 1, name: "svc".into(), listener }
}

#[test]
fn names_of_a_node_are_connected_to_from_there_and_from_elsewhere() {
    let mut bench = Bench::up(4);
    bench.attach(FIRST);
    let owner = bench.attach(SECOND_CLIENT);
    let arm0 = || Scope::Node("arm0".into());
    bench.report(ARM0, exported(70));
    for (client, scope) in [(FIRST, arm0()), (SECOND_CLIENT, Scope::Own), (SECOND_CLIENT, arm0())] {
        let Some(Reply::Connect { grant }) = of_node(&mut bench, client, scope) else { panic!() };
        assert_eq!((grant.peer, grant.peer_node.as_str()), (owner, "arm0"));
        let incoming = |body: &Reply| matches!(body, Reply::Incoming { listener: 70, .. });
        assert!(bench.delivered.iter().any(|(to, said, ..)| *to == SECOND_CLIENT && incoming(&said.body)));
    }
    // It is not a name of the machine or of another node.
    for scope in [Scope::Machine, Scope::Own, Scope::Node("arm1".into())] {
        assert_eq!(of_node(&mut bench, FIRST, scope), None);
    }
    bench.core.tick(SECOND);
    bench.collect();
    let missing: Vec<String> = bench
        .delivered
        .iter()
        .map(|(_, message, ..)| match &message.body {
            Reply::Failed { fault: Fault::NoSuchName { name } } => name.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(missing, ["svc", "@host/svc", "@arm1/svc"]);
    let nowhere = of_node(&mut bench, FIRST, Scope::Node("arm9".into()));
    assert!(matches!(nowhere, Some(Reply::Failed { fault: Fault::NoSuchNode { .. } })), "{nowhere:?}");
    for scope in [Scope::Own, arm0()] {
        let refused = bench.ask(FIRST, Request::Export { scope, name: "svc".into() });
        assert!(matches!(refused, Some(Reply::Failed { fault: Fault::Refused { .. } })), "{refused:?}");
    }
}

#[test]
fn waiter_for_a_node_name_is_served_or_notified() {
    let mut bench = Bench::up(4);
    bench.attach(FIRST);
    bench.attach(SECOND_CLIENT);
    let arm0 = || Scope::Node("arm0".into());
    assert_eq!(of_node(&mut bench, FIRST, arm0()), None);
    bench.report(ARM1, exported(70));
    assert_eq!(bench.answer(FIRST), None, "another node has no say in it");
    bench.report(ARM0, exported(70));
    assert!(matches!(bench.answer(FIRST), Some(Reply::Connect { .. })));
    bench.report(ARM0, Report::Withdrawn { name: "svc".into() });
    assert_eq!(of_node(&mut bench, FIRST, arm0()), None);
    bench.report(ARM0, exported(71));
    assert!(matches!(bench.answer(FIRST), Some(Reply::Connect { .. })));
    bench.report(ARM0, Report::Left { connection: 1 });
    assert_eq!(of_node(&mut bench, FIRST, arm0()), None, "it went with its client");
    bench.core.node_lost(ARM0, "killed");
    bench.collect();
    let fault = Fault::NodeDown { node: "arm0".into(), cause: "killed".into() };
    assert_eq!(bench.answer(FIRST), Some(Reply::Failed { fault }));
}
