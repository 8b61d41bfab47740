//! Runs a program once on one stack.

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::disturbance::ProcessorUsage;
use super::stack::{Program, Stack};
use super::{MATMUL_ROUNDS, Options, Section};
use crate::launch::{last_lines, output_of, parsed};
use crate::stacks::{Figure, Measurement, Unit};

/// Parameters of a run of a program, the same for each stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) section: Section,
    pub(super) program: Program,
    /// Number of workers; `None` for the runtime's default.
    pub(super) threads: Option<usize>,
    pub(super) arguments: Vec<String>,
    /// Whether the start time is passed as the last argument.
    pub(super) says_when: bool,
    /// Number of rounds that include the job.
    pub(super) rounds: u32,
    /// Number of runs in each round.
    pub(super) times: u32,
}

/// Returns the jobs of a round.
pub(super) fn jobs(options: &Options) -> Vec<Job> {
    let wanted = |section: &Section| options.wants(*section);
    Section::ALL.into_iter().filter(wanted).flat_map(|section| jobs_of(section, options)).collect()
}

fn jobs_of(section: Section, options: &Options) -> Vec<Job> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (loop_us, repeat, size) =
        (options.loop_us.to_string(), options.repeat.to_string(), options.size.to_string());
    let job = Job {
        section,
        program: Program::Figures,
        threads: Some(options.threads),
        arguments: words(&[section.name()]),
        says_when: false,
        rounds: options.rounds,
        times: 1,
    };
    let for_each = |counts: Vec<usize>, job: &Job| -> Vec<Job> {
        counts.into_iter().map(|threads| Job { threads: Some(threads), ..job.clone() }).collect()
    };
    match section {
        Section::Constructs | Section::Schedules | Section::Tasks => {
            let arguments = words(&["--us", &loop_us, "--repeat", &repeat, section.name()]);
            vec![Job { program: Program::Overheads, arguments, ..job }]
        }
        Section::Start => {
            let job = Job { says_when: true, times: 3, ..job };
            for_each(doubled(1, 4 * options.threads.min(16)), &job)
        }
        Section::Sharing => vec![job],
        // Also oversubscribed with twice as many workers as processors, where spinning is counterproductive.
        Section::Regions => for_each(doubled(2, 2 * options.threads), &job),
        Section::Matmul => {
            let arguments = words(&["--repeat", "1", "--size", &size, "matmul"]);
            let rounds = options.rounds.min(MATMUL_ROUNDS);
            for_each(doubled(1, options.threads), &Job { arguments, rounds, ..job })
        }
        Section::Nodes => {
            let arguments = words(&["--repeat", "1", "--size", &size, "matmul"]);
            let rounds = options.rounds.min(MATMUL_ROUNDS);
            vec![Job { arguments, rounds, threads: None, ..job }]
        }
    }
}

/// Returns `from`, twice that, and so on, up to and including `to`.
fn doubled(from: usize, to: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(from), |count| Some(2 * count)).take_while(|count| *count < to).collect();
    counts.push(to.max(from));
    counts
}

/// Output line of a program.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct OutputLine {
    metric: String,
    threads: usize,
    p50: Option<f64>,
    p99: Option<f64>,
    /// Reason why the figure is missing.
    skipped: Option<String>,
    /// Number of workers whose instruction set differs from the master's.
    foreign: Option<usize>,
}

/// Returns whether two runs measured the same figure on the same stack.
pub(super) fn is_same(a: &Measurement, b: &Measurement) -> bool {
    a.stack == b.stack
        && a.figure.group == b.figure.group
        && a.figure.metric == b.figure.metric
        // On nodes the runtime derives the number of workers from measured speeds, so it varies between runs.
        && (a.figure.size == b.figure.size || a.figure.group == Section::Nodes.name())
}

/// Figures of a run, and the rows that it skipped.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) found: Vec<Measurement>,
    /// Skipped rows, with reasons.
    pub(super) skipped: Vec<(String, String)>,
}

/// Reason why a run has no figures.
#[derive(Debug)]
pub(super) struct NotRun {
    pub(super) why: String,
    /// Whether the runtime reported the feature as unsupported, instead of failing.
    pub(super) refused: bool,
}

