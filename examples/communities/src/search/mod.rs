//! The search for communities: a multilevel local search in exact integers.
//!
//! 1. On each level, vertices move between communities in rounds (`level`); the result is contracted to a
//!    smaller graph (`coarsen`), and so on until nothing is gained.
//! 2. On the way back the labelling of each coarser level is refined by moves of the finer one.
//! 3. The whole is done again from the labelling reached, as long as that gains.
//!
//! The answer depends on the graph and the seed only. Who computes the moves, a [`Crew`], has no say in it.

mod coarsen;
mod level;
mod modularity;
mod moves;
mod partition;

pub use coarsen::{contract, number_communities};
pub use level::{MAX_SWEEPS, ROUNDS_PER_SWEEP};
pub use modularity::Modularity;
pub use moves::{Finder, Move};
pub use partition::Partition;

use crate::graph::{Csr, GraphError};

/// Most times that the whole way down and up is gone.
pub const MAX_PASSES: u32 = 4;

/// Why a labelling does not fit a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Not one label per vertex.
    #[error("{labels} labels for {vertices} vertices")]
    LabelCount {
        /// Labels given.
        labels: usize,
        /// Vertices there are.
        vertices: usize,
    },
    /// A label out of range.
    #[error("label {label} is not below the number of vertices, {vertices}")]
    NoSuchLabel {
        /// The label.
        label: u32,
        /// Vertices there are.
        vertices: usize,
    },
    /// A contracted graph that cannot be.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Which graph a search is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// How often it was contracted; 0 is the input.
    pub depth: usize,
    /// Tells graphs of one depth apart; the same number is the same graph.
    pub serial: u32,
}

/// Those who compute the best moves of a round.
pub trait Crew {
    /// What can go wrong with them.
    type Error: From<SearchError>;

    /// The search goes on with `graph` from `partition`.
    ///
    /// # Errors
    /// The crew cannot follow.
    fn enter(&mut self, stage: Stage, graph: &Csr, partition: &Partition) -> Result<(), Self::Error>;

    /// Appends the best moves of the `active` vertices (ascending) to `moves`, in the same order.
    ///
    /// # Errors
    /// The crew cannot do it.
    fn best_moves(
        &mut self,
        graph: &Csr,
        partition: &Partition,
        active: &[u32],
        moves: &mut Vec<Move>,
    ) -> Result<(), Self::Error>;

    /// The master has applied `moves` to its partition.
    ///
    /// # Errors
    /// The crew cannot follow.
    fn applied(&mut self, moves: &[Move]) -> Result<(), Self::Error>;
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

/// What a search did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Levels, the input among them.
    pub levels: u32,
    /// Rounds on all levels.
    pub rounds: u32,
    /// Best moves asked for.
    pub evaluations: u64,
    /// Moves applied.
    pub moves: u64,
}

/// One level done, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// 0 is the input graph.
    pub level: usize,
    /// Vertices on that level.
    pub vertices: usize,
    /// Edges on that level.
    pub edges: u64,
    /// Whether this was on the way back.
    pub refining: bool,
    /// Modularity reached.
    pub modularity: f64,
    /// Rounds so far, on all levels.
    pub rounds: u32,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communities {
    /// Community of each vertex; communities are numbered in the order of their first vertex.
    pub members: Vec<u32>,
    /// How many communities there are.
    pub count: usize,
    /// How good they are.
    pub modularity: Modularity,
    /// What it took.
    pub tally: Tally,
}

/// A search with its seed and its observer.
pub struct Search<'w> {
    seed: u64,
    /// Searches on one level begun so far; each draws its own numbers.
    climbs: u64,
    /// Contracted graphs made so far.
    serial: u32,
    tally: Tally,
    watch: Box<dyn FnMut(Step) + 'w>,
}

impl<'w> Search<'w> {
    /// A search whose course is fixed by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            climbs: 0,
            serial: 0,
            tally: Tally { levels: 1, ..Tally::default() },
            watch: Box::new(|_| ()),
        }
    }

    /// Calls `watch` after each level.
    #[must_use]
    pub fn watched(mut self, watch: impl FnMut(Step) + 'w) -> Self {
        self.watch = Box::new(watch);
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
        for _ in 0..MAX_PASSES {
            let before = modularity;
            (partition, modularity) = self.improve(graph, input, partition, modularity, crew)?;
            if !modularity.noticeably_above(&before) {
                break;
            }
        }
        let (members, count) = number_communities(partition.labels());
        Ok(Communities { members, count, modularity, tally: self.tally })
    }

    /// Moves whole communities on the contracted graph, then single vertices of this one again.
    /// Gives back what it was given if that gains nothing worth the trouble.
    fn improve<C: Crew>(
        &mut self,
        graph: &Csr,
        stage: Stage,
        partition: Partition,
        modularity: Modularity,
        crew: &mut C,
    ) -> Result<(Partition, Modularity), C::Error> {
        let (members, count) = number_communities(partition.labels());
        if count == graph.vertices() {
            return Ok((partition, modularity));
        }
        let coarse = contract(graph, &members, count).map_err(C::Error::from)?;
        self.serial += 1;
        let below = Stage { depth: stage.depth + 1, serial: self.serial };
        self.tally.levels = self.tally.levels.max(below.depth as u32 + 1);
        let (found, reached) = self.climb(&coarse, below, Partition::singletons(&coarse), false, crew)?;
        if !reached.noticeably_above(&modularity) {
            return Ok((partition, modularity));
        }
        let (found, _) = self.improve(&coarse, below, found, reached, crew)?;
        let labels: Vec<u32> = members.iter().map(|&member| found.label(member)).collect();
        let labels = coarsen::name_by_first_vertex(&labels);
        let start = Partition::from_labels(graph, labels).map_err(C::Error::from)?;
        self.climb(graph, stage, start, true, crew)
    }

    fn climb<C: Crew>(
        &mut self,
        graph: &Csr,
        stage: Stage,
        start: Partition,
        refining: bool,
        crew: &mut C,
    ) -> Result<(Partition, Modularity), C::Error> {
        crew.enter(stage, graph, &start)?;
        self.climbs += 1;
        let salt = level::mix(self.seed ^ level::mix(self.climbs));
        let (partition, modularity) = level::Climb::new(graph, start).run(&mut self.tally, salt, crew)?;
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
