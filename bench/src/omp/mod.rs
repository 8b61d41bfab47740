//! OpenMP on Tombolo's run-time beside GCC's and LLVM's: `tombolo bench omp`.
//!
//! Two programs, `bench/omp/overheads.c` and `bench/omp/figures.c`, are compiled when it begins and run on
//! one [stack](Stack) after the other, section by section and round by round, so that all see the same
//! conditions of the machine. What counts is the median of the rounds, and the ratio between stacks.

mod quiet;
mod run;
mod stack;
mod targets;

use std::time::Duration;

pub use stack::{Stack, Tools, host_stacks, node_stacks};

use crate::host::Host;
use crate::limit::Limit;
use crate::stacks::{Found, Group, Report, add_absent, rows};
use crate::suite::{Absent, PeerInfo};

/// A part of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    /// What `parallel`, `for`, `barrier` and the like cost.
    Constructs,
    /// What loops cost, by schedule and chunk.
    Schedules,
    /// What tasks cost.
    Tasks,
    /// Figure 7.1: a program's start, and the first region, for which workers are made.
    Start,
    /// Figure 7.2: memory that workers see for the first time.
    Sharing,
    /// Figure 7.3: empty regions, by the number of workers.
    Regions,
    /// Figure 7.4: matrices, multiplied on this host.
    Matmul,
    /// Figure 7.5: matrices, multiplied by unlike processors at once.
    Nodes,
}

impl Section {
    /// All, in the order in which they are shown.
    pub const ALL: [Section; 8] = [
        Section::Constructs,
        Section::Schedules,
        Section::Tasks,
        Section::Start,
        Section::Sharing,
        Section::Regions,
        Section::Matmul,
        Section::Nodes,
    ];

    /// What it is called, here and in the programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Section::Constructs => "constructs",
            Section::Schedules => "schedules",
            Section::Tasks => "tasks",
            Section::Start => "start",
            Section::Sharing => "sharing",
            Section::Regions => "regions",
            Section::Matmul => "matmul",
            Section::Nodes => "nodes",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.name() == name)
    }

    /// What stands over its table.
    const fn title(self) -> &'static str {
        match self {
            Section::Constructs => "constructs, overhead",
            Section::Schedules => "loops of 128 iterations for each worker, overhead",
            Section::Tasks => "tasks, overhead of one",
            Section::Start => "start (figure 7.1)",
            Section::Sharing => "memory that the master wrote, until all workers have read it (figure 7.2)",
            Section::Regions => "an empty region (figure 7.3)",
            Section::Matmul => "matrix multiplication on this host (figure 7.4)",
            Section::Nodes => "matrix multiplication by unlike processors (figure 7.5)",
        }
    }
}

/// How it is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// How often each stack has its turn. Matrices are multiplied in the first [`MATMUL_ROUNDS`] only.
    pub rounds: u32,
    /// How long a loop of the overheads takes, in microseconds.
    pub loop_us: u32,
    /// How often each loop is run in a round.
    pub repeat: u32,
    /// How many workers most rows have, the master among them.
    pub threads: usize,
    /// Rows and columns of matrices.
    pub size: u32,
    /// How often a run is taken again during which other programs used the processors.
    pub retries: u32,
    /// How long one run of a program may take before it is killed.
    pub patience: Duration,
    /// Only these; all if none.
    pub sections: Vec<Section>,
}

/// Rounds in which matrices are multiplied: it takes the most time of all, and varies the least.
pub const MATMUL_ROUNDS: u32 = 2;

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
        Options {
            rounds: 5,
            loop_us: 1000,
            repeat: 12,
            threads,
            size: 1500,
            retries: 1,
            patience: Duration::from_secs(60),
            sections: Vec::new(),
        }
    }
}

impl Options {
    /// A short run of everything, to see that it works.
    #[must_use]
    pub fn quick() -> Options {
        Options { rounds: 1, loop_us: 100, repeat: 4, size: 200, retries: 0, ..Options::default() }
    }

    /// Whether a section is to be measured.
    #[must_use]
    pub fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }
}

/// Runs every stack in turn, `rounds` times. What a stack could not do is in the report; only what concerns
/// all is an error.
///
/// # Errors
/// The limit of the host cannot be measured: fewer than two processors.
pub fn run(
    stacks: &[Stack],
    mut absent: Vec<Absent>,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> std::io::Result<Report> {
    let jobs = run::jobs(options);
    let mut found: Vec<Found> = Vec::new();
    // Once is enough: what cannot be run may take its whole patience each time.
    let mut given_up: Vec<(usize, Section)> = Vec::new();
    let mut limits = Vec::new();
    let mut complete = true;
    for round in 1..=options.rounds {
        for job in jobs.iter().filter(|job| round <= job.rounds) {
            limits.push(Limit::measure()?);
            for (index, stack) in stacks.iter().enumerate() {
                if !stack.has(job.section) || given_up.contains(&(index, job.section)) {
                    continue;
                }
                progress(&format!(
                    "round {round} of {}: {}, {}",
                    options.rounds,
                    job.section.name(),
                    stack.name
                ));
                match run::undisturbed(stack, job, options) {
                    Ok(outcome) => {
                        found.extend(outcome.found);
                        for (what, why) in outcome.skipped {
                            add_absent(&mut absent, &stack.name, &what, why);
                        }
                    }
                    Err(why) => {
                        given_up.push((index, job.section));
                        complete &= why.refused;
                        add_absent(&mut absent, &stack.name, job.section.name(), why.why);
                    }
                }
            }
        }
    }
    let limit = Limit::median(&limits);
    let mut rows = rows(found, run::is_same);
    targets::set_limits(&mut rows, options.threads, &limit);
    let title = |section: Section| Group { name: section.name().into(), title: section.title().into() };
    Ok(Report {
        host: Host::describe(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        how: format!("{} rounds; matrices of {size} x {size}", options.rounds, size = options.size),
        limit,
        stacks: stacks
            .iter()
            .map(|stack| PeerInfo { name: stack.name.clone(), about: stack.about.clone() })
            .collect(),
        groups: Section::ALL.map(title).into(),
        sizes: targets::SIZES.to_owned(),
        targets: targets::all(&rows, options.threads),
        rows,
        absent,
        complete,
    })
}
