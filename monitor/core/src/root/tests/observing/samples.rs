//! Samples of agents, and the derived channels, links and histories.

use tombolo_base::{ChannelId, DomainId};
use tombolo_control::observation::{
    CoreSample, DomainSample, EndSample, Flow, Measure, NodeSample, Part, PowerSample,
};

use super::*;

const IDLE: Flow = Flow { rate_mhz: 0, bytes_per_s: 0 };

pub(super) fn of_domain(domain: DomainId, load_permille: u32) -> DomainSample {
    DomainSample { domain, load_permille, resident_bytes: 1 << 20, threads: 1, stopped: false }
}

/// Returns a sample of a node with a processor for each load.
pub(in crate::root::tests) fn of_node(loads_permille: &[u16]) -> NodeSample {
    let core = |load_permille| CoreSample {
        load_permille,
        governor: 255,
        frequency_khz: 0,
        min_khz: 0,
        max_khz: 0,
        floor_khz: 0,
        ceiling_khz: 0,
    };
    NodeSample {
        cores: loads_permille.iter().map(|load| core(*load)).collect(),
        governors: vec![],
        memory_used_bytes: 1 << 30,
        memory_bytes: 2 << 30,
        power: vec![],
        speed: 1,
        period_ms: 1000,
        cost_ppm: 10,
        own_load_permille: 0,
    }
}

pub(super) fn sampled(domains: Vec<DomainSample>, ends: Vec<EndSample>) -> Report {
    Report::Sampled { node: Some(of_node(&[250; 2])), domains, ends }
}

fn end_of(domain: DomainId, channel: u64, accepting: bool, (sent, received): (u64, u64)) -> EndSample {
    EndSample {
        domain,
        channel: ChannelId(channel),
        accepting,
        transport: TransportKind::Window,
        peer: None,
        open: true,
        sent,
        sent_bytes: 100 * sent,
        received,
        received_bytes: 100 * received,
        rings: 0,
        sleeps: 0,
        stalls: 0,
        slots: 64,
        credit_slots: 64,
        max_message_bytes: 100,
    }
}

fn flow(per_second: u64) -> Flow {
    Flow { rate_mhz: 1000 * per_second, bytes_per_s: 100 * per_second }
}

#[test]
fn every_node_that_is_up_takes_samples_and_is_probed() {
    let mut bench = Bench::up(4);
    let samples = |bench: &Bench, of: NodeId| {
        bench.orders.iter().any(|(node, order)| *node == of && *order == Order::Sample { period_ms: 1000 })
    };
    assert!([HOST, ARM0, ARM1].into_iter().all(|node| samples(&bench, node)));
    bench.attach(WATCHER);
    for second in 1..=10 {
        bench.report_at(second * SECOND, ARM0, sampled(vec![], vec![]));
        bench.orders.clear();
        bench.tick((second + 1) * SECOND);
        let probes: Vec<(NodeId, u64)> = bench
            .orders
            .iter()
            .filter_map(|(node, order)| match order {
                Order::Probe { ticket } => Some((*node, *ticket)),
                _ => None,
            })
            .collect();
        for (node, ticket) in probes {
            assert_ne!(node, HOST, "it is this one");
            bench.report_at((second + 1) * SECOND + 500 + u64::from(node.0), node, Report::Probed { ticket });
            // One probe is enough.
            bench.report_at((second + 1) * SECOND + 900, node, Report::Probed { ticket });
        }
    }
    let replica = bench.replica(12 * SECOND, WATCHER);
    assert_eq!(replica.link(HOST, ARM0).unwrap().round_trip_ns, 501);
    assert_eq!(replica.link(HOST, ARM1).unwrap().round_trip_ns, 502);
    bench.core.node_lost(ARM0, "gone");
    let replica = bench.replica(12 * SECOND, WATCHER);
    assert_eq!(replica.link(HOST, ARM0).unwrap().round_trip_ns, 0);
    assert_eq!(replica.node(ARM0).sample, None);
}

