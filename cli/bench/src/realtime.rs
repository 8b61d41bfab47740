//! `tombolo bench realtime`

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use serde::Serialize;
use tombolo_platform::thread::{Reservation, Scheduling, set_policy, set_reservation};
use tombolo_realtime::{Finish, Overload, Periodic, Start, Statistics};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Measures a periodic task under the scheduling policies of Linux
///
/// A thread of this host is released every --period-us, computes for --work-us and is to be done within
/// --deadline-us: as every thread (SCHED_OTHER), at real-time priority 10 (SCHED_FIFO), and with its time
/// reserved (SCHED_DEADLINE). Meanwhile as many threads as --load says want every processor. A policy that
/// this user is not permitted is named, and the row measures SCHED_OTHER instead. A job that runs into later
/// releases takes their place: they are counted as skipped.
///
/// The JSON has, for each of `rows`: policy, refused (null or why), jobs, missed, skipped, start (how long
/// after its release a job began: p50_ns, p99_ns, max_ns), response (likewise for its end) and histogram, of
/// starts: the number below each of 1, 2, 4, ... microseconds, and all longer ones last.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench realtime                                  a millisecond, of which 100 us are needed
  tombolo bench realtime --load 0 --policies fifo         without other threads
  tombolo bench realtime --period-us 10000 --jobs 6000    a minute for each policy
  tombolo bench realtime --json | jq '.rows[] | {policy, missed, jobs}'")]
pub(super) struct Options {
    /// Time between two releases, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    period_us: u64,

    /// By when after its release a job is to be done, in microseconds [default: half of the period]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    deadline_us: Option<u64>,

    /// How long a job computes, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    work_us: u64,

    /// Jobs for each policy
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,

    /// Other threads that always want to run [default: one for each processor]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(0..=1024))]
    load: Option<u64>,

    /// The policies, one after another
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', default_value = "other,fifo,deadline")]
    policies: Vec<Choice>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Choice {
    /// As every thread (SCHED_OTHER)
    Other,
    /// At real-time priority 10 (SCHED_FIFO)
    Fifo,
    /// With its time reserved (SCHED_DEADLINE)
    Deadline,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Choice::Other => "other",
            Choice::Fifo => "fifo",
            Choice::Deadline => "deadline",
        }
    }
}

const PRIORITY: u8 = 10;

/// Classes of the histogram: the first is below a microsecond, each other one twice as long.
const CLASSES: usize = 18;

/// The task, in nanoseconds.
#[derive(Clone, Copy)]
struct Shape {
    period_ns: u64,
    deadline_ns: u64,
    work_ns: u64,
    jobs: u64,
}

#[derive(Serialize)]
struct Report {
    period_us: u64,
    deadline_us: u64,
    work_us: u64,
    load: u64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    policy: Choice,
    refused: Option<String>,
    jobs: u64,
    missed: u64,
    skipped: u64,
    start: Times,
    response: Times,
    histogram: [u64; CLASSES],
}

