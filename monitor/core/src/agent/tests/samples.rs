//! Samples: when they are due, and which differences are reported.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tombolo_base::ChannelId;
use tombolo_control::observation::{
    CoreSample, DomainSample, EndSample, MAX_METERS, MAX_SAMPLES, NodeSample, PowerSample,
};
use tombolo_control::{MAX_ORDER_BYTES, Wire};
use tombolo_link::TransportKind;

use super::*;
use crate::agent::{FrequencyChange, SHARE_PPM, SampleRound};

const MS: u64 = 1_000_000;

fn node(cores: usize) -> NodeSample {
    let core = CoreSample {
        load_permille: 5,
        governor: 255,
        frequency_khz: 1,
        min_khz: 1,
        max_khz: 1,
        floor_khz: 1,
        ceiling_khz: 1,
    };
    NodeSample {
        cores: vec![core; cores],
        governors: Vec::new(),
        memory_used_bytes: 1,
        memory_bytes: 2,
        power: Vec::new(),
        speed: 3,
        period_ms: 0,
        cost_ppm: 0,
        own_load_permille: 0,
    }
}

fn sample(index: u32, load_permille: u32) -> DomainSample {
    DomainSample { domain: domain(index), load_permille, resident_bytes: 4096, threads: 1, stopped: false }
}

fn end(index: u32, channel: u64, sent: u64) -> EndSample {
    EndSample {
        domain: domain(index),
        channel: ChannelId(channel),
        accepting: false,
        transport: TransportKind::Shm,
        peer: Some(domain(9)),
        open: true,
        sent,
        sent_bytes: sent,
        received: 0,
        received_bytes: 0,
        rings: 0,
        sleeps: 0,
        stalls: 0,
        slots: 256,
        credit_slots: 256,
        max_message_bytes: 3584,
    }
}

fn round<'a>(domains: &'a [DomainSample], ends: &'a [EndSample], cost_ns: u64) -> SampleRound<'a> {
    SampleRound { node: node(1), domains, ends, cost_ns }
}

/// Returns an agent with domains 1 and 2, processes 51 and 52, that samples every 100 ms.
fn sampling() -> Agent {
    let mut agent = Agent::new();
    agent.tick(1000 * MS);
    agent.child_started(domain(1), 51, &[]);
    agent.child_started(domain(2), 52, &[]);
    agent.execute(Order::Sample { period_ms: 100 }, vec![]).unwrap();
    assert_eq!(actions(&mut agent), [Action::StartSampling]);
    reports(&mut agent);
    agent
}

/// Returns the reports' content: their number, the domains and ends, and the node's sample.
fn take_samples(agent: &mut Agent) -> (usize, Vec<DomainSample>, Vec<EndSample>, NodeSample) {
    let all = reports(agent);
    let (mut domains, mut ends, mut last) = (Vec::new(), Vec::new(), None);
    for report in &all {
        assert!(last.is_none(), "the node comes last");
        assert!(report.to_bytes().unwrap().len() <= MAX_ORDER_BYTES);
        let Report::Sampled { node, domains: some, ends: others } = report else { panic!("{report:?}") };
        domains.extend(some.iter().copied());
        ends.extend(others.iter().cloned());
        last.clone_from(node);
    }
    (all.len(), domains, ends, last.expect("the node is told every time"))
}

#[test]
fn sampling_rounds_are_due_until_disabled() {
    let mut agent = sampling();
    assert_eq!(agent.next_tick(), Some(1100 * MS));
    agent.tick(1099 * MS);
    assert!(actions(&mut agent).is_empty());
    agent.tick(1105 * MS);
    assert_eq!(actions(&mut agent), [Action::Sample]);
    assert_eq!(agent.next_tick(), Some(1205 * MS));
    // A root that is behind gets no report.
    agent.set_requests_enabled(false);
    agent.tick(1205 * MS);
    assert!(actions(&mut agent).is_empty());
    agent.set_requests_enabled(true);
    // A new period counts from the last round, and unchanged values are not repeated.
    agent.execute(Order::Sample { period_ms: 0 }, vec![]).unwrap();
    agent.execute(Order::Sample { period_ms: 0 }, vec![]).unwrap();
    assert_eq!(actions(&mut agent), [Action::StopSampling]);
    assert_eq!(agent.next_tick(), None);
    agent.tick(5000 * MS);
    agent.execute(Order::Sample { period_ms: 1 }, vec![]).unwrap();
    agent.execute(Order::Sample { period_ms: 2 }, vec![]).unwrap();
    assert_eq!(actions(&mut agent), [Action::StartSampling]);
    assert_eq!(agent.next_tick(), Some(5010 * MS), "not quicker than a hundred times a second");
}

