//! A job: its ranks from the first start to the last end, on whatever nodes.

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

/// Ranks that run one program.
#[derive(Clone, Debug)]
pub struct Part {
    /// What its ranks run.
    pub program: Arc<Program>,
    /// With these arguments.
    pub arguments: Vec<String>,
    /// The node of each of them, by its place in [`JobOptions::nodes`].
    pub nodes: Vec<usize>,
    /// What they find in their environment.
    pub environment: Environment,
    /// Where they work, if the node has it.
    pub directory: PathBuf,
}

/// Which ranks get the standard input of the launcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stdin {
    /// None: all read end of file.
    None,
    /// The first rank.
    First,
    /// All of them, the same.
    All,
}

/// What a job is.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The machine's nodes.
    pub nodes: Vec<NodeInfo>,
    /// Its programs, whose ranks are numbered in this order.
    pub parts: Vec<Part>,
    /// Which ranks get the standard input.
    pub stdin: Stdin,
    /// It is ended when it has not ended by then.
    pub timeout: Option<Duration>,
}

/// What a rank is called: its number, and before it that of its world if it was started by another rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RankName {
    /// 0 for those that the job began with.
    pub world: usize,
    /// Its number in its world.
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

/// Receives what a job prints and how it goes. Called from several threads; calls should return soon.
pub trait Watcher: Sync {
    /// A rank is about to be started: output may come before [`started`](Self::started).
    fn starting(&self);
    /// It is started, or is not.
    fn started(&self, rank: Option<(RankName, &Child)>);
    /// All ranks of the first world are started, and read their input.
    fn may_read(&self, ranks: Vec<Child>);
    /// Something that people may want to know.
    fn note(&self, text: &str);
    /// Something that they should know.
    fn warn(&self, text: &str);
}

/// Why a job cannot start.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The machine, or its monitor.
    #[error(transparent)]
    Machine(#[from] Error),
    /// A program cannot be run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Ranks cannot be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A node lacks what MPI takes.
    #[error(transparent)]
    Mpi(#[from] MissingMpi),
    /// Two programs of one job are linked with different MPIs.
    #[error(
        "one job, two MPIs: {first} is linked with {first_library}, {second} with {second_library} (build both with one)"
    )]
    Unlike {
        /// A program.
        first: String,
        /// And its library.
        first_library: String,
        /// Another.
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
    /// The signal that it is to end by; 0 for none.
    signal: AtomicU8,
}

impl Control {
    /// Ends the job by a signal, which its ranks get. False if that was asked for before.
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

/// A job that has not begun.
pub struct Job {
    domain: Domain,
    set: WaitSet,
    control: Control,
    cleaner: Option<Cleaner>,
}

impl Job {
    /// A job of this domain, with which it ends.
    ///
    /// # Errors
    /// [`Error::Os`]: out of descriptors.
    pub fn new(domain: Domain) -> Result<Job, Error> {
        let set = WaitSet::new()?;
        let control = Control(Arc::new(ControlState { waker: set.waker(), signal: AtomicU8::new(0) }));
        Ok(Job { domain, set, control, cleaner: None })
    }

    /// The same with a process that removes what stays in shared memory when this one is killed.
    #[must_use]
    pub fn with_cleaner(self, cleaner: Cleaner) -> Job {
        Job { cleaner: Some(cleaner), ..self }
    }

    /// What ends it from elsewhere.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Checks that all of it can run, starts it, and waits until it has ended.
    ///
    /// # Errors
    /// [`JobError`] when it cannot be started. A job that did not end well is none.
    pub fn run(self, options: &JobOptions, watcher: &dyn Watcher) -> Result<Outcome, JobError> {
        start::check(options)?;
        run::Running::new(self, options, watcher).run()
    }
}

const SIGKILL: u8 = 9;
const SIGPIPE: u8 = 13;
const SIGTERM: u8 = 15;

/// What a rank is, for sentences.
fn who(name: RankName, node: &str, domain: Option<DomainId>) -> String {
    match domain {
        Some(domain) => format!("rank {name} on {node} (domain {domain})"),
        None => format!("rank {name} on {node}"),
    }
}
