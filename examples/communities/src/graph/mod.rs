//! Graphs: their representation in memory and their sources.

mod csr;
pub mod debian;
mod edge_list;
pub mod lfr;
mod matrix_market;
mod names;
pub mod rmat;
mod text;
mod weight;

use std::io;
use std::path::Path;

pub use csr::{Csr, Duplicates, Edge, MAX_ARCS, MAX_TOTAL_WEIGHT, MAX_VERTICES, Merged, Weights};
pub use names::{NameTable, Names};
pub use text::{Lines, MAX_LINE_BYTES, Progress};
pub use weight::MAX_EDGE_WEIGHT;

/// Graph as read, with the names of its vertices.
#[derive(Debug)]
pub struct Input {
    /// The graph itself.
    pub graph: Csr,
    /// Names of its vertices.
    pub names: Names,
    /// Source and format of the graph, for reports.
    pub origin: String,
    /// Number of lines read.
    pub lines: u64,
    /// Numbers of edges that were merged or dropped.
    pub merged: Merged,
}

impl Input {
    /// Reads a graph from a file: an edge list or Matrix Market, plain or gzip, detected by the first bytes.
    ///
    /// # Errors
    /// The file cannot be read, a line is malformed, or the graph is beyond the limits.
    pub fn read(path: &Path, watch: &mut dyn FnMut(Progress)) -> Result<Self, ReadError> {
        Self::read_lines(&mut Lines::open(path, watch)?)
    }

    /// Reads a graph from a stream of lines.
    ///
    /// # Errors
    /// Those of [`Input::read`].
    pub fn read_lines(lines: &mut Lines<'_>) -> Result<Self, ReadError> {
        lines.advance()?;
        let banner = lines.line().get(..matrix_market::BANNER.len()).unwrap_or_default();
        if banner.eq_ignore_ascii_case(matrix_market::BANNER) {
            matrix_market::read(lines)
        } else {
            edge_list::read(lines)
        }
    }

    fn build(
        lines: &Lines<'_>,
        vertices: usize,
        edges: &[Edge],
        duplicates: Duplicates,
        names: Names,
        format: &str,
    ) -> Result<Self, ReadError> {
        let name = lines.name();
        let (graph, merged) = Csr::from_edges(vertices, edges, duplicates)
            .map_err(|source| ReadError::Graph { name: name.to_owned(), source })?;
        if graph.total_weight() == 0 {
            return Err(ReadError::NoEdges { name: name.to_owned() });
        }
        Ok(Self { graph, names, origin: format!("{name} ({format})"), lines: lines.number(), merged })
    }
}

/// Error of reading a graph.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source cannot be opened or read.
    #[error("cannot read {name}: {source}")]
    Io {
        /// File or command.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A line is malformed.
    #[error("{name}:{line}: expected {expected}, found {found}")]
    Line {
        /// File or command.
        name: String,
        /// Number of the line; the first is 1.
        line: u64,
        /// The expected content.
        expected: &'static str,
        /// The content found instead.
        found: String,
    },
    /// The graph has no edges.
    #[error("{name} holds no edge of a weight above 0")]
    NoEdges {
        /// File or command.
        name: String,
    },
    /// The edges do not make a graph within the limits.
    #[error("{name}: {source}")]
    Graph {
        /// File or command.
        name: String,
        /// The violated limit.
        source: GraphError,
    },
    /// This machine has no package lists.
    #[error("{problem}; `apt-get update` fetches package lists on Debian, elsewhere give a graph file")]
    NoPackageLists {
        /// Description of the problem.
        problem: String,
    },
}

/// Reason why arrays or edges do not form a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An edge refers to a vertex that does not exist.
    #[error("an edge leads to vertex {vertex}, but the graph has {vertices} vertices (0 is the first)")]
    NoSuchVertex {
        /// Id of that vertex.
        vertex: u32,
        /// Number of vertices.
        vertices: usize,
    },
    /// More vertices than 32-bit ids can represent.
    #[error("{vertices} vertices are more than the {limit} this program can name")]
    TooManyVertices {
        /// How many were given.
        vertices: usize,
        /// How many are possible.
        limit: usize,
    },
    /// More edges than 32-bit offsets can represent.
    #[error("{edges} edges are more than the {limit} this program can hold")]
    TooManyEdges {
        /// How many were given.
        edges: usize,
        /// How many are possible.
        limit: usize,
    },
    /// The total weight is too large for exact arithmetic.
    #[error("the weights of all edges add up to more than 2^61; scale them down")]
    TooHeavy,
    /// Arrays that contradict each other.
    #[error("inconsistent graph arrays: {0}")]
    Inconsistent(&'static str),
}