#[test]
fn sampling_cost_delays_the_next_round() {
    let mut agent = sampling();
    agent.tick(1100 * MS);
    actions(&mut agent);
    agent.sampled(round(&[], &[], 3 * MS));
    let (_, _, _, node) = take_samples(&mut agent);
    assert_eq!((node.period_ms, u64::from(node.cost_ppm)), (1000, SHARE_PPM));
    assert_eq!(agent.next_tick(), Some(2100 * MS));
    // Then the cost of the reports becomes known; it is the estimate for the next round.
    agent.record_round_cost(6 * MS, 3 * MS);
    assert_eq!(agent.next_tick(), Some(3100 * MS));
    agent.tick(3100 * MS);
    agent.sampled(round(&[], &[], 0));
    assert_eq!(take_samples(&mut agent).3.period_ms, 1000);
    agent.record_round_cost(150_000, 50_000);
    assert_eq!(agent.next_tick(), Some(3200 * MS), "what is wanted, if it costs less");
    agent.tick(3200 * MS);
    agent.sampled(round(&[], &[], u64::MAX / 2));
    assert_eq!(take_samples(&mut agent).3.period_ms, u32::MAX);
}

#[test]
fn unchanged_samples_are_not_reported_again() {
    let mut agent = sampling();
    let one_round = |agent: &mut Agent, domains: &[DomainSample], ends: &[EndSample]| {
        agent.sampled(round(domains, ends, 0));
        take_samples(agent)
    };
    let (count, domains, ends, _) =
        one_round(&mut agent, &[sample(1, 5), sample(2, 6)], &[end(1, 7, 0), end(2, 8, 0)]);
    assert_eq!((count, domains.len(), ends.len()), (1, 2, 2));
    let (count, domains, ends, _) =
        one_round(&mut agent, &[sample(1, 5), sample(2, 7)], &[end(1, 7, 0), end(2, 8, 3)]);
    assert_eq!((count, domains, ends), (1, vec![sample(2, 7)], vec![end(2, 8, 3)]));
    // Samples of a domain that is not one of this agent's are dropped.
    let (_, domains, ends, _) = one_round(&mut agent, &[sample(3, 5)], &[end(3, 7, 0)]);
    assert_eq!((domains, ends), (vec![], vec![]));
    // A closed end is reported once, including one opened and closed between rounds.
    let closed = |end| EndSample { open: false, ..end };
    let (_, _, ends, _) = one_round(&mut agent, &[], &[closed(end(1, 7, 4)), closed(end(1, 9, 1))]);
    assert_eq!(ends, [closed(end(1, 7, 4)), closed(end(1, 9, 1))]);
    // After a stop everything is reported again.
    agent.execute(Order::Sample { period_ms: 0 }, vec![]).unwrap();
    agent.execute(Order::Sample { period_ms: 100 }, vec![]).unwrap();
    let (_, domains, ends, _) = one_round(&mut agent, &[sample(2, 7)], &[end(2, 8, 3)]);
    assert_eq!((domains.len(), ends.len()), (1, 1));
}

