//! Tests every limit at one less, itself and one more; the client at the limit gets the fault, and others are
//! served.

use tombolo_base::DomainId;
use tombolo_capability::{CapabilityInfo, Rights};
use tombolo_control::{Exit, Fault, Order, Reply, Report, Request};

use crate::root::console::MAX_PENDING_INPUT_BYTES;
use crate::root::tests::regions::in_memory_of;
use crate::root::tests::{ARM0, Bench, HOST, SECOND, start};
use crate::root::{ClientId, Nanos};

const ATTACKER: ClientId = (HOST, 1);
const OTHER: ClientId = (HOST, 2);

fn bench(limits: &str) -> Bench {
    Bench::up_with(16, &format!("[limits]\n{limits}"))
}

/// Asserts that the request was refused because of this limit.
#[track_caller]
fn assert_limit(answer: Option<Reply>, key: &str) {
    match answer {
        Some(
            Reply::Failed { fault: Fault::Limit { what } }
            | Reply::TurnedAway { fault: Fault::Limit { what } },
        ) => {
            assert!(what.contains(key), "{what}");
        }
        other => panic!("{other:?} in place of the limit {key}"),
    }
}

#[test]
fn names() {
    let mut bench = bench("names_per_domain = 3");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    for number in 1..=3 {
        let answer = bench.export(ATTACKER, &format!("name-{number}"));
        assert_eq!(answer, Some(Reply::Export { listener: number }));
    }
    assert_limit(bench.export(ATTACKER, "name-4"), "names_per_domain");
    assert_eq!(bench.export(OTHER, "name-4"), Some(Reply::Export { listener: 1 }));
    bench.ask(ATTACKER, Request::Withdraw { listener: 2 });
    assert_eq!(bench.export(ATTACKER, "name-5"), Some(Reply::Export { listener: 4 }));
    assert_limit(bench.export(ATTACKER, "name-6"), "names_per_domain");
}

#[test]
fn waiting_requests_are_limited() {
    let mut bench = bench("waiting_per_domain = 3");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    for number in 0..3 {
        assert_eq!(bench.connect(ATTACKER, &format!("never-{number}")), None);
    }
    assert_limit(bench.connect(ATTACKER, "never"), "waiting_per_domain");
    assert_eq!(bench.connect(OTHER, "never"), None, "others wait");
    bench.core.tick(SECOND);
    bench.collect();
    assert_eq!(bench.connect(ATTACKER, "never"), None, "those that gave up count no longer");
}

#[test]
fn full_backlog_queues_callers_in_order() {
    let mut bench = bench("backlog = 2");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    bench.attach((HOST, 3));
    bench.export(ATTACKER, "slow");
    bench.export((HOST, 3), "quick");
    for _ in 0..2 {
        assert!(matches!(bench.connect(OTHER, "slow"), Some(Reply::Connect { .. })));
    }
    assert_eq!(bench.connect(OTHER, "slow"), None, "it waits");
    assert!(matches!(bench.connect(OTHER, "quick"), Some(Reply::Connect { .. })), "others are served");
    bench.delivered.clear();
    bench.ask(ATTACKER, Request::Accepted { count: 1 });
    assert!(matches!(bench.answer(OTHER), Some(Reply::Connect { .. })), "its turn came");
    assert_eq!(bench.connect(OTHER, "slow"), None, "full again");
    bench.core.tick(SECOND);
    bench.collect();
    assert_limit(bench.answer(OTHER), "backlog");
    // Reporting the acceptance of channels that never existed makes no room beyond the limit.
    bench.ask(ATTACKER, Request::Accepted { count: u32::MAX });
    for _ in 0..2 {
        assert!(matches!(bench.connect(OTHER, "slow"), Some(Reply::Connect { .. })));
    }
    assert_eq!(bench.connect(OTHER, "slow"), None);
}

#[test]
fn waiting_callers_do_not_exceed_the_backlog() {
    let mut bench = bench("backlog = 2");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    for _ in 0..3 {
        assert_eq!(bench.connect(OTHER, "late"), None);
    }
    bench.export(ATTACKER, "late");
    let incoming = |bench: &Bench| {
        let incoming = |reply: &Reply| matches!(reply, Reply::Incoming { .. });
        bench.delivered.iter().filter(|(_, message, ..)| incoming(&message.body)).count()
    };
    assert_eq!(incoming(&bench), 2);
    assert_eq!(bench.delivered[0].1.body, Reply::Export { listener: 1 }, "the listener is known first");
    bench.ask(ATTACKER, Request::Accepted { count: 1 });
    assert_eq!(incoming(&bench), 1);
}

#[test]
fn channels_across_a_window() {
    let mut bench = bench("window_channels_per_domain = 3");
    bench.attach((ARM0, 1));
    bench.attach((ARM0, 2));
    bench.attach(OTHER);
    bench.export(OTHER, "outside");
    let mut first = None;
    for _ in 0..3 {
        let Some(Reply::Connect { grant }) = bench.connect((ARM0, 1), "outside") else { panic!() };
        first.get_or_insert(grant.channel);
    }
    assert_limit(bench.connect((ARM0, 1), "outside"), "window_channels_per_domain");
    assert!(matches!(bench.connect((ARM0, 2), "outside"), Some(Reply::Connect { .. })), "others may");
    for node in [ARM0, HOST] {
        bench.report(node, Report::Released { channel: first.unwrap() });
    }
    assert!(matches!(bench.connect((ARM0, 1), "outside"), Some(Reply::Connect { .. })));
    assert_limit(bench.connect((ARM0, 1), "outside"), "window_channels_per_domain");
}

