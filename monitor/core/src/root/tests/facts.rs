//! Facts about nodes and links.

use tombolo_control::observation::NodeSample;
use tombolo_naming::{NameFault, Query, Record, Value, parse_query};

use super::*;

const ASKER: ClientId = (HOST, 1);

fn ask(bench: &mut Bench, now: u64, query: &str) -> Vec<Record> {
    let query: Query = parse_query(query).unwrap();
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        match bench.ask_at(now, ASKER, Request::Facts { query: query.clone(), from }) {
            Some(Reply::Facts { records, next, more }) => {
                all.extend(records);
                if !more {
                    return all;
                }
                assert!(next > from);
                from = next;
            }
            other => panic!("{other:?}"),
        }
    }
}

fn names(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.name.as_str()).collect()
}

fn sample(loads: &[u16], speed: u32) -> Report {
    let node = NodeSample { speed, ..super::observing::samples::of_node(loads) };
    Report::Sampled { node: Some(node), domains: vec![], ends: vec![] }
}

#[test]
fn nodes_and_links_are_facts() {
    let mut bench = Bench::up(4);
    bench.attach(ASKER);
    let all = ask(&mut bench, 0, "_");
    assert_eq!(
        names(&all),
        ["node/host", "node/arm0", "node/arm1", "link/host/arm0", "link/host/arm1", "link/arm0/arm1"]
    );
    let arm0 = &all[1];
    assert_eq!(arm0.text("isa"), Ok("aarch64"));
    assert_eq!((arm0.text("kind"), arm0.bool("up"), arm0.integer("processors")), (Ok("vm"), Ok(true), Ok(2)));
    // A part of the window of 1 MiB is reserved for the monitors.
    assert!(arm0.integer("window_bytes").is_ok_and(|bytes| (1 << 16..1 << 20).contains(&bytes)));
    // Attributes without samples are absent.
    assert!(!arm0.attributes.contains_key("free_permille") && !arm0.attributes.contains_key("rounds_per_ms"));
    assert_eq!(names(&ask(&mut bench, 0, "link/* { hops > 1 }")), ["link/arm0/arm1"]);
    assert_eq!(names(&ask(&mut bench, 0, "node/* { isa: 'x86_64' }")), ["node/host"]);
}

#[test]
fn fact_reflects_the_last_sample_and_expires() {
    let mut bench = Bench::up(4);
    bench.attach(ASKER);
    bench.report_at(SECOND, ARM0, sample(&[250, 500], 700));
    let node = ask(&mut bench, SECOND, "node/arm0").remove(0);
    let integers = ["load_permille", "free_permille", "rounds_per_ms", "memory_free_bytes"];
    assert_eq!(integers.map(|name| node.integer(name).unwrap()), [750, 1250, 700, 1 << 30]);
    assert_eq!(ask(&mut bench, SECOND, "node/* { free_permille >= 1250 }").len(), 1);
    let old = ask(&mut bench, 60 * SECOND, "node/arm0").remove(0);
    assert!(!old.attributes.contains_key("free_permille"), "a minute later nothing is known of its load");
    bench.core.node_lost(ARM0, "killed");
    bench.collect();
    assert_eq!(ask(&mut bench, 61 * SECOND, "node/arm0 { up: false }").len(), 1);
    assert_eq!(names(&ask(&mut bench, 61 * SECOND, "link/* { up: true }")), ["link/host/arm1"]);
}

