//! Compressed sparse rows: three arrays with the start of each vertex's arcs, their targets and their
//! weights.
//!
//! The graph is undirected: an edge {u, v} is the two arcs u→v and v→u. Self-loops are stored separately, so
//! a scan over the neighbours of a vertex never meets the vertex itself.

use std::io;

use super::GraphError;

/// Largest sum of all degrees (twice the weight of all edges). Products of two such sums fit 128 bits.
pub const MAX_TOTAL_WEIGHT: u64 = 1 << 62;

/// Largest number of vertices; one id is left over to mean "none".
pub const MAX_VERTICES: usize = u32::MAX as usize - 1;

/// Largest number of arcs (twice the number of edges).
pub const MAX_ARCS: usize = u32::MAX as usize;

/// Undirected edge as read from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// One end.
    pub source: u32,
    /// The other end; equal to `source` for a self-loop.
    pub target: u32,
    /// Weight; an edge of weight 0 is dropped.
    pub weight: u64,
}

/// Treatment of an edge that is given more than once, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Keep one of them: the input says only *that* two vertices are joined.
    Collapse,
    /// Add the weights: the input says *how much* they are joined.
    Add,
}

/// Numbers of edges that [`Csr::from_edges`] merged or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Edges given more than once.
    pub duplicates: u64,
    /// Edges from a vertex to itself.
    pub self_loops: u64,
    /// Edges of weight 0.
    pub weightless: u64,
}

/// Arc weights in the narrowest form that holds them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Every arc weighs 1.
    Unit,
    /// Every arc weighs less than 2³².
    Narrow(Vec<u32>),
    /// Some arc weighs 2³² or more.
    Wide(Vec<u64>),
}

impl Weights {
    /// Stores `weights` in the narrowest form.
    #[must_use]
    pub fn narrowest(weights: Vec<u64>) -> Self {
        let largest = weights.iter().copied().max().unwrap_or(1);
        if largest > u64::from(u32::MAX) {
            Weights::Wide(weights)
        } else if weights.iter().all(|&weight| weight == 1) {
            Weights::Unit
        } else {
            Weights::Narrow(weights.into_iter().map(|weight| weight as u32).collect())
        }
    }

    /// Returns the weight of the arc at `position`.
    #[must_use]
    pub fn at(&self, position: usize) -> u64 {
        match self {
            Weights::Unit => 1,
            Weights::Narrow(weights) => u64::from(weights[position]),
            Weights::Wide(weights) => weights[position],
        }
    }
}

/// An undirected weighted graph in compressed sparse rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr {
    offsets: Vec<u32>,
    targets: Vec<u32>,
    weights: Weights,
    loops: Vec<u64>,
    degrees: Vec<u64>,
    total: u64,
}

impl Csr {
    /// Builds the graph of `edges` over the vertices `0..vertices`.
    ///
    /// # Errors
    /// Too many vertices or arcs, an edge to a vertex that does not exist, or too large a total weight.
    pub fn from_edges(
        vertices: usize,
        edges: &[Edge],
        duplicates: Duplicates,
    ) -> Result<(Self, Merged), GraphError> {
        check_size(vertices, edges.len().saturating_mul(2))?;
        let mut starts = vec![0u32; vertices + 1];
        for edge in edges {
            for end in [edge.source, edge.target] {
                let slot = starts.get_mut(end as usize + 1);
                *slot.ok_or(GraphError::NoSuchVertex { vertex: end, vertices })? += 1;
            }
        }
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let mut arcs = vec![(0u32, 0u64); edges.len() * 2];
        let mut next = starts.clone();
        for edge in edges {
            for (from, to) in [(edge.source, edge.target), (edge.target, edge.source)] {
                arcs[next[from as usize] as usize] = (to, edge.weight);
                next[from as usize] += 1;
            }
        }
        Self::from_rows(vertices, &starts, &mut arcs, duplicates)
    }

    /// Sorts each row, merges duplicates and removes self-loops.
    fn from_rows(
        vertices: usize,
        starts: &[u32],
        arcs: &mut [(u32, u64)],
        duplicates: Duplicates,
    ) -> Result<(Self, Merged), GraphError> {
        let mut merged = Merged::default();
        let mut offsets = Vec::with_capacity(vertices + 1);
        let mut targets: Vec<u32> = Vec::with_capacity(arcs.len());
        let mut weights: Vec<u64> = Vec::with_capacity(arcs.len());
        let mut loops = vec![0u64; vertices];
        offsets.push(0u32);
        for vertex in 0..vertices {
            let row = &mut arcs[starts[vertex] as usize..starts[vertex + 1] as usize];
            row.sort_unstable();
            let row_start = targets.len();
            let mut loop_arcs = 0u64;
            for &(target, weight) in row.iter() {
                // Every edge occurs twice, once from each end; a self-loop twice in the same row.
                let own = target as usize == vertex;
                let counted = if own { loop_arcs.is_multiple_of(2) } else { (vertex as u32) < target };
                loop_arcs += u64::from(own);
                if weight == 0 {
                    merged.weightless += u64::from(counted);
                    continue;
                }
                if own {
                    if counted {
                        merged.self_loops += 1;
                        add_or_keep(&mut loops[vertex], weight, duplicates)?;
                    }
                } else if targets.len() > row_start && targets.last() == Some(&target) {
                    merged.duplicates += u64::from(counted);
                    let last = weights.len() - 1;
                    add_or_keep(&mut weights[last], weight, duplicates)?;
                } else {
                    targets.push(target);
                    weights.push(weight);
                }
            }
            offsets.push(targets.len() as u32);
        }
        if loops.iter().all(|&weight| weight == 0) {
            loops = Vec::new();
        }
        Ok((Self::from_parts(offsets, targets, Weights::narrowest(weights), loops)?, merged))
    }

