//! The search, in one process and by the ranks of a job.

use std::ops::Range;
use std::time::{Duration, Instant};

use tombolo_objects::{Caching, Consistency, Job, Mapping, MappingReader, ObjectError, Plain, Pointer};

use super::graph::Graph;

/// Data that a search reads. Communities are identified by labels.
trait Values {
    fn start(&self, vertex: u32) -> u32;
    fn arc(&self, position: u32) -> (u32, u32);
    fn degree(&self, vertex: u32) -> u64;
    fn label(&self, vertex: u32) -> u32;
    /// Returns the sum of the degrees of all vertices of a community.
    fn weight(&self, label: u32) -> u64;
}

/// Gain, vertex and target label of a move: modularity grows by `2 gain / total²`. Integers, so that every
/// processor makes the same decisions.
type Move = (i128, u32, u32);

/// Placeholder for "no move", worse than any real one.
const NONE: Move = (0, u32::MAX, u32::MAX);

/// Returns the better of two moves: the greater gain, then the lower vertex and label.
fn better(a: Move, b: Move) -> Move {
    let key = |(gain, vertex, label): Move| (gain, u32::MAX - vertex, u32::MAX - label);
    if key(b) > key(a) { b } else { a }
}

/// Finds moves; holds a reusable map of the edge weights from a vertex to each community.
struct Finder {
    gathered: Vec<u64>,
    touched: Vec<u32>,
}

impl Finder {
    fn new(vertices: usize) -> Finder {
        Finder { gathered: vec![0; vertices], touched: Vec::new() }
    }

    /// Returns the best move of all vertices in the range.
    fn best(&mut self, values: &impl Values, vertices: Range<u32>, total: u64) -> Move {
        let mut best = NONE;
        for vertex in vertices {
            for position in values.start(vertex)..values.start(vertex + 1) {
                let (target, weight) = values.arc(position);
                let label = values.label(target);
                let gathered = &mut self.gathered[label as usize];
                if *gathered == 0 {
                    self.touched.push(label);
                }
                *gathered += u64::from(weight);
            }
            let (degree, own) = (values.degree(vertex), values.label(vertex));
            let value = |inside: u64, weight: u64| {
                i128::from(total) * i128::from(inside) - i128::from(degree) * i128::from(weight)
            };
            let staying = value(self.gathered[own as usize], values.weight(own) - degree);
            // A vertex may found the community with its own number, if that is empty.
            if values.weight(vertex) == 0 {
                best = better(best, (-staying, vertex, vertex));
            }
            for label in self.touched.drain(..) {
                let inside = std::mem::take(&mut self.gathered[label as usize]);
                if label != own {
                    best = better(best, (value(inside, values.weight(label)) - staying, vertex, label));
                }
            }
        }
        best
    }
}

/// Returns the modularity of a labelling.
#[must_use]
pub fn modularity(graph: &Graph, labels: &[u32]) -> f64 {
    let mut weights = vec![0_u64; graph.vertices()];
    let mut inside = 0_u64;
    for vertex in 0..graph.vertices() {
        weights[labels[vertex] as usize] += graph.degree(vertex);
        for (target, weight) in &graph.arcs[graph.starts[vertex] as usize..graph.starts[vertex + 1] as usize]
        {
            inside += u64::from(*weight) * u64::from(labels[*target as usize] == labels[vertex]);
        }
    }
    let total: u64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| (*weight as f64 / total as f64).powi(2)).sum();
    inside as f64 / total as f64 - squares
}

/// State of a search in this process, in vectors.
struct Alone<'a> {
    graph: &'a Graph,
    degrees: Vec<u64>,
    labels: Vec<u32>,
    weights: Vec<u64>,
}

impl Values for Alone<'_> {
    fn start(&self, vertex: u32) -> u32 {
        self.graph.starts[vertex as usize]
    }

    fn arc(&self, position: u32) -> (u32, u32) {
        self.graph.arcs[position as usize]
    }

    fn degree(&self, vertex: u32) -> u64 {
        self.degrees[vertex as usize]
    }

    fn label(&self, vertex: u32) -> u32 {
        self.labels[vertex as usize]
    }

    fn weight(&self, label: u32) -> u64 {
        self.weights[label as usize]
    }
}

