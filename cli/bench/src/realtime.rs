//! `tombolo bench realtime`

use clap::{Args, ValueEnum};
use tombolo_bench::realtime::{self, Policy};

use super::report::show;
use crate::failure::Failure;

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

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Choice {
    /// As every thread (SCHED_OTHER)
    Other,
    /// At real-time priority 10 (SCHED_FIFO)
    Fifo,
    /// With its time reserved (SCHED_DEADLINE)
    Deadline,
}

pub(super) fn run(options: &Options) -> Result<u8, Failure> {
    let policy = |choice: &Choice| match choice {
        Choice::Other => Policy::Other,
        Choice::Fifo => Policy::Fifo,
        Choice::Deadline => Policy::Deadline,
    };
    let bench = realtime::Options {
        period_us: options.period_us,
        deadline_us: options.deadline_us.unwrap_or(options.period_us / 2),
        work_us: options.work_us,
        jobs: options.jobs,
        load: options.load,
        policies: options.policies.iter().map(policy).collect(),
    };
    bench.check().map_err(|message| Failure::Usage { message, hint: None })?;
    show(&realtime::run(&bench)?, options.json)
}