#[test]
fn samples_about_other_nodes_are_ignored() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let domain = start(&mut bench, WATCHER);
    let before = bench.core.resource_counts();
    let (samples, ends) = (vec![of_domain(domain, 5)], vec![end_of(domain, 1, false, (1, 1))]);
    bench.report_at(SECOND, ARM1, sampled(samples.clone(), ends.clone()));
    assert_eq!(bench.core.resource_counts(), before);
    assert_eq!(bench.replica(SECOND, WATCHER).domain(domain).unwrap().sample, None);
    bench.report_at(SECOND, ARM0, sampled(samples.clone(), ends));
    let replica = bench.replica(SECOND, WATCHER);
    assert_eq!(replica.domain(domain).unwrap().sample, Some(samples[0]));
    assert!(replica.channel(1).is_some());
    // An end stays with its domain while that lives, even if the sample of another domain claims it.
    let other = start(&mut bench, WATCHER);
    bench.report_at(2 * SECOND, ARM0, sampled(vec![], vec![end_of(other, 1, false, (7, 7))]));
    let replica = bench.replica(2 * SECOND, WATCHER);
    assert_eq!(replica.channel(1).unwrap().connecting.as_ref().unwrap().domain, domain);
}

#[test]
fn the_rates_of_a_channel_and_its_link_follow_from_its_counts() {
    let mut bench = Bench::up(4);
    let host = bench.attach(WATCHER);
    let arm = start(&mut bench, WATCHER);
    let round = |bench: &mut Bench, second: u64, at_arm: Vec<EndSample>, at_host: Vec<EndSample>| {
        bench.report_at(second * SECOND, ARM0, sampled(vec![], at_arm));
        bench.report_at(second * SECOND, HOST, sampled(vec![], at_host));
        bench.replica(second * SECOND, WATCHER)
    };
    let connecting = |sent, received| end_of(arm, 5, false, (sent, received));
    let accepting = |sent, received| end_of(host, 5, true, (sent, received));
    let replica = round(&mut bench, 1, vec![connecting(10, 0)], vec![accepting(0, 10)]);
    let channel = replica.channel(5).unwrap();
    assert_eq!((channel.forth, channel.back), (IDLE, IDLE), "nobody knows since when");
    assert_eq!(replica.link(HOST, ARM0).unwrap().channels, 1);
    let replica = round(&mut bench, 2, vec![connecting(110, 30)], vec![accepting(30, 105)]);
    let (channel, link) = (replica.channel(5).unwrap(), replica.link(HOST, ARM0).unwrap());
    assert_eq!((channel.forth, channel.back), (flow(100), flow(30)));
    assert_eq!((link.forth, link.back), (flow(30), flow(100)), "it connected from the higher number");
    // A count below the previous one is ignored; an end that is not reported again has no traffic.
    let replica = round(&mut bench, 3, vec![connecting(0, 40)], vec![accepting(60, 105)]);
    let channel = replica.channel(5).unwrap();
    assert_eq!((channel.forth, channel.back), (IDLE, flow(10)));
    let replica = round(&mut bench, 4, vec![], vec![]);
    assert_eq!(replica.channel(5).unwrap().back, IDLE);
    assert_eq!(replica.link(HOST, ARM0).unwrap().forth, IDLE);
    // A closed channel does not count on its link, and is still shown for a while.
    let closed = EndSample { open: false, ..connecting(0, 40) };
    let replica = round(&mut bench, 6, vec![closed.clone()], vec![]);
    assert_eq!(replica.link(HOST, ARM0).unwrap().channels, 0);
    assert!(replica.channel(5).is_some());
    for second in 7..=17 {
        bench.tick(second * SECOND);
        round(&mut bench, second, vec![], vec![]);
    }
    assert_eq!(bench.replica(17 * SECOND, WATCHER).channel(5), None);
    // A closed channel does not return.
    let replica = round(&mut bench, 18, vec![closed], vec![]);
    assert_eq!(replica.channel(5), None);
    assert!(
        bench.core.resource_counts().iter().all(|(what, count)| *what != "ends of channels" || *count == 0)
    );
}

