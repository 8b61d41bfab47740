//! `cargo xtask ci`: everything that has to hold before a change goes in.

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::Failure;
use crate::step::{Lane, Outcome, Report, Step, Tests};
use crate::workspace::Workspace;

/// Everything that `make test` does, as named steps. One that fails does not keep the others from being tried:
/// whoever waited for half an hour wants to know of all that is broken.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only the steps whose names contain one of these; none means all
    steps: Vec<String>,

    /// Stop at the first step that fails
    #[arg(short, long)]
    fail_fast: bool,

    /// Show the output of every step, not only of one that fails
    #[arg(short, long)]
    verbose: bool,

    /// Fail a step that skips something because a tool is missing; without it, the step says so and passes
    #[arg(long)]
    complete: bool,
}

/// Runs the steps and prints how each went. The last line is `N passed, N failed`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let started = Instant::now();
    let logs = workspace.target.join("ci");
    std::fs::create_dir_all(&logs).map_err(Failure::file("creating", &logs))?;
    let wanted =
        |step: &Step| options.steps.is_empty() || options.steps.iter().any(|name| step.name.contains(name));
    let mut steps: Vec<Step> = steps(workspace)?.into_iter().filter(wanted).collect();
    if is_new(&workspace.target) {
        for step in &mut steps {
            step.command.env("CARGO_INCREMENTAL", "0");
        }
    }
    if steps.is_empty() {
        return Err(Failure::Found(format!("no step is called {:?}", options.steps)));
    }
    let board = Board::new(&steps, &logs, options);
    // One at a time where somebody watches, or wants the first failure to be the last.
    let (front, beside): (Vec<Step>, Vec<Step>) = if options.verbose || options.fail_fast {
        (steps, Vec::new())
    } else {
        steps.into_iter().partition(|step| step.lane == Lane::Front)
    };
    let mut reports = thread::scope(|scope| {
        let beside = scope.spawn(|| board.run(beside));
        let front = board.run(front);
        // A step that panics is a mistake of this program; it shows as what it is.
        let beside = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        front.and_then(|mut reports| {
            reports.extend(beside?);
            Ok(reports)
        })
    })?;
    reports.sort_by_key(|report| board.order(report.name));
    summarise(&reports, board.names.len(), started.elapsed(), &logs)
}

/// Whether nothing was compiled incrementally in this target folder so far, as in a fresh clone: there it would cost a quarter of the
/// time of every crate of the workspace, and nobody may ever change one. Where somebody works it goes on.
fn is_new(target: &Path) -> bool {
    // Cargo makes the folder itself in any case.
    std::fs::read_dir(target.join("debug/incremental")).map_or(true, |mut crates| crates.next().is_none())
}

/// Where both lanes tell how far they are.
struct Board<'a> {
    names: Vec<&'static str>,
    logs: &'a Path,
    options: &'a Options,
    done: Mutex<usize>,
}

impl<'a> Board<'a> {
    fn new(steps: &[Step], logs: &'a Path, options: &'a Options) -> Self {
        Self { names: steps.iter().map(|step| step.name).collect(), logs, options, done: Mutex::new(0) }
    }

    fn order(&self, name: &str) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or(self.names.len())
    }

    /// Runs steps one after the other.
    fn run(&self, steps: Vec<Step>) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        for step in steps {
            self.say(|_| format!("      {:<24}started", step.name));
            let report = step.run(self.logs, self.options.verbose)?.required(self.options.complete);
            self.say(|done| {
                *done += 1;
                // What a failed step said stands above its line, in one piece.
                format!(
                    "{}{done:>2}/{} {:<24}{}",
                    report.excerpt,
                    self.names.len(),
                    report.name,
                    describe(&report)
                )
            });
            let failed = report.failed();
            reports.push(report);
            if failed && self.options.fail_fast {
                break;
            }
        }
        Ok(reports)
    }

    /// Writes lines that no other lane's come between.
    fn say(&self, line: impl FnOnce(&mut usize) -> String) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // A terminal that is gone is no reason to stop the checks.
        let _ = writeln!(io::stdout(), "{}", line(&mut done)).and_then(|()| io::stdout().flush());
    }
}

