//! One step of `cargo xtask ci`: a command with a log, a deadline and the tests it ran.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::workspace::line;

/// Time limit of a step, exceeded only if it hangs. It allows for the longest step from scratch on two slow
/// processors, and for low-priority steps such as miri, which took 40 minutes on a busy host.
const DEADLINE: Duration = Duration::from_secs(75 * 60);

/// Named command with a lane and dependencies.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) command: Command,
    pub(crate) lane: Lane,
    /// Names of the steps that must end before, whether they pass or not.
    pub(crate) after: Vec<&'static str>,
}

/// Group of steps that run in sequence (`WORKERS` in `ci.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Steps that start machines, which have deadlines, or that build their inputs. Two run at a time.
    Machines,
    /// Steps that run at a lower priority beside those on machines, because they build inputs of later ones
    /// or share their target folder. While a step on machines may wait for cargo's lock, these compile only
    /// briefly.
    Behind,
    /// Steps that use idle processor time. They share no target folder with the other lanes.
    Beside,
}

/// Result of a step.
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) time: Duration,
    /// Processor time used, excluding processes that outlive their parents, such as the monitors of a
    /// machine.
    pub(crate) processor_time: Duration,
    pub(crate) tests: Tests,
    /// For a failed step, the log lines that explain the failure, unless they were already shown.
    pub(crate) excerpt: String,
}

impl Report {
    pub(crate) fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed | Outcome::TimedOut | Outcome::Incomplete(_))
    }

    /// Turns a skip into a failure if everything is `required`.
    pub(crate) fn required(mut self, required: bool) -> Self {
        self.outcome = match self.outcome {
            Outcome::Skipped(reason) if required => Outcome::Incomplete(reason),
            outcome => outcome,
        };
        self
    }
}

/// Outcome of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Passed, but skipped something for lack of a tool; has the first reason.
    Skipped(String),
    Failed,
    /// Skipped something although every tool is required; has the first reason.
    Incomplete(String),
    TimedOut,
}

/// Number of tests in a step, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Tests skipped for lack of a tool; the reasons are in the log.
    pub(crate) skipped: usize,
}

impl Step {
    /// Creates a step in lane `Machines` without dependencies.
    pub(crate) fn new(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, lane: Lane::Machines, after: Vec::new() }
    }

    pub(crate) fn in_lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    pub(crate) fn after(self, needed: &[&'static str]) -> Self {
        Self { after: needed.to_vec(), ..self }
    }

    /// Runs the command. Its output goes to a log in `logs`, and also to the terminal if `verbose`; otherwise
    /// the report of a failed step contains an excerpt.
    pub(crate) fn run(mut self, logs: &Path, verbose: bool) -> Result<Report, Failure> {
        let started = Instant::now();
        let words: Vec<&str> = self.name.split([' ', ':']).filter(|word| !word.is_empty()).collect();
        let path = logs.join(format!("{}.log", words.join("-")));
        let (succeeded, processor_time, text) = run_logged(&mut self.command, &path, started, verbose)?;
        let tests = count(&text);
        let outcome = match succeeded {
            Some(true) => skipped(&text).map_or(Outcome::Passed, Outcome::Skipped),
            Some(false) => Outcome::Failed,
            None => Outcome::TimedOut,
        };
        let (name, time, excerpt) = (self.name, started.elapsed(), String::new());
        let mut report = Report { name, outcome, time, processor_time, tests, excerpt };
        if !verbose && report.failed() {
            report.excerpt = format!("\n{}\n", self::excerpt(&text));
        }
        Ok(report)
    }
}

/// Runs a command with its output in a log. Returns whether it succeeded (`None` if it was killed at the
/// deadline), its processor time, and its output.
fn run_logged(
    command: &mut Command,
    path: &Path,
    started: Instant,
    verbose: bool,
) -> Result<(Option<bool>, Duration, String), Failure> {
    let log = File::create(path).map_err(Failure::file("writing", path))?;
    let second = log.try_clone().map_err(Failure::file("writing", path))?;
    let program = line(command);
    let spawned = command.stdout(log).stderr(second).spawn();
    let mut child = spawned.map_err(|source| Failure::NotStarted { program, source })?;
    let mut tail = Tail::new(path.to_owned(), verbose)?;
    let (succeeded, processor_time) =
        wait(&mut child, started, &mut tail).map_err(Failure::file("watching", path))?;
    let text = fs::read(path).map_err(Failure::file("reading", path))?;
    Ok((succeeded, processor_time, String::from_utf8_lossy(&text).into_owned()))
}