#[test]
fn channel_ends_of_a_dead_domain_are_closed() {
    let mut agent = sampling();
    agent.sampled(round(&[sample(1, 5)], &[end(1, 7, 1), end(1, 8, 1), end(2, 9, 1)], 0));
    reports(&mut agent);
    agent.child_exited(domain(1), Exit::Exited { status: 0 });
    reports(&mut agent);
    // The page of one had a final change; the other is unchanged.
    agent.sampled(round(&[sample(1, 9)], &[end(1, 7, 2)], 0));
    let (_, domains, ends, _) = take_samples(&mut agent);
    let closed = |end| EndSample { open: false, ..end };
    assert_eq!((domains, ends), (vec![], vec![closed(end(1, 7, 2)), closed(end(1, 8, 1))]));
    agent.sampled(round(&[], &[end(1, 7, 3)], 0));
    assert_eq!(take_samples(&mut agent).2, []);
    let held: usize =
        agent.resource_counts().iter().filter(|(name, _)| name.starts_with("sampled")).map(|(_, n)| n).sum();
    assert_eq!(held, 2, "domain 2 and its end");
}

#[test]
fn domain_is_sampled_while_child_or_client() {
    let mut agent = sampling();
    let pids = |agent: &Agent| agent.processes().map(|(_, pid)| pid).collect::<Vec<i32>>();
    let admit = |agent: &mut Agent, pid, index| {
        let connection = agent.client_connected(pid, true).unwrap();
        agent.execute(Order::Admitted { connection, domain: domain(index) }, vec![]).unwrap();
        connection
    };
    let child = admit(&mut agent, 51, 1);
    let (first, second) = (admit(&mut agent, 90, 3), admit(&mut agent, 91, 3));
    assert_eq!(pids(&agent), [51, 52, 90]);
    agent.child_exited(domain(1), Exit::Exited { status: 0 });
    assert_eq!(pids(&agent), [51, 52, 90], "its connection is still there");
    agent.client_disconnected(child);
    agent.client_disconnected(first);
    assert_eq!(pids(&agent), [52, 90]);
    agent.execute(Order::Dismiss { connection: second }, vec![]).unwrap();
    assert_eq!(pids(&agent), [52]);
    let other = admit(&mut agent, 92, 4);
    agent.execute(Order::Admitted { connection: other, domain: domain(5) }, vec![]).unwrap();
    assert_eq!(agent.processes().collect::<Vec<_>>(), [(domain(2), 52), (domain(5), 92)]);
    agent.children_destroyed();
    agent.client_disconnected(other);
    assert!(pids(&agent).is_empty());
}

#[test]
fn large_round_is_split_into_reports() {
    let mut agent = sampling();
    for index in 3..900 {
        agent.child_started(domain(index), index as i32, &[]);
    }
    reports(&mut agent);
    let domains: Vec<DomainSample> = (1..900).map(|index| sample(index, 1)).collect();
    let ends: Vec<EndSample> = (0..2000).map(|channel| end(1, channel, 1)).collect();
    let power = PowerSample { name: "x".repeat(64), power_mw: 1 };
    let node = NodeSample {
        governors: vec!["y".repeat(32); 16],
        power: vec![power; MAX_METERS as usize],
        ..node(1024)
    };
    agent.sampled(SampleRound { node: node.clone(), domains: &domains, ends: &ends, cost_ns: 0 });
    let (count, reported_domains, reported_ends, reported_node) = take_samples(&mut agent);
    assert!((9..16).contains(&count), "{count}");
    assert_eq!((reported_domains, reported_ends), (domains, ends));
    assert_eq!(reported_node.cores, node.cores);
    // For any number of ends the last report has the remainder and the node.
    for ends in [1, 150, 255, 256, 257, 400] {
        let ends: Vec<EndSample> = (0..ends).map(|channel| end(2, 5000 + channel, ends)).collect();
        agent.sampled(SampleRound { node: node.clone(), domains: &[], ends: &ends, cost_ns: 0 });
        assert_eq!(take_samples(&mut agent).2.len(), ends.len());
    }
    assert_eq!(MAX_SAMPLES, 256);
}