fn steps(workspace: &Workspace) -> Result<Vec<Step>, Failure> {
    let itself = env::current_exe().map_err(Failure::file("finding", "xtask"))?;
    let cargo = |name, words: &[&str]| {
        let mut command = workspace.cargo();
        command.args(words);
        Step { name, command, lane: Lane::Front }
    };
    let xtask = |name, words: &[&str]| {
        let mut command = Command::new(&itself);
        command.current_dir(&workspace.root).args(words);
        Step { name, command, lane: Lane::Front }
    };
    let mut wheel = Command::new("sh");
    wheel.current_dir(&workspace.root).arg("scripts/wheel.sh").arg(&workspace.target);
    let wheel = Step { name: "wheel", command: wheel, lane: Lane::Front };
    let mut browser = Command::new("sh");
    browser.current_dir(&workspace.root).arg("scripts/browser.sh").arg(&workspace.target);
    let browser = Step { name: "browser", command: browser, lane: Lane::Front };
    // Computes on its own, in a target folder of its own: it takes what processor time the front leaves, which is a
    // good deal while compilers link and machines boot, and disturbs nobody.
    let beside = |name, words: &[&str]| {
        let mut command = Command::new("nice");
        command.current_dir(&workspace.root).args(["-n", "19"]).arg(&itself).args(words);
        Step { name, command, lane: Lane::Beside }
    };
    let mut documentation =
        cargo("documentation", &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    documentation.command.env("RUSTDOCFLAGS", "-D warnings");
    let programs = TestPrograms::of(workspace)?;
    // Each selects the whole workspace and picks targets: cargo unites the features that the selected packages ask of what
    // they share, and compiles all of it again for another selection.
    let test = |name, programs: &[&str], more: &[&str]| {
        let mut step = cargo(name, &["test", "--no-fail-fast", "--workspace"]);
        step.command.args(programs.iter().flat_map(|program| ["--test", program])).args(more);
        step
    };
    // One machine at a time: they would compete for two processors and miss their deadlines.
    let alone = ["--", "--test-threads=1"];
    Ok(vec![
        cargo("format", &["fmt", "--all", "--check"]),
        xtask("tidy", &["tidy"]),
        cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        test("tests", &programs.others, &["--lib", "--bins", "--examples"]),
        test("doc tests", &[], &["--doc"]),
        documentation,
        xtask("without an OS", &["bare"]),
        xtask("kit", &["kit"]),
        xtask("generated files", &["codegen", "--check"]),
        // Before everything else that starts nodes: an emulator that is set up wrongly spoils all of it.
        test("litmus", &[TestPrograms::LITMUS], &alone),
        test("end to end", &programs.with_machines, &alone),
        wheel,
        browser,
        beside("loom models", &["model"]),
        beside("simulation", &["sim", "--seeds", "3000"]),
        beside("canaries", &["sim", "--canaries"]),
        beside("miri", &["miri"]),
        beside("foreign ISAs", &["foreign"]),
    ])
}

/// The test programs of the workspace, by whether they bring up machines.
struct TestPrograms<'a> {
    /// Without [`LITMUS`](Self::LITMUS), which goes first.
    with_machines: Vec<&'a str>,
    others: Vec<&'a str>,
}

impl<'a> TestPrograms<'a> {
    /// The packages whose test programs do.
    const PACKAGES: [&'static str; 2] = ["tombolo-e2e", "tombolo-chaos"];
    const LITMUS: &'static str = "litmus";

    /// Cargo is told of them by name alone, so no two kinds may share one.
    fn of(workspace: &'a Workspace) -> Result<Self, Failure> {
        let (mut with_machines, mut others) = (Vec::new(), Vec::new());
        for package in &workspace.packages {
            let tests = package.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "test"));
            let names = tests.map(|target| target.name.as_str());
            if Self::PACKAGES.contains(&package.name.as_str()) {
                with_machines.extend(names);
            } else {
                others.extend(names);
            }
        }
        if let Some(name) = others.iter().find(|name| with_machines.contains(name)) {
            return Err(Failure::Found(format!(
                "two test programs are called {name}, and one of them brings up machines: rename it"
            )));
        }
        with_machines.retain(|name| *name != Self::LITMUS);
        // Several packages may have one of a name; cargo runs them all.
        others.sort_unstable();
        others.dedup();
        Ok(Self { with_machines, others })
    }
}