#[derive(Serialize)]
struct Times {
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Times {
    fn of(mut times: Vec<u64>) -> Times {
        times.sort_unstable();
        let at = |share: f64| {
            let index = (times.len() as f64 * share) as usize;
            times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        Times { p50_ns: at(0.5), p99_ns: at(0.99), max_ns: at(1.0) }
    }
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let deadline_us = options.deadline_us.unwrap_or(options.period_us / 2);
    let shape = Shape {
        period_ns: options.period_us * 1000,
        deadline_ns: deadline_us * 1000,
        work_ns: options.work_us * 1000,
        jobs: options.jobs,
    };
    // The task says what is wrong with its times before anything runs.
    let task = Periodic::new(0, shape.period_ns, shape.deadline_ns, Overload::Skip);
    task.map_err(|error| usage(error.to_string()))?;
    if shape.work_ns > shape.deadline_ns {
        let (work, deadline) = (options.work_us, deadline_us);
        let text =
            format!("a job of {work} us cannot meet a deadline of {deadline} us; make --work-us smaller");
        return Err(usage(text));
    }
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let load = options.load.unwrap_or(processors);
    let turns = turns_of(shape.work_ns);
    let measure = |policy: &Choice| with_load(load, || measure(*policy, shape, turns));
    let rows = options.policies.iter().map(measure).collect::<Result<_, _>>()?;
    let report = Report { period_us: options.period_us, deadline_us, work_us: options.work_us, load, rows };
    if options.json { print_json(&report) } else { print(render(&report, context.colour)) }
}

fn usage(message: String) -> Failure {
    Failure::Usage { message, hint: None }
}

/// Computes, the same in every job.
fn compute(turns: u64) -> u64 {
    (0..turns).fold(1, |state: u64, turn| black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ turn))
}

/// How many turns take so long on an undisturbed processor: by the fastest of several trials.
fn turns_of(work_ns: u64) -> u64 {
    const TRIAL: u64 = 20_000;
    let trial = |_| {
        let begun = Instant::now();
        black_box(compute(TRIAL));
        begun.elapsed().as_nanos() as u64
    };
    let fastest_ns = (0..50).map(trial).min().unwrap_or(1).max(1);
    work_ns.saturating_mul(TRIAL) / fastest_ns
}

/// Does something while other threads want to run.
fn with_load<R: Send>(load: u64, act: impl FnOnce() -> R + Send) -> R {
    let stopped = AtomicBool::new(false);
    let begun = Barrier::new(load as usize + 1);
    thread::scope(|scope| {
        for _ in 0..load {
            scope.spawn(|| {
                // Threads inherit the scheduling of the command, and would not leave a processor.
                let fair = set_policy(Scheduling::Fair.into());
                begun.wait();
                if fair.is_err() {
                    return;
                }
                while !stopped.load(Ordering::Relaxed) {
                    black_box(compute(1000));
                }
            });
        }
        begun.wait();
        // On a thread of its own, whose scheduling ends with it.
        let result = scope.spawn(act).join();
        stopped.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn schedule(policy: Choice, shape: Shape) -> Result<(), String> {
    let set = match policy {
        Choice::Other => set_policy(Scheduling::Fair.into()),
        Choice::Fifo => set_policy(Scheduling::Fifo(PRIORITY).into()),
        Choice::Deadline => {
            // A quarter more than a job needs alone, and no less than the kernel grants.
            let runtime_ns = (shape.work_ns + shape.work_ns / 4 + 20_000).min(shape.deadline_ns);
            let Shape { deadline_ns, period_ns, .. } = shape;
            set_reservation(Reservation { runtime_ns, deadline_ns, period_ns })
        }
    };
    set.map_err(|error| error.to_string())
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn sleep_until(ns: u64) -> Result<(), Failure> {
    let until = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &until) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::system("sleep until the next release")(error.into())),
        }
    }
}

fn measure(policy: Choice, shape: Shape, turns: u64) -> Result<Row, Failure> {
    let refused = schedule(policy, shape).err();
    let first_ns = now_ns() + Duration::from_millis(10).as_nanos() as u64;
    let task = Periodic::new(first_ns, shape.period_ns, shape.deadline_ns, Overload::Skip);
    let mut task = task.map_err(|error| usage(error.to_string()))?;
    let (mut starts, mut responses) = (Vec::new(), Vec::new());
    let mut histogram = [0; CLASSES];
    while task.statistics().jobs < shape.jobs {
        match task.start(now_ns()) {
            Start::Wait { until_ns } => sleep_until(until_ns)?,
            Start::Run { release_ns, late_ns } => {
                black_box(compute(turns));
                let ended_ns = now_ns();
                let _: Finish = task.finish(ended_ns);
                starts.push(late_ns);
                responses.push(ended_ns - release_ns);
                histogram[class_of(late_ns)] += 1;
            }
            Start::Stopped => break,
        }
    }
    let Statistics { jobs, missed, skipped, .. } = task.statistics();
    let (start, response) = (Times::of(starts), Times::of(responses));
    Ok(Row { policy, refused, jobs, missed, skipped, start, response, histogram })
}

/// The class of a time: how often a microsecond is doubled to be above it.
fn class_of(ns: u64) -> usize {
    let us = ns / 1000;
    ((u64::BITS - us.leading_zeros()) as usize).min(CLASSES - 1)
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn render(report: &Report, colour: bool) -> String {
    let Report { period_us, deadline_us, work_us, load, rows } = report;
    let mut text = format!(
        "every {period_us} us {work_us} us of work within {deadline_us} us, beside {load} threads that want to run; times in us\n"
    );
    let mut table = Table::new(&[
        "POLICY",
        "JOBS>",
        "MISSED>",
        "SKIPPED>",
        "START P50>",
        "P99>",
        "MAX>",
        "END P50>",
        "P99>",
        "MAX>",
    ]);
    for row in rows {
        table.row([
            if row.refused.is_some() {
                format!("other, not {}", row.policy.name())
            } else {
                row.policy.name().into()
            },
            row.jobs.to_string(),
            row.missed.to_string(),
            row.skipped.to_string(),
            us(row.start.p50_ns),
            us(row.start.p99_ns),
            us(row.start.max_ns),
            us(row.response.p50_ns),
            us(row.response.p99_ns),
            us(row.response.max_ns),
        ]);
    }
    text += &table.render(colour);
    for row in rows {
        if let Some(refused) = &row.refused {
            let _ = writeln!(text, "{} is not permitted: {refused}", row.policy.name());
        }
    }
    text + "\n" + &histograms(rows, colour)
}

/// How many jobs began how long after their release, by policy.
fn histograms(rows: &[Row], colour: bool) -> String {
    let mut table = Table::new(&["POLICY", "START BELOW>", "JOBS>"]);
    for row in rows {
        for (class, count) in row.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
            let longest = class == CLASSES - 1;
            let below = if longest { "longer".to_owned() } else { format!("{} us", 1_u64 << class) };
            table.row([row.policy.name().to_owned(), below, count.to_string()]);
        }
    }
    table.render(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_classed_by_doubled_microseconds() {
        let classes = [0, 999, 1000, 1999, 2000, 4000, u64::MAX].map(class_of);
        assert_eq!(classes, [0, 0, 1, 1, 2, 3, CLASSES - 1]);
        let times = Times::of((1..=200).collect());
        assert_eq!((times.p50_ns, times.p99_ns, times.max_ns), (101, 199, 200));
    }

    #[test]
    fn every_job_is_counted_under_each_policy_or_its_refusal() {
        let shape = Shape { period_ns: 2_000_000, deadline_ns: 1_000_000, work_ns: 10_000, jobs: 20 };
        let measure = |policy| measure(policy, shape, turns_of(shape.work_ns)).unwrap();
        let rows =
            [Choice::Other, Choice::Fifo, Choice::Deadline].map(|policy| with_load(1, || measure(policy)));
        for row in &rows {
            assert_eq!((row.jobs, row.histogram.iter().sum::<u64>()), (20, 20));
            assert!(row.missed <= row.jobs && row.response.max_ns >= row.start.max_ns);
        }
        let report = Report { period_us: 2000, deadline_us: 1000, work_us: 10, load: 1, rows: rows.into() };
        let text = render(&report, false);
        assert!(text.contains("deadline") && text.contains("START BELOW"), "{text}");
    }

    #[test]
    fn a_refused_policy_is_named() {
        let none = || Times::of(Vec::new());
        let row = Row {
            policy: Choice::Fifo,
            refused: Some("operation not permitted".into()),
            jobs: 1,
            missed: 0,
            skipped: 0,
            start: none(),
            response: none(),
            histogram: [0; CLASSES],
        };
        let report = Report { period_us: 1, deadline_us: 1, work_us: 0, load: 0, rows: vec![row] };
        let text = render(&report, false);
        assert!(text.contains("other, not fifo") && text.contains("fifo is not permitted"), "{text}");
    }
}
