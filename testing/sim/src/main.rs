//! `tombolo-sim`: simulates one seed, a range of seeds, or seeds until one fails; prints how to repeat a
//! failure.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser};
use tombolo_sim::broadcast;
use tombolo_sim::canary::{self, CANARIES};
use tombolo_sim::plan::{MAX_NODES, Options, Scenario};
use tombolo_sim::relays;
use tombolo_sim::rights::Counts;
use tombolo_sim::world::{Outcome, run};
use tombolo_sim::{pages, release};

/// Simulates whole machines, one per seed: the real protocols and monitors, with virtual time and faults.
///
/// Example: `cargo xtask sim --seeds 1000`, and for one that failed `cargo xtask sim --seed 17`.
#[derive(Parser)]
#[command(name = "cargo xtask sim", max_term_width = 100)]
struct Arguments {
    /// Run this seed alone, and print its events
    #[arg(long, value_name = "N", value_parser = seed, conflicts_with_all = ["seeds", "endless", "canaries"])]
    seed: Option<u64>,

    /// Run this number of seeds
    #[arg(long, value_name = "N", default_value_t = 3000, conflicts_with = "endless")]
    seeds: u64,

    /// Run until one fails, and print the progress from time to time
    #[arg(long)]
    endless: bool,

    /// The first seed of many
    #[arg(long, value_name = "N", value_parser = seed, default_value = "1")]
    from: u64,

    /// Number of nodes, the host included [default: drawn from the seed]
    #[arg(long, value_name = "N", value_parser = nodes)]
    nodes: Option<usize>,

    /// Emphasis of the run
    #[arg(long, value_enum, default_value_t)]
    scenario: Scenario,

    /// Plant this mistake in the code under test
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    canary: String,

    /// Plant every known mistake in turn, and fail unless each is found
    #[arg(long, conflicts_with_all = ["endless", "canary"])]
    canaries: bool,

    /// Simulate coherent pages instead of machines
    #[arg(long, conflicts_with_all = ["endless", "canaries", "nodes", "scenario"])]
    pages: bool,

    /// Number of threads; each seed runs in one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,

    /// The commit that the code under test was built from
    #[arg(long, value_name = "COMMIT", default_value = "unknown", hide = true)]
    commit: String,
}

/// Parses a seed: decimal, or hexadecimal with the prefix `0x`.
fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed
        .map_err(|error| format!("a seed is a number from 0 to {}, or 0x and hexadecimal: {error}", u64::MAX))
}

