//! `cargo xtask ci`: all checks that a change has to pass.

use std::env;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::disk::check_space;
use crate::failure::Failure;
use crate::schedule::Schedule;
use crate::step::{Lane, Outcome, Report, Step, Tests};
use crate::toolchain::Toolchain;
use crate::workspace::{Target, Workspace};

/// Runs everything that `make test` does, as named steps. A failed step does not keep the others from
/// running: after half an hour of waiting the user wants to know everything that is broken.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only the steps whose names contain one of these; none means all
    steps: Vec<String>,

    /// Stop at the first step that fails
    #[arg(short, long)]
    fail_fast: bool,

    /// Show the output of every step, not only of failed ones
    #[arg(short, long)]
    verbose: bool,

    /// Fail a step that skips something because a tool is missing; without this, the step reports that and
    /// passes
    #[arg(long)]
    complete: bool,
}

/// Runs the steps and prints the result of each. The last line is `N passed, N failed`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let started = Instant::now();
    let logs = workspace.target.join("ci");
    std::fs::create_dir_all(&logs).map_err(Failure::file("creating", &logs))?;
    let wanted = |step: &Step| {
        options.steps.is_empty() || options.steps.iter().any(|name| step.name.contains(name.as_str()))
    };
    let mut steps: Vec<Step> = steps(workspace)?.into_iter().filter(wanted).collect();
    if options.steps.is_empty() {
        check_space(&workspace.target)?;
    }
    if is_fresh_target(&workspace.target) {
        for step in &mut steps {
            step.command.env("CARGO_INCREMENTAL", "0");
        }
    }
    if steps.is_empty() {
        return Err(Failure::Found(format!("no step is called {:?}", options.steps)));
    }
    let board = ProgressBoard::new(&steps, &logs, options);
    // Run sequentially if output is shown as it comes, or if the first failure must be the last step.
    let mut reports = if options.verbose || options.fail_fast {
        let steps = steps.into_iter().map(|step| step.in_lane(Lane::Machines)).collect();
        board.run_lanes(&Schedule::new(steps), &[Lane::Machines])?
    } else {
        run_in_parallel(&board, steps)?
    };
    reports.sort_by_key(|report| board.position(&report.name));
    summarise(&reports, board.names.len(), started.elapsed(), &logs)
}

/// Lanes that each worker serves, in order of preference. Tests on machines mostly wait for a boot, a death
/// or a deadline, so two of their programs run at a time, each on its own machines. A worker whose lane is
/// finished takes steps of `Beside`.
const WORKERS: [&[Lane]; 4] = [
    &[Lane::Machines, Lane::Beside],
    &[Lane::Machines, Lane::Beside],
    &[Lane::Behind, Lane::Beside],
    &[Lane::Beside],
];

/// Runs the lanes in parallel, and the steps of each lane in order.
fn run_in_parallel(board: &ProgressBoard, steps: Vec<Step>) -> Result<Vec<Report>, Failure> {
    let schedule = Schedule::new(steps);
    let results: Vec<Result<Vec<Report>, Failure>> = thread::scope(|scope| {
        let schedule = &schedule;
        let workers = WORKERS.map(|lanes| scope.spawn(move || board.run_lanes(schedule, lanes)));
        // A panic is a bug in this tool: propagate it.
        workers.map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).into()
    });
    let reports: Result<Vec<Vec<Report>>, Failure> = results.into_iter().collect();
    Ok(reports?.into_iter().flatten().collect())
}

/// Returns whether nothing has been compiled incrementally in this target folder yet, as in a fresh clone.
/// There, incremental compilation would add a quarter to the build time of every workspace crate, although
/// most never change. It stays enabled on developers' machines.
fn is_fresh_target(target: &Path) -> bool {
    // Cargo creates the folder `incremental` in any case; only its content counts.
    std::fs::read_dir(target.join("debug/incremental")).map_or(true, |mut crates| crates.next().is_none())
}

/// Progress report shared by all lanes.
struct ProgressBoard<'a> {
    names: Vec<String>,
    logs: &'a Path,
    options: &'a Options,
    done: Mutex<usize>,
}