fn describe(report: &Report) -> String {
    let mut tests = match report.tests {
        Tests { passed: 0, failed: 0, .. } => String::new(),
        Tests { passed, failed: 0, .. } => format!("  {passed} tests"),
        Tests { passed, failed, .. } => format!("  {passed} tests, {failed} FAILED"),
    };
    if report.tests.skipped > 0 {
        tests.push_str(&format!(", {} skipped", report.tests.skipped));
    }
    let time = seconds(report.time);
    match &report.outcome {
        Outcome::Passed => format!("ok       {time:>8}{tests}"),
        Outcome::Skipped(reason) => format!("ok       {time:>8}{tests}  SKIPPED: {reason}"),
        Outcome::Failed => format!("FAILED   {time:>8}{tests}"),
        Outcome::Incomplete(reason) => format!("FAILED   {time:>8}{tests}  SKIPPED: {reason}"),
        Outcome::TimedOut => format!("TIMED OUT{time:>8}{tests}"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn summarise(reports: &[Report], total: usize, time: Duration, logs: &Path) -> Result<(), Failure> {
    println!("\nstep                     result       time");
    for report in reports {
        println!("{:<25}{}", report.name, describe(report));
    }
    if reports.len() < total {
        println!("{} steps were not run", total - reports.len());
    }
    println!("{:<25}         {:>8}  logs in {}\n", "all", seconds(time), logs.display());
    let Tests { passed, failed, skipped } = add_up(reports);
    if skipped > 0 {
        println!("{skipped} skipped: the logs say what each of them lacks");
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err(Failure::Found("the checks failed".to_owned())) }
}

/// Tests, and each step that has none as one check of its own.
fn add_up(reports: &[Report]) -> Tests {
    let mut sum = Tests::default();
    for report in reports {
        let broken = report.failed();
        let counted = report.tests.passed + report.tests.failed > 0;
        sum.skipped += report.tests.skipped;
        sum.passed += if counted { report.tests.passed } else { usize::from(!broken) };
        sum.failed += if broken { report.tests.failed.max(1) } else { report.tests.failed };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome, passed: usize, failed: usize) -> Report {
        Report {
            name: "step",
            outcome,
            time: Duration::ZERO,
            excerpt: String::new(),
            tests: Tests { passed, failed, skipped: 0 },
        }
    }

    #[test]
    fn a_target_folder_is_new_until_a_crate_was_compiled_incrementally() {
        let target = env::temp_dir().join(format!("tombolo-ci-{}", std::process::id()));
        assert!(is_new(&target));
        std::fs::create_dir_all(target.join("debug/incremental")).expect("a folder");
        assert!(is_new(&target));
        std::fs::create_dir(target.join("debug/incremental/tombolo_base-1")).expect("a folder");
        assert!(!is_new(&target));
        std::fs::remove_dir_all(&target).expect("it is ours");
    }

    #[test]
    fn a_step_without_tests_counts_as_one_and_a_failure_is_never_lost() {
        let sum = |reports: &[Report]| add_up(reports);
        assert_eq!(
            sum(&[report(Outcome::Passed, 0, 0), report(Outcome::Passed, 7, 0)]),
            Tests { passed: 8, failed: 0, skipped: 0 }
        );
        assert_eq!(sum(&[report(Outcome::Failed, 7, 0)]), Tests { passed: 7, failed: 1, skipped: 0 });
        assert_eq!(sum(&[report(Outcome::Failed, 7, 2)]), Tests { passed: 7, failed: 2, skipped: 0 });
        assert_eq!(sum(&[report(Outcome::TimedOut, 0, 0)]), Tests { passed: 0, failed: 1, skipped: 0 });
        assert_eq!(
            sum(&[report(Outcome::Skipped(String::new()), 0, 0)]),
            Tests { passed: 1, failed: 0, skipped: 0 }
        );
    }
}
