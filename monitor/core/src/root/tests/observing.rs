//! Answers to observers: exactly the changes since a version.

use std::collections::BTreeMap;

use tombolo_control::observation::{
    Happening, NodePhase, Observation, Part, SeenChannel, SeenDomain, SeenEvent, SeenLink, SeenNode,
};

use proptest::prelude::*;
use tombolo_control::{NodeKind, RegionPlace};

use super::super::observing::{MAX_ENDED, MAX_EVENTS};
use super::*;

pub(super) mod samples;

/// State of an observer that applies every answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Replica {
    pub(super) parts: BTreeMap<String, Observation>,
    pub(super) since: u64,
    pub(super) restarts: usize,
}

/// Returns the name of a part.
fn key(part: &Part) -> String {
    match part {
        Part::Node(id) => format!("node {}", id.0),
        Part::Domain { domain } => format!("domain {domain}"),
        Part::Channel(id) => format!("channel {}", id.0),
        Part::Region(id) => format!("region {id}"),
        Part::Link { a, b } => format!("link {} {}", a.0, b.0),
        Part::Event { number } => format!("event {number}"),
    }
}

fn key_of(observation: &Observation) -> String {
    key(&match observation {
        Observation::Node(node) => Part::Node(node.info.id),
        Observation::Domain(domain) => Part::Domain { domain: domain.id },
        Observation::Channel(channel) => Part::Channel(channel.id),
        Observation::Region(region) => Part::Region(region.info.id),
        Observation::Link(link) => Part::Link { a: link.a, b: link.b },
        Observation::Event(event) => Part::Event { number: event.number },
        Observation::Gone { part } => part.clone(),
    })
}

impl Replica {
    /// Applies a page. Returns whether there is more.
    pub(super) fn apply(&mut self, reply: Reply) -> bool {
        let Reply::Observe { observations, until, more, anew, .. } = reply else { panic!("{reply:?}") };
        if anew {
            self.parts.clear();
            self.restarts += 1;
        }
        assert!(until >= self.since || anew, "{until} after {}", self.since);
        self.since = until;
        for observation in observations {
            let key = key_of(&observation);
            match observation {
                Observation::Gone { .. } => drop(self.parts.remove(&key)),
                there => drop(self.parts.insert(key, there)),
            }
        }
        more
    }