impl<'a> ProgressBoard<'a> {
    fn new(steps: &[Step], logs: &'a Path, options: &'a Options) -> Self {
        Self {
            names: steps.iter().map(|step| step.name.clone()).collect(),
            logs,
            options,
            done: Mutex::new(0),
        }
    }

    fn position(&self, name: &str) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or(self.names.len())
    }

    /// Runs steps of these lanes as they become ready, until none is left.
    fn run_lanes(&self, schedule: &Schedule, lanes: &[Lane]) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        while let Some((step, running)) = schedule.take(lanes) {
            let report = self.run(step)?;
            drop(running);
            let failed = report.failed();
            reports.push(report);
            if failed && self.options.fail_fast {
                break;
            }
        }
        Ok(reports)
    }

    fn run(&self, step: Step) -> Result<Report, Failure> {
        self.print_line(|_| format!("      {:<24}started", step.name));
        let report = step.run(self.logs, self.options.verbose)?.required(self.options.complete);
        self.print_line(|done| {
            *done += 1;
            // The excerpt of a failed step's log is printed above its line, in one piece.
            format!(
                "{}{done:>2}/{} {:<24}{}",
                report.excerpt,
                self.names.len(),
                report.name,
                describe(&report)
            )
        });
        Ok(report)
    }

    /// Prints lines without interleaving those of other lanes.
    fn print_line(&self, line: impl FnOnce(&mut usize) -> String) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed standard output is not a reason to stop the checks.
        let _ = writeln!(io::stdout(), "{}", line(&mut done)).and_then(|()| io::stdout().flush());
    }
}

/// Niceness of tests that have deadlines but start no machines.
const NICE_WITH_DEADLINES: &str = "5";
/// Niceness of steps that share processors with tests that have deadlines; other steps wait for some of them.
const NICE_LOW: &str = "10";
/// Niceness of steps that no other step waits for.
const NICE_LOWEST: &str = "19";

/// Names of the steps that others wait for: the parts of machines, those of the tests on machines, and the
/// rest of the kit.
const KIT: &str = "kit";
const TEST_PROGRAMS: &str = "test programs";
const TEST_IMAGES: &str = "test images";
const MODELS: &str = "kit: the rest";

/// Wraps a command in `nice`, keeping its environment and working directory.
fn nice(niceness: &str, command: Command) -> Command {
    let mut nicely = Command::new("nice");
    nicely.args(["-n", niceness]).arg(command.get_program()).args(command.get_args());
    nicely.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        nicely.current_dir(folder);
    }
    nicely
}

/// Number of simulated machines: three times the number of seeds after which the last canary is caught, which
/// is the 302nd (`testing/sim/src/canary.rs`).
const SEEDS: &str = "1000";

