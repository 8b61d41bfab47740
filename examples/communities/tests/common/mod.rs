//! Graphs and the classic algorithm that the tests compare with.
#![allow(dead_code, reason = "each test binary uses its own part")]

use communities::graph::{Csr, Duplicates, Edge};
use communities::random::Random;
use communities::search::{Modularity, Partition, contract, number_communities};

pub(crate) fn graph_of(vertices: usize, pairs: impl IntoIterator<Item = (u32, u32)>) -> Csr {
    let edges: Vec<Edge> =
        pairs.into_iter().map(|(source, target)| Edge { source, target, weight: 1 }).collect();
    Csr::from_edges(vertices, &edges, Duplicates::Collapse).expect("a valid test graph").0
}

/// Creates `groups` groups of `size` vertices; each vertex draws `inside` partners in its group and `outside`
/// anywhere.
pub(crate) fn planted(groups: u32, size: u32, inside: u32, outside: u32, seed: u64) -> Csr {
    let mut random = Random::new(seed);
    let vertices = groups * size;
    let mut pairs = Vec::new();
    for vertex in 0..vertices {
        let first = vertex / size * size;
        for _ in 0..inside {
            pairs.push((vertex, first + random.below(size.into()) as u32));
        }
        for _ in 0..outside {
            pairs.push((vertex, random.below(vertices.into()) as u32));
        }
    }
    graph_of(vertices as usize, pairs.into_iter().filter(|(source, target)| source != target))
}

/// Runs the Louvain method as published (Blondel et al. 2008): one vertex at a time, in a shuffled order.
/// Returns the modularity reached.
pub(crate) fn classic_louvain(graph: &Csr, seed: u64) -> Modularity {
    let mut random = Random::new(seed);
    let mut members: Vec<u32> = (0..graph.vertices() as u32).collect();
    let mut level = graph.clone();
    loop {
        let partition = classic_level(&level, &mut random);
        let (labels, count) = number_communities(partition.labels());
        for member in &mut members {
            *member = labels[*member as usize];
        }
        if count == level.vertices() {
            break;
        }
        level = contract(&level, &labels, count).expect("contracting keeps the limits");
    }
    Modularity::of(graph, &Partition::from_labels(graph, members).expect("labels are vertices"))
}

fn classic_level(graph: &Csr, random: &mut Random) -> Partition {
    let total = graph.total_weight() as f64;
    let mut partition = Partition::singletons(graph);
    let mut order: Vec<u32> = (0..graph.vertices() as u32).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    let mut links = vec![0u64; graph.vertices()];
    loop {
        let start = Modularity::of(graph, &partition).value();
        let mut moved = false;
        for &vertex in &order {
            let own = partition.label(vertex);
            let degree = graph.degree(vertex);
            let mut touched = vec![own];
            for (target, weight) in graph.arcs_of(vertex) {
                let label = partition.label(target);
                touched.push(label);
                links[label as usize] += weight;
            }
            let value = |label: u32| {
                let weight = partition.weight(label) - if label == own { degree } else { 0 };
                links[label as usize] as f64 - degree as f64 * weight as f64 / total
            };
            let mut best = (value(own), own);
            for &label in &touched[1..] {
                if value(label) > best.0 + 1e-9 {
                    best = (value(label), label);
                }
            }
            for label in touched {
                links[label as usize] = 0;
            }
            if best.1 != own {
                partition.relabel(graph, vertex, best.1);
                moved = true;
            }
        }
        if !moved || Modularity::of(graph, &partition).value() - start < 1e-7 {
            return partition;
        }
    }
}

/// Zachary's karate club (1977), 34 members and 78 friendships.
#[rustfmt::skip]
pub(crate) const KARATE: [(u32, u32); 78] = [
    (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8), (0, 10), (0, 11), (0, 12), (0, 13), (0, 17),
    (0, 19), (0, 21), (0, 31), (1, 2), (1, 3), (1, 7), (1, 13), (1, 17), (1, 19), (1, 21), (1, 30), (2, 3),
    (2, 7), (2, 8), (2, 9), (2, 13), (2, 27), (2, 28), (2, 32), (3, 7), (3, 12), (3, 13), (4, 6), (4, 10),
    (5, 6), (5, 10), (5, 16), (6, 16), (8, 30), (8, 32), (8, 33), (9, 33), (13, 33), (14, 32), (14, 33),
    (15, 32), (15, 33), (18, 32), (18, 33), (19, 33), (20, 32), (20, 33), (22, 32), (22, 33), (23, 25),
    (23, 27), (23, 29), (23, 32), (23, 33), (24, 25), (24, 27), (24, 31), (25, 31), (26, 29), (26, 33),
    (27, 33), (28, 31), (28, 33), (29, 32), (29, 33), (30, 32), (30, 33), (31, 32), (31, 33), (32, 33),
];