/// Repeats a run that was disturbed, up to the number of retries; the last is kept.
pub(super) fn undisturbed(stack: &Stack, job: &Job, options: &Options) -> Result<Outcome, NotRun> {
    let mut retries = options.retries;
    loop {
        let before = ProcessorUsage::now();
        let mut outcome = once(stack, job, options)?;
        // Processes on other nodes are not children of this one, so their usage would count as other
        // programs'.
        let disturbed = !stack.is_of_nodes()
            && before
                .zip(ProcessorUsage::now())
                .is_some_and(|(before, after)| after.disturbed_since(&before));
        if !disturbed || retries == 0 {
            outcome.found.iter_mut().for_each(|found| found.disturbed = disturbed);
            return Ok(outcome);
        }
        retries -= 1;
    }
}

/// Runs a job on a stack, as often as required in a round, and parses the figures.
fn once(stack: &Stack, job: &Job, options: &Options) -> Result<Outcome, NotRun> {
    let mut outcome = Outcome::default();
    for _ in 0..job.times {
        let mut command = stack.command(job.program, job.threads);
        command.args(&job.arguments);
        if job.says_when {
            let now = clock_gettime(ClockId::Monotonic);
            command.arg((now.tv_sec * 1_000_000_000 + now.tv_nsec).to_string());
        }
        let lines = lines_of(command, options.timeout)?;
        if stack.is_of_nodes() && lines.iter().all(|line| line.foreign.unwrap_or(0) == 0) {
            let why = "all workers were on this host: the run-time knows no nodes".to_owned();
            return Err(NotRun { why, refused: true });
        }
        for line in lines {
            outcome.add(stack, job.section, line);
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, stack: &Stack, section: Section, line: OutputLine) {
        let name = stack.name.clone();
        match line {
            OutputLine { metric, threads, p50: Some(p50_us), p99: Some(p99_us), .. } => {
                let figure = Figure { group: section.name().to_owned(), metric, size: threads as u64 };
                // The programs print microseconds.
                let (p50, p99) = (1e3 * p50_us, 1e3 * p99_us);
                self.found.push(Measurement {
                    figure,
                    stack: name,
                    unit: Unit::Ns,
                    p50,
                    p99,
                    disturbed: false,
                });
            }
            // A section that only Tombolo's runtime supports is not reported as missing on others.
            OutputLine { metric, skipped: Some(why), .. } if stack.is_own() => {
                self.skipped.push((metric, why));
            }
            _ => {}
        }
    }
}

fn lines_of(command: Command, timeout: Duration) -> Result<Vec<OutputLine>, NotRun> {
    let failed = |why| NotRun { why, refused: false };
    let (status, output, errors) = output_of(command, timeout).map_err(failed)?;
    if status.success() {
        return parsed(&output).map_err(failed);
    }
    let refusal = errors.lines().rev().find_map(|line| line.trim().strip_prefix("tombolo omp: "));
    match refusal {
        Some(why) if status.code() == Some(1) => Err(NotRun { why: why.to_owned(), refused: true }),
        _ => Err(failed(format!("{status}: {}", last_lines(&errors)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn every_section_has_its_runs() {
        let options = Options { threads: 6, ..Options::default() };
        let all = jobs(&options);
        for section in Section::ALL {
            assert!(all.iter().any(|job| job.section == section), "{section:?}");
        }
        let counts = |section| {
            let of = all.iter().filter(|job| job.section == section);
            of.filter_map(|job| job.threads).collect::<Vec<_>>()
        };
        assert_eq!(counts(Section::Matmul), [1, 2, 4, 6]);
        assert_eq!(counts(Section::Regions), [2, 4, 8, 12]);
        assert_eq!(counts(Section::Start), [1, 2, 4, 8, 16, 24]);
        assert!(all.iter().all(|job| job.section < Section::Matmul || job.rounds == MATMUL_ROUNDS));
        let some = jobs(&Options { sections: vec![Section::Sharing], ..options });
        assert_eq!(some.len(), 1);
    }

    #[test]
    fn refusal_differs_from_failure() {
        let timeout = Duration::from_secs(20);
        let of =
            |script: &str| lines_of(shell(script), timeout).map_err(|not_run| (not_run.refused, not_run.why));
        let (refused, why) = of("echo 'tombolo omp: no such thing' >&2; exit 1").unwrap_err();
        assert_eq!((refused, why.as_str()), (true, "no such thing"));
        for failing in
            ["echo other >&2; exit 1", "echo 'tombolo omp: a worker was killed' >&2; exit 137", "true"]
        {
            assert!(!of(failing).unwrap_err().0, "{failing}");
        }
        let lines = of(r#"echo '{"metric": "a b", "threads": 2, "p50": 1.5, "p99": 2}'"#).unwrap();
        assert_eq!((lines[0].metric.as_str(), lines[0].p50), ("a b", Some(1.5)));
    }
}