#[test]
fn ping_pong_has_equal_rates_and_a_small_depth() {
    let mut bench = Bench::up(4);
    let host = bench.attach(WATCHER);
    let arm = start(&mut bench, WATCHER);
    let end =
        |domain, accepting, counts| EndSample { credit_slots: 63, ..end_of(domain, 5, accepting, counts) };
    // One end was sampled just before a burst, the other after it.
    for (second, at_arm, at_host) in [(1, (0, 0), (0, 0)), (2, (20_500, 20_499), (58_300, 58_300))] {
        bench.report_at(second * SECOND, ARM0, sampled(vec![], vec![end(arm, false, at_arm)]));
        bench.report_at(second * SECOND, HOST, sampled(vec![], vec![end(host, true, at_host)]));
        bench.tick(second * SECOND);
    }
    let replica = bench.replica(2 * SECOND, WATCHER);
    let channel = replica.channel(5).unwrap();
    assert_eq!((channel.forth, channel.back), (flow(20_500), flow(20_499)));
    bench.tick(3 * SECOND);
    let (.., depths) = points(&mut bench, 3 * SECOND, Part::Channel(ChannelId(5)), Measure::Depth, 0);
    assert_eq!(depths.last(), Some(&2), "one each way: {depths:?}");
}

#[test]
fn channels_end_with_domains_and_links_with_channels() {
    let file = "[[node]]\nname = \"rv\"\nkind = \"user\"\nisa = \"riscv64\"\n";
    let mut bench = Bench::up_with(4, file);
    const RV: NodeId = NodeId(3);
    bench.attach(WATCHER);
    let (arm, rv) = (bench.attach((ARM0, 1)), bench.attach((RV, 1)));
    let before = bench.replica(SECOND, WATCHER);
    assert_eq!((before.link(ARM0, RV), before.link(HOST, RV).is_some()), (None, true));
    let end = EndSample { peer: Some(rv), ..end_of(arm, 1, false, (1, 1)) };
    bench.report_at(SECOND, ARM0, sampled(vec![], vec![end]));
    let mut replica = bench.replica(SECOND, WATCHER);
    let link = replica.link(ARM0, RV).unwrap();
    assert_eq!((link.transport, link.channels), (TransportKind::Window, 1));
    bench.report_at(SECOND, RV, sampled(vec![], vec![end_of(rv, 1, true, (1, 1))]));
    bench.report_at(2 * SECOND, ARM0, Report::Left { connection: 1 });
    bench.refresh(2 * SECOND, WATCHER, &mut replica);
    assert_eq!(replica.link(ARM0, RV), None);
    assert!(!replica.channel(1).unwrap().accepting.as_ref().unwrap().open, "nobody is at its other end");
    bench.report_at(3 * SECOND, RV, Report::Left { connection: 1 });
    bench.refresh(3 * SECOND, WATCHER, &mut replica);
    assert_eq!(replica.channel(1), None);
}

#[test]
fn silent_node_has_zero_rates() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let arm = start(&mut bench, WATCHER);
    for second in 1..=3 {
        let end = EndSample { peer: Some(arm), ..end_of(arm, 1, false, (100 * second, 0)) };
        bench.report_at(second * SECOND, ARM0, sampled(vec![], vec![end]));
        bench.tick(second * SECOND);
    }
    assert_eq!(bench.replica(3 * SECOND, WATCHER).channel(1).unwrap().forth, flow(100));
    (4..=7).for_each(|second| bench.tick(second * SECOND));
    assert_eq!(bench.replica(7 * SECOND, WATCHER).channel(1).unwrap().forth, IDLE);
}

fn points(bench: &mut Bench, now: u64, part: Part, measure: Measure, step_ms: u32) -> (u32, u64, Vec<u64>) {
    match bench.ask_at(now, WATCHER, Request::History { part, measure, step_ms }) {
        Some(Reply::History { step_ms, last_ns, points }) => (step_ms, last_ns, points),
        other => panic!("{other:?}"),
    }
}

