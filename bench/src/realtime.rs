//! `tombolo bench realtime`: a periodic task under the scheduling policies of Linux.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use serde::Serialize;
use tombolo_platform::thread::{Reservation, Scheduling, set_policy, set_reservation};
use tombolo_platform::time::now_ns;
use tombolo_realtime::{Finish, Overload, Periodic, Start, Statistics};

use crate::report::BenchReport;
use crate::sample::Ordered;
use crate::suite::Error;
use crate::table::{align, cells};

/// Parameters of the task, and the load and policies under which it is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time between two releases, in microseconds.
    pub period_us: u64,
    /// Relative deadline of a job, in microseconds.
    pub deadline_us: u64,
    /// Computation time of a job, in microseconds.
    pub work_us: u64,
    /// Number of jobs per policy.
    pub jobs: u64,
    /// Number of competing threads that are always runnable; `None`: one per processor.
    pub load: Option<u64>,
    /// Policies, measured one after another.
    pub policies: Vec<Policy>,
}

/// A scheduling policy of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Default scheduling of threads (`SCHED_OTHER`).
    Other,
    /// Real-time priority 10 (`SCHED_FIFO`).
    Fifo,
    /// Reserved processor time (`SCHED_DEADLINE`).
    Deadline,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Policy::Other => "other",
            Policy::Fifo => "fifo",
            Policy::Deadline => "deadline",
        }
    }
}

const PRIORITY: u8 = 10;

/// Number of buckets in the histogram: the first is below 1 µs, and each bound is twice the previous one.
const CLASSES: usize = 18;

/// Results of one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    period_us: u64,
    deadline_us: u64,
    work_us: u64,
    load: u64,
    /// One row per policy.
    pub rows: Vec<Row>,
}

/// Results under one policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// Policy that was requested.
    pub policy: Policy,
    /// Reason if the system refused it; [`Policy::Other`] was used then.
    pub refused: Option<String>,
    /// Number of jobs that ran.
    pub jobs: u64,
    /// Number of these that finished after their deadline.
    pub missed: u64,
    /// Number of releases skipped because the previous job was still running.
    pub skipped: u64,
    /// Latency from release to start.
    pub start: Times,
    /// Latency from release to completion.
    pub response: Times,
    /// Number of jobs that started less than 1, 2, 4, … µs after their release; the last bucket counts all
    /// others.
    pub histogram: [u64; CLASSES],
}

/// Distribution of times, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Times {
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Times {
    fn of(times_ns: Vec<u64>) -> Times {
        let times = Ordered::new(times_ns);
        Times { p50_ns: times.at(0.5), p99_ns: times.at(0.99), max_ns: times.at(1.0) }
    }
}

impl Options {
    /// # Errors
    /// A description of what is wrong with the task's times.
    pub fn check(&self) -> Result<(), String> {
        self.task(0)?;
        let Options { work_us, deadline_us, .. } = self;
        if work_us > deadline_us {
            return Err(format!(
                "a job of {work_us} us cannot meet a deadline of {deadline_us} us; make --work-us smaller"
            ));
        }
        Ok(())
    }

    fn task(&self, first_ns: u64) -> Result<Periodic, String> {
        let task = Periodic::new(first_ns, self.period_us * 1000, self.deadline_us * 1000, Overload::Skip);
        task.map_err(|error| error.to_string())
    }
}

/// Measures the task under each policy.
///
/// # Errors
/// The error of [`Options::check`], or a sleep fails.
pub fn run(options: &Options) -> Result<Report, Error> {
    options.check().map_err(Error::failed)?;
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let load = options.load.unwrap_or(processors);
    let turns = turns_of(options.work_us * 1000);
    let measure = |policy: &Policy| with_load(load, || measure(*policy, options, turns));
    let rows = options.policies.iter().map(measure).collect::<Result<_, _>>()?;
    let Options { period_us, deadline_us, work_us, .. } = *options;
    Ok(Report { period_us, deadline_us, work_us, load, rows })
}

/// Runs the computation, identical in every job.
fn compute(turns: u64) -> u64 {
    (0..turns).fold(1, |state: u64, turn| black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ turn))
}

/// Returns the number of turns that take `work_ns` on an undisturbed processor: the fastest of several trials
/// counts.
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

