//! The search for communities: a multilevel local search in exact integers.
//!
//! 1. On each level, vertices move between communities in rounds (`level`), or one after another where the
//!    graph is small (`queue`).
//! 2. Communities are contracted to the vertices of a smaller graph (`coarsen`), and so on until nothing is
//!    gained.
//! 3. On the way back the labelling of each coarser level is improved by moves of the finer one.
//! 4. The whole is done again from the labelling reached, as long as that gains. From the second time on
//!    communities are first divided into parts that belong together (`refine`), and the parts contracted:
//!    they can leave one community for another.
//!
//! The answer depends on the graph and the seed only, not on the [`Crew`] that computes the moves.

mod coarsen;
mod dirty;
mod level;
mod modularity;
mod moves;
mod partition;
mod queue;
mod refine;

pub use coarsen::{contract, number_communities};
pub use level::{MAX_SWEEPS, ROUNDS_PER_SWEEP};
pub use modularity::Modularity;
pub use moves::{Finder, Move};
pub use partition::Partition;

use std::time::{Duration, Instant};

use crate::graph::{Csr, GraphError};
use crate::random::mix;

/// Maximum number of passes through all levels, down and up.
pub const MAX_PASSES: u32 = 6;

/// Number of arcs below which contracted graphs are searched by the master, one vertex after another.
pub const SMALL_ARCS: usize = 1 << 22;

/// Reason why a labelling does not fit a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The number of labels differs from the number of vertices.
    #[error("{labels} labels for {vertices} vertices")]
    LabelCount {
        /// Number of labels given.
        labels: usize,
        /// Vertices there are.
        vertices: usize,
    },
    /// A label is out of range.
    #[error("label {label} is not below the number of vertices, {vertices}")]
    NoSuchLabel {
        /// The label.
        label: u32,
        /// Vertices there are.
        vertices: usize,
    },
    /// A contracted graph is inconsistent.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Identity of the graph that is being searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Number of contractions; 0 is the input.
    pub depth: usize,
    /// Serial number, which distinguishes graphs of one depth.
    pub serial: u32,
}

/// Workers that compute the best moves of a round.
pub trait Crew {
    /// Error type of the crew.
    type Error: From<SearchError>;

    /// Switches to `graph`, starting from `partition`.
    ///
    /// # Errors
    /// The crew cannot follow.
    fn enter(&mut self, stage: Stage, graph: &Csr, partition: &Partition) -> Result<(), Self::Error>;

    /// Stays on the same graph: the communities become bounds, and each vertex starts alone within them.
    ///
    /// # Errors
    /// The crew cannot follow.
    fn refine(&mut self) -> Result<(), Self::Error>;

    /// Appends the best moves of the `active` vertices (ascending) to `moves`, in the same order.
    ///
    /// # Errors
    /// The crew cannot compute the moves.
    fn best_moves(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
    ) -> Result<(), Self::Error>;

    /// Notifies the crew that the master has applied `moves` to its partition.
    ///
    /// # Errors
    /// The crew cannot follow.
    fn applied(&mut self, moves: &[Move]) -> Result<(), Self::Error>;

    /// Reports that the master searched a small graph itself: number of arcs examined, and time.
    fn spared(&mut self, _arcs: u64, _time: Duration) {}
}

/// A crew of one: the caller's thread.
#[derive(Debug, Default)]
pub struct Alone {
    finder: Finder,
}

impl Crew for Alone {
    type Error = SearchError;

    fn enter(&mut self, _: Stage, _: &Csr, _: &Partition) -> Result<(), SearchError> {
        Ok(())
    }

    fn refine(&mut self) -> Result<(), SearchError> {
        Ok(())
    }

    fn best_moves(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
    ) -> Result<(), SearchError> {
        self.finder.best_moves(graph, partition, active, moves);
        Ok(())
    }

    fn applied(&mut self, _: &[Move]) -> Result<(), SearchError> {
        Ok(())
    }
}

/// Counters of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of levels, including the input.
    pub levels: u32,
    /// Rounds on all levels.
    pub rounds: u32,
    /// Number of vertices evaluated for a move.
    pub evaluations: u64,
    /// Moves applied.
    pub moves: u64,
}

/// A finished level, for progress reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// 0 is the input graph.
    pub level: usize,
    /// Vertices on that level.
    pub vertices: usize,
    /// Edges on that level.
    pub edges: u64,
    /// Whether the search was on the way back to finer levels.
    pub refining: bool,
    /// Modularity reached.
    pub modularity: f64,
    /// Rounds so far, on all levels.
    pub rounds: u32,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communities {
    /// Community of each vertex; communities are numbered in the order of their first vertex.
    pub members: Vec<u32>,
    /// Number of communities.
    pub count: usize,
    /// Modularity of the communities.
    pub modularity: Modularity,
    /// Counters of the search.
    pub tally: Tally,
}

/// A search with its seed and its observer.
pub struct Search<'w> {
    seed: u64,
    /// Number of single-level searches begun; salts their random numbers.
    climbs: u64,
    /// Number of contracted graphs so far.
    serial: u32,
    tally: Tally,
    small_arcs: usize,
    finder: Finder,
    watch: Box<dyn FnMut(Step) + 'w>,
}