/// Makes a node take a sample each second, with the second's number as the load.
fn live(bench: &mut Bench, seconds: std::ops::RangeInclusive<u64>) {
    for second in seconds {
        let node = NodeSample {
            power: vec![PowerSample { name: "all".into(), power_mw: 7 }],
            ..of_node(&[second as u16; 2])
        };
        bench.report_at(
            second * SECOND,
            ARM0,
            Report::Sampled { node: Some(node), domains: vec![], ends: vec![] },
        );
        bench.tick(second * SECOND);
    }
}

#[test]
fn history_is_fine_at_first_and_coarse_for_longer() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    // The first second starts sampling, and has no point.
    live(&mut bench, 1..=131);
    let of_arm = || Part::Node(ARM0);
    let (step, last, fine) = points(&mut bench, 131 * SECOND, of_arm(), Measure::Load, 0);
    assert_eq!((step, last, fine.len()), (1000, 131 * SECOND, 120));
    assert_eq!(fine, (12..=131).map(|second| 2 * second).collect::<Vec<u64>>());
    let (step, last, rough) = points(&mut bench, 131 * SECOND, of_arm(), Measure::Load, 1001);
    assert_eq!((step, last, rough.len()), (10_000, 131 * SECOND, 13));
    assert_eq!(rough[0], (2..=11).map(|second| 2 * second).sum::<u64>() / 10);
    let (step, last, rougher) = points(&mut bench, 131 * SECOND, of_arm(), Measure::Load, 10_001);
    assert_eq!((step, last, rougher.len()), (60_000, 121 * SECOND, 2));
    assert_eq!(points(&mut bench, 131 * SECOND, of_arm(), Measure::Power, 0).2, vec![7; 120]);
    // A minute without samples by the monitor's clock; the wall clock has no influence.
    bench.core.set_wall_clock(131 * SECOND, 5);
    bench.tick(132 * SECOND);
    live(&mut bench, 191..=195);
    bench.core.set_wall_clock(195 * SECOND, u64::MAX);
    let (_, last, fine) = points(&mut bench, 195 * SECOND, of_arm(), Measure::Load, 0);
    assert_eq!((last, fine.len()), (195 * SECOND, 120));
    assert_eq!(&fine[115..], [191, 192, 193, 194, 195].map(|second| 2 * second));
    let gap = fine[..115].iter().rev().take_while(|point| **point == u64::MAX).count();
    assert!((55..=59).contains(&gap), "{gap}: {fine:?}");
}

#[test]
fn missing_history_is_explained() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let domain = start(&mut bench, WATCHER);
    let nobody = DomainId::new(ARM0, core::num::NonZeroU16::MIN, 999);
    let refused = [
        (Part::Node(ARM0), Measure::Rate),
        (Part::Node(NodeId(77)), Measure::Load),
        (Part::Domain { domain }, Measure::Power),
        (Part::Channel(ChannelId(3)), Measure::Rate),
        (Part::Link { a: ARM0, b: ARM1 }, Measure::Rate),
        (Part::Event { number: 1 }, Measure::Load),
    ];
    for (part, measure) in refused {
        let answer = bench.ask_at(0, WATCHER, Request::History { part, measure, step_ms: 0 });
        assert!(matches!(answer, Some(Reply::Failed { fault: Fault::Refused { .. } })), "{answer:?}");
    }
    let part = Part::Domain { domain: nobody };
    let answer = bench.ask_at(0, WATCHER, Request::History { part, measure: Measure::Load, step_ms: 0 });
    assert_eq!(answer, Some(Reply::Failed { fault: Fault::NoSuchDomain { domain: nobody } }));
    assert_eq!(points(&mut bench, 0, Part::Domain { domain }, Measure::Load, 0).2, Vec::<u64>::new());
}