fn nodes(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_NODES).contains(count));
    count.ok_or_else(|| format!("a simulated machine has 1 to {MAX_NODES} nodes"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = canary::enable(&arguments.canary) {
        Arguments::command().error(clap::error::ErrorKind::InvalidValue, error).exit();
    }
    let found = if arguments.pages {
        run_pages(&arguments)
    } else if arguments.canaries {
        // Not short-circuiting: every canary that is missed is reported.
        try_canaries(&arguments) & try_page_canaries()
    } else if let Some(seed) = arguments.seed {
        run_one(&arguments, seed)
    } else {
        run_many(&arguments)
    };
    if found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Arguments {
    fn options(&self) -> Options {
        Options { nodes: self.nodes, scenario: self.scenario }
    }

    /// Returns the command line that repeats a seed.
    fn reproduce_command(&self, seed: u64) -> String {
        let mut command = format!("cargo xtask sim --seed {seed}");
        if let Some(nodes) = self.nodes {
            command += &format!(" --nodes {nodes}");
        }
        if self.scenario != Scenario::default() {
            command += &format!(" --scenario {}", self.scenario.name());
        }
        if !self.canary.is_empty() {
            command += &format!(" --canary '{}'", self.canary);
        }
        command
    }
}

/// Runs one or more seeds of the page protocols. Returns whether all passed.
fn run_pages(arguments: &Arguments) -> bool {
    let started = Instant::now();
    let seeds = match arguments.seed {
        Some(seed) => seed..=seed,
        None => arguments.from..=arguments.from.saturating_add(arguments.seeds.saturating_sub(1)),
    };
    let mut sum = pages::Summary::default();
    for seed in seeds.clone() {
        let both = pages::run(seed).and_then(|sequential| Ok((sequential, release::run(seed)?)));
        match both {
            Ok((sequential, released)) => {
                sum += sequential;
                sum += released;
            }
            Err(failure) => {
                let canary = &arguments.canary;
                let planted = if canary.is_empty() { String::new() } else { format!(" --canary '{canary}'") };
                print_line(&format!(
                    "seed {seed} FAILED: {failure}\n  again    cargo xtask sim --pages --seed {seed}{planted}"
                ));
                return false;
            }
        }
    }
    let (first, last) = (seeds.start(), seeds.end());
    let (took, commit) = (started.elapsed().as_secs_f64(), &arguments.commit);
    print_line(&format!(
        "seeds {first} to {last} of coherent pages pass in {took:.1} s (commit {commit}): {sum}"
    ));
    true
}

/// Function that simulates one seed.
type Run = fn(u64) -> Result<pages::Summary, String>;
/// Name of a canary, number of seeds within which it must be found, and the simulation to run.
type PlantedCanary = (&'static str, u64, Run);

/// Plants each canary of the page protocols. Returns whether all were found in time.
fn try_page_canaries() -> bool {
    let mut all_found = true;
    let released: [PlantedCanary; 4] =
        release::CANARIES.map(|(name, within)| (name, within, release::run as Run));
    let sequential = pages::CANARIES.map(|(name, within)| (name, within, pages::run as Run));
    for (name, within, run) in sequential.into_iter().chain(released) {
        if let Err(error) = canary::enable(name) {
            print_line(&format!("canary '{name}': {error}"));
            return false;
        }
        match (1..=within).find_map(|seed| Some((seed, run(seed).err()?))) {
            Some((seed, failure)) => {
                print_line(&format!("canary '{name}' is found by seed {seed}: {failure}"));
            }
            None => {
                print_line(&format!("canary '{name}' is NOT found by any of {within} seeds"));
                all_found = false;
            }
        }
    }
    let _ = canary::enable("");
    all_found
}

/// Runs one seed and prints its plan and counters. Returns whether it passed.
fn run_one(arguments: &Arguments, seed: u64) -> bool {
    let outcome = run(seed, arguments.options(), true);
    if outcome.failure.is_some() {
        report(arguments, seed, &outcome);
        return false;
    }
    print_line(&format!("seed {seed} passes (commit {})", arguments.commit));
    print_line(&format!("{:#?}", outcome.plan));
    print_line(&describe(&outcome));
    run_group(arguments, seed) && run_relay(arguments, seed)
}

fn describe(outcome: &Outcome) -> String {
    format!(
        "{} nodes, {:.3} s simulated, {} events, {} processes, {} channels, {} messages, {} buffers \
         transferred, {} deaths of nodes; {}; hash {:016x}",
        outcome.nodes,
        outcome.simulated_ns as f64 / 1e9,
        outcome.events,
        outcome.processes,
        outcome.channels,
        outcome.messages,
        outcome.transfers,
        outcome.deaths,
        outcome.memory,
        outcome.hash
    )
}

/// Prints the trace, the plan and the failure of a run.
fn report(arguments: &Arguments, seed: u64, outcome: &Outcome) {
    for line in &outcome.trace {
        let cut: String = line.chars().take(300).collect();
        print_line(&cut);
    }
    print_line(&format!("{:#?}", outcome.plan));
    print_line(&format!(
        "\nseed {seed} FAILED: {}\n  commit   {}\n  scenario {}\n  run      {}\n  again    {}",
        outcome.failure.as_deref().unwrap_or("it did not fail again"),
        arguments.commit,
        arguments.scenario.name(),
        describe(outcome),
        arguments.reproduce_command(seed)
    ));
}

/// Totals over many runs.
#[derive(Default)]
struct Totals {
    runs: u64,
    events: u64,
    messages: u64,
    transfers: u64,
    deaths: u64,
    simulated_ns: u64,
    largest: usize,
    memory: Counts,
}

/// Runs seeds until all are done or one fails. Returns whether all passed.
fn run_many(arguments: &Arguments) -> bool {
    let started = Instant::now();
    let sums = Mutex::new(Totals::default());
    let first_failure = search(arguments, &arguments.canary, |seed| {
        let outcome = run(seed, arguments.options(), false);
        let Ok(mut sums) = sums.lock() else { return true };
        sums.runs += 1;
        sums.events += outcome.events;
        sums.messages += outcome.messages;
        sums.transfers += outcome.transfers;
        sums.deaths += outcome.deaths;
        sums.simulated_ns += outcome.simulated_ns;
        sums.memory += outcome.memory;
        sums.largest = sums.largest.max(outcome.nodes);
        if arguments.endless && sums.runs.is_multiple_of(1000) {
            print_line(&progress(&sums, started.elapsed()));
        }
        outcome.failure.is_some()
    });
    if let Some(seed) = first_failure {
        report(arguments, seed, &run(seed, arguments.options(), true));
        return false;
    }
    let sums = sums.into_inner().unwrap_or_default();
    print_line(&progress(&sums, started.elapsed()));
    if !run_groups(arguments) || !run_relays(arguments) {
        return false;
    }
    print_line(&format!(
        "all {} seeds from {} on pass (scenario {}, commit {})",
        sums.runs,
        arguments.from,
        arguments.scenario.name(),
        arguments.commit
    ));
    true
}

/// Runs broadcast groups, a tenth as many as machines. Returns whether all passed.
fn run_groups(arguments: &Arguments) -> bool {
    let started = Instant::now();
    let sums = Mutex::new((0, 0, 0));
    let shorter = Arguments { seeds: arguments.seeds.div_ceil(10), ..defaults(arguments) };
    let failed = search(&shorter, &arguments.canary, |seed| {
        let outcome = broadcast::run(seed);
        let Ok(mut sums) = sums.lock() else { return true };
        *sums = (sums.0 + 1, sums.1 + outcome.taken, sums.2 + outcome.deaths);
        outcome.failure.is_some()
    });
    if let Some(seed) = failed {
        return run_group(arguments, seed);
    }
    let (runs, taken, deaths) = sums.into_inner().unwrap_or_default();
    let seconds = started.elapsed().as_secs_f64();
    print_line(&format!(
        "{runs} groups in {seconds:.1} s: {taken} messages broadcast and taken, {deaths} deaths of members"
    ));
    true
}

/// Runs the broadcast group of a seed and prints its outcome. Returns whether it passed.
fn run_group(arguments: &Arguments, seed: u64) -> bool {
    let outcome = broadcast::run(seed);
    match &outcome.failure {
        None => print_line(&format!("the group of seed {seed} passes: {outcome:?}")),
        Some(why) => {
            print_line(&format!(
                "the group of seed {seed} FAILED: {why}\n  again    {}",
                arguments.reproduce_command(seed)
            ));
        }
    }
    outcome.failure.is_none()
}

/// Runs relayed channels, as many as machines. Returns whether all passed.
fn run_relays(arguments: &Arguments) -> bool {
    let started = Instant::now();
    let sum = Mutex::new((0, relays::Summary::default()));
    let all = Arguments { ..defaults(arguments) };
    let failed = search(&all, &arguments.canary, |seed| {
        let outcome = relays::run(seed);
        if let (Ok(summary), Ok(mut sum)) = (&outcome, sum.lock()) {
            *sum = (sum.0 + 1, sum.1);
            sum.1 += *summary;
        }
        outcome.is_err()
    });
    if let Some(seed) = failed {
        return run_relay(arguments, seed);
    }
    let (runs, sum) = sum.into_inner().unwrap_or_default();
    print_line(&format!(
        "{runs} channels that are relayed in {:.1} s: {sum}",
        started.elapsed().as_secs_f64()
    ));
    true
}

/// Runs the relayed channel of a seed and prints its outcome. Returns whether it passed.
fn run_relay(arguments: &Arguments, seed: u64) -> bool {
    match relays::run(seed) {
        Ok(summary) => print_line(&format!("the relayed channel of seed {seed} passes: {summary}")),
        Err(why) => {
            print_line(&format!(
                "the relayed channel of seed {seed} FAILED: {why}\n  again    {}",
                arguments.reproduce_command(seed)
            ));
            return false;
        }
    }
    true
}

fn progress(sums: &Totals, elapsed: Duration) -> String {
    format!(
        "{} seeds in {:.1} s: {} events, {} messages, {} buffers transferred, {} deaths of nodes, {:.1} h simulated, up to {} \
         nodes\n  {}",
        sums.runs,
        elapsed.as_secs_f64(),
        sums.events,
        sums.messages,
        sums.transfers,
        sums.deaths,
        sums.simulated_ns as f64 / 3.6e12,
        sums.largest,
        sums.memory
    )
}

/// Runs seeds on several threads. Returns the lowest seed that failed, among those that were tried.
fn search(arguments: &Arguments, planted: &str, fails: impl Fn(u64) -> bool + Sync) -> Option<u64> {
    let threads = arguments
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let last = if arguments.endless { u64::MAX } else { arguments.from.saturating_add(arguments.seeds) };
    let (next, failed) = (AtomicU64::new(arguments.from), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Cannot fail: the caller checked the name. Canaries are thread-local.
                let _ = canary::enable(planted);
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        return;
                    }
                    let panics = PanicReporter(arguments.reproduce_command(seed));
                    let failed_now = fails(seed);
                    drop(panics);
                    if failed_now {
                        failed.store(true, Ordering::Relaxed);
                        if let Ok(mut failures) = failures.lock() {
                            failures.push(seed);
                        }
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_default().into_iter().min()
}

/// Guard that prints how to repeat the seed if the code under test panics.
struct PanicReporter(String);

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_line(&format!("FAILED: a panic\n  again    {}", self.0));
        }
    }
}

/// Plants each canary in turn. Returns whether all were found in time.
fn try_canaries(arguments: &Arguments) -> bool {
    let mut all_found = true;
    for &(name, within) in CANARIES {
        let arguments = Arguments { seeds: within, canary: name.to_owned(), ..defaults(arguments) };
        if let Err(error) = canary::enable(name) {
            print_line(&format!("canary '{name}': {error}"));
            return false;
        }
        let failure_of = |seed| match name.starts_with("broadcast") {
            true => broadcast::run(seed).failure,
            false if name.starts_with("relay") => relays::run(seed).err(),
            false => run(seed, arguments.options(), false).failure,
        };
        match search(&arguments, name, |seed| failure_of(seed).is_some()) {
            Some(seed) => {
                let failure = failure_of(seed).unwrap_or_default();
                print_line(&format!("canary '{name}' is found by seed {seed}: {failure}"));
            }
            None => {
                print_line(&format!("canary '{name}' is NOT found by any of {within} seeds"));
                all_found = false;
            }
        }
    }
    all_found
}

fn defaults(of: &Arguments) -> Arguments {
    Arguments {
        seed: None,
        seeds: of.seeds,
        endless: false,
        from: of.from,
        nodes: of.nodes,
        scenario: of.scenario,
        canary: String::new(),
        canaries: false,
        pages: false,
        threads: of.threads,
        commit: of.commit.clone(),
    }
}

/// Prints a line to standard output and ignores write errors.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
