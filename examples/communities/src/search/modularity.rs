//! Exact modularity.

use super::Partition;
use crate::graph::Csr;

/// Reciprocal of the smallest gain of modularity that is worth continuing for.
const NOTICEABLE_PARTS: i128 = 20_000;

/// Modularity of a partition as the exact fraction `numerator / total²`.
///
/// `numerator = total·internal − Σ w(C)²`, where `internal` is the weight of all arcs that stay in their
/// community (an edge counts twice, and so does a self-loop) and `total` that of all arcs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modularity {
    total: u64,
    internal: u64,
    squares: u128,
}

impl Modularity {
    /// Computes the modularity from scratch, by a scan over the whole graph.
    #[must_use]
    pub fn of(graph: &Csr, partition: &Partition) -> Self {
        let mut internal = 0;
        let mut squares = 0;
        for vertex in 0..graph.vertices() as u32 {
            internal += 2 * graph.loop_weight(vertex);
            for (target, weight) in graph.arcs_of(vertex) {
                if partition.label(target) == partition.label(vertex) {
                    internal += weight;
                }
            }
            // A label is below the number of vertices, so this visits every community once.
            squares += square(partition.weight(vertex));
        }
        Self { total: graph.total_weight(), internal, squares }
    }

    /// Returns the numerator, by which partitions of one graph compare.
    #[must_use]
    pub fn numerator(&self) -> i128 {
        i128::from(self.total) * i128::from(self.internal) - self.squares as i128
    }

    /// Returns the denominator, `total²`.
    #[must_use]
    pub fn denominator(&self) -> i128 {
        square(self.total) as i128
    }

    /// Returns the value as a floating-point number; 0 for a graph without edges.
    #[must_use]
    pub fn value(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.numerator() as f64 / self.denominator() as f64 }
    }

    /// Returns the smallest gain of the numerator that is worth continuing for.
    #[must_use]
    pub fn noticeable(&self) -> i128 {
        (self.denominator() / NOTICEABLE_PARTS).max(1)
    }

    /// Returns whether this exceeds `other`, of the same total weight, by enough to continue.
    #[must_use]
    pub fn noticeably_above(&self, other: &Self) -> bool {
        self.numerator() - other.numerator() >= self.noticeable()
    }

    /// Accounts for a vertex of `degree` that moved between communities of these weights (before the move,
    /// the vertex included in `source_weight`).
    pub(super) fn shift_weight(&mut self, degree: u64, source_weight: u64, target_weight: u64) {
        self.squares -= square(source_weight) + square(target_weight);
        self.squares += square(source_weight - degree) + square(target_weight + degree);
    }

    /// Accounts for arcs that became internal (`gained`) or ceased to be (`lost`).
    pub(super) fn shift_internal(&mut self, gained: u64, lost: u64) {
        self.internal = self.internal + gained - lost;
    }
}

fn square(weight: u64) -> u128 {
    u128::from(weight) * u128::from(weight)
}