#[test]
fn round_trips_are_measured_to_the_host_and_estimated_between_others() {
    let mut bench = Bench::up(4);
    bench.attach(ASKER);
    for second in 1..=10 {
        bench.report_at(second * SECOND, ARM0, sample(&[0], 1));
        bench.orders.clear();
        let now = (second + 1) * SECOND;
        bench.tick(now);
        for (node, order) in std::mem::take(&mut bench.orders) {
            if let Order::Probe { ticket } = order {
                let time_ns = if node == ARM0 { 1000 } else { 3000 };
                bench.report_at(now + time_ns, node, Report::Probed { ticket });
            }
        }
    }
    let links = ask(&mut bench, 12 * SECOND, "link/*");
    let of = |index: usize| (links[index].integer("round_trip_ns"), links[index].bool("round_trip_measured"));
    assert_eq!(of(0), (Ok(1000), Ok(true)));
    assert_eq!(of(1), (Ok(3000), Ok(true)));
    assert_eq!(of(2), (Ok(4000), Ok(false)), "by the host");
    assert_eq!(links[2].text("via"), Ok("host"));
}

#[test]
fn measured_rate_comes_from_its_record() {
    let mut bench = Bench::up(4);
    bench.attach(ASKER);
    for (name, value) in [
        ("link.costs/host/arm0", Value::Integer(5_000_000_000)),
        ("link.costs/host/arm1", Value::Text("fast".into())),
    ] {
        let operation = tombolo_naming::Operation::Set {
            name: name.into(),
            attributes: [("bytes_per_s".to_owned(), value)].into_iter().collect(),
            remove: vec![],
            mode: tombolo_naming::SetMode::Merge,
            lifetime: tombolo_naming::Lifetime::Persistent,
            condition: tombolo_naming::Condition::Always,
            want_previous: false,
        };
        bench.ask(ASKER, Request::Names { scope: Scope::Machine, operation });
    }
    let links = ask(&mut bench, 0, "link/host/*");
    assert_eq!(links[0].integer("bytes_per_s"), Ok(5_000_000_000));
    assert!(!links[1].attributes.contains_key("bytes_per_s"));
}

#[test]
fn found_link_properties_are_facts() {
    let found = "[[found]]\nbetween = [\"arm0\", \"host\"]\ntransport = \"window\"\nmemory = { \
                 coherence = \"coherent\", order = \"sequential\", widest_store_bytes = 16, atomics = true }\n\
                 cost = { round_trip_ns = 900, latency_ns = [[8, 450], [64, 480]], bytes_per_s = 7000, \
                 bytes_per_s_back = 5000 }\n";
    let mut bench = Bench::up_with(4, found);
    bench.attach(ASKER);
    let links = ask(&mut bench, 0, "link/host/*");
    let integers = ["message_round_trip_ns", "bytes_per_s", "widest_store_bytes"];
    assert_eq!(integers.map(|name| links[0].integer(name).unwrap()), [900, 5000, 16]);
    assert_eq!((links[0].text("order"), links[0].text("latency_ns")), (Ok("sequential"), Ok("8:450 64:480")));
    assert_eq!(links[0].bool("atomics"), Ok(true));
    assert!(!links[1].attributes.contains_key("message_round_trip_ns"), "nothing was found of the other");
    assert_eq!(ask(&mut bench, 0, "link/* { message_round_trip_ns < 1000 }").len(), 1);
}

#[test]
fn many_facts_come_in_pages_and_bad_queries_are_refused() {
    let users: String = (0..120)
        .map(|n| format!("[[node]]\nname = \"u{n}\"\nkind = \"user\"\nisa = \"riscv64\"\n"))
        .collect();
    let mut bench = Bench::up_with(4, &users);
    bench.attach(ASKER);
    let nodes = 123;
    assert_eq!(ask(&mut bench, 0, "_").len(), nodes + nodes * (nodes - 1) / 2);
    let last = ask(&mut bench, 0, "link/u118/u119");
    assert_eq!(names(&last), ["link/u118/u119"]);
    let bad = Request::Facts { query: Query::regex("("), from: 0 };
    assert!(matches!(
        bench.ask(ASKER, bad),
        Some(Reply::Failed { fault: Fault::Name { fault: NameFault::BadPattern { .. } } })
    ));
    let beyond = Request::Facts { query: Query::any(), from: u32::MAX };
    assert_eq!(bench.ask(ASKER, beyond), Some(Reply::Facts { records: vec![], next: u32::MAX, more: false }));
}