    /// Creates a graph from its arrays, all of which are validated: they may come from a peer.
    ///
    /// `offsets` has one entry more than there are vertices; `loops` is empty or has one entry per vertex.
    /// Symmetry is not checked: a missing reverse arc makes the search poor, but causes no invalid access.
    ///
    /// # Errors
    /// Inconsistent arrays, and the limits of [`Csr::from_edges`].
    pub fn from_parts(
        offsets: Vec<u32>,
        targets: Vec<u32>,
        weights: Weights,
        loops: Vec<u64>,
    ) -> Result<Self, GraphError> {
        let vertices = offsets.len().checked_sub(1).ok_or(GraphError::Inconsistent("no offsets"))?;
        check_size(vertices, targets.len())?;
        if offsets[0] != 0 || offsets[vertices] as usize != targets.len() {
            return Err(GraphError::Inconsistent("the offsets do not span the arcs"));
        }
        if offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(GraphError::Inconsistent("the offsets are not ascending"));
        }
        if let Some(&vertex) = targets.iter().find(|&&target| target as usize >= vertices) {
            return Err(GraphError::NoSuchVertex { vertex, vertices });
        }
        let weight_count = match &weights {
            Weights::Unit => targets.len(),
            Weights::Narrow(weights) => weights.len(),
            Weights::Wide(weights) => weights.len(),
        };
        if weight_count != targets.len() {
            return Err(GraphError::Inconsistent("arcs and weights differ in number"));
        }
        if !loops.is_empty() && loops.len() != vertices {
            return Err(GraphError::Inconsistent("vertices and self-loops differ in number"));
        }
        let mut graph = Self { offsets, targets, weights, loops, degrees: Vec::new(), total: 0 };
        graph.sum_degrees()?;
        Ok(graph)
    }

    fn sum_degrees(&mut self) -> Result<(), GraphError> {
        let mut degrees = Vec::with_capacity(self.vertices());
        let mut total = 0u64;
        for vertex in 0..self.vertices() {
            let mut degree = self.loop_weight(vertex as u32).saturating_mul(2);
            for position in self.row(vertex as u32) {
                let weight = self.weights.at(position);
                if weight == 0 {
                    return Err(GraphError::Inconsistent("an arc of weight 0"));
                }
                degree = degree.saturating_add(weight);
            }
            total = total.saturating_add(degree);
            degrees.push(degree);
        }
        if total > MAX_TOTAL_WEIGHT {
            return Err(GraphError::TooHeavy);
        }
        self.degrees = degrees;
        self.total = total;
        Ok(())
    }

    /// Returns the number of vertices; their ids are `0..vertices()`.
    #[must_use]
    pub fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of arcs, which is twice the number of edges without the self-loops.
    #[must_use]
    pub fn arcs(&self) -> usize {
        self.targets.len()
    }

    /// Returns the number of edges, including self-loops.
    #[must_use]
    pub fn edges(&self) -> u64 {
        self.targets.len() as u64 / 2 + self.loops.iter().filter(|&&weight| weight > 0).count() as u64
    }

    /// Returns the sum of all degrees: twice the weight of all edges.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.total
    }

    /// Returns the weighted degree of `vertex`; a self-loop counts twice.
    #[must_use]
    pub fn degree(&self, vertex: u32) -> u64 {
        self.degrees[vertex as usize]
    }

    /// Returns the number of neighbours of `vertex`.
    #[must_use]
    pub fn neighbours(&self, vertex: u32) -> usize {
        self.row(vertex).len()
    }

    /// Returns the weight of the self-loop of `vertex`, 0 if it has none.
    #[must_use]
    pub fn loop_weight(&self, vertex: u32) -> u64 {
        self.loops.get(vertex as usize).copied().unwrap_or(0)
    }

    /// Returns the positions of the arcs of `vertex` in [`Csr::targets`] and [`Csr::weights`].
    #[must_use]
    pub fn row(&self, vertex: u32) -> std::ops::Range<usize> {
        self.offsets[vertex as usize] as usize..self.offsets[vertex as usize + 1] as usize
    }

    /// Returns the neighbours of `vertex` with the weights of the arcs to them.
    pub fn arcs_of(&self, vertex: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.row(vertex).map(|position| (self.targets[position], self.weights.at(position)))
    }

    /// Writes `source target` lines, with the weight where it is not 1, in the order of the vertices.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write_edges(&self, output: &mut impl io::Write) -> io::Result<()> {
        for vertex in 0..self.vertices() as u32 {
            let own = [(vertex, self.loop_weight(vertex))].into_iter().filter(|&(_, weight)| weight > 0);
            for (target, weight) in own.chain(self.arcs_of(vertex).filter(|&(target, _)| vertex < target)) {
                match weight {
                    1 => writeln!(output, "{vertex} {target}")?,
                    _ => writeln!(output, "{vertex} {target} {weight}")?,
                }
            }
        }
        output.flush()
    }

    /// Returns the start of each row, followed by the number of arcs.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Returns the target vertex of each arc.
    #[must_use]
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Returns the weights of all arcs.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the weight of each vertex's self-loop; empty if no vertex has one.
    #[must_use]
    pub fn loops(&self) -> &[u64] {
        &self.loops
    }
}