    pub(super) fn node(&self, id: NodeId) -> &SeenNode {
        match &self.parts[&format!("node {}", id.0)] {
            Observation::Node(node) => node,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn domain(&self, id: tombolo_base::DomainId) -> Option<&SeenDomain> {
        match self.parts.get(&format!("domain {id}"))? {
            Observation::Domain(domain) => Some(domain),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn channel(&self, id: u64) -> Option<&SeenChannel> {
        match self.parts.get(&format!("channel {id}"))? {
            Observation::Channel(channel) => Some(channel),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn link(&self, a: NodeId, b: NodeId) -> Option<&SeenLink> {
        match self.parts.get(&format!("link {} {}", a.0, b.0))? {
            Observation::Link(link) => Some(link),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn events(&self) -> Vec<&SeenEvent> {
        let events = self.parts.values().filter_map(|part| match part {
            Observation::Event(event) => Some(event),
            _ => None,
        });
        let mut events: Vec<&SeenEvent> = events.collect();
        events.sort_by_key(|event| event.number);
        events
    }

    pub(super) fn events_of(&self, what: Happening) -> Vec<&SeenEvent> {
        self.events().into_iter().filter(|event| event.happening == what).collect()
    }
}

impl Bench {
    /// Sends a request at a given time.
    pub(super) fn ask_at(&mut self, now: u64, client: ClientId, body: Request) -> Option<Reply> {
        let message = ClientMessage { request: 9, body }.to_bytes().unwrap();
        self.delivered.clear();
        self.report_at(now, client.0, Report::Asked { connection: client.1, message });
        self.answer(client)
    }

    pub(super) fn report_at(&mut self, now: u64, node: NodeId, report: Report) {
        self.core.report(now, node, report, None);
        self.collect();
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.core.tick(now);
        self.collect();
    }

    pub(super) fn observe(
        &mut self,
        now: u64,
        client: ClientId,
        since: u64,
        timeout: Duration,
    ) -> Option<Reply> {
        self.ask_at(now, client, Request::Observe { since, timeout })
    }

    /// Updates a replica completely.
    pub(super) fn refresh(&mut self, now: u64, client: ClientId, replica: &mut Replica) {
        loop {
            let reply = self.observe(now, client, replica.since, Duration::ZERO).expect("an answer at once");
            if !replica.apply(reply) {
                return;
            }
        }
    }

    pub(super) fn replica(&mut self, now: u64, client: ClientId) -> Replica {
        let mut replica = Replica::default();
        self.refresh(now, client, &mut replica);
        replica
    }
}

const WATCHER: ClientId = (HOST, 1);
const WAIT: Duration = Duration::from_secs(10);
const MS: u64 = 1_000_000;

#[test]
fn observer_gets_everything_and_then_changes() {
    let mut bench = Bench::up(4);
    let own = bench.attach(WATCHER);
    let mut replica = bench.replica(0, WATCHER);
    let (host, arm) = (replica.node(HOST), replica.node(ARM0));
    assert_eq!((host.info.name.as_str(), host.phase, host.info.domains), ("host", NodePhase::Up, 1));
    assert_eq!((arm.info.kind, arm.info.window_bytes.0, arm.sample.as_ref()), (NodeKind::Vm, 0, None));
    assert_eq!(replica.domain(own).unwrap().program, "test");
    assert_eq!(replica.link(HOST, ARM1).unwrap().transport, TransportKind::Window);
    assert_eq!(replica.link(ARM0, ARM1), None);
    assert_eq!(replica.events_of(Happening::NODE_UP).len(), 3);

    let before = replica.clone();
    let domain = start(&mut bench, WATCHER);
    // Changes in the meantime are combined, some time after the previous answer.
    assert_eq!(bench.observe(MS, WATCHER, replica.since, WAIT), None);
    assert_eq!(bench.core.next_tick(), Some(50 * MS));
    bench.tick(50 * MS - 1);
    assert_eq!(bench.answer(WATCHER), None);
    bench.delivered.clear();
    bench.tick(50 * MS);
    assert!(!replica.apply(bench.answer(WATCHER).unwrap()));
    let changed: Vec<&String> = replica
        .parts
        .iter()
        .filter(|(key, part)| before.parts.get(*key) != Some(part))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(changed, [&format!("domain {domain}"), "event 7", "node 1"]);
    let seen = replica.domain(domain).unwrap();
    assert_eq!((seen.pid, seen.parent, seen.exit.clone(), seen.repeatable), (55, Some(own), None, true));

    // No changes: it waits, and gets an empty answer at the timeout.
    assert_eq!(bench.observe(200 * MS, WATCHER, replica.since, WAIT), None);
    assert_eq!(bench.core.next_tick(), Some(10_200 * MS));
    bench.tick(10_200 * MS);
    let answer = bench.answer(WATCHER).unwrap();
    assert!(
        matches!(&answer, Reply::Observe { observations, anew: false, more: false, .. } if observations.is_empty())
    );
    assert_eq!(bench.core.next_tick(), None);
}

#[test]
fn ended_domain_is_retained_and_a_departed_one_is_not() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let visitor = bench.attach((HOST, 2));
    let domain = start(&mut bench, WATCHER);
    let mut replica = bench.replica(0, WATCHER);
    assert!(replica.domain(visitor).is_some());
    bench.report_at(SECOND, HOST, Report::Left { connection: 2 });
    bench.report_at(SECOND, ARM0, Report::Ended { domain, exit: Exit::Exited { status: 3 } });
    bench.refresh(SECOND, WATCHER, &mut replica);
    assert_eq!(replica.domain(visitor), None);
    let ended = replica.domain(domain).unwrap();
    assert_eq!((ended.exit.clone(), ended.ended_ns), (Some(Exit::Exited { status: 3 }), SECOND));
    assert_eq!(replica.events_of(Happening::DOMAIN_ENDED)[0].text, "test with status 3");
    assert_eq!(replica, {
        let mut all = bench.replica(2 * SECOND, WATCHER);
        all.since = replica.since;
        all
    });
}

#[test]
fn wall_and_monotonic_clocks_are_distinct() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    for (now, wall) in [(5, 1_000), (7, 2), (9, u64::MAX)] {
        bench.core.set_wall_clock(now, wall);
        let Some(Reply::Observe { now_ns, wall_ns, .. }) = bench.observe(now, WATCHER, 0, Duration::ZERO)
        else {
            panic!()
        };
        assert_eq!((now_ns, wall_ns), (now, wall));
    }
}

/// Starts a domain on arm0, which ends immediately.
fn start_and_end_domain(bench: &mut Bench) {
    let domain = start(bench, WATCHER);
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
}

#[test]
fn observer_too_far_behind_restarts_from_scratch() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    bench.attach((HOST, 2));
    let first = bench.replica(0, WATCHER);
    // An observer that keeps up never has to start over, however many parts are gone by then.
    let (mut late, mut close) = (first.clone(), first);
    for _ in 0..6000 {
        start_and_end_domain(&mut bench);
        bench.refresh(0, (HOST, 2), &mut close);
    }
    assert_eq!(close.restarts, 0);
    bench.refresh(0, WATCHER, &mut late);
    assert_eq!((late.restarts, &late.parts), (1, &close.parts));
    // A version that this monitor never issued belongs to another one.
    let Some(Reply::Observe { anew: true, .. }) = bench.observe(SECOND, WATCHER, u64::MAX, WAIT) else {
        panic!()
    };
}

#[test]
fn unreported_part_leaves_no_trace() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    for _ in 0..3000 {
        start_and_end_domain(&mut bench);
    }
    let replica = bench.replica(0, WATCHER);
    assert_eq!(replica.events().len(), MAX_EVENTS);
    assert_eq!(replica.parts.keys().filter(|key| key.starts_with("domain")).count(), 1 + MAX_ENDED);
    let (there, gone) = bench.core.observing.versions.counts();
    assert_eq!((there, gone), (replica.parts.len(), 0));
}

#[test]
fn last_ended_domains_and_events_are_retained() {
    for ended in [MAX_ENDED - 1, MAX_ENDED, MAX_ENDED + 1] {
        let mut bench = Bench::up(4);
        bench.attach(WATCHER);
        let mut replica = bench.replica(0, WATCHER);
        for _ in 0..ended {
            start_and_end_domain(&mut bench);
            bench.refresh(0, WATCHER, &mut replica);
        }
        let remembered = replica.parts.keys().filter(|key| key.starts_with("domain")).count() - 1;
        assert_eq!(remembered, ended.min(MAX_ENDED));
        // Those of the nodes, and two for each domain.
        assert_eq!(replica.events().len(), (6 + 2 * ended).min(MAX_EVENTS));
        assert_eq!(replica.events().last().unwrap().number, 6 + 2 * ended as u64);
    }
}

#[test]
fn burst_is_combined_into_few_answers() {
    let mut bench = Bench::up(4);
    let watchers = [WATCHER, (HOST, 2)];
    let mut replicas: Vec<Replica> = watchers
        .iter()
        .map(|watcher| {
            bench.attach(*watcher);
            bench.replica(0, *watcher)
        })
        .collect();
    let mut answers = [0; 2];
    for (watcher, replica) in watchers.iter().zip(&replicas) {
        assert_eq!(bench.observe(1, *watcher, replica.since, WAIT), None);
    }
    for now in (1..1000).map(|ms| ms * MS) {
        start_and_end_domain(&mut bench);
        bench.delivered.clear();
        bench.tick(now);
        let told = watchers.map(|watcher| bench.answer(watcher));
        for (which, reply) in told.into_iter().enumerate() {
            let Some(mut reply) = reply else { continue };
            answers[which] += 1;
            // Further pages follow immediately; then it waits again.
            while replicas[which].apply(reply.clone()) {
                let since = replicas[which].since;
                reply = bench.observe(now, watchers[which], since, WAIT).unwrap();
            }
            let since = replicas[which].since;
            assert_eq!(bench.observe(now, watchers[which], since, WAIT), None);
        }
    }
    assert!(answers.iter().all(|answers| (15..=20).contains(answers)), "{answers:?}");
    bench.delivered.clear();
    bench.tick(2000 * MS);
    // Each has one waiting request, and gets the changes.
    let told = watchers.map(|watcher| bench.answer(watcher).unwrap());
    for ((watcher, replica), told) in watchers.iter().zip(&mut replicas).zip(told) {
        replica.apply(told);
        bench.refresh(3000 * MS, *watcher, replica);
    }
    assert_eq!(replicas[0].parts, replicas[1].parts);
}

#[test]
fn one_observe_request_waits_and_ends_with_its_client() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    bench.attach((HOST, 2));
    let replica = bench.replica(0, (HOST, 2));
    let before = bench.core.resource_counts();
    assert_eq!(bench.observe(SECOND, (HOST, 2), replica.since, WAIT), None);
    // The second request makes the first be answered, which is one answer.
    let other = Reply::Observe {
        observations: vec![],
        until: replica.since,
        more: false,
        anew: false,
        now_ns: SECOND,
        wall_ns: SECOND,
    };
    assert_eq!(bench.observe(SECOND, (HOST, 2), replica.since, WAIT), Some(other));
    assert_ne!(bench.core.resource_counts(), before);
    bench.report(HOST, Report::Left { connection: 2 });
    assert!(
        bench
            .core
            .resource_counts()
            .iter()
            .all(|(what, count)| *what != "observers that wait" || *count == 0)
    );
    assert_eq!(bench.core.next_tick(), None);
}

#[test]
fn pages_are_cut_by_length_and_by_number() {
    let mut bench = Bench::up_with(4, "[limits]\nconnections_per_process = 1000\n");
    (1..=600).for_each(|connection| {
        bench.attach((HOST, connection));
    });
    let (mut replica, mut pages) = (Replica::default(), 0);
    loop {
        let reply = bench.observe(0, WATCHER, replica.since, Duration::ZERO).unwrap();
        let Reply::Observe { observations, .. } = &reply else { panic!() };
        assert!(observations.len() as u64 <= tombolo_control::observation::MAX_OBSERVATIONS);
        let message = MonitorMessage { request: 9 | 80 << 24, body: reply.clone() };
        assert!(message.to_bytes().unwrap().len() <= tombolo_control::MAX_MESSAGE_BYTES);
        pages += 1;
        if !replica.apply(reply) {
            break;
        }
    }
    assert!(pages >= 3, "{pages}");
    assert_eq!(replica.parts.keys().filter(|key| key.starts_with("domain")).count(), 600);
}

#[test]
fn reached_limit_is_a_rate_limited_event() {
    let mut bench = Bench::up_with(4, "[limits]\nnames_per_domain = 1\n");
    bench.attach(WATCHER);
    bench.export(WATCHER, "one");
    for (now, events) in [(0, 1), (1, 1), (999 * MS, 1), (1001 * MS, 2)] {
        let more = Request::Export { scope: Scope::Machine, name: "two".into() };
        assert!(matches!(
            bench.ask_at(now, WATCHER, more),
            Some(Reply::Failed { fault: Fault::Limit { .. } })
        ));
        let replica = bench.replica(now, WATCHER);
        assert_eq!(replica.events_of(Happening::LIMIT_MET).len(), events, "{now}");
    }
    assert!(bench.replica(0, WATCHER).events_of(Happening::LIMIT_MET)[0].text.contains("names_per_domain"));
}

#[test]
fn regions_are_examined_once_a_second() {
    let mut bench = Bench::up(4);
    bench.attach(WATCHER);
    let make = |bench: &mut Bench, now| {
        let place = RegionPlace::Window { node: "arm0".into(), alignment_bytes: 0, coherent: false };
        match bench.ask_at(now, WATCHER, Request::RegionCreate { place, length_bytes: 4096 }) {
            Some(Reply::RegionCreate { capability }) => capability,
            other => panic!("{other:?}"),
        }
    };
    let first = make(&mut bench, SECOND);
    bench.tick(SECOND);
    let mut replica = bench.replica(SECOND, WATCHER);
    assert!(replica.parts.contains_key(&format!("region {}", first.region)));
    assert_eq!(replica.node(ARM0).info.window_bytes.0, 4096);
    let second = make(&mut bench, SECOND + 1);
    assert_eq!(bench.core.next_tick(), Some(2 * SECOND));
    bench.tick(2 * SECOND - 1);
    bench.refresh(2 * SECOND - 1, WATCHER, &mut replica);
    assert!(!replica.parts.contains_key(&format!("region {}", second.region)));
    bench.tick(2 * SECOND);
    let delete = Request::CapabilityDelete { capability: first.id };
    assert_eq!(bench.ask_at(2 * SECOND + 1, WATCHER, delete), Some(Reply::Done));
    bench.tick(3 * SECOND);
    bench.refresh(3 * SECOND, WATCHER, &mut replica);
    let regions: Vec<&String> = replica.parts.keys().filter(|key| key.starts_with("region")).collect();
    assert_eq!(regions, [&format!("region {}", second.region)]);
    let Some(Reply::Holders { capabilities, more: false }) =
        bench.ask_at(3 * SECOND, WATCHER, Request::Holders { region: second.region, after: 0 })
    else {
        panic!()
    };
    assert_eq!(capabilities, std::slice::from_ref(&second));
    let after = Request::Holders { region: second.region, after: second.id.0 };
    let none = Reply::Holders { capabilities: vec![], more: false };
    assert_eq!(bench.ask_at(3 * SECOND, WATCHER, after), Some(none));
}

/// Event while two clients observe.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    End(usize),
    Attach(u32),
    Leave(u32),
    Sample(usize, u32),
    Write(usize),
    Lose,
    Restart,
    /// One of the two requests a page.
    Ask(bool),
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Start),
        3 => (0..8_usize).prop_map(Step::End),
        1 => (10..14_u32).prop_map(Step::Attach),
        1 => (10..14_u32).prop_map(Step::Leave),
        3 => (0..8_usize, 0..1000_u32).prop_map(|(which, load)| Step::Sample(which, load)),
        2 => (0..8_usize).prop_map(Step::Write),
        1 => Just(Step::Lose),
        1 => Just(Step::Restart),
        8 => any::<bool>().prop_map(Step::Ask),
        2 => Just(Step::Pass),
    ]
}