#[test]
fn connections_of_a_process() {
    let mut bench = bench("connections_per_process = 2");
    // The bench gives every client the process 7.
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    bench.delivered.clear();
    bench.report(HOST, Report::Joined { connection: 3, pid: 7, domain: None });
    let (client, message, ..) = bench.delivered.first().expect("it is told why");
    assert_eq!((*client, message.request), ((HOST, 3), 0));
    assert_limit(Some(message.body.clone()), "connections_per_process");
    assert_eq!(bench.orders.last(), Some(&(HOST, Order::Dismiss { connection: 3 })));
    let attach = Request::Attach { version: 0, program: String::new() };
    assert_eq!(bench.ask((HOST, 3), attach), None, "it is not there");
    bench.delivered.clear();
    bench.report(HOST, Report::Joined { connection: 4, pid: 8, domain: None });
    assert_eq!(bench.delivered, [], "other processes are welcome");
    bench.report(HOST, Report::Left { connection: 1 });
    bench.attach((HOST, 5));
}

#[test]
fn connections_to_a_node() {
    let mut bench = bench("connections_per_node = 2");
    for connection in [1, 2, 3] {
        bench.delivered.clear();
        bench.report(HOST, Report::Joined { connection, pid: 100 + connection as i32, domain: None });
        assert_eq!(bench.delivered.len(), usize::from(connection == 3));
    }
    assert_limit(Some(bench.delivered[0].1.body.clone()), "connections_per_node");
    bench.attach((ARM0, 1));
}

#[test]
fn domains_on_a_node() {
    let mut bench = bench("domains_per_node = 2");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    bench.report(HOST, Report::Joined { connection: 3, pid: 7, domain: None });
    let version = tombolo_control::FINGERPRINT;
    let attach = || Request::Attach { version, program: String::new() };
    assert_limit(bench.ask((HOST, 3), attach()), "domains_per_node");
    start(&mut bench, ATTACKER);
    let second = start(&mut bench, ATTACKER);
    assert_limit(start_another(&mut bench), "domains_per_node");
    bench.report(ARM0, Report::Ended { domain: second, exit: Exit::Exited { status: 0 } });
    start(&mut bench, ATTACKER);
    bench.report(HOST, Report::Left { connection: 2 });
    assert!(matches!(bench.ask((HOST, 3), attach()), Some(Reply::Attach { .. })));
}

#[test]
fn children() {
    let mut bench = bench("children_per_domain = 2");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    start(&mut bench, ATTACKER);
    let second = start(&mut bench, ATTACKER);
    assert_limit(start_another(&mut bench), "children_per_domain");
    start(&mut bench, OTHER);
    bench.report(ARM0, Report::Ended { domain: second, exit: Exit::Exited { status: 0 } });
    start(&mut bench, ATTACKER);
}

/// Returns the attacker's answer when it starts another domain on arm0.
fn start_another(bench: &mut Bench) -> Option<Reply> {
    bench.spawn(ATTACKER, "arm0")
}

#[test]
fn pending_console_input_is_limited() {
    let mut bench = bench("");
    bench.attach(ATTACKER);
    let typed = |bytes: usize| Request::ConsoleInput { node: "arm0".into(), bytes: vec![b'x'; bytes] };
    // More than one message holds.
    let half = MAX_PENDING_INPUT_BYTES / 2;
    assert_eq!(bench.ask(ATTACKER, typed(half)), Some(Reply::Done));
    assert_eq!(bench.ask(ATTACKER, typed(MAX_PENDING_INPUT_BYTES - half - 1)), Some(Reply::Done));
    assert_eq!(bench.ask(ATTACKER, typed(1)), Some(Reply::Done));
    assert_limit(bench.ask(ATTACKER, typed(1)), "typed");
    bench.core.set_pending_console_input(ARM0, MAX_PENDING_INPUT_BYTES - 1);
    assert_eq!(bench.ask(ATTACKER, typed(1)), Some(Reply::Done));
    assert_limit(bench.ask(ATTACKER, typed(1)), "typed");
}

#[test]
fn repeated_kills_do_not_accumulate() {
    let mut bench = bench("");
    bench.attach(ATTACKER);
    let domain: DomainId = start(&mut bench, ATTACKER);
    let kill =
        |seconds: u64| Request::Kill { domain, signal: 15, grace: std::time::Duration::from_secs(seconds) };
    for seconds in [30, 20, 40] {
        assert_eq!(bench.ask(ATTACKER, kill(seconds)), Some(Reply::Done));
    }
    assert_eq!(bench.core.pending_kills.len(), 1);
    assert_eq!(bench.core.next_tick(), Some(20 * SECOND as Nanos), "the earliest holds");
}

