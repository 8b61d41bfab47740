//! The inner loop of the search: the best move of one vertex, in exact integers.
//!
//! Moving v from C to D changes modularity by `2·gain / total²`, where total is the sum of all degrees and
//! `gain = total·(f(v,D) − f(v,C∖v)) − k(v)·(w(D) − w(C∖v))`. The comparison needs `gain` only, which is an
//! integer: every processor decides alike.

use super::Partition;
use crate::graph::{Csr, Weights};

/// Move of a vertex to a community.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The vertex that moves.
    pub vertex: u32,
    /// Label of the community it joins.
    pub label: u32,
}

/// Finds best moves; holds a reusable sparse map from labels to edge weights.
#[derive(Debug, Default)]
pub struct Finder {
    /// Edge weight from the vertex to each label; all zero between two vertices.
    gathered: Vec<u64>,
    /// Labels whose entry in `gathered` is not zero.
    touched: Vec<u32>,
}

impl Finder {
    /// Appends to `moves` the best move of each of the `active` vertices that has a move with a gain, in the
    /// order of `active`. All are evaluated against the unchanged `partition` and within its bounds. Returns
    /// the number of arcs examined.
    pub fn best_moves(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
    ) -> u64 {
        if self.gathered.len() < graph.vertices() {
            self.gathered.resize(graph.vertices(), 0);
        }
        // Separate instances of the loop with and without bounds keep the test out of the loop.
        match partition.bounds() {
            None => self.scan_weighted(graph, partition, active, moves, |_, _| true),
            Some(bounds) => self.scan_weighted(graph, partition, active, moves, |vertex, target| {
                bounds[vertex as usize] == bounds[target as usize]
            }),
        }
    }

    /// Instantiates the scan for each kind of weight.
    fn scan_weighted(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
        together: impl Fn(u32, u32) -> bool,
    ) -> u64 {
        match graph.weights() {
            Weights::Unit => self.scan(graph, partition, active, moves, together, |_| 1),
            Weights::Narrow(weights) => {
                self.scan(graph, partition, active, moves, together, |position| u64::from(weights[position]))
            }
            Weights::Wide(weights) => {
                self.scan(graph, partition, active, moves, together, |position| weights[position])
            }
        }
    }

    fn scan(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
        together: impl Fn(u32, u32) -> bool,
        weight_at: impl Fn(usize) -> u64,
    ) -> u64 {
        let mut arcs = 0;
        for &vertex in active {
            let row = graph.row(vertex);
            arcs += row.len() as u64;
            for (&target, position) in graph.targets()[row.clone()].iter().zip(row) {
                if !together(vertex, target) {
                    continue;
                }
                let label = partition.label(target);
                let gathered = &mut self.gathered[label as usize];
                if *gathered == 0 {
                    self.touched.push(label);
                }
                *gathered += weight_at(position);
            }
            if let Some(label) = self.choose(graph, partition, vertex) {
                moves.push(Move { vertex, label });
            }
        }
        arcs
    }

    /// Picks the best label from `touched` and clears the map.
    fn choose(&mut self, graph: &Csr, partition: &Partition, vertex: u32) -> Option<u32> {
        let total = i128::from(graph.total_weight());
        let degree = graph.degree(vertex);
        let own = partition.label(vertex);
        let value = |to_label: u64, label_weight: u64| {
            total * i128::from(to_label) - i128::from(degree) * i128::from(label_weight)
        };
        let staying = value(self.gathered[own as usize], partition.weight(own) - degree);
        let mut best = (staying, own);
        // Leaving for an empty community is worth 0; a vertex may only found the one with its own number.
        if staying < 0 && partition.weight(vertex) == 0 {
            best = (0, vertex);
        }
        for &label in &self.touched {
            let gathered = std::mem::take(&mut self.gathered[label as usize]);
            if label == own {
                continue;
            }
            let candidate = value(gathered, partition.weight(label));
            if candidate > best.0 || (candidate == best.0 && best.1 != own && label < best.1) {
                best = (candidate, label);
            }
        }
        self.touched.clear();
        (best.1 != own).then_some(best.1)
    }
}
