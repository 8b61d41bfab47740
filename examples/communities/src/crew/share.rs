//! Division of a round's active vertices among the workers.

use std::ops::Range;

use crate::graph::Csr;

/// Fixed cost of a vertex in addition to its arcs, in arcs: it is decoded, evaluated and perhaps reported.
const VERTEX_COST: u64 = 4;

/// Contiguous run of a round's active vertices, evaluated by one worker in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Range of indices into the active vertices.
    pub(super) range: Range<usize>,
    /// Cost of the part, in arcs.
    pub(super) cost: u64,
}

/// Granularity of the division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    /// Minimum cost of a part, in arcs (a worker's last part may cost less); a worker whose share is smaller
    /// gets none.
    pub(super) cost_min: u64,
    /// Number of parts per share, so that others can take over some of it.
    pub(super) parts_per_share: u64,
    /// Maximum number of vertices in a part.
    pub(super) vertices_max: usize,
}

/// Returns the cost of `vertex`, in arcs.
pub(super) fn cost(graph: &Csr, vertex: u32) -> u64 {
    graph.neighbours(vertex) as u64 + VERTEX_COST
}

/// Cuts the active vertices into one contiguous range per worker, proportional to its speed, and each range
/// into parts. Workers with speed 0 get none; if all speeds are 0, all workers get none.
pub(super) fn divide(graph: &Csr, active: &[u32], speeds: &[f64], grain: Grain) -> Vec<Vec<Part>> {
    let total: u64 = active.iter().map(|&vertex| cost(graph, vertex)).sum();
    let shares = shares(total, speeds, grain.cost_min);
    let mut next = 0;
    let mut spent = 0u64;
    let mut due = 0.0;
    let last = shares.iter().rposition(|&share| share > 0.0);
    let mut parts: Vec<Vec<Part>> = Vec::with_capacity(speeds.len());
    for (worker, share) in shares.into_iter().enumerate() {
        due += share * total as f64;
        let mut own = Vec::new();
        if share > 0.0 {
            let limit = (share * total as f64) as u64 / grain.parts_per_share;
            let limit = limit.max(grain.cost_min);
            // Rounding must not drop the last vertices.
            let until = if Some(worker) == last { u64::MAX } else { due as u64 };
            while next < active.len() && spent < until {
                let start = next;
                let mut part_cost = 0;
                while next < active.len()
                    && spent + part_cost < until
                    && part_cost < limit
                    && next - start < grain.vertices_max
                {
                    part_cost += cost(graph, active[next]);
                    next += 1;
                }
                spent += part_cost;
                own.push(Part { range: start..next, cost: part_cost });
            }
        }
        parts.push(own);
    }
    parts
}

/// Returns the share of each worker; they add up to 1 unless all speeds are 0. Slow workers whose share would
/// not be worth a message get none.
fn shares(total: u64, speeds: &[f64], cost_min: u64) -> Vec<f64> {
    let mut speeds = speeds.to_vec();
    loop {
        let sum: f64 = speeds.iter().sum();
        let working = speeds.iter().enumerate().filter(|(_, speed)| **speed > 0.0);
        let Some((slowest, speed)) = working.clone().min_by(|one, other| one.1.total_cmp(other.1)) else {
            return speeds;
        };
        if working.count() == 1 || total as f64 * speed / sum >= cost_min as f64 {
            return speeds.into_iter().map(|speed| speed / sum).collect();
        }
        speeds[slowest] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Duplicates, Edge};

    fn path(vertices: u32) -> Csr {
        let edges: Vec<Edge> =
            (1..vertices).map(|target| Edge { source: target - 1, target, weight: 1 }).collect();
        Csr::from_edges(vertices as usize, &edges, Duplicates::Add).unwrap().0
    }

    fn check(speeds: &[f64], grain: Grain) -> Vec<u64> {
        let graph = path(1000);
        let active: Vec<u32> = (0..1000).step_by(3).collect();
        let parts = divide(&graph, &active, speeds, grain);
        let ranges: Vec<_> = parts.iter().flatten().map(|part| part.range.clone()).collect();
        assert_eq!(
            ranges.iter().cloned().flatten().collect::<Vec<_>>(),
            (0..active.len()).collect::<Vec<_>>()
        );
        assert!(ranges.iter().all(|range| !range.is_empty() && range.len() <= grain.vertices_max));
        parts.iter().map(|parts| parts.iter().map(|part| part.cost).sum()).collect()
    }

    #[test]
    fn every_vertex_is_given_out_once_and_shares_follow_speed() {
        let grain = Grain { cost_min: 10, parts_per_share: 3, vertices_max: 50 };
        let costs = check(&[1.0, 3.0], grain);
        assert!(costs[0] * 5 > costs[1] && costs[0] * 2 < costs[1], "{costs:?}");
        assert_eq!(check(&[0.0, 1.0, 0.0], grain)[0], 0);
        assert_eq!(check(&[1e-9, 1.0], grain)[0], 0);
        check(&[1.0, 1.0, 1.0, 1e12], Grain { cost_min: 1, parts_per_share: 100, vertices_max: 1 });
    }

    #[test]
    fn a_round_too_small_to_share_goes_to_one() {
        let costs =
            check(&[1.0, 2.0, 1.5], Grain { cost_min: 100_000, parts_per_share: 4, vertices_max: 9999 });
        assert_eq!(costs.iter().filter(|&&cost| cost > 0).count(), 1);
        assert!(costs[1] > 0);
    }
}
