//! Whoever watches: what changed since a version, and nothing else.

use std::collections::BTreeMap;

use tombolo_control::observation::{
    Flow, Happening, NodePhase, Observation, Part, SeenChannel, SeenDomain, SeenEvent, SeenLink, SeenNode,
};

use super::*;

/// What somebody has who takes in every answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Replica {
    pub(super) parts: BTreeMap<String, Observation>,
    pub(super) since: u64,
    pub(super) anew: usize,
}

/// The name of a part.
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
    /// Takes in a page; whether there is more.
    pub(super) fn take(&mut self, reply: Reply) -> bool {
        let Reply::Observe { observations, until, more, anew, .. } = reply else { panic!("{reply:?}") };
        if anew {
            self.parts.clear();
            self.anew += 1;
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

    pub(super) fn happened(&self, what: Happening) -> Vec<&SeenEvent> {
        self.events().into_iter().filter(|event| event.happening == what).collect()
    }
}

impl Bench {
    /// Asks at a time.
    pub(super) fn ask_at(&mut self, now: u64, client: Client, body: Request) -> Option<Reply> {
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
        client: Client,
        since: u64,
        timeout: Duration,
    ) -> Option<Reply> {
        self.ask_at(now, client, Request::Observe { since, timeout })
    }

    /// Has a replica take in all that there is.
    pub(super) fn refresh(&mut self, now: u64, client: Client, replica: &mut Replica) {
        loop {
            let reply = self.observe(now, client, replica.since, Duration::ZERO).expect("an answer at once");
            if !replica.take(reply) {
                return;
            }
        }
    }

    pub(super) fn replica(&mut self, now: u64, client: Client) -> Replica {
        let mut replica = Replica::default();
        self.refresh(now, client, &mut replica);
        replica
    }
}

const WATCHER: Client = (HOST, 1);
const WAIT: Duration = Duration::from_secs(10);
const MS: u64 = 1_000_000;

#[test]
fn a_watcher_is_told_of_all_and_then_of_what_is_new() {
    let mut bench = Bench::up(4);
    let own = bench.attach(WATCHER);
    let mut replica = bench.replica(0, WATCHER);
    let (host, arm) = (replica.node(HOST), replica.node(ARM0));
    assert_eq!((host.info.name.as_str(), host.phase, host.info.domains), ("host", NodePhase::Up, 1));
    assert_eq!((arm.info.kind.as_str(), arm.info.window_bytes.0, arm.sample.as_ref()), ("vm", 0, None));
    assert_eq!(replica.domain(own).unwrap().program, "test");
    assert_eq!(replica.link(HOST, ARM1).unwrap().transport, TransportKind::Window);
    assert_eq!(replica.link(ARM0, ARM1), None);
    assert_eq!(replica.happened(Happening::NODE_UP).len(), 3);

    let before = replica.clone();
    let domain = start(&mut bench, WATCHER);
    // All that changes in the meantime is told at once, a while after the answer before.
    assert_eq!(bench.observe(MS, WATCHER, replica.since, WAIT), None);
    assert_eq!(bench.core.next_tick(), Some(50 * MS));
    bench.tick(50 * MS - 1);
    assert_eq!(bench.answer(WATCHER), None);
    bench.delivered.clear();
    bench.tick(50 * MS);
    assert!(!replica.take(bench.answer(WATCHER).unwrap()));
    let changed: Vec<&String> = replica
        .parts
        .iter()
        .filter(|(key, part)| before.parts.get(*key) != Some(part))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(changed, [&format!("domain {domain}"), "event 7", "node 1"]);
    let seen = replica.domain(domain).unwrap();
    assert_eq!((seen.pid, seen.parent, seen.exit.clone(), seen.repeatable), (55, Some(own), None, true));

    // Nothing new: it waits, and is told so when the time is up.
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
fn a_domain_that_ended_is_remembered_and_one_that_left_is_not() {
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
    assert_eq!(replica.happened(Happening::DOMAIN_ENDED)[0].text, "test with status 3");
    assert_eq!(replica, {
        let mut all = bench.replica(2 * SECOND, WATCHER);
        all.since = replica.since;
        all
    });
}

#[test]
fn clocks_are_told_apart() {
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

const _: Flow = Flow { rate_mhz: 0, bytes_per_s: 0 };