fn check_size(vertices: usize, arcs: usize) -> Result<(), GraphError> {
    if vertices > MAX_VERTICES {
        return Err(GraphError::TooManyVertices { vertices, limit: MAX_VERTICES });
    }
    if arcs > MAX_ARCS {
        return Err(GraphError::TooManyEdges { edges: arcs / 2, limit: MAX_ARCS / 2 });
    }
    Ok(())
}

fn add_or_keep(sum: &mut u64, weight: u64, duplicates: Duplicates) -> Result<(), GraphError> {
    *sum = match duplicates {
        Duplicates::Collapse => (*sum).max(weight),
        Duplicates::Add => sum.checked_add(weight).ok_or(GraphError::TooHeavy)?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(source: u32, target: u32, weight: u64) -> Edge {
        Edge { source, target, weight }
    }

    #[test]
    fn duplicates_collapse_or_add_and_loops_count_twice() {
        let edges = [edge(0, 1, 1), edge(1, 0, 1), edge(1, 2, 1), edge(2, 2, 1), edge(0, 2, 0)];
        let (graph, merged) = Csr::from_edges(3, &edges, Duplicates::Collapse).unwrap();
        assert_eq!(merged, Merged { duplicates: 1, self_loops: 1, weightless: 1 });
        assert_eq!(graph.weights(), &Weights::Unit);
        assert_eq!((graph.arcs(), graph.edges(), graph.total_weight()), (4, 3, 6));
        assert_eq!([graph.degree(0), graph.degree(1), graph.degree(2)], [1, 2, 3]);

        let (graph, _) = Csr::from_edges(3, &edges, Duplicates::Add).unwrap();
        assert_eq!(graph.arcs_of(0).collect::<Vec<_>>(), [(1, 2)]);
        assert_eq!(graph.total_weight(), 8);
    }

    #[test]
    fn edges_are_written_once_each() {
        let edges = [edge(0, 1, 1), edge(1, 2, 3), edge(2, 2, 1)];
        let (graph, _) = Csr::from_edges(3, &edges, Duplicates::Add).unwrap();
        let mut text = Vec::new();
        graph.write_edges(&mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "0 1\n1 2 3\n2 2\n");
    }

    #[test]
    fn limits_and_inconsistent_arrays_are_refused() {
        let heavy = [edge(0, 1, 1 << 61), edge(1, 2, 1)];
        assert!(matches!(Csr::from_edges(3, &heavy, Duplicates::Add), Err(GraphError::TooHeavy)));
        assert!(Csr::from_edges(3, &heavy[..1], Duplicates::Add).is_ok());
        let outside = [edge(0, 3, 1)];
        assert!(matches!(
            Csr::from_edges(3, &outside, Duplicates::Add),
            Err(GraphError::NoSuchVertex { vertex: 3, vertices: 3 })
        ));
        for (offsets, targets, weights, loops) in [
            (vec![], vec![], Weights::Unit, vec![]),
            (vec![0, 1], vec![], Weights::Unit, vec![]),
            (vec![0, 2, 1, 2], vec![0, 0], Weights::Unit, vec![]),
            (vec![0, 1], vec![1], Weights::Unit, vec![]),
            (vec![0, 1], vec![0], Weights::Narrow(vec![]), vec![]),
            (vec![0, 1], vec![0], Weights::Narrow(vec![0]), vec![]),
            (vec![0, 0], vec![], Weights::Unit, vec![1, 1]),
        ] {
            assert!(Csr::from_parts(offsets, targets, weights, loops).is_err());
        }
    }

    #[test]
    fn weights_take_the_narrowest_form() {
        assert_eq!(Weights::narrowest(vec![1, 1]), Weights::Unit);
        assert_eq!(Weights::narrowest(vec![1, 2]), Weights::Narrow(vec![1, 2]));
        assert_eq!(Weights::narrowest(vec![1, 1 << 32]), Weights::Wide(vec![1, 1 << 32]));
    }
}
