//! OpenMP on Tombolo's runtime, compared with GCC's and LLVM's: `tombolo bench omp`.
//!
//! Two programs, `bench/omp/overheads.c` and `bench/omp/figures.c`, are compiled at the start and run on one
//! [stack](Stack) after another, section by section and round by round, so that all see the same conditions
//! of the machine. The results are the median of the rounds, and the ratio between stacks.

mod disturbance;
mod run;
mod stack;
mod targets;

use std::time::Duration;

pub use stack::{Stack, Tools, host_stacks, node_stacks};

use crate::host::Host;
use crate::limit::Limit;
use crate::stacks::{Group, Measurement, Report, add_absent, rows};
use crate::suite::{Absent, PeerInfo};

/// Section of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    /// Overheads of `parallel`, `for`, `barrier` and similar constructs.
    Constructs,
    /// Overheads of loops, by schedule and chunk.
    Schedules,
    /// Overheads of OpenMP tasks.
    Tasks,
    /// Figure 7.1: start of a program, and the first region, which creates the workers.
    Start,
    /// Figure 7.2: first access of workers to memory.
    Sharing,
    /// Figure 7.3: empty regions, by the number of workers.
    Regions,
    /// Figure 7.4: matrices, multiplied on this host.
    Matmul,
    /// Figure 7.5: matrices, multiplied by unlike processors at once.
    Nodes,
}

impl Section {
    /// All sections in display order.
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

    /// Returns its name, here and in the programs.
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

    /// Returns the section of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.name() == name)
    }

    /// Returns the title of its table.
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

/// Options of the measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Number of rounds, in each of which every stack runs. Matrices are multiplied only in the first
    /// [`MATMUL_ROUNDS`].
    pub rounds: u32,
    /// Duration of a loop of the overheads, in microseconds.
    pub loop_us: u32,
    /// Repetitions of each loop in a round.
    pub repeat: u32,
    /// Number of workers of most rows, including the master.
    pub threads: usize,
    /// Number of rows and of columns of the matrices.
    pub size: u32,
    /// Number of retries of a run during which other programs used the processors.
    pub retries: u32,
    /// Timeout of one run of a program, after which it is killed.
    pub timeout: Duration,
    /// Sections to measure; empty for all.
    pub sections: Vec<Section>,
}

/// Number of rounds in which matrices are multiplied, which takes the most time and varies the least.
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
            timeout: Duration::from_secs(60),
            sections: Vec::new(),
        }
    }
}

impl Options {
    /// Returns options for a short run of everything, as a smoke test.
    #[must_use]
    pub fn quick() -> Options {
        Options { rounds: 1, loop_us: 100, repeat: 4, size: 200, retries: 0, ..Options::default() }
    }

    /// Returns whether a section is selected.
    #[must_use]
    pub fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }
}

/// Runs every stack in turn, `rounds` times. Failures of a single stack are part of the report; only an error
/// that affects all is returned.
///
/// # Errors
/// The limit of the host cannot be measured, because fewer than two processors are allowed.
pub fn run(
    stacks: &[Stack],
    mut absent: Vec<Absent>,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> std::io::Result<Report> {
    let jobs = run::jobs(options);
    let mut found: Vec<Measurement> = Vec::new();
    // Does not retry: a stack that cannot run may take its whole timeout each time.
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