fn steps(workspace: &Workspace) -> Result<Vec<Step>, Failure> {
    let itself = env::current_exe().map_err(Failure::file("finding", "xtask"))?;
    let cargo = |name: &str, words: &[&str]| {
        let mut command = workspace.cargo();
        command.args(words);
        Step::new(name, command)
    };
    let xtask = |name: &str, words: &[&str]| {
        let mut command = Command::new(&itself);
        command.current_dir(&workspace.root).args(words);
        Step::new(name, command)
    };
    let script = |name: &str, path: &str| {
        let mut command = Command::new("sh");
        command.current_dir(&workspace.root).arg(path).arg(&workspace.target);
        Step::new(name, command)
    };
    // CPU-bound, with its own target folder: it uses the processor time that the others leave, which is
    // plenty while machines boot and linkers run, and blocks none of them.
    let beside = |name: &str, words: &[&str]| {
        Step::new(name, nice(NICE_LOWEST, xtask(name, words).command)).in_lane(Lane::Beside)
    };
    // At a lower optimisation level than for long explorations: 13 s more to run, 37 s less to build.
    let simulation = |name: &str, words: &[&str]| {
        let mut step = beside(name, words);
        step.command.env("CARGO_PROFILE_CHECKER_OPT_LEVEL", "1");
        step
    };
    // Checks of the sources share one target folder, so that dependencies are checked once.
    let checks = workspace.checks();
    let check = |name: &str, mut command: Command| {
        command.env("CARGO_TARGET_DIR", &checks);
        Step::new(name, nice(NICE_LOWEST, command)).in_lane(Lane::Beside)
    };
    let cargo_check = |name: &str, words: &[&str]| check(name, cargo(name, words).command);
    let mut documentation =
        cargo_check("documentation", &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    documentation
        .command
        .env("RUSTDOCFLAGS", "-D warnings")
        .env("RUSTDOC", workspace.root.join("scripts/rustdoc-check.sh"))
        // Invoke the compiler as `cargo clippy -- -D warnings` does, so that crates that it has checked are
        // reused.
        .env("RUSTC_WORKSPACE_WRAPPER", Toolchain::find()?.clippy_driver())
        .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    let programs = TestPrograms::of(workspace)?;
    // Every step selects the whole workspace and only picks targets: cargo unifies features over the selected
    // packages, and another selection would recompile the shared dependencies.
    let test = |name: &str, programs: &[&str], more: &[&str]| {
        let mut step = cargo(name, &["test", "--no-fail-fast", "--workspace"]);
        step.command.args(programs.iter().flat_map(|program| ["--test", program])).args(more);
        step
    };
    // One machine at a time per program: more than the two of two programs would compete for two processors
    // and miss their deadlines.
    let end_to_end = |program: &str| {
        let name = if program == TestPrograms::LITMUS { program } else { &format!("end to end: {program}") };
        test(name, &[program], &["--", "--test-threads=1"])
    };
    let behind =
        |step: Step, niceness| Step { command: nice(niceness, step.command), lane: Lane::Behind, ..step };
    let with_machines = [&programs.with_machines[..], &[TestPrograms::KIT]].concat();
    let bins: Vec<&str> = programs.bins.iter().flat_map(|program| ["--bin", program]).collect();
    let images = test(TEST_IMAGES, &[TestPrograms::KIT], &["--", "--test-threads=1", "ahead::actors"]);
    let mut steps = vec![
        cargo("format", &["fmt", "--all", "--check"]),
        xtask("tidy", &["tidy"]),
        xtask(KIT, &["kit", "--base"]),
        test(TEST_PROGRAMS, &with_machines, &["--no-run"]).in_lane(Lane::Behind),
        behind(images, NICE_LOW).after(&[KIT, TEST_PROGRAMS]),
        behind(xtask(MODELS, &["kit"]), NICE_LOW).after(&[KIT]),
        // `--bins` would also link programs whose manifests disable their tests.
        behind(test("tests", &programs.others, &[&["--lib"], &bins[..]].concat()), NICE_WITH_DEADLINES),
        behind(end_to_end(TestPrograms::KIT), NICE_LOW).after(&[MODELS, TEST_IMAGES]),
        behind(test("doc tests", &[], &["--doc"]), NICE_LOW),
        behind(script("wheel", "scripts/wheel.sh"), NICE_LOW).after(&[MODELS]),
        behind(xtask("generated files", &["codegen", "--check"]), NICE_LOW).after(&[MODELS]),
    ];
    steps.extend(
        programs
            .with_machines
            .iter()
            .map(|program| end_to_end(program).after(TestPrograms::dependencies_of(program))),
    );
    steps.extend([
        script("browser", "scripts/browser.sh").after(&[MODELS]),
        // Miri comes first in its lane because it uses one processor: at the end, the other would be idle.
        beside("miri", &["miri"]),
        cargo_check("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        documentation,
        check("without an OS", xtask("without an OS", &["bare"]).command),
        beside("loom models", &["model"]),
        simulation("simulation", &["sim", "--seeds", SEEDS]),
        simulation("bounds", &["bounds"]),
        beside("coherent memory's code", &["coherent"]),
        simulation("canaries", &["sim", "--canaries"]),
        beside("foreign ISAs", &["foreign"]),
    ]);
    Ok(steps)
}

/// Test programs of the workspace, split by whether they start machines.
struct TestPrograms<'a> {
    /// Programs that start machines, in the order in which they run.
    with_machines: Vec<&'a str>,
    others: Vec<&'a str>,
    /// Binaries with unit tests.
    bins: Vec<&'a str>,
}

impl<'a> TestPrograms<'a> {
    /// Packages whose test programs start machines.
    const PACKAGES: [&'static str; 2] = ["tombolo-e2e", "tombolo-chaos"];
    /// Runs first: it shows whether the emulators are set up, without which no node starts.
    const LITMUS: &'static str = "litmus";
    /// Starts no machines and builds what the other tests run, so it runs beside the first of them.
    const KIT: &'static str = "kit";
    /// Programs that need least of what is built in parallel, and those that build most.
    const FIRST: [&'static str; 3] = [Self::LITMUS, "conformance", "short"];
    const LAST: [&'static str; 2] = ["languages", "snippets"];

    /// Collects the test programs. Cargo selects them by name only, so a name must not occur in both groups.
    fn of(workspace: &'a Workspace) -> Result<Self, Failure> {
        let (mut with_machines, mut others, mut bins) = (Vec::new(), Vec::new(), Vec::new());
        for package in &workspace.packages {
            let tests = package.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "test"));
            let names = tests.map(|target| target.name.as_str());
            let is_tested = |target: &&Target| target.test && target.kind.iter().any(|kind| kind == "bin");
            bins.extend(package.targets.iter().filter(is_tested).map(|target| target.name.as_str()));
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
        Self::sort_by_run_order(&mut with_machines);
        // Several packages may have a test program of the same name; cargo runs all of them.
        others.sort_unstable();
        others.dedup();
        Ok(Self { with_machines, others, bins })
    }

    /// Returns the steps that a test program with machines depends on.
    fn dependencies_of(program: &str) -> &'static [&'static str] {
        match program {
            Self::LITMUS | "conformance" => &[KIT, TEST_PROGRAMS],
            "short" => &[KIT, TEST_PROGRAMS, TEST_IMAGES],
            _ => &[TEST_PROGRAMS, TEST_IMAGES, MODELS],
        }
    }

    /// Sorts the programs that start machines into the order in which they run.
    fn sort_by_run_order(programs: &mut Vec<&str>) {
        programs.retain(|name| *name != Self::KIT);
        programs.sort_by_key(|name| {
            let first = Self::FIRST.iter().position(|first| first == name);
            (first.unwrap_or(Self::FIRST.len()), Self::LAST.contains(name))
        });
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
    let time = format!("{:>8} {:>8}", seconds(report.time), seconds(report.processor_time));
    match &report.outcome {
        Outcome::Passed => format!("ok       {time}{tests}"),
        Outcome::Skipped(reason) => format!("ok       {time}{tests}  SKIPPED: {reason}"),
        Outcome::Failed => format!("FAILED   {time}{tests}"),
        Outcome::Incomplete(reason) => format!("FAILED   {time}{tests}  SKIPPED: {reason}"),
        Outcome::TimedOut => format!("TIMED OUT{time}{tests}"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn summarise(reports: &[Report], total: usize, time: Duration, logs: &Path) -> Result<(), Failure> {
    println!("\nstep                     result       time     used");
    for report in reports {
        println!("{:<25}{}", report.name, describe(report));
    }
    if reports.len() < total {
        println!("{} steps were not run", total - reports.len());
    }
    println!("{:<25}         {:>8}  logs in {}\n", "all", seconds(time), logs.display());
    let Tests { passed, failed, skipped } = sum_tests(reports);
    if skipped > 0 {
        println!("{skipped} skipped: the logs say what each of them lacks");
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { Ok(()) } else { Err(Failure::Found("the checks failed".to_owned())) }
}

/// Sums up test counts; a step without tests counts as one check.
fn sum_tests(reports: &[Report]) -> Tests {
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
            name: "step".to_owned(),
            outcome,
            time: Duration::ZERO,
            processor_time: Duration::ZERO,
            excerpt: String::new(),
            tests: Tests { passed, failed, skipped: 0 },
        }
    }

    #[test]
    fn a_target_folder_is_new_until_a_crate_was_compiled_incrementally() {
        let target = env::temp_dir().join(format!("tombolo-ci-{}", std::process::id()));
        assert!(is_fresh_target(&target));
        std::fs::create_dir_all(target.join("debug/incremental")).expect("a folder");
        assert!(is_fresh_target(&target));
        std::fs::create_dir(target.join("debug/incremental/tombolo_base-1")).expect("a folder");
        assert!(!is_fresh_target(&target));
        std::fs::remove_dir_all(&target).expect("it is ours");
    }

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// The steps of all lanes, two of them in `Machines`, rendezvous, which proves that they run in parallel.
    /// A step with two dependencies finds both finished.
    #[test]
    fn lanes_run_side_by_side_and_a_step_waits_for_what_it_needs() {
        let logs = folder("lanes");
        let step = |name, script: &str, lane| {
            let mut command = Command::new("sh");
            command.current_dir(&logs).args(["-c", script]);
            Step::new(name, command).in_lane(lane)
        };
        let meets = |own, others: &[&str]| {
            let waits = "tries=0; until [ -e OTHER ]; do sleep 0.01; tries=$((tries + 1)); [ $tries -lt 3000 ] || exit 1; done";
            let waits: Vec<_> = others.iter().map(|other| waits.replace("OTHER", other)).collect();
            format!("touch {own}; {}; touch {own}-ended", waits.join("; "))
        };
        let steps = vec![
            step("one", &meets("one", &["two", "three", "other"]), Lane::Machines),
            step("other", &meets("other", &["one", "two", "three"]), Lane::Machines),
            step("two", &meets("two", &["one", "three"]), Lane::Behind),
            step("three", &meets("three", &["one", "two"]), Lane::Beside),
            step("four", "[ -e one-ended ] && [ -e two-ended ]", Lane::Machines).after(&["one", "two"]),
        ];
        let options = Options { steps: vec![], fail_fast: false, verbose: false, complete: false };
        let board = ProgressBoard::new(&steps, &logs, &options);
        let mut reports = run_in_parallel(&board, steps).expect("sh runs");
        reports.sort_by_key(|report| board.position(&report.name));
        let ends: Vec<_> = reports.iter().map(|report| (report.name.as_str(), &report.outcome)).collect();
        assert_eq!(ends, ["one", "other", "two", "three", "four"].map(|name| (name, &Outcome::Passed)));
        std::fs::remove_dir_all(&logs).expect("it is ours");
    }

    /// Guarantees that every step becomes ready eventually, in parallel and sequential runs.
    #[test]
    fn steps_follow_their_dependencies() {
        let workspace = Workspace::load().expect("this workspace");
        let steps = steps(&workspace).expect("steps");
        for (index, step) in steps.iter().enumerate() {
            for needed in &step.after {
                let stands = steps[..index].iter().any(|before| before.name == *needed);
                assert!(stands, "{} needs {needed}", step.name);
            }
        }
        assert!(steps.iter().any(|step| step.after == [TEST_PROGRAMS, TEST_IMAGES, MODELS]));
    }

    #[test]
    fn emulator_check_first_largest_build_last() {
        let mut programs = vec!["snippets", "kit", "machines", "short", "litmus", "languages", "openmp"];
        TestPrograms::sort_by_run_order(&mut programs);
        assert_eq!(programs, ["litmus", "short", "machines", "openmp", "snippets", "languages"]);
    }

    #[test]
    fn a_command_at_a_lower_priority_keeps_its_folder_and_its_environment() {
        let mut command = Command::new("sh");
        command.current_dir("/").env("OF_THE_STEP", "kept").args(["-c", "nice; pwd; echo $OF_THE_STEP"]);
        let output = nice(NICE_LOWEST, command).output().expect("nice is everywhere");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "19\n/\nkept\n");
    }

    #[test]
    fn a_step_without_tests_counts_as_one_and_a_failure_is_never_lost() {
        let sum = |reports: &[Report]| sum_tests(reports);
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