#[test]
fn output_is_acknowledged_by_its_reader_only() {
    let mut bench = bench("");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    let domain = start(&mut bench, OTHER);
    let taken = || Request::OutputTaken { domain, stream: 1, bytes: 1000 };
    bench.orders.clear();
    bench.ask(ATTACKER, taken());
    assert_eq!(bench.orders, []);
    bench.ask(OTHER, taken());
    assert_eq!(bench.orders, [(ARM0, Order::OutputTaken { domain, stream: 1, bytes: 1000 })]);
}

/// Checks an agent that reuses a number: two clients with one number are successive.
#[test]
fn connection_number_reused_is_a_new_client() {
    let mut bench = bench("");
    let first = bench.attach(ATTACKER);
    bench.export(ATTACKER, "mine");
    let second = bench.attach(ATTACKER);
    assert_ne!(first, second);
    assert!(!bench.core.is_alive(first), "nothing of the first is left");
    assert_eq!(bench.export(ATTACKER, "mine"), Some(Reply::Export { listener: 1 }));
}

#[test]
fn regions_and_their_memory() {
    let create = |bench: &mut Bench, client: ClientId, pages: u64| {
        bench.region(client, in_memory_of("host"), pages * 4096)
    };
    let made = |answer: Option<Reply>| match answer {
        Some(Reply::RegionCreate { capability }) => capability.id,
        other => panic!("{other:?}"),
    };
    let mut bench = bench("regions = 5\nregions_per_domain = 3\nregion_mib_per_domain = 1");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    let first = made(create(&mut bench, ATTACKER, 127));
    made(create(&mut bench, ATTACKER, 128));
    assert_limit(create(&mut bench, ATTACKER, 2), "region_mib_per_domain");
    made(create(&mut bench, ATTACKER, 1));
    assert_limit(create(&mut bench, ATTACKER, 1), "regions_per_domain");
    for _ in 0..2 {
        made(create(&mut bench, OTHER, 1));
    }
    assert_limit(create(&mut bench, OTHER, 1), "regions");
    bench.ask(ATTACKER, Request::CapabilityDelete { capability: first });
    assert_limit(create(&mut bench, ATTACKER, 128), "region_mib_per_domain");
    made(create(&mut bench, ATTACKER, 127));
}

#[test]
fn capabilities_count_for_their_creator() {
    let mut bench = bench("capabilities_per_domain = 3");
    bench.attach(ATTACKER);
    let other = bench.attach(OTHER);
    let Some(Reply::RegionCreate { capability }) = bench.region(ATTACKER, in_memory_of("host"), 1) else {
        panic!("no region");
    };
    let derive = |capability: &CapabilityInfo, holder| Request::CapabilityDerive {
        capability: capability.id,
        extent: None,
        rights: Rights::ALL,
        holder,
        channel: tombolo_base::ChannelId(0),
    };
    let grant = derive(&capability, Some(other));
    for _ in 0..2 {
        assert!(matches!(bench.ask(ATTACKER, grant.clone()), Some(Reply::CapabilityDerive { .. })));
    }
    assert_limit(bench.ask(ATTACKER, grant.clone()), "capabilities_per_domain");
    // A grantee has its own limit.
    let Some(Reply::Capabilities { capabilities, .. }) = bench.ask(OTHER, Request::Capabilities { after: 0 })
    else {
        panic!("no list");
    };
    assert!(matches!(bench.ask(OTHER, derive(&capabilities[0], None)), Some(Reply::CapabilityDerive { .. })));
    bench.ask(OTHER, Request::CapabilityDelete { capability: capabilities[1].id });
    assert!(matches!(bench.ask(ATTACKER, grant), Some(Reply::CapabilityDerive { .. })), "one came back");
}

#[test]
fn mappings() {
    let mut bench = bench("mappings = 3\nmappings_per_domain = 2");
    bench.attach(ATTACKER);
    bench.attach(OTHER);
    let mut map = |client: ClientId| {
        let Some(Reply::RegionCreate { capability }) = bench.region(client, in_memory_of("host"), 1) else {
            panic!("no region");
        };
        bench.ask(client, Request::RegionMap { capability: capability.id, rights: Rights::READ, pool: false })
    };
    for _ in 0..2 {
        assert!(matches!(map(ATTACKER), Some(Reply::RegionMap { .. })));
    }
    assert_limit(map(ATTACKER), "mappings_per_domain");
    assert!(matches!(map(OTHER), Some(Reply::RegionMap { .. })), "others have theirs");
    assert_limit(map(OTHER), "mappings");
    bench.report(HOST, Report::Released { channel: tombolo_base::ChannelId(2) });
    let mut map = |client: ClientId| {
        let Some(Reply::RegionCreate { capability }) = bench.region(client, in_memory_of("host"), 1) else {
            panic!("no region");
        };
        bench.ask(client, Request::RegionMap { capability: capability.id, rights: Rights::READ, pool: false })
    };
    assert!(matches!(map(ATTACKER), Some(Reply::RegionMap { .. })), "what was let go counts no longer");
}
