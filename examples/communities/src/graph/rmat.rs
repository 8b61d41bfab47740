//! Generated graph of any size, reproducible: R-MAT, with a degree distribution as skewed as that of the web.
//!
//! Each edge falls into one quadrant of the adjacency matrix, then into one of that quadrant, and so on, with
//! the probabilities of Graph500: 57, 19, 19 and 5 percent.

use super::{Csr, Duplicates, Edge, Input, Names, ReadError};
use crate::random::Random;

/// Number of edges per vertex before duplicates are merged.
const EDGES_PER_VERTEX: usize = 8;

/// Returns the name of the graph for errors and reports.
#[must_use]
pub fn source(scale: u32) -> String {
    format!("R-MAT of scale {scale}")
}

/// Generates the graph of `2^scale` vertices; `scale` is at most 24.
///
/// # Errors
/// It is beyond the limits of a graph.
pub fn make(scale: u32) -> Result<Input, ReadError> {
    let vertices = 1_usize << scale;
    let mut random = Random::new(0x243f_6a88_85a3_08d3);
    let edges: Vec<Edge> = (0..vertices * EDGES_PER_VERTEX).map(|_| edge(&mut random, scale)).collect();
    let (graph, merged) = Csr::from_edges(vertices, &edges, Duplicates::Collapse)
        .map_err(|error| ReadError::Graph { name: source(scale), source: error })?;
    Ok(Input { graph, names: Names::Numbered { first: 0 }, origin: source(scale), lines: 0, merged })
}

fn edge(random: &mut Random, scale: u32) -> Edge {
    let (mut source, mut target) = (0, 0);
    for _ in 0..scale {
        let (down, right) = match random.word() % 100 {
            0..57 => (0, 0),
            57..76 => (0, 1),
            76..95 => (1, 0),
            _ => (1, 1),
        };
        (source, target) = (source << 1 | down, target << 1 | right);
    }
    Edge { source, target, weight: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_each_time_and_uneven() {
        let (one, other) = (make(10).unwrap(), make(10).unwrap());
        assert_eq!(one.graph.targets(), other.graph.targets());
        assert_eq!(one.graph.vertices(), 1024);
        let edges = one.graph.edges();
        assert!((4000..=8192).contains(&edges), "{edges}");
        let most = (0..1024).map(|vertex| one.graph.neighbours(vertex)).max().unwrap();
        assert!(most as u64 > 5 * edges * 2 / 1024, "{most} of {edges}");
    }
}