#[test]
fn history_stays_within_its_budget() {
    // Each domain has two measures of 480 bytes: 1 MiB, minus the memory for nodes and links, has room for
    // `fit` domains.
    let mut bench = Bench::up_with(4, "[limits]\nhistory_mib = 1\n");
    bench.attach(WATCHER);
    let domains: Vec<DomainId> = (0..1010).map(|_| start(&mut bench, WATCHER)).collect();
    let room = (1 << 20) - 2 * 2160 - 2 * 2 * 2160;
    let fit = room / 960;
    let live_with = |bench: &mut Bench, count: usize, second: u64| {
        let samples: Vec<DomainSample> =
            domains[..count].iter().map(|domain| of_domain(*domain, 9)).collect();
        for chunk in samples.chunks(256) {
            bench.report_at(second * SECOND, ARM0, sampled(chunk.to_vec(), vec![]));
        }
        bench.tick(second * SECOND);
    };
    live_with(&mut bench, 2, 1);
    let has = |bench: &mut Bench, which: usize| {
        let part = Part::Domain { domain: domains[which] };
        match bench.ask_at(
            90 * SECOND,
            WATCHER,
            Request::History { part, measure: Measure::Load, step_ms: 0 },
        ) {
            Some(Reply::History { points, .. }) => !points.is_empty(),
            Some(Reply::Failed { fault: Fault::Limit { what } }) => {
                assert!(what.contains("history_mib"), "{what}");
                false
            }
            other => panic!("{other:?}"),
        }
    };
    for (count, second) in [(fit - 1, 2), (fit, 3), (fit + 1, 4)] {
        if count > domains.len() {
            break;
        }
        live_with(&mut bench, count, second);
        assert_eq!(has(&mut bench, count - 1), count <= fit, "{count} of {fit}");
    }
    assert!(bench.core.observing.budget.used_bytes() <= 1 << 20);
    // All of it is freed.
    for domain in &domains {
        bench.report_at(
            5 * SECOND,
            ARM0,
            Report::Ended { domain: *domain, exit: Exit::Exited { status: 0 } },
        );
    }
    let of_ended = MAX_ENDED * 960;
    assert!(bench.core.observing.budget.used_bytes() <= 2 * 2160 + 2 * 2 * 2160 + of_ended);
}

