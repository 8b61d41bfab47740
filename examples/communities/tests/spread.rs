//! The answer does not depend on the workers.

mod common;

use std::thread;
use std::time::Duration;

use common::{graph_of, planted};
use communities::crew::{Identity, MemberReport, Options, Workers};
use communities::graph::{Csr, Duplicates, Edge};
use communities::port::{LocalHub, LocalPort, Port, PortError};
use communities::random::Random;
use communities::search::{Alone, Communities, SMALL_ARCS, Search};
use communities::{wire, worker};
use proptest::prelude::*;

/// Worker's port that fails after a number of receptions.
struct Mortal {
    port: LocalPort,
    life: u32,
}

impl Port for Mortal {
    fn max_message_bytes(&self) -> usize {
        self.port.max_message_bytes()
    }

    fn try_send(&mut self, message: &[u8]) -> Result<bool, PortError> {
        self.port.try_send(message)
    }

    fn try_recv(&mut self, buffer: &mut Vec<u8>) -> Result<bool, PortError> {
        self.port.try_recv(buffer)
    }

    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), PortError> {
        self.port.send(message, timeout)
    }

    fn recv(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<(), PortError> {
        self.life = self.life.checked_sub(1).ok_or(PortError::Lost("killed".to_owned()))?;
        self.port.recv(buffer, timeout)
    }

    fn wait_any(ports: &mut [&mut Self], timeout: Duration) {
        LocalPort::wait_any(
            &mut ports.iter_mut().map(|mortal| &mut mortal.port).collect::<Vec<_>>(),
            timeout,
        );
    }
}

/// Searches with one worker per entry of `lives`; each ends after that many messages.
fn spread(
    graph: &Csr,
    seed: u64,
    lives: &[u32],
    message_bytes: usize,
    small_arcs: usize,
    options: Options,
) -> (Communities, Vec<MemberReport>, Vec<String>) {
    let hub = LocalHub::default();
    let mut warnings = Vec::new();
    let (found, reports) = thread::scope(|scope| {
        let ports: Vec<_> = lives
            .iter()
            .enumerate()
            .map(|(number, &life)| {
                let (here, port) = hub.channel(3, message_bytes);
                scope.spawn(move || worker::serve(&mut Mortal { port, life }, number as u32));
                (Identity { node: format!("n{number}"), ..Identity::default() }, here)
            })
            .collect();
        let mut crew = Workers::new(ports, options, |warning| warnings.push(warning.to_owned()));
        let found = Search::new(seed)
            .small_below(small_arcs)
            .run(graph, &mut crew)
            .expect("workers may fail, the search not");
        (found, crew.dismiss().0)
    });
    (found, reports, warnings)
}

fn random_graph(random: &mut Random, vertices: u32, edges: u32, weight_max: u32) -> Csr {
    let edges: Vec<Edge> = (0..edges)
        .map(|_| Edge {
            source: random.below(vertices.into()) as u32,
            target: random.below(vertices.into()) as u32,
            weight: random.below(weight_max.into()) + 1,
        })
        .collect();
    Csr::from_edges(vertices as usize, &edges, Duplicates::Add).expect("a valid graph").0
}

fn alone(graph: &Csr, seed: u64) -> Communities {
    alone_but(graph, seed, SMALL_ARCS)
}

fn alone_but(graph: &Csr, seed: u64, small_arcs: usize) -> Communities {
    Search::new(seed).small_below(small_arcs).run(graph, &mut Alone::default()).expect("a search alone")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_number_of_mortal_workers_find_the_same(
        seed: u64,
        vertices in 2u32..400,
        density in 1u32..6,
        weight_max in prop_oneof![Just(1u32), Just(9), Just(u32::MAX)],
        lives in proptest::collection::vec(prop_oneof![Just(u32::MAX), 0u32..300], 1..=5),
        message_bytes in 100usize..600,
        part_cost_min in 1u64..300,
        small_arcs in prop_oneof![Just(0usize), Just(500), Just(SMALL_ARCS)],
    ) {
        let mut random = Random::new(seed);
        let graph = random_graph(&mut random, vertices, vertices * density, weight_max);
        let options = Options { part_cost_min, ..Options::default() };
        let (found, reports, warnings) = spread(&graph, seed, &lives, message_bytes, small_arcs, options);
        prop_assert_eq!(found, alone_but(&graph, seed, small_arcs));
        let lost = reports.iter().filter(|report| report.lost.is_some()).count();
        prop_assert_eq!(lost, warnings.len());
    }
}

