//! Graphs: read from edge lists, or synthetic.

use std::collections::HashMap;
use std::io::BufRead;

/// An undirected weighted graph in compressed sparse rows: each edge is two arcs, and there are no loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Index of each vertex's first arc, and finally the number of arcs.
    pub starts: Vec<u32>,
    /// Target and weight of each arc.
    pub arcs: Vec<(u32, u32)>,
}

impl Graph {
    /// Creates a graph from edges between vertices with numbers below `vertices`. Loops are dropped, and
    /// weights of equal edges are added.
    #[must_use]
    pub fn from_edges(vertices: usize, edges: &[(u32, u32, u32)]) -> Graph {
        let mut rows = vec![Vec::new(); vertices];
        for &(source, target, weight) in edges.iter().filter(|(source, target, _)| source != target) {
            rows[source as usize].push((target, weight));
            rows[target as usize].push((source, weight));
        }
        let mut graph = Graph { starts: vec![0], arcs: Vec::new() };
        for row in &mut rows {
            row.sort_unstable();
            let start = graph.arcs.len();
            for &(target, weight) in row.iter() {
                match graph.arcs[start..].last() {
                    Some((last, _)) if *last == target => {
                        let arc = graph.arcs.len() - 1;
                        graph.arcs[arc].1 = graph.arcs[arc].1.saturating_add(weight);
                    }
                    _ => graph.arcs.push((target, weight)),
                }
            }
            graph.starts.push(graph.arcs.len() as u32);
        }
        graph
    }

    /// Returns the number of vertices.
    #[must_use]
    pub fn vertices(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the sum of the weights of a vertex's arcs.
    #[must_use]
    pub fn degree(&self, vertex: usize) -> u64 {
        let row = self.starts[vertex] as usize..self.starts[vertex + 1] as usize;
        self.arcs[row].iter().map(|(_, weight)| u64::from(*weight)).sum()
    }

    /// Returns the graph `dense:N` or `sparse:N`, a synthetic one with N vertices, or reads an edge list from
    /// a file, with two names and optionally a weight per line.
    ///
    /// # Errors
    /// Description of the problem, with the line number.
    pub fn named(name: &str) -> Result<Graph, String> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number| (2..=1_000_000).contains(number));
            number.ok_or_else(|| format!("'{text}' is not a number of vertices from 2 to 1000000"))
        };
        match name.split_once(':') {
            Some(("dense", text)) => Ok(dense(number(text)?)),
            Some(("sparse", text)) => Ok(sparse(number(text)?)),
            _ => read(name),
        }
    }
}

fn read(path: &str) -> Result<Graph, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot open {path}: {error}"))?;
    let (mut names, mut edges) = (HashMap::new(), Vec::new());
    for (number, line) in (1..).zip(std::io::BufReader::new(file).lines()) {
        let line = line.map_err(|error| format!("cannot read {path}: {error}"))?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.first().is_none_or(|first| first.starts_with(['#', '%'])) {
            continue;
        }
        let [source, target, rest @ ..] = fields.as_slice() else {
            return Err(format!("{path}:{number}: write SOURCE TARGET [WEIGHT]"));
        };
        let weight = rest.first().map_or(Ok(1), |weight| weight.parse());
        let weight = weight.map_err(|_| format!("{path}:{number}: the weight is not a number"))?;
        let [source, target] = [source, target].map(|name| {
            let next = names.len() as u32;
            *names.entry((*name).to_owned()).or_insert(next)
        });
        edges.push((source, target, weight));
    }
    Ok(Graph::from_edges(names.len(), &edges))
}

/// Pseudo-random number generator, with the same sequence on all processors.
struct Numbers(u64);

impl Numbers {
    /// Returns the next number, below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// Generates a complete graph with stronger edges within each of six blocs, like the trade between countries.
#[must_use]
pub fn dense(vertices: usize) -> Graph {
    let mut numbers = Numbers(1999);
    let mut edges = Vec::new();
    for source in 0..vertices as u32 {
        for target in source + 1..vertices as u32 {
            let strength = if source % 6 == target % 6 { 8 } else { 1 };
            edges.push((source, target, strength * (1 + numbers.below(100) as u32)));
        }
    }
    Graph::from_edges(vertices, &edges)
}

/// Generates a graph with about eight edges per vertex, four of five within its group of 40 vertices.
#[must_use]
pub fn sparse(vertices: usize) -> Graph {
    let mut numbers = Numbers(2012);
    let mut edges = Vec::new();
    for source in 0..vertices as u64 {
        for _ in 0..4 {
            let group = source - source % 40;
            let near = group + numbers.below(40.min(vertices as u64 - group));
            let far = numbers.below(vertices as u64);
            let target = if numbers.below(5) < 4 { near } else { far };
            edges.push((source as u32, target as u32, 1));
        }
    }
    Graph::from_edges(vertices, &edges)
}