#[test]
fn output_is_retained_within_its_limit() {
    let mut bench = Bench::up_with(4, "[limits]\noutput_kib_per_domain = 512\noutput_mib = 1\n");
    bench.attach(WATCHER);
    let domains: Vec<DomainId> = (0..4).map(|_| start(&mut bench, WATCHER)).collect();
    let write = |bench: &mut Bench, which: usize, bytes: usize| {
        for _ in 0..bytes / 1024 {
            let report =
                Report::Output { domain: domains[which], stream: 1, bytes: vec![b'0' + which as u8; 1024] };
            bench.report(ARM0, report);
        }
    };
    let kept = |bench: &mut Bench, which: usize| {
        let (mut after, mut kept) = (0, 0);
        loop {
            match bench.ask(WATCHER, Request::RememberedOutput { domain: domains[which], after }) {
                Some(Reply::RememberedOutput { pieces, next, more, ended, .. }) => {
                    kept += pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>();
                    after = next;
                    if !more {
                        return (kept, ended);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    };
    write(&mut bench, 0, 400 << 10);
    write(&mut bench, 1, 400 << 10);
    bench.report(ARM0, Report::Ended { domain: domains[0], exit: Exit::Exited { status: 0 } });
    assert_eq!((kept(&mut bench, 0), kept(&mut bench, 1)), ((400 << 10, true), (400 << 10, false)));
    // The output of the domain that ended first is dropped first; then half of the largest.
    write(&mut bench, 2, 400 << 10);
    assert_eq!(
        (kept(&mut bench, 0), kept(&mut bench, 1).0, kept(&mut bench, 2).0),
        ((0, true), 400 << 10, 400 << 10)
    );
    write(&mut bench, 3, 400 << 10);
    assert!(bench.core.observing.outputs.retained_bytes() <= 1 << 20);
    let all: usize = (0..4).map(|which| kept(&mut bench, which).0).sum();
    assert!((600 << 10..=1 << 20).contains(&all), "{all}");
    // The client that started the domain still gets all of its output.
    let report = Report::Output { domain: domains[3], stream: 2, bytes: b"oh".to_vec() };
    bench.delivered.clear();
    bench.report(ARM0, report);
    assert!(bench.delivered.iter().any(|(client, message, ..)| *client == WATCHER
        && matches!(&message.body, Reply::Output { stream: 2, bytes, .. } if bytes == b"oh")));
    let side = Report::Output { domain: domains[3], stream: 3, bytes: b"not that".to_vec() };
    let before = kept(&mut bench, 3);
    bench.report(ARM0, side);
    assert_eq!(kept(&mut bench, 3), before);
}

#[test]
fn engines_are_shown_as_programs_measured_them() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let set = |bench: &mut Bench, name: &str, text: &str| {
        let attributes = [("mapped-mapped".to_owned(), tombolo_naming::Value::Text(text.into()))];
        let operation = tombolo_naming::Operation::Set {
            name: name.into(),
            attributes: attributes.into_iter().collect(),
            remove: vec![],
            mode: tombolo_naming::SetMode::Merge,
            lifetime: tombolo_naming::Lifetime::Persistent,
            condition: tombolo_naming::Condition::Always,
            want_previous: false,
        };
        let reply = bench.ask(WATCHER, Request::Names { scope: Scope::Machine, operation });
        assert!(matches!(reply, Some(Reply::Names { .. })), "{reply:?}");
    };
    set(&mut bench, "copy.costs/arm0/caller", "0:100 1048576:1048676");
    set(&mut bench, "copy.costs/arm0/nonsense", "fast");
    set(&mut bench, "copy.costs/arm01/other", "0:1 10:2");
    live(&mut bench, 1..=8);
    let replica = bench.replica(8 * SECOND, WATCHER);
    let engines = &replica.node(ARM0).engines;
    assert_eq!(engines.len(), 1, "{engines:?}");
    assert_eq!((engines[0].name.as_str(), engines[0].latency_ns), ("caller", 100));
    assert!((999_000_000..=1_000_000_000).contains(&engines[0].bytes_per_s), "{engines:?}");
}

#[test]
fn observed_ends_are_limited() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let domains: Vec<DomainId> = (0..5).map(|_| start(&mut bench, WATCHER)).collect();
    let report_ends = |bench: &mut Bench, ends: Vec<EndSample>| {
        for chunk in ends.chunks(256) {
            bench.report_at(SECOND, ARM0, sampled(vec![], chunk.to_vec()));
        }
    };
    let full = |bench: &mut Bench| bench.replica(SECOND, WATCHER).events_of(Happening::LIMIT_MET).len();
    let count = |bench: &Bench| {
        bench
            .core
            .resource_counts()
            .iter()
            .find(|(what, _)| *what == "ends of channels")
            .map_or(0, |(_, count)| *count)
    };
    // The limit of one domain, then the limit of all.
    report_ends(&mut bench, (1..=16_384).map(|id| end_of(domains[0], id, false, (1, 1))).collect());
    assert_eq!((count(&bench), full(&mut bench)), (16_384, 0));
    report_ends(&mut bench, vec![end_of(domains[0], 20_000, false, (1, 1))]);
    assert_eq!((count(&bench), full(&mut bench)), (16_384, 1));
    for (first, domain) in (100_000..).step_by(100_000).zip(&domains[1..4]) {
        report_ends(&mut bench, (0..16_384).map(|id| end_of(*domain, first + id, false, (1, 1))).collect());
    }
    assert_eq!(count(&bench), 65_536);
    report_ends(&mut bench, vec![end_of(domains[4], 999_999, false, (1, 1))]);
    // The other end of an observed channel takes no additional room.
    report_ends(&mut bench, vec![end_of(domains[4], 1, true, (1, 1))]);
    assert_eq!((count(&bench), full(&mut bench)), (65_537, 1));
    bench.report_at(SECOND, ARM0, Report::Ended { domain: domains[1], exit: Exit::Exited { status: 0 } });
    report_ends(&mut bench, vec![end_of(domains[4], 999_999, false, (1, 1))]);
    assert!(bench.replica(SECOND, WATCHER).channel(999_999).is_some());
}
