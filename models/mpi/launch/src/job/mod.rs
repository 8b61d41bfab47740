//! A job: starting its ranks on their nodes, watching them, and ending them together.

mod cleaner;
mod ending;
mod leftovers;
mod run;
mod services;
mod start;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tombolo::nodes::NodeInfo;
use tombolo::waitset::Waker;
use tombolo::{Child, Domain, DomainId, Error, WaitSet};
use tombolo_placement::PlacementError;

use crate::environment::{Environment, MissingMpi};
use crate::program::{Program, ProgramError};

pub use cleaner::{Cleaner, clean_after};
pub use ending::{Outcome, RankEnd};

/// A group of ranks that run one program.
#[derive(Clone, Debug)]
pub struct Part {
    /// Program of these ranks.
    pub program: Arc<Program>,
    /// Command-line arguments of the program.
    pub arguments: Vec<String>,
    /// Node of each rank, as an index into [`JobOptions::nodes`].
    pub nodes: Vec<usize>,
    /// Environment variables of the ranks.
    pub environment: Environment,
    /// Working directory, if it exists on the node.
    pub directory: PathBuf,
}

/// Ranks that get the standard input of the launcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stdin {
    /// None: all read end of file.
    None,
    /// The first rank.
    First,
    /// All ranks, each with a copy.
    All,
}

/// Everything that a job is started with.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Nodes of the machine.
    pub nodes: Vec<NodeInfo>,
    /// Programs of the job; ranks are numbered in this order.
    pub parts: Vec<Part>,
    /// Ranks that get the standard input.
    pub stdin: Stdin,
    /// Time limit, after which the job is terminated.
    pub timeout: Option<Duration>,
}

/// Identity of a rank: world and number. Displayed with the world if another rank spawned it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RankName {
    /// 0 for the ranks of the first start, then one per `MPI_Comm_spawn`.
    pub world: usize,
    /// Rank within the world.
    pub rank: usize,
}

impl fmt::Display for RankName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.world {
            0 => write!(f, "{}", self.rank),
            world => write!(f, "{world}:{}", self.rank),
        }
    }
}

/// Receives a job's output and progress. Methods are called from several threads and should return quickly.
pub trait Watcher: Sync {
    /// A rank is about to start; its output may arrive before [`on_started`](Self::on_started).
    fn on_starting(&self);
    /// The start finished; `None` if it failed.
    fn on_started(&self, rank: Option<(RankName, &Child)>);
    /// All ranks of the first world have started and may be sent standard input.
    fn stdin_ready(&self, ranks: Vec<Child>);
    /// A note for verbose output.
    fn log_verbose(&self, text: &str);
    /// A warning for the user.
    fn warn(&self, text: &str);
}

/// Why a job cannot start.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The machine or its monitor failed.
    #[error(transparent)]
    Machine(#[from] Error),
    /// A program cannot be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Ranks cannot be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A node lacks parts of MPI.
    #[error(transparent)]
    Mpi(#[from] MissingMpi),
    /// Two programs of the job are linked with different MPI libraries.
    #[error(
        "one job, two MPIs: {first} is linked with {first_library}, {second} with {second_library} (build both with one)"
    )]
    MixedMpi {
        /// The first program.
        first: String,
        /// And its library.
        first_library: String,
        /// The second program.
        second: String,
        /// And its library.
        second_library: String,
    },
}

/// Ends a job from any thread.
#[derive(Clone, Debug)]
pub struct Control(Arc<ControlState>);

#[derive(Debug)]
struct ControlState {
    waker: Waker,
    /// Signal to end the job with; 0 for none.
    signal: AtomicU8,
}

impl Control {
    /// Requests that the job ends, with this signal sent to its ranks. Returns false if it was requested
    /// before.
    pub fn interrupt(&self, signal: u8) -> bool {
        let first =
            self.0.signal.compare_exchange(0, signal.max(1), Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.0.waker.wake();
        first
    }

    fn interrupted(&self) -> Option<u8> {
        Some(self.0.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

/// A job that has not been started.
pub struct Job {
    domain: Domain,
    set: WaitSet,
    control: Control,
    cleaner: Option<Cleaner>,
}

impl Job {
    /// Creates a job owned by `domain`; its ranks end with that domain.
    ///
    /// # Errors
    /// [`Error::Os`]: out of descriptors.
    pub fn new(domain: Domain) -> Result<Job, Error> {
        let set = WaitSet::new()?;
        let control = Control(Arc::new(ControlState { waker: set.waker(), signal: AtomicU8::new(0) }));
        Ok(Job { domain, set, control, cleaner: None })
    }

    /// Adds a helper process that removes shared-memory files if this process is killed.
    #[must_use]
    pub fn with_cleaner(self, cleaner: Cleaner) -> Job {
        Job { cleaner: Some(cleaner), ..self }
    }

    /// Handle to end the job from another thread.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Checks the job, starts all ranks, and waits until they have ended.
    ///
    /// # Errors
    /// [`JobError`] if the job cannot be started. A failure of its ranks is not an error but an [`Outcome`].
    pub fn run(self, options: &JobOptions, watcher: &dyn Watcher) -> Result<Outcome, JobError> {
        start::check(options)?;
        run::RunningJob::new(self, options, watcher).run()
    }
}

const SIGKILL: u8 = 9;
const SIGPIPE: u8 = 13;
const SIGTERM: u8 = 15;

/// Description of a rank for messages.
fn describe_rank(name: RankName, node: &str, domain: Option<DomainId>) -> String {
    match domain {
        Some(domain) => format!("rank {name} on {node} (domain {domain})"),
        None => format!("rank {name} on {node}"),
    }
}
