//! `cargo xtask fuzz` and `cargo xtask asan`: run the code that parses untrusted input under libFuzzer and
//! the address sanitizer.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::Failure;
use crate::toolchain;
use crate::workspace::{Workspace, capture, execute};

/// Target of sanitized builds. Sanitizers need a standard library with their runtime, which rustup's nightly
/// has for it.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Compiler flags for libFuzzer's coverage instrumentation, as set by `cargo fuzz`.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Zsanitizer=address";

const NO_NIGHTLY: &str =
    "SKIPPED: sanitizers come only with rustup's nightly, which is not here; `make setup` tries to add it";

/// Number of log lines shown for a target that found something.
const SHOWN_LINES: usize = 30;

/// Feeds every decoder and file format under libFuzzer and the address sanitizer. Without a target: all, in
/// turn, with a table at the end and status 1 if one found something.
///
/// For example `cargo xtask fuzz --all --seconds 30`, or `cargo xtask fuzz --seconds 600 machine_file`
#[derive(Args)]
pub(crate) struct FuzzOptions {
    /// Target to fuzz; `--list` shows them
    target: Option<String>,

    /// All targets, in turn; the same as naming none
    #[arg(long, conflicts_with = "target")]
    all: bool,

    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// Run an input that was found, in place of a search
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,

    /// List the targets
    #[arg(long)]
    list: bool,
}

/// Runs one target or all of them.
pub(crate) fn run(workspace: &Workspace, options: &FuzzOptions) -> Result<(), Failure> {
    let home = workspace.target.join("fuzz");
    fs::create_dir_all(&home).map_err(Failure::file("creating", &home))?;
    let names = seeds(workspace, &home.join("seeds"))?;
    if options.list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let is_wanted =
        |name: &&String| options.all || options.target.as_ref().is_none_or(|target| *name == target);
    let wanted: Vec<&String> = names.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(Failure::Found(format!("there is no such target; there are {}", names.join(", "))));
    }
    if !toolchain::has_nightly() {
        println!("{NO_NIGHTLY}");
        return Ok(());
    }
    let mut build = nightly(workspace, COVERAGE);
    let manifest = workspace.root.join("testing/libfuzzer/Cargo.toml");
    build.args(["build", "--release", "--target", TARGET, "--manifest-path"]).arg(manifest);
    execute(build.env("CARGO_TARGET_DIR", home.join("build")))?;
    let search = Search {
        program: home.join("build").join(TARGET).join("release/any"),
        home,
        seconds: options.seconds,
    };
    match (&wanted[..], &options.input) {
        (names, Some(input)) => names.iter().try_for_each(|name| search.replay(name, input)),
        ([name], None) => search.watch(name),
        (names, None) => search.all(names),
    }
}

/// Configuration of a libFuzzer search.
struct Search {
    program: PathBuf,
    home: PathBuf,
    seconds: u32,
}

/// Result of the search with one target.
struct Outcome {
    name: String,
    passed: bool,
    took: Duration,
    statistics: Statistics,
}

/// Statistics that libFuzzer prints at the end of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Statistics {
    runs: u64,
    new_inputs: u64,
    peak_mib: u64,
}

impl Statistics {
    fn parse(log: &str) -> Statistics {
        let figure = |name: &str| {
            let line = log.lines().rev().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name))?;
            line.strip_prefix(':')?.trim().parse().ok()
        };
        Statistics {
            runs: figure("number_of_executed_units").unwrap_or(0),
            new_inputs: figure("new_units_added").unwrap_or(0),
            peak_mib: figure("peak_rss_mb").unwrap_or(0),
        }
    }
}

impl Search {
    /// Runs a target on an input that was found before.
    fn replay(&self, name: &str, input: &Path) -> Result<(), Failure> {
        let input = fs::canonicalize(input).map_err(Failure::file("finding", input))?;
        execute(self.target(name)?.arg(input))
    }

    /// Runs one target with its output on the terminal.
    fn watch(&self, name: &str) -> Result<(), Failure> {
        println!("{name}: {} s; what it finds comes to {}", self.seconds, self.found().display());
        execute(&mut self.search(name)?)
    }

    /// Runs all given targets in turn. A finding does not keep the others from running.
    fn all(&self, names: &[&String]) -> Result<(), Failure> {
        println!(
            "{} targets, {} s each; what they find comes to {}",
            names.len(),
            self.seconds,
            self.found().display()
        );
        let mut outcomes = Vec::new();
        for (number, name) in names.iter().enumerate() {
            print!("{:>3}/{} {name:<24}", number + 1, names.len());
            // A closed standard output does not stop the run.
            let _ = io::stdout().flush();
            let outcome = self.quietly(name)?;
            let Statistics { runs, new_inputs, .. } = outcome.statistics;
            println!("{:<8}{runs:>10} runs {new_inputs:>6} new inputs", outcome.result());
            outcomes.push(outcome);
        }
        self.summarise(&outcomes)
    }