impl<'w> Search<'w> {
    /// Creates a search that is determined by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            climbs: 0,
            serial: 0,
            tally: Tally { levels: 1, ..Tally::default() },
            small_arcs: SMALL_ARCS,
            finder: Finder::default(),
            watch: Box::new(|_| ()),
        }
    }

    /// Calls `watch` after each level.
    #[must_use]
    pub fn watched(mut self, watch: impl FnMut(Step) + 'w) -> Self {
        self.watch = Box::new(watch);
        self
    }

    /// Replaces the limit [`SMALL_ARCS`], which changes the answer: with 0, the crew also searches contracted
    /// graphs.
    #[must_use]
    pub fn small_below(mut self, arcs: usize) -> Self {
        self.small_arcs = arcs;
        self
    }

    /// Searches `graph`.
    ///
    /// # Errors
    /// Those of the crew.
    pub fn run<C: Crew>(mut self, graph: &Csr, crew: &mut C) -> Result<Communities, C::Error> {
        let input = Stage { depth: 0, serial: 0 };
        let (mut partition, mut modularity) =
            self.climb(graph, input, Partition::singletons(graph), false, crew)?;
        for pass in 0..MAX_PASSES {
            let before = modularity;
            let whole = pass == 0;
            (partition, modularity) = self.improve(graph, input, partition, modularity, whole, crew)?;
            if !whole && !modularity.noticeably_above(&before) {
                break;
            }
        }
        let (members, count) = number_communities(partition.labels());
        Ok(Communities { members, count, modularity, tally: self.tally })
    }

    /// Moves communities, `whole` or in parts, on the contracted graph, then single vertices of this one
    /// again.
    fn improve<C: Crew>(
        &mut self,
        graph: &Csr,
        stage: Stage,
        partition: Partition,
        modularity: Modularity,
        whole: bool,
        crew: &mut C,
    ) -> Result<(Partition, Modularity), C::Error> {
        let communities = partition.labels().to_vec();
        let parts = if whole { communities } else { self.refine(graph, stage, communities, crew)? };
        let (members, count) = number_communities(&parts);
        if count == graph.vertices() {
            return Ok((partition, modularity));
        }
        let coarse = contract(graph, &members, count).map_err(C::Error::from)?;
        self.serial += 1;
        let below = Stage { depth: stage.depth + 1, serial: self.serial };
        self.tally.levels = self.tally.levels.max(below.depth as u32 + 1);
        let start = coarsen::labels_of_parts(partition.labels(), &members, count);
        let start = Partition::from_labels(&coarse, start).map_err(C::Error::from)?;
        let (mut found, reached) = self.climb(&coarse, below, start, false, crew)?;
        // Parts of the input are much smaller than its communities, so that a second contraction always pays.
        if stage.depth == 0 || reached.noticeably_above(&modularity) {
            (found, _) = self.improve(&coarse, below, found, reached, whole, crew)?;
        }
        let labels: Vec<u32> = members.iter().map(|&member| found.label(member)).collect();
        let labels = coarsen::name_by_first_vertex(&labels);
        let start = Partition::from_labels(graph, labels).map_err(C::Error::from)?;
        self.climb(graph, stage, start, true, crew)
    }

    fn is_small(&self, graph: &Csr, stage: Stage) -> bool {
        stage.depth > 0 && graph.arcs() < self.small_arcs
    }

    /// Returns a different number for each single-level search.
    fn salt(&mut self) -> u64 {
        self.climbs += 1;
        mix(self.seed ^ mix(self.climbs))
    }

    /// Divides the communities that the last climb found on the same graph.
    fn refine<C: Crew>(
        &mut self,
        graph: &Csr,
        stage: Stage,
        communities: Vec<u32>,
        crew: &mut C,
    ) -> Result<Vec<u32>, C::Error> {
        let salt = self.salt();
        let mut parts = Partition::singletons_within(graph, communities);
        if self.is_small(graph, stage) {
            let began = Instant::now();
            let arcs = queue::refine(graph, &mut parts, salt, &mut self.finder, &mut self.tally);
            crew.spared(arcs, began.elapsed());
        } else {
            crew.refine()?;
            refine::refine(graph, &mut parts, salt, &mut self.tally, crew)?;
        }
        Ok(parts.into_labels())
    }

    fn climb<C: Crew>(
        &mut self,
        graph: &Csr,
        stage: Stage,
        mut start: Partition,
        refining: bool,
        crew: &mut C,
    ) -> Result<(Partition, Modularity), C::Error> {
        let salt = self.salt();
        let (partition, modularity) = if self.is_small(graph, stage) {
            let began = Instant::now();
            let arcs = queue::climb(graph, &mut start, salt, &mut self.finder, &mut self.tally);
            crew.spared(arcs, began.elapsed());
            let modularity = Modularity::of(graph, &start);
            (start, modularity)
        } else {
            crew.enter(stage, graph, &start)?;
            level::Climb::new(graph, start).run(&mut self.tally, salt, crew)?
        };
        (self.watch)(Step {
            level: stage.depth,
            vertices: graph.vertices(),
            edges: graph.edges(),
            refining,
            modularity: modularity.value(),
            rounds: self.tally.rounds,
        });
        Ok((partition, modularity))
    }
}