/// Runs a function while `load` other threads compete for the processors.
fn with_load<R: Send>(load: u64, act: impl FnOnce() -> R + Send) -> R {
    let stopped = AtomicBool::new(false);
    let begun = Barrier::new(load as usize + 1);
    thread::scope(|scope| {
        for _ in 0..load {
            scope.spawn(|| {
                // Threads inherit the scheduling of the command; under a real-time policy they would never
                // yield a processor.
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
        // Runs on a separate thread, whose scheduling policy ends with it.
        let result = scope.spawn(act).join();
        stopped.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn schedule(policy: Policy, options: &Options) -> Result<(), String> {
    let set = match policy {
        Policy::Other => set_policy(Scheduling::Fair.into()),
        Policy::Fifo => set_policy(Scheduling::Fifo(PRIORITY).into()),
        Policy::Deadline => {
            // A quarter more than a job needs alone, and at least the kernel's minimum.
            let [work_ns, deadline_ns, period_ns] =
                [options.work_us, options.deadline_us, options.period_us].map(|us| us * 1000);
            let runtime_ns = (work_ns + work_ns / 4 + 20_000).min(deadline_ns);
            set_reservation(Reservation { runtime_ns, deadline_ns, period_ns })
        }
    };
    set.map_err(|error| error.to_string())
}

fn sleep_until(ns: u64) -> Result<(), Error> {
    let until = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &until) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("sleep until the next release")(error.into())),
        }
    }
}

fn measure(policy: Policy, options: &Options, turns: u64) -> Result<Row, Error> {
    let refused = schedule(policy, options).err();
    let first_ns = now_ns() + Duration::from_millis(10).as_nanos() as u64;
    let mut task = options.task(first_ns).map_err(Error::failed)?;
    let (mut starts, mut responses) = (Vec::new(), Vec::new());
    let mut histogram = [0; CLASSES];
    while task.statistics().jobs < options.jobs {
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

/// Returns the bucket of a time: the number of doublings of 1 µs until it exceeds the time.
fn class_of(ns: u64) -> usize {
    let us = ns / 1000;
    ((u64::BITS - us.leading_zeros()) as usize).min(CLASSES - 1)
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let Report { period_us, deadline_us, work_us, load, rows } = self;
        let heads =
            ["POLICY", "JOBS", "MISSED", "SKIPPED", "START P50", "P99", "MAX", "END P50", "P99", "MAX"];
        let mut lines = vec![cells(&heads)];
        // Number of jobs by start latency.
        let mut starts = vec![cells(&["POLICY", "START BELOW", "JOBS"])];
        let mut refusals = String::new();
        for row in rows {
            let policy = row.policy.name();
            let named = match &row.refused {
                Some(why) => {
                    refusals += &format!("{policy} is not permitted: {why}\n");
                    format!("other, not {policy}")
                }
                None => policy.to_owned(),
            };
            let times = [&row.start, &row.response].into_iter();
            let times = times.flat_map(|times| [times.p50_ns, times.p99_ns, times.max_ns].map(us));
            let counts = [row.jobs, row.missed, row.skipped].map(|count| count.to_string());
            lines.push([named].into_iter().chain(counts).chain(times).collect());
            for (class, count) in row.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
                let longest = class == CLASSES - 1;
                let below = if longest { "longer".to_owned() } else { format!("{} us", 1_u64 << class) };
                starts.push(vec![policy.to_owned(), below, count.to_string()]);
            }
        }
        format!(
            "every {period_us} us {work_us} us of work within {deadline_us} us, beside {load} threads that want to \
             run; times in us\n{}{refusals}\n{}",
            align(&lines),
            align(&starts)
        )
    }
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
        let policies = vec![Policy::Other, Policy::Fifo, Policy::Deadline];
        let options =
            Options { period_us: 2000, deadline_us: 1000, work_us: 10, jobs: 20, load: Some(1), policies };
        let report = run(&options).unwrap();
        for row in &report.rows {
            assert_eq!((row.jobs, row.histogram.iter().sum::<u64>()), (20, 20));
            assert!(row.missed <= row.jobs && row.response.max_ns >= row.start.max_ns);
        }
        let text = report.table();
        assert!(text.contains("deadline") && text.contains("START BELOW"), "{text}");
        let late = Options { deadline_us: 5, ..options };
        assert!(late.check().unwrap_err().contains("make --work-us smaller"));
    }

    #[test]
    fn a_refused_policy_is_named() {
        let none = || Times::of(Vec::new());
        let row = Row {
            policy: Policy::Fifo,
            refused: Some("operation not permitted".into()),
            jobs: 1,
            missed: 0,
            skipped: 0,
            start: none(),
            response: none(),
            histogram: [0; CLASSES],
        };
        let report = Report { period_us: 1, deadline_us: 1, work_us: 0, load: 0, rows: vec![row] };
        let text = report.table();
        assert!(text.contains("other, not fifo") && text.contains("fifo is not permitted"), "{text}");
    }
}