proptest! {
    /// Checks that an observer that applies differences, in any order of events and pages, has the same state
    /// as one that requests everything.
    #[test]
    fn differences_add_up(steps in proptest::collection::vec(step(), 1..60)) {
        let mut bench = Bench::up(4);
        let watchers = [WATCHER, (HOST, 2)];
        watchers.iter().for_each(|watcher| {
            bench.attach(*watcher);
        });
        let mut replicas = [Replica::default(), Replica::default()];
        let (mut domains, mut now) = (Vec::new(), SECOND);
        for step in steps {
            let pick = |which: usize| domains.get(which % domains.len().max(1)).copied();
            match step {
                Step::Start if bench.core.is_up(ARM0) => domains.push(start_at(&mut bench, now, WATCHER)),
                Step::End(which) => {
                    if let Some(domain) = pick(which) {
                        bench.report_at(now, ARM0, Report::Ended { domain, exit: Exit::Exited { status: 1 } });
                    }
                }
                Step::Attach(connection) => {
                    bench.attach((ARM1, connection));
                }
                Step::Leave(connection) => bench.report_at(now, ARM1, Report::Left { connection }),
                Step::Sample(which, load_permille) => {
                    let samples = pick(which).map(|domain| samples::of_domain(domain, load_permille));
                    bench.report_at(now, ARM0, samples::sampled(samples.into_iter().collect(), vec![]));
                }
                Step::Write(which) => {
                    if let Some(domain) = pick(which) {
                        bench.report_at(now, ARM0, Report::Output { domain, stream: 1, bytes: vec![b'x'; 10] });
                    }
                }
                Step::Lose => {
                    bench.core.node_lost(ARM0, "lost");
                    bench.collect();
                }
                Step::Restart if !bench.core.is_up(ARM0) => {
                    bench.ask_at(now, WATCHER, Request::Restart { node: "arm0".into(), force: false });
                    bench.core.node_started(ARM0, 100, Some((1 << 20, 4)));
                    bench.report_at(now, ARM0, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 2, pid: 1 });
                }
                Step::Ask(second) => {
                    let which = usize::from(second);
                    let reply = bench.observe(now, watchers[which], replicas[which].since, Duration::ZERO).unwrap();
                    replicas[which].apply(reply);
                }
                Step::Pass => {
                    now += SECOND;
                    bench.tick(now);
                }
                _ => {}
            }
        }
        let mut all = Replica::default();
        bench.refresh(now, WATCHER, &mut all);
        for (watcher, replica) in watchers.iter().zip(&mut replicas) {
            bench.refresh(now, *watcher, replica);
            prop_assert_eq!(&replica.parts, &all.parts);
        }
    }
}