#[test]
fn work_is_shared_and_accounted_for() {
    let graph = planted(40, 100, 4, 2, 3);
    let options = Options { part_cost_min: 50, ..Options::default() };
    let (found, reports, warnings) = spread(&graph, 1, &[u32::MAX; 3], 4096, SMALL_ARCS, options);
    assert_eq!(found, alone(&graph, 1));
    assert_eq!(warnings, Vec::<String>::new());
    for report in reports {
        let account = report.account;
        assert_eq!(report.identity.isa, std::env::consts::ARCH);
        assert!(account.parts > 0 && account.arcs > 0 && account.compute_ns > 0, "{account:?}");
        // Hello, the confirmation of the graph, a message per part, and the summary.
        assert_eq!(account.messages_received, account.parts + 3);
        assert!(account.summary.memory_bytes > graph.arcs() as u64 * 4);
        assert!(account.bytes_sent > graph.arcs() as u64 * 4);
    }
}

#[test]
fn a_worker_lost_in_mid_search_is_named_and_replaced() {
    let graph = planted(20, 50, 4, 2, 3);
    let options = Options { part_cost_min: 50, ..Options::default() };
    let (found, reports, warnings) = spread(&graph, 1, &[u32::MAX, 40], 4096, SMALL_ARCS, options);
    assert_eq!(found, alone(&graph, 1));
    assert!(
        warnings[0].contains("on n1") && warnings[0].contains("the other worker takes over"),
        "{warnings:?}"
    );
    assert!(reports[0].lost.is_none() && reports[1].lost.is_some());
}

#[test]
fn a_silent_worker_is_given_up() {
    let graph = graph_of(4, [(0, 1), (1, 2), (2, 3)]);
    let (here, _there) = LocalHub::default().channel(1000, 4096);
    let options = Options { patience: Duration::from_millis(20), ..Options::default() };
    let mut warnings = Vec::new();
    let mut crew =
        Workers::new([(Identity::default(), here)], options, |text| warnings.push(text.to_owned()));
    assert_eq!(Search::new(5).run(&graph, &mut crew).unwrap(), alone(&graph, 5));
    drop(crew);
    assert!(
        warnings[0].contains("owed an answer") && warnings[0].contains("master goes on alone"),
        "{warnings:?}"
    );
}

#[test]
fn a_worker_that_talks_nonsense_is_given_up() {
    let graph = graph_of(4, [(0, 1), (1, 2), (2, 3)]);
    let outside = communities::search::Move { vertex: 3, label: 99 };
    for (nonsense, why) in [
        (vec![], "ends within its kind"),
        (vec![200], "unknown kind"),
        (wire::found(7, 0, 0, &[]), "unsolicited"),
        (wire::found(0, 0, 0, &[outside]), "broke the protocol"),
        (wire::summary(wire::Summary::default()), "an unsolicited summary"),
        (wire::give_up("no memory"), "no memory"),
        ([129, 9, 0, 0, 0, 0, 0, 0, 0, 0].to_vec(), "version 9"),
    ] {
        let (here, mut there) = LocalHub::default().channel(1000, 4096);
        there.try_send(&nonsense).unwrap();
        let mut warnings = Vec::new();
        let mut crew = Workers::new([(Identity::default(), here)], Options::default(), |text| {
            warnings.push(text.to_owned());
        });
        assert_eq!(Search::new(5).run(&graph, &mut crew).unwrap(), alone(&graph, 5));
        drop(crew);
        assert!(warnings[0].contains(why), "{why}: {warnings:?}");
    }
}

#[test]
fn a_worker_refuses_a_master_that_talks_nonsense() {
    let shape = wire::Shape { depth: 0, vertices: 2, arcs: 2, weight_bytes: 0, loops: false };
    let later = wire::Shape { depth: 1, ..shape };
    let offsets = wire::piece_u32(wire::Array::Offsets, 0, &[0, 1, 2]);
    for (orders, why) in [
        (vec![vec![]], "ends within its kind"),
        (vec![wire::work(0, &[0])], "work before a search"),
        (vec![wire::moves(&[])], "work before a search"),
        (vec![wire::refine()], "a refinement before a search"),
        (vec![wire::enter(0, true)], "not sent"),
        (vec![wire::graph(later)], "without the one it was contracted from"),
        (vec![wire::graph(shape), wire::enter(0, true)], "before the graph was complete"),
        (vec![offsets.clone()], "an array of no graph"),
        (vec![wire::graph(shape), wire::piece_u32(wire::Array::Offsets, 1, &[0])], "out of order"),
        (vec![wire::graph(shape), wire::piece_u32(wire::Array::Offsets, 0, &[0; 4])], "too long"),
        (vec![wire::graph(shape), wire::piece_u32(wire::Array::Weights, 0, &[1])], "does not have"),
        (vec![wire::graph(shape), offsets, wire::piece_u32(wire::Array::Targets, 0, &[1, 2])], "vertex 2"),
    ] {
        let (mut here, mut there) = LocalHub::default().channel(1000, 4096);
        for order in &orders {
            here.try_send(order).unwrap();
        }
        let error = worker::serve(&mut there, 0).expect_err("refused").to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}
