//! A worker: holds a replica of graph and labels, finds the best moves of the vertices that it is given, and
//! applies the moves that the master sends.

use std::time::{Duration, Instant};

use crate::graph::{Csr, GraphError, Weights};
use crate::port::{Port, PortError};
use crate::search::{Finder, Move, Partition, SearchError};
use crate::wire::{self, Array, Order, Shape, Summary, WireError};

/// Maximum time that a worker waits for the master.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Error that ended a worker early.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The channel to the master failed.
    #[error("the master cannot be reached: {0}")]
    Port(#[from] PortError),
    /// The message is malformed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The graph is malformed.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The labels do not fit the graph.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The graph does not fit into memory.
    #[error("the graph needs {bytes} bytes of memory, more than this node has to give")]
    Memory {
        /// The memory of the graph while it is received, in bytes.
        bytes: u64,
    },
    /// A message is invalid in the current state.
    #[error("the master broke the protocol: {0}")]
    Unexpected(&'static str),
}

/// Serves the master at the other end of `port` until it ends the search.
///
/// # Errors
/// The master is gone or broke the protocol; in the latter case it has been told.
pub fn serve<P: Port>(port: &mut P, number: u32) -> Result<Summary, WorkerError> {
    port.send(&wire::hello(number, std::env::consts::ARCH), PATIENCE)?;
    let mut replica = Replica::default();
    let mut summary = Summary::default();
    let mut message = Vec::new();
    loop {
        let start = Instant::now();
        port.recv(&mut message, PATIENCE)?;
        summary.wait_ns += nanoseconds(start);
        match replica.obey(&message, &mut summary) {
            Ok(Step::Nothing) => {}
            Ok(Step::Reply(reply)) => port.send(&reply, PATIENCE)?,
            Ok(Step::Finish) => {
                port.send(&wire::summary(summary), PATIENCE)?;
                return Ok(summary);
            }
            Err(error) => {
                // The master notices the end of the channel anyway; this gives the reason.
                let _ = port.send(&wire::give_up(&error.to_string()), PATIENCE);
                return Err(error);
            }
        }
    }
}

fn nanoseconds(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

enum Step {
    Nothing,
    Reply(Vec<u8>),
    Finish,
}

/// State of a worker.
#[derive(Default)]
struct Replica {
    /// Graphs by depth; entering a depth drops the deeper ones.
    graphs: Vec<Csr>,
    incoming: Option<Incoming>,
    awaiting_labels: Option<Vec<u32>>,
    partition: Option<Partition>,
    finder: Finder,
    active: Vec<u32>,
    moves: Vec<Move>,
}

impl Replica {
    fn obey(&mut self, message: &[u8], summary: &mut Summary) -> Result<Step, WorkerError> {
        match wire::read_order(message)? {
            Order::Graph(shape) => {
                self.graphs.truncate(usize::from(shape.depth));
                if self.graphs.len() != usize::from(shape.depth) {
                    return Err(WorkerError::Unexpected("a graph without the one it was contracted from"));
                }
                self.partition = None;
                self.incoming = Some(Incoming::new(shape)?);
                self.settle()?;
            }
            Order::Piece { array: Array::Labels, first, elements } => self.take_labels(first, elements)?,
            Order::Piece { array, first, elements } => {
                let incoming = self.incoming.as_mut();
                incoming
                    .ok_or(WorkerError::Unexpected("an array of no graph"))?
                    .take(array, first, elements)?;
                self.settle()?;
            }
            Order::Enter { depth, singletons } => self.enter(depth, singletons)?,
            Order::Refine => self.refine()?,
            Order::Work { part, vertices } => return self.work(part, vertices, summary),
            Order::Moves(moves) => {
                let (graph, partition) = current(&self.graphs, &mut self.partition)?;
                self.moves.clear();
                moves.moves(graph.vertices() as u32, &mut self.moves)?;
                for &Move { vertex, label } in &self.moves {
                    partition.relabel(graph, vertex, label);
                }
            }
            Order::Finish => return Ok(Step::Finish),
            Order::HasArrived => return Ok(Step::Reply(wire::arrived())),
        }
        summary.memory_bytes = summary.memory_bytes.max(self.memory_bytes());
        Ok(Step::Nothing)
    }

    /// Assembles the graph once its arrays are complete.
    fn settle(&mut self) -> Result<(), WorkerError> {
        if let Some(incoming) = self.incoming.take_if(|incoming| incoming.is_complete()) {
            self.graphs.push(incoming.into_graph()?);
        }
        Ok(())
    }

    fn enter(&mut self, depth: u8, singletons: bool) -> Result<(), WorkerError> {
        if self.incoming.is_some() {
            return Err(WorkerError::Unexpected("a search before the graph was complete"));
        }
        let graph = self.graphs.get(usize::from(depth));
        let graph = graph.ok_or(WorkerError::Unexpected("a search on a graph that was not sent"))?;
        self.partition = singletons.then(|| Partition::singletons(graph));
        self.awaiting_labels = (!singletons).then(Vec::new);
        self.graphs.truncate(usize::from(depth) + 1);
        Ok(())
    }

    fn refine(&mut self) -> Result<(), WorkerError> {
        let graph = self.graphs.last();
        let (graph, partition) = graph
            .zip(self.partition.take())
            .ok_or(WorkerError::Unexpected("a refinement before a search"))?;
        self.partition = Some(Partition::singletons_within(graph, partition.into_labels()));
        Ok(())
    }

    fn take_labels(&mut self, first: u32, elements: &[u8]) -> Result<(), WorkerError> {
        let labels = self.awaiting_labels.as_mut().ok_or(WorkerError::Unexpected("labels for no search"))?;
        let graph = self.graphs.last().ok_or(WorkerError::Unexpected("labels for no graph"))?;
        append_u32(labels, first, elements, graph.vertices())?;
        if labels.len() == graph.vertices() {
            let labels = std::mem::take(labels);
            self.awaiting_labels = None;
            self.partition = Some(Partition::from_labels(graph, labels)?);
        }
        Ok(())
    }

    fn work(
        &mut self,
        part: u32,
        vertices: wire::Packed<'_>,
        summary: &mut Summary,
    ) -> Result<Step, WorkerError> {
        let start = Instant::now();
        let (graph, partition) = current(&self.graphs, &mut self.partition)?;
        self.active.clear();
        self.moves.clear();
        vertices.vertices(graph.vertices() as u32, &mut self.active)?;
        let arcs = self.finder.best_moves(graph, partition, &self.active, &mut self.moves);
        let compute_ns = nanoseconds(start);
        summary.compute_ns += compute_ns;
        Ok(Step::Reply(wire::found(part, arcs, compute_ns, &self.moves)))
    }

    fn memory_bytes(&self) -> u64 {
        let graphs: u64 = self.graphs.iter().map(memory_bytes).sum();
        let vertices = self.graphs.first().map_or(0, |graph| graph.vertices() as u64);
        graphs + vertices * BYTES_PER_REPLICA_VERTEX
    }
}

/// Memory per vertex of a replica: a label, a bound, the weight of a label, and an entry of the sparse map.
const BYTES_PER_REPLICA_VERTEX: u64 = 4 + 4 + 8 + 8;

/// Returns the memory of a graph: 4 bytes and the weight (0, 4 or 8) per arc, 12 per vertex, 8 if it has
/// loops.
#[must_use]
pub fn memory_bytes(graph: &Csr) -> u64 {
    let arc_bytes = match graph.weights() {
        Weights::Unit => 4,
        Weights::Narrow(_) => 8,
        Weights::Wide(_) => 12,
    };
    let vertex_bytes = if graph.loops().is_empty() { 12 } else { 20 };
    graph.arcs() as u64 * arc_bytes + graph.vertices() as u64 * vertex_bytes
}

fn current<'a>(
    graphs: &'a [Csr],
    partition: &'a mut Option<Partition>,
) -> Result<(&'a Csr, &'a mut Partition), WorkerError> {
    graphs.last().zip(partition.as_mut()).ok_or(WorkerError::Unexpected("work before a search"))
}

/// Graph whose arrays arrive one after another.
struct Incoming {
    shape: Shape,
    offsets: Vec<u32>,
    targets: Vec<u32>,
    narrow: Vec<u32>,
    wide: Vec<u64>,
    loops: Vec<u64>,
}

impl Incoming {
    /// Allocates the arrays at their exact size, so that a node with too little memory fails before the work
    /// starts.
    fn new(shape: Shape) -> Result<Self, WorkerError> {
        let (vertices, arcs) = (shape.vertices as usize, shape.arcs as usize);
        let short = |_| {
            let bytes = arcs as u64 * (4 + u64::from(shape.weight_bytes)) + vertices as u64 * 12;
            WorkerError::Memory { bytes }
        };
        let mut incoming = Self {
            shape,
            offsets: Vec::new(),
            targets: Vec::new(),
            narrow: Vec::new(),
            wide: Vec::new(),
            loops: Vec::new(),
        };
        incoming.offsets.try_reserve_exact(vertices + 1).map_err(short)?;
        incoming.targets.try_reserve_exact(arcs).map_err(short)?;
        match shape.weight_bytes {
            4 => incoming.narrow.try_reserve_exact(arcs).map_err(short)?,
            8 => incoming.wide.try_reserve_exact(arcs).map_err(short)?,
            _ => {}
        }
        if shape.loops {
            incoming.loops.try_reserve_exact(vertices).map_err(short)?;
        }
        Ok(incoming)
    }

    fn take(&mut self, array: Array, first: u32, elements: &[u8]) -> Result<(), WorkerError> {
        let (vertices, arcs) = (self.shape.vertices as usize, self.shape.arcs as usize);
        match (array, self.shape.weight_bytes) {
            (Array::Offsets, _) => append_u32(&mut self.offsets, first, elements, vertices + 1),
            (Array::Targets, _) => append_u32(&mut self.targets, first, elements, arcs),
            (Array::Weights, 4) => append_u32(&mut self.narrow, first, elements, arcs),
            (Array::Weights, 8) => append_u64(&mut self.wide, first, elements, arcs),
            (Array::Loops, _) if self.shape.loops => append_u64(&mut self.loops, first, elements, vertices),
            _ => Err(WorkerError::Unexpected("an array that the graph does not have")),
        }
    }

    fn is_complete(&self) -> bool {
        let (vertices, arcs) = (self.shape.vertices as usize, self.shape.arcs as usize);
        self.offsets.len() == vertices + 1
            && self.targets.len() == arcs
            && self.narrow.len() == if self.shape.weight_bytes == 4 { arcs } else { 0 }
            && self.wide.len() == if self.shape.weight_bytes == 8 { arcs } else { 0 }
            && self.loops.len() == if self.shape.loops { vertices } else { 0 }
    }

    fn into_graph(self) -> Result<Csr, GraphError> {
        let weights = match self.shape.weight_bytes {
            4 => Weights::Narrow(self.narrow),
            8 => Weights::Wide(self.wide),
            _ => Weights::Unit,
        };
        Csr::from_parts(self.offsets, self.targets, weights, self.loops)
    }
}

fn append_u32(array: &mut Vec<u32>, first: u32, bytes: &[u8], limit: usize) -> Result<(), WorkerError> {
    let (elements, rest) = bytes.as_chunks::<4>();
    check_piece(array.len(), first, elements.len(), rest, limit)?;
    array.extend(elements.iter().map(|&element| u32::from_le_bytes(element)));
    Ok(())
}

fn append_u64(array: &mut Vec<u64>, first: u32, bytes: &[u8], limit: usize) -> Result<(), WorkerError> {
    let (elements, rest) = bytes.as_chunks::<8>();
    check_piece(array.len(), first, elements.len(), rest, limit)?;
    array.extend(elements.iter().map(|&element| u64::from_le_bytes(element)));
    Ok(())
}

fn check_piece(
    length: usize,
    first: u32,
    count: usize,
    rest: &[u8],
    limit: usize,
) -> Result<(), WorkerError> {
    if first as usize != length {
        return Err(WorkerError::Unexpected("a piece of an array out of order"));
    }
    if !rest.is_empty() || count > limit - length {
        return Err(WorkerError::Unexpected("a piece of an array that is too long or cut within an element"));
    }
    Ok(())
}