/// Searches in this process, and returns the label of each vertex and the number of steps.
#[must_use]
pub fn alone(graph: &Graph, max_steps: u64) -> (Vec<u32>, u64) {
    let count = graph.vertices();
    let degrees: Vec<u64> = (0..count).map(|vertex| graph.degree(vertex)).collect();
    let total = degrees.iter().sum();
    let mut all = Alone { graph, labels: (0..count as u32).collect(), weights: degrees.clone(), degrees };
    let mut finder = Finder::new(count);
    for step in 0..max_steps {
        let (gain, vertex, label) = finder.best(&all, 0..count as u32, total);
        if gain <= 0 {
            return (all.labels, step);
        }
        let from = std::mem::replace(&mut all.labels[vertex as usize], label);
        let degree = all.degrees[vertex as usize];
        all.weights[from as usize] -= degree;
        all.weights[label as usize] += degree;
    }
    (all.labels, max_steps)
}

/// Caching modes of the mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maps {
    /// The same mode for all mappings.
    All(Caching),
    /// The graph cached, labels and weights written through.
    Mix,
}

impl Maps {
    /// All variants, with their names in the paper.
    pub const ALL: [(&str, Maps); 4] = [
        ("cached", Maps::All(Caching::Cached)),
        ("uncached", Maps::All(Caching::Uncached)),
        ("write-through", Maps::All(Caching::WriteThrough)),
        ("mix", Maps::Mix),
    ];

    fn of_graph(self) -> Caching {
        if let Maps::All(caching) = self { caching } else { Caching::Cached }
    }

    fn of_partition(self) -> Caching {
        if let Maps::All(caching) = self { caching } else { Caching::WriteThrough }
    }
}

/// Objects shared by the ranks.
struct Clusters {
    vertices: u32,
    total: u64,
    starts: Mapping<u32>,
    arcs: Mapping<(u32, u32)>,
    degrees: Mapping<u64>,
    labels: Mapping<u32>,
    weights: Mapping<u64>,
}

/// Pointers with which ranks open the shared objects.
type Pointers =
    ((u32, u64), (Pointer<[u32]>, Pointer<[(u32, u32)]>), (Pointer<[u64]>, Pointer<[u32]>, Pointer<[u64]>));

impl Clusters {
    /// Creates the objects from rank 0's graph, with each vertex in a community of its own.
    fn create(job: &Job, graph: &Graph, maps: Maps, consistency: Consistency) -> Result<Self, ObjectError> {
        let count = graph.vertices() as u64;
        let space = |count| job.create_space(count, count, consistency);
        let (vertices, bounds, arcs) = (space(count)?, space(count + 1)?, space(graph.arcs.len() as u64)?);
        let (fixed, changing) = (maps.of_graph(), maps.of_partition());
        let degree = |vertex: u64| graph.degree(vertex as usize);
        Ok(Clusters {
            vertices: count as u32,
            total: (0..count).map(degree).sum(),
            starts: job.create_mapping(&bounds, |index| graph.starts[index as usize], consistency, fixed)?,
            arcs: job.create_mapping(&arcs, |index| graph.arcs[index as usize], consistency, fixed)?,
            degrees: job.create_mapping(&vertices, degree, consistency, fixed)?,
            labels: job.create_mapping(&vertices, |vertex| vertex as u32, consistency, changing)?,
            weights: job.create_mapping(&vertices, degree, consistency, changing)?,
        })
    }

    /// Creates the objects at rank 0 and opens them on all ranks: a collective.
    fn share(
        job: &mut Job,
        graph: &Graph,
        maps: Maps,
        consistency: Consistency,
    ) -> Result<Self, ObjectError> {
        if job.rank() == 0 {
            let made = Self::create(job, graph, maps, consistency)?;
            let graph = (made.starts.pointer(), made.arcs.pointer());
            let vertices = (made.degrees.pointer(), made.labels.pointer(), made.weights.pointer());
            let pointers: Pointers = ((made.vertices, made.total), graph, vertices);
            job.broadcast_bytes(0, pointers.to_bytes())?;
            return Ok(made);
        }
        let bytes = job.broadcast_bytes(0, Vec::new())?;
        let ((vertices, total), (starts, arcs), (degrees, labels, weights)) = Pointers::decode(&bytes);
        Ok(Clusters {
            vertices,
            total,
            starts: job.open_mapping(starts)?,
            arcs: job.open_mapping(arcs)?,
            degrees: job.open_mapping(degrees)?,
            labels: job.open_mapping(labels)?,
            weights: job.open_mapping(weights)?,
        })
    }
}

/// Read guards of all mappings.
struct Readers<'a> {
    starts: MappingReader<'a, u32>,
    arcs: MappingReader<'a, (u32, u32)>,
    degrees: MappingReader<'a, u64>,
    labels: MappingReader<'a, u32>,
    weights: MappingReader<'a, u64>,
}