    /// Runs one target with its output in a log file.
    fn quietly(&self, name: &str) -> Result<Outcome, Failure> {
        let mut search = self.search(name)?;
        let log = self.log(name);
        let file = fs::File::create(&log).map_err(Failure::file("creating", &log))?;
        let copy = file.try_clone().map_err(Failure::file("writing", &log))?;
        let start = Instant::now();
        let status = search.stdout(copy).stderr(file).status();
        let status = status.map_err(|source| Failure::NotStarted { program: "the fuzzer".into(), source })?;
        let text =
            String::from_utf8_lossy(&fs::read(&log).map_err(Failure::file("reading", &log))?).into_owned();
        Ok(Outcome {
            name: name.to_owned(),
            passed: status.success(),
            took: start.elapsed(),
            statistics: Statistics::parse(&text),
        })
    }

    /// Prints the table, and the last log lines of the targets that found something.
    fn summarise(&self, outcomes: &[Outcome]) -> Result<(), Failure> {
        println!(
            "\n{:<24}{:<8}{:>7}{:>12}{:>10}{:>8}{:>8}",
            "target", "result", "s", "runs", "runs/s", "new", "MiB"
        );
        for outcome in outcomes {
            let (seconds, Statistics { runs, new_inputs, peak_mib }) =
                (outcome.took.as_secs_f64(), outcome.statistics);
            let rate = runs as f64 / seconds.max(1e-3);
            println!(
                "{:<24}{:<8}{seconds:>7.1}{runs:>12}{rate:>10.0}{new_inputs:>8}{peak_mib:>8}",
                outcome.name,
                outcome.result()
            );
        }
        let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
        for outcome in &failed {
            let log = self.log(&outcome.name);
            let text = fs::read(&log).map_err(Failure::file("reading", &log))?;
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            println!("\n{}, the end of {}:", outcome.name, log.display());
            lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().for_each(|line| println!("  {line}"));
        }
        match failed.len() {
            0 => Ok(()),
            count => Err(Failure::Found(format!("{count} of {} targets found something", outcomes.len()))),
        }
    }

    fn search(&self, name: &str) -> Result<Command, Failure> {
        let corpus = self.home.join("corpus").join(name);
        fs::create_dir_all(&corpus).map_err(Failure::file("creating", &corpus))?;
        let mut fuzz = self.target(name)?;
        fuzz.args([format!("-max_total_time={}", self.seconds), "-timeout=10".into()]);
        fuzz.args(["-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1", "-verbosity=0"]);
        fuzz.arg(corpus).arg(self.home.join("seeds").join(name));
        Ok(fuzz)
    }

    fn target(&self, name: &str) -> Result<Command, Failure> {
        for folder in [self.found(), self.home.join("log")] {
            fs::create_dir_all(&folder).map_err(Failure::file("creating", &folder))?;
        }
        let mut fuzz = Command::new(&self.program);
        fuzz.current_dir(&self.home).env("TOMBOLO_FUZZ_TARGET", name);
        fuzz.arg(format!("-artifact_prefix={}/{name}-", self.found().display()));
        Ok(fuzz)
    }

    fn found(&self) -> PathBuf {
        self.home.join("found")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.home.join("log").join(format!("{name}.log"))
    }
}

impl Outcome {
    fn result(&self) -> &'static str {
        if self.passed { "ok" } else { "FAILED" }
    }
}

/// Writes the seed corpora and returns the names of the targets.
fn seeds(workspace: &Workspace, folder: &std::path::Path) -> Result<Vec<String>, Failure> {
    let mut seeds = workspace.cargo();
    seeds.args(["run", "--quiet", "--package", "tombolo-fuzz", "--bin", "fuzz-corpus", "--"]).arg(folder);
    Ok(capture(&mut seeds)?.lines().map(str::to_owned).collect())
}

/// Runs the tests of the crates that access memory written by peers, and a smoke run of every fuzz target,
/// under the address sanitizer.
pub(crate) fn address_sanitizer(workspace: &Workspace) -> Result<(), Failure> {
    if !toolchain::has_nightly() {
        println!("{NO_NIGHTLY}");
        return Ok(());
    }
    let mut test = nightly(workspace, "-Zsanitizer=address");
    test.current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", workspace.target.join("asan"))
        // Some tests leak shared memory and descriptors on purpose.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env("TOMBOLO_FUZZ_RUNS", "500")
        .args(["test", "--lib", "--tests", "--target", TARGET]);
    for package in ["tombolo-base", "tombolo-platform", "tombolo-ring", "tombolo-transport", "tombolo-fuzz"] {
        test.args(["--package", package]);
    }
    execute(&mut test)
}

/// Returns a command for nightly's cargo with compiler flags for all crates.
fn nightly(workspace: &Workspace, flags: &str) -> Command {
    let mut cargo = Command::new("rustup");
    cargo
        .current_dir(&workspace.root)
        .args(["run", "nightly", "cargo"])
        .env("RUSTFLAGS", flags)
        .env_remove("RUSTC")
        .env_remove("CARGO");
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfuzzer_statistics_are_parsed() {
        let log = "INFO: Seed: 7\nstat::number_of_executed_units: 8123\nstat::average_exec_per_sec:     4061\n\
                   stat::new_units_added:          12\nstat::slowest_unit_time_sec:    0\nstat::peak_rss_mb:              91\n";
        assert_eq!(Statistics::parse(log), Statistics { runs: 8123, new_inputs: 12, peak_mib: 91 });
        // A run that ended with a finding prints no statistics.
        assert_eq!(Statistics::parse("==7== ERROR: libFuzzer: deadly signal\nstat::"), Statistics::default());
    }
}
