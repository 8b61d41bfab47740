//! The search on a small graph: one vertex at a time, each evaluated after all moves before it.
//!
//! This finds better communities than rounds do, and a small graph is searched faster than it could be sent
//! to workers.

use std::collections::VecDeque;

use super::{Finder, MAX_SWEEPS, Move, Partition, Tally};
use crate::graph::Csr;
use crate::random::mix;

/// Moves vertices until no move gains. Vertices wait in a queue and are queued again when a neighbour has
/// moved away. Returns the number of arcs examined.
pub(super) fn climb(
    graph: &Csr,
    partition: &mut Partition,
    salt: u64,
    finder: &mut Finder,
    tally: &mut Tally,
) -> u64 {
    let mut queue: VecDeque<u32> = shuffled(graph, salt).into();
    let mut waits = vec![false; graph.vertices()];
    queue.iter().for_each(|&vertex| waits[vertex as usize] = true);
    let mut judge = Judge { graph, finder, found: Vec::new(), arcs: 0 };
    // Every move gains, so this terminates; the limit bounds the time.
    let limit = queue.len() as u64 * u64::from(MAX_SWEEPS);
    let mut evaluations = 0;
    while let Some(vertex) = queue.pop_front().filter(|_| evaluations < limit) {
        waits[vertex as usize] = false;
        evaluations += 1;
        let Some(label) = judge.best_move(partition, vertex) else { continue };
        partition.relabel(graph, vertex, label);
        tally.moves += 1;
        for (target, _) in graph.arcs_of(vertex) {
            if partition.label(target) != label && !std::mem::replace(&mut waits[target as usize], true) {
                queue.push_back(target);
            }
        }
    }
    tally.evaluations += evaluations;
    judge.arcs
}

/// Joins single vertices to communities, each at most once, within the bounds of `partition`. Returns the
/// number of arcs examined.
pub(super) fn refine(
    graph: &Csr,
    partition: &mut Partition,
    salt: u64,
    finder: &mut Finder,
    tally: &mut Tally,
) -> u64 {
    let mut judge = Judge { graph, finder, found: Vec::new(), arcs: 0 };
    for vertex in shuffled(graph, salt) {
        if !partition.is_alone(graph, vertex) {
            continue;
        }
        tally.evaluations += 1;
        if let Some(label) = judge.best_move(partition, vertex) {
            partition.relabel(graph, vertex, label);
            tally.moves += 1;
        }
    }
    judge.arcs
}

/// Finds the best move of one vertex.
struct Judge<'a> {
    graph: &'a Csr,
    finder: &'a mut Finder,
    found: Vec<Move>,
    arcs: u64,
}

impl Judge<'_> {
    fn best_move(&mut self, partition: &Partition, vertex: u32) -> Option<u32> {
        self.found.clear();
        self.arcs += self.finder.best_moves(self.graph, partition, &[vertex], &mut self.found);
        self.found.first().map(|found| found.label)
    }
}

/// Returns the vertices that have edges, in a pseudo-random order.
fn shuffled(graph: &Csr, salt: u64) -> Vec<u32> {
    let with_edges = (0..graph.vertices() as u32).filter(|&vertex| graph.neighbours(vertex) > 0);
    let mut order: Vec<u32> = with_edges.collect();
    let mut drawn = salt;
    for index in (1..order.len()).rev() {
        drawn = mix(drawn);
        order.swap(index, ((u128::from(drawn) * (index as u128 + 1)) >> 64) as usize);
    }
    order
}
