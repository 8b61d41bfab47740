//! Generated graph with known communities, reproducible: the LFR benchmark (Lancichinetti, Fortunato and
//! Radicchi 2008).
//!
//! Degrees and sizes of communities follow power laws. Of each vertex's edges 3 in 10 lead to vertices drawn
//! from the whole graph, the rest to vertices of its community. Edges are drawn by pairing the ends of edges
//! at random. All arithmetic is in integers, so that every processor makes the same graph.

use super::{Csr, Duplicates, Edge, Input, Names, ReadError};
use crate::random::Random;

/// Range of degrees; degree k has a probability proportional to 1/k².
const DEGREES: std::ops::RangeInclusive<u64> = 5..=200;

/// Range of community sizes; size s has a probability proportional to 1/s.
const SIZES: std::ops::RangeInclusive<u64> = 20..=1000;

/// Percentage of a vertex's edges that lead to any vertex of the graph.
const MIXING_PERCENT: u64 = 30;

/// Returns the name of the graph for errors and reports.
#[must_use]
pub fn source(scale: u32) -> String {
    format!("LFR of scale {scale}")
}

/// Generates the graph of `2^scale` vertices, with about 8 edges for each; `scale` is from 4 to 24.
///
/// # Errors
/// It is beyond the limits of a graph.
pub fn make(scale: u32) -> Result<Input, ReadError> {
    let vertices = 1_usize << scale;
    let mut random = Random::new(0x13198a2e_03707344);
    let edges = draw_edges(vertices, &mut random);
    let (graph, merged) = Csr::from_edges(vertices, &edges, Duplicates::Collapse)
        .map_err(|error| ReadError::Graph { name: source(scale), source: error })?;
    Ok(Input { graph, names: Names::Numbered { first: 0 }, origin: source(scale), lines: 0, merged })
}

fn draw_edges(vertices: usize, random: &mut Random) -> Vec<Edge> {
    let degree_law = PowerLaw::new(DEGREES, |degree| degree * degree);
    // Vertices by position; each community has a contiguous range of positions.
    let mut vertex_at: Vec<u32> = (0..vertices as u32).collect();
    random.shuffle(&mut vertex_at);
    let mut edges = Vec::new();
    let mut outside: Vec<u32> = Vec::new();
    let mut inside: Vec<u32> = Vec::new();
    let mut rest = vertex_at.as_slice();
    for size in draw_sizes(vertices, random) {
        let (members, others) = rest.split_at(size);
        rest = others;
        inside.clear();
        for &vertex in members {
            let degree = degree_law.draw(random);
            // Round up or down at random, so that the mean is exact.
            let leaving = (degree * MIXING_PERCENT + random.below(100)) / 100;
            // A vertex has at most one edge to each other member of its community.
            let staying = (degree - leaving).min(size as u64 - 1);
            inside.extend((0..staying).map(|_| vertex));
            outside.extend((staying..degree).map(|_| vertex));
        }
        pair(&mut inside, random, &mut edges);
    }
    pair(&mut outside, random, &mut edges);
    edges
}

/// Draws community sizes that add up to `vertices`. A remainder smaller than a community is added to the
/// last.
fn draw_sizes(vertices: usize, random: &mut Random) -> Vec<usize> {
    let law = PowerLaw::new(SIZES, |size| size);
    let mut sizes = Vec::new();
    let mut left = vertices;
    while left > 0 {
        let size = (law.draw(random) as usize).min(left);
        match sizes.last_mut() {
            Some(last) if size < *SIZES.start() as usize => *last += size,
            _ => sizes.push(size),
        }
        left -= size;
    }
    sizes
}

/// Pairs edge ends, given as vertices, at random. Self-loops are dropped.
fn pair(ends: &mut [u32], random: &mut Random, edges: &mut Vec<Edge>) {
    random.shuffle(ends);
    let pairs = ends.as_chunks::<2>().0;
    edges.extend(pairs.iter().filter(|[source, target]| source != target).map(|&[source, target]| Edge {
        source,
        target,
        weight: 1,
    }));
}

/// Discrete power-law distribution.
struct PowerLaw {
    first: u64,
    /// Cumulative probabilities of the numbers from `first` on, as fractions of the last entry.
    sums: Vec<u64>,
}

impl PowerLaw {
    /// Creates the distribution with probabilities inversely proportional to `inverse`.
    fn new(numbers: std::ops::RangeInclusive<u64>, inverse: impl Fn(u64) -> u64) -> Self {
        let mut sum = 0;
        let first = *numbers.start();
        let add = |number| {
            sum += (1 << 40) / inverse(number);
            sum
        };
        Self { first, sums: numbers.map(add).collect() }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let drawn = random.below(self.sums[self.sums.len() - 1]);
        self.first + self.sums.partition_point(|&sum| sum <= drawn) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_each_time_and_as_large_as_promised() {
        let (one, other) = (make(12).unwrap(), make(12).unwrap());
        assert_eq!(one.graph, other.graph);
        assert_eq!(one.graph.vertices(), 4096);
        assert_eq!(one.merged.self_loops, 0);
        let per_vertex = one.graph.edges() as f64 / 4096.0;
        assert!((6.5..9.0).contains(&per_vertex), "{per_vertex}");
        assert!(make(4).unwrap().graph.edges() > 0);
    }

    #[test]
    fn sizes_add_up() {
        let mut random = Random::new(3);
        for vertices in [1, 19, 20, 21, 4096] {
            let sizes = draw_sizes(vertices, &mut random);
            assert_eq!(sizes.iter().sum::<usize>(), vertices);
            assert!(sizes.len() == 1 || sizes.iter().all(|&size| (20..=1019).contains(&size)), "{sizes:?}");
        }
    }

    #[test]
    fn small_numbers_of_a_power_law_are_drawn_most() {
        let law = PowerLaw::new(2..=4, |number| number);
        let mut random = Random::new(1);
        let mut counts = [0_i32; 5];
        for _ in 0..13_000 {
            counts[law.draw(&mut random) as usize] += 1;
        }
        // Expected: 1/2, 1/3 and 1/4 of 13/12.
        for (number, expected) in [(0, 0), (1, 0), (2, 6000), (3, 4000), (4, 3000)] {
            assert!((counts[number] - expected).abs() < 300, "{counts:?}");
        }
    }
}