/// Waits for the process. Returns whether it succeeded (`None` if it was killed at the deadline), and its
/// processor time.
fn wait(child: &mut Child, started: Instant, tail: &mut Tail) -> io::Result<(Option<bool>, Duration)> {
    let mut used = Duration::ZERO;
    loop {
        // `/proc` has the process until it is reaped, even after it has exited.
        used = processor_time(child.id()).unwrap_or(used);
        let status = child.try_wait()?;
        tail.follow()?;
        if let Some(status) = status {
            return Ok((Some(status.success()), used));
        }
        if started.elapsed() > DEADLINE {
            kill_with_descendants(child.id());
            child.wait()?;
            return Ok((None, used));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the processor time of a process and of its reaped descendants.
fn processor_time(process: u32) -> Option<Duration> {
    parse_processor_time(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Parses the processor time from `/proc/PID/stat`.
fn parse_processor_time(stat: &str) -> Option<Duration> {
    /// User space sees ticks of 1/100 s regardless of the kernel's timer frequency (`USER_HZ`).
    const TICK: Duration = Duration::from_millis(10);
    /// Index of the first of `utime`, `stime`, `cutime` and `cstime`, counted from the field after the name.
    const FIRST_FIELD: usize = 11;
    // The process name may contain any character, including parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = fields.split(' ').skip(FIRST_FIELD).take(4).map(|field| field.parse::<u32>().ok());
    Some(TICK * ticks.sum::<Option<u32>>()?)
}

/// Kills a process and all its descendants: killing cargo does not kill its tests.
fn kill_with_descendants(root: u32) {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(process) = all.get(next).copied() {
        let children =
            fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        next += 1;
    }
    // An error means that the processes have already exited.
    let _gone = Command::new("kill").arg("-KILL").args(all.iter().map(u32::to_string)).status();
}

/// Number of last log lines shown for a failed step.
const LAST_LINES: usize = 60;

/// Extracts the relevant lines from a failed step's log, for readers who see only the terminal: all lines
/// about failures with the lines that explain them, and the last lines.
fn excerpt(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.len().saturating_sub(LAST_LINES);
    let mut shown = vec![false; lines.len()];
    shown[last..].fill(true);
    for (index, line) in lines.iter().enumerate() {
        let following = match line {
            line if line.contains("panicked at") => 4,
            line if line.starts_with("error") => 12,
            line if line.ends_with("FAILED") || line.contains("has been running for over") => 0,
            _ => continue,
        };
        shown[index..].iter_mut().take(following + 1).for_each(|shown| *shown = true);
    }
    let mut text = String::new();
    let mut left_out = 0;
    for (line, shown) in lines.iter().zip(shown) {
        if !shown {
            left_out += 1;
            continue;
        }
        if std::mem::take(&mut left_out) > 0 {
            text.push_str("[...]\n");
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Follows a log file and prints what is appended.
struct Tail {
    log: Option<File>,
}

impl Tail {
    fn new(path: PathBuf, shown: bool) -> Result<Self, Failure> {
        let open = || File::open(&path).map_err(Failure::file("reading", &path));
        Ok(Self { log: if shown { Some(open()?) } else { None } })
    }

    fn follow(&mut self) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let mut fresh = Vec::new();
        log.read_to_end(&mut fresh)?;
        io::stdout().write_all(&fresh)?;
        io::stdout().flush()
    }
}

/// Sums up the counts in the `test result:` lines of the test harness.
fn count(log: &str) -> Tests {
    let mut tests = Tests::default();
    for line in log.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
        let number = |what: &str| {
            let before = line.split(what).next()?;
            before.rsplit([' ', '.']).find(|word| !word.is_empty())?.parse::<usize>().ok()
        };
        tests.passed += number(" passed;").unwrap_or(0);
        tests.failed += number(" failed;").unwrap_or(0);
        tests.skipped += number(" ignored;").unwrap_or(0);
    }
    tests
}

/// Returns the first reason after `SKIPPED` in a log.
fn skipped(log: &str) -> Option<String> {
    log.lines()
        .find_map(|line| line.strip_prefix("SKIPPED"))
        .map(|reason| reason.trim_start_matches(':').trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_several_programs_add_up() {
        let log = "running 3 tests\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\
                   test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(count(log), Tests { passed: 13, failed: 2, skipped: 1 });
        assert_eq!(count("nothing"), Tests::default());
    }

    #[test]
    fn first_reason_for_skipping_is_reported() {
        assert_eq!(skipped("a\nSKIPPED: no miri\nSKIPPED x: y\n").as_deref(), Some("no miri"));
        assert_eq!(skipped("SKIPPED s390x: no library\n").as_deref(), Some("s390x: no library"));
        assert_eq!(skipped("not SKIPPED\n"), None);
    }

    #[test]
    fn an_excerpt_has_what_went_wrong_and_the_end() {
        let quiet = "test good ... ok\n".repeat(100);
        let log =
            format!("{quiet}thread 'x' panicked at a.rs:1:2:\nwhy\n{quiet}test bad ... FAILED\n{quiet}end\n");
        let excerpt = excerpt(&log);
        assert!(
            excerpt.contains("panicked at a.rs:1:2:\nwhy\n") && excerpt.contains("test bad ... FAILED\n")
        );
        assert!(excerpt.ends_with("end\n"));
        assert_eq!(excerpt.matches("[...]\n").count(), 3);
        assert!(excerpt.lines().count() < 80, "{excerpt}");
    }

    fn run(script: &str) -> Report {
        let test = std::thread::current().id();
        let logs = std::env::temp_dir().join(format!("tombolo-step-{}-{test:?}", std::process::id()));
        fs::create_dir_all(&logs).expect("a folder for logs");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let report = Step::new("a step", command).run(&logs, false).expect("sh runs");
        fs::remove_dir_all(&logs).expect("it is ours");
        report
    }

    #[test]
    fn a_step_ends_as_its_command_does() {
        assert_eq!(run("exit 0").outcome, Outcome::Passed);
        assert_eq!(run("echo SKIPPED: why").outcome, Outcome::Skipped("why".to_owned()));
        assert_eq!(run("exit 3").outcome, Outcome::Failed);
        assert!(run("echo 'error: why'; exit 3").excerpt.contains("error: why"));
        assert_eq!(run("echo 'error: why'").excerpt, "");
        assert_eq!(run("echo 'test result: ok. 7 passed; 0 failed; '").tests.passed, 7);
    }

    #[test]
    fn processor_time_is_that_of_a_process_and_its_children() {
        let stat = "17 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1 0";
        assert_eq!(parse_processor_time(stat), Some(Duration::from_millis(1270)));
        assert_eq!(parse_processor_time("17"), None);
        assert_eq!(processor_time(u32::MAX), None);
        let busy =
            "until set -- $(cat /proc/$$/stat); [ $((${14} + ${15} + ${16} + ${17})) -gt 1 ]; do :; done";
        assert!(run(busy).processor_time > Duration::ZERO);
    }

    #[test]
    fn skipped_step_fails_if_required() {
        let skips = || run("echo SKIPPED: no miri");
        assert!(!skips().required(false).failed());
        let required = skips().required(true);
        assert_eq!(required.outcome, Outcome::Incomplete("no miri".to_owned()));
        assert!(required.failed());
        assert!(!run("echo 'UNSUPPORTED: no huge pages'").required(true).failed());
    }

    #[test]
    fn killing_a_process_kills_its_children() {
        let mut child = Command::new("sh").args(["-c", "sleep 1000 & sleep 1000"]).spawn().expect("sh runs");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut below = String::new();
        while below.split_whitespace().count() < 2 && Instant::now() < deadline {
            below = fs::read_to_string(&children).unwrap_or_default();
        }
        kill_with_descendants(child.id());
        child.wait().expect("it was ours");
        for process in below.split_whitespace() {
            let state = || fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            while !state().is_empty() && !state().contains(") Z") && Instant::now() < deadline {
                thread::yield_now();
            }
            assert!(state().is_empty() || state().contains(") Z"), "{process} is alive");
        }
    }
}