impl<'a> Readers<'a> {
    fn acquire(clusters: &'a mut Clusters, job: &'a Job) -> Result<Self, ObjectError> {
        let Clusters { starts, arcs, degrees, labels, weights, .. } = clusters;
        let parts =
            (starts.reading(), arcs.reading(), degrees.reading(), labels.reading(), weights.reading());
        let (starts, arcs, degrees, labels, weights) = job.acquire_all(parts)?;
        Ok(Readers { starts, arcs, degrees, labels, weights })
    }
}

/// Indices are those of rank 0's graph.
impl Values for Readers<'_> {
    fn start(&self, vertex: u32) -> u32 {
        self.starts.get(u64::from(vertex)).unwrap_or(0)
    }

    fn arc(&self, position: u32) -> (u32, u32) {
        self.arcs.get(u64::from(position)).unwrap_or((0, 0))
    }

    fn degree(&self, vertex: u32) -> u64 {
        self.degrees.get(u64::from(vertex)).unwrap_or(0)
    }

    fn label(&self, vertex: u32) -> u32 {
        self.labels.get(u64::from(vertex)).unwrap_or(0)
    }

    fn weight(&self, label: u32) -> u64 {
        self.weights.get(u64::from(label)).unwrap_or(0)
    }
}

/// Result of a search, at rank 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The label of each vertex.
    pub labels: Vec<u32>,
    /// Number of moves.
    pub steps: u64,
    /// Duration from the first step to the last.
    pub time: Duration,
    /// Part of it in which rank 0 applied moves: writing and releasing.
    pub writing: Duration,
    /// Part of it in which the slowest rank of each step acquired everything for reading and fetched changes.
    pub acquiring: Duration,
}

/// Searches with all ranks of a job. Only the `graph` and the outcome of rank 0 are meaningful. A collective.
///
/// # Errors
/// Those of guards and collectives.
pub fn together(
    job: &mut Job,
    graph: &Graph,
    maps: Maps,
    consistency: Consistency,
    max_steps: u64,
) -> Result<Outcome, ObjectError> {
    let mut clusters = Clusters::share(job, graph, maps, consistency)?;
    let (vertices, total) = (clusters.vertices, clusters.total);
    let share = |rank: u32| (u64::from(vertices) * u64::from(rank) / u64::from(job.size())) as u32;
    let own = share(job.rank())..share(job.rank() + 1);
    let mut finder = Finder::new(vertices as usize);
    // The initial fetch of each rank is not counted.
    drop(Readers::acquire(&mut clusters, job)?);
    job.barrier()?;
    let started = Instant::now();
    let (mut steps, mut writing, mut acquiring_ns) = (0, Duration::ZERO, 0);
    while steps < max_steps {
        let before = Instant::now();
        let readers = Readers::acquire(&mut clusters, job)?;
        let acquired_ns = before.elapsed().as_nanos() as u64;
        let best = finder.best(&readers, own.clone(), total);
        drop(readers);
        let found =
            job.reduce((best, acquired_ns), |(a, ns), (b, other_ns)| (better(a, b), ns.max(other_ns)))?;
        let (best, slowest_ns) = found.unwrap_or((NONE, 0));
        acquiring_ns += slowest_ns;
        if job.rank() == 0 && best.0 > 0 {
            let before = Instant::now();
            apply(&mut clusters, job, best)?;
            writing += before.elapsed();
        }
        if !job.broadcast(0, best.0 > 0)? {
            break;
        }
        steps += 1;
    }
    let time = started.elapsed();
    let labels = clusters.labels.read(job)?.iter().collect();
    job.barrier()?;
    Ok(Outcome { labels, steps, time, writing, acquiring: Duration::from_nanos(acquiring_ns) })
}

/// Applies a move.
fn apply(clusters: &mut Clusters, job: &Job, (_, vertex, label): Move) -> Result<(), ObjectError> {
    let Clusters { degrees, labels, weights, .. } = clusters;
    let (degrees, mut labels, mut weights) =
        job.acquire_all((degrees.reading(), labels.writing(), weights.writing()))?;
    let degree = degrees.get(u64::from(vertex)).unwrap_or(0);
    let from = u64::from(labels.get(u64::from(vertex)).unwrap_or(0));
    let (left, joined) = (weights.get(from).unwrap_or(0), weights.get(u64::from(label)).unwrap_or(0));
    labels.set(u64::from(vertex), &label)?;
    weights.set(from, &left.saturating_sub(degree))?;
    weights.set(u64::from(label), &(joined + degree))
}