#[test]
fn probe_and_frequency_orders_are_answered() {
    let mut agent = Agent::new();
    agent.execute(Order::Probe { ticket: 4 }, vec![]).unwrap();
    assert_eq!(reports(&mut agent), [Report::Probed { ticket: 4 }]);
    let order = Order::SetFrequency {
        ticket: 5,
        cores: vec![1],
        governor: Some("powersave".into()),
        min_khz: None,
        max_khz: Some(7),
    };
    agent.execute(order, vec![]).unwrap();
    agent.execute(Order::RestoreFrequency, vec![]).unwrap();
    assert_eq!(agent.execute(Order::Stop, vec![]), Err(Stopped));
    let change = FrequencyChange {
        cores: vec![1],
        governor: Some("powersave".into()),
        min_khz: None,
        max_khz: Some(7),
    };
    let expected =
        [Action::SetFrequency { ticket: 5, change }, Action::RestoreFrequency, Action::RestoreFrequency];
    assert_eq!(actions(&mut agent), expected, "nothing stays set when it stops");
    agent.frequency_set(5, Err("no".into()));
    agent.frequency_set(6, Ok(()));
    let set = |ticket, failed: Option<&str>| Report::FrequencySet { ticket, failed: failed.map(Into::into) };
    assert_eq!(reports(&mut agent), [set(5, Some("no")), set(6, None)]);
}

/// Event of an agent that samples.
#[derive(Clone, Debug)]
enum Step {
    Start(u32),
    End(u32),
    Round(Vec<(u32, u32)>, Vec<(u32, u64, u64, bool)>),
}

fn step() -> impl Strategy<Value = Step> {
    let index = 1..9_u32;
    prop_oneof![
        index.clone().prop_map(Step::Start),
        index.clone().prop_map(Step::End),
        (
            prop::collection::vec((index.clone(), 0..3_u32), 0..6),
            prop::collection::vec((index, 1..4_u64, 0..3_u64, any::<bool>()), 0..8)
        )
            .prop_map(|(domains, ends)| Step::Round(domains, ends)),
    ]
}

proptest! {
    /// Checks that a reader of the differences knows the last sample of every living domain, and has no open
    /// end of the others.
    #[test]
    fn reported_differences_sum_to_the_state(steps in prop::collection::vec(step(), 0..60)) {
        let mut agent = Agent::new();
        agent.execute(Order::Sample { period_ms: 100 }, vec![]).unwrap();
        let (mut seen_domains, mut seen_ends) = (BTreeMap::new(), BTreeMap::new());
        let (mut known_domains, mut known_ends) = (BTreeMap::new(), BTreeMap::new());
        // Domain numbers are never reused.
        let (mut live, mut ever) = (BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Start(index) => if ever.insert(index) {
                    live.insert(index);
                    agent.child_started(domain(index), index as i32, &[]);
                },
                Step::End(index) => if live.remove(&index) {
                    agent.child_exited(domain(index), Exit::Exited { status: 0 });
                    for stream in [1, 2] {
                        agent.output_read(domain(index), stream, Vec::new());
                    }
                    seen_domains.retain(|of, _| *of != domain(index));
                    known_domains.retain(|of, _| *of != domain(index));
                    seen_ends.retain(|(of, _), _| *of != domain(index));
                },
                Step::Round(domains, ends) => {
                    let domains: Vec<DomainSample> =
                        domains.into_iter().map(|(index, load)| sample(index, load)).collect();
                    let ends: Vec<EndSample> = ends.into_iter()
                        .map(|(index, channel, sent, open)| EndSample { open, ..end(index, channel, sent) })
                        .collect();
                    for sample in domains.iter().filter(|one| live.contains(&one.domain.index())) {
                        seen_domains.insert(sample.domain, *sample);
                    }
                    for end in ends.iter().filter(|one| live.contains(&one.domain.index())) {
                        match end.open {
                            true => seen_ends.insert((end.domain, end.channel), end.clone()),
                            false => seen_ends.remove(&(end.domain, end.channel)),
                        };
                    }
                    reports(&mut agent);
                    agent.sampled(round(&domains, &ends, 0));
                    let (_, domains, ends, _) = take_samples(&mut agent);
                    known_domains.extend(domains.into_iter().map(|sample| (sample.domain, sample)));
                    for end in ends {
                        match end.open {
                            true => known_ends.insert((end.domain, end.channel), end.clone()),
                            false => known_ends.remove(&(end.domain, end.channel)),
                        };
                    }
                    prop_assert_eq!(&known_domains, &seen_domains);
                    prop_assert_eq!(&known_ends, &seen_ends);
                }
            }
        }
    }
}
