//! How good the communities are, against known optima and against the classic method.

mod common;

use common::{KARATE, classic_louvain, graph_of, planted};
use communities::graph::Csr;
use communities::search::{Alone, Search};

fn modularity(graph: &Csr, seed: u64) -> f64 {
    Search::new(seed).run(graph, &mut Alone::default()).expect("a search alone").modularity.value()
}

#[test]
fn survey() {
    let karate = graph_of(34, KARATE);
    println!("karate {:?}", (1..=10).map(|s| modularity(&karate, s)).collect::<Vec<_>>());
    for (g, s, i, o) in [(20, 50, 4, 2), (100, 100, 5, 5), (200, 30, 3, 3), (50, 1000, 4, 1), (1, 20000, 4, 0), (500, 100, 8, 6)] {
        let graph = planted(g, s, i, o, 7);
        let now = std::time::Instant::now();
        let ours: Vec<f64> = (1..=3).map(|s| modularity(&graph, s)).collect();
        let t = now.elapsed() / 3;
        let now = std::time::Instant::now();
        let classic: Vec<f64> = (1..=3).map(|s| classic_louvain(&graph, s).value()).collect();
        println!("{g}x{s} in {i} out {o}: {ours:.4?} {t:?} classic {classic:.4?} {:?}", now.elapsed()/3);
    }
}

#[test]
fn debian() {
    let now = std::time::Instant::now();
    let input = communities::graph::debian::read_packages(&mut |_| ()).unwrap();
    let graph = &input.graph;
    println!("read {:?} vertices {} edges {} merged {:?}", now.elapsed(), graph.vertices(), graph.edges(), input.merged);
    for seed in 1..=4 {
        let now = std::time::Instant::now();
        let found = Search::new(seed).run(graph, &mut Alone::default()).unwrap();
        println!("ours {} {:?} {:?}", found.modularity.value(), now.elapsed(), found.tally);
        let now = std::time::Instant::now();
        println!("classic {} {:?}", classic_louvain(graph, seed).value(), now.elapsed());
    }
}
