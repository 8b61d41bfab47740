//! `tombolo litmus`

mod findings;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo::nodes::NodeInfo;
use tombolo::{Domain, Error, Exit, SpawnOptions};
use tombolo_cli_common::child_output::ChildOutput;
use tombolo_cli_common::findings::{Finding, FindingsFile, HINT, Part};
use tombolo_cli_common::images::chosen_image;
use tombolo_cli_common::nodes::node_named;

use findings::{Findings, Verdict};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{Table, one_line};

/// Timeout of a pair in addition to its tests: programs are transferred first.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(90);

/// Number of tests of a pair.
const TESTS: u32 = 4;

/// Polling period for a stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Exit status if everything tested is sound, but less was tested than requested.
const INCOMPLETE_STATUS: u8 = 3;

/// Time for the second of a pair to end after the first.
const SECOND_EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Tests the memory between the host and every node
///
/// A program here and one on the node test the properties of shared memory that channels depend on: a fence
/// keeps stores and loads in order (otherwise wake-ups are lost); a reader that sees a published word sees
/// everything stored before it, and stores of 8 bytes are seen whole (otherwise messages are torn). It also
/// finds the widest store that is whole, and whether concurrent additions lose nothing, which emulated nodes
/// must have and the bus of an attached node need not. In memory that is not coherent, lines are written back
/// and invalidated as channels do.
///
/// Do not use a node that fails: its emulator is misconfigured, or its bus is not what the machine file says.
/// The exit status is 1 if a node failed or could not be tested. On a busy host a test may run out of time:
/// the table shows "cut short", and the status is 3. Ctrl-C shows the findings so far, and the status is 130.
///
/// With --write, what was found is written into the machine file as `[[found]]` tables, beside which
/// everything else stays as it is; `tombolo up` then refuses a link that was found unfit.
///
/// The JSON has, for each of `nodes`: verdict (sound, unsound, unshared, partial if it was cut short, or
/// failed), rounds and both_old, messages and torn, additions and lost, widest_store_bytes, coherence, order
/// and atomics, and error.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo litmus                      every node
  tombolo litmus --on arm0,bare0      two nodes
  tombolo litmus --rounds 5000        a short test
  tombolo litmus --seconds 60         on a busy host
  tombolo litmus --write lab.toml     and keep what was found in the machine file
  tombolo litmus --json | jq '.nodes[] | select(.verdict != \"sound\")'")]
pub(crate) struct Options {
    /// The nodes to test [default: all; one that is down counts as not tested]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// How often to repeat each test
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(4..=100_000_000))]
    rounds: u64,

    /// The time limit for each test, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,

    /// The image of the test program [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// Write the findings into this machine file, which must describe the machine that is up
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    /// Node of the first program of each pair.
    here: String,
    nodes: Vec<NodeReport>,
}

/// Findings about the memory between this node and another, with stable keys.
#[derive(Serialize)]
struct NodeReport {
    node: String,
    kind: &'static str,
    isa: &'static str,
    link: Option<&'static str>,
    verdict: Verdict,
    #[serde(flatten)]
    findings: Option<Findings>,
    /// Ordering that holds, and whether additions lose nothing; null without findings.
    order: Option<&'static str>,
    atomics: Option<bool>,
    /// Reason why it could not be tested.
    error: Option<String>,
}

/// How the test of a pair ended.
enum Outcome {
    Found(Findings),
    Unshared,
    Failed(String),
}

/// Runs the command. Returns status 1 if the memory of a node is unsound or could not be tested, 3 if a test
/// was cut short, and that of the signal if interrupted.
pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let image = chosen_image(options.image.as_deref(), "litmus")?;
    let domain = context.attach()?;
    let file =
        options.write.as_ref().map(|path| FindingsFile::open(path, domain.machine_name())).transpose()?;
    let nodes = select_nodes(domain.nodes()?, &options.on)?;
    let output = ChildOutput::capture(&domain);
    let stop_signal = StopSignal::register()?;
    let mut report = Report {
        machine: domain.machine_name().to_owned(),
        here: domain.node_name().to_owned(),
        nodes: Vec::new(),
    };
    for node in &nodes {
        let outcome = if stop_signal.is_set() {
            Outcome::Failed(INTERRUPTED.into())
        } else if node.up {
            PairTest { domain: &domain, output: &output, stop_signal: &stop_signal, image: &image, options }
                .run_test(&node.name)?
        } else {
            Outcome::Failed(format!("it is down: {}", one_line(&node.cause)))
        };
        report.nodes.push(NodeReport::new(node, outcome, options.rounds));
    }
    if options.json {
        print_json(&report)?;
    } else {
        print(table(&report.nodes).render(context.colour))?;
    }
    for node in &report.nodes {
        if let Some(advice) = node.advice(&report.here, options) {
            context.info(advice);
        }
    }
    let found = report.complete_findings(&nodes);
    match &file {
        Some(file) => {
            file.write(&found)?;
            context.info(file.written_message(found.len()));
        }
        None if !options.json && !found.is_empty() => {
            context.info(HINT);
        }
        None => {}
    }
    Ok(stop_signal.status().unwrap_or_else(|| report.status()))
}

impl Report {
    /// Returns the findings to be written: all tests were completed, or found a fault.
    fn complete_findings(&self, nodes: &[NodeInfo]) -> Vec<Finding> {
        let of = |node: &NodeReport| {
            let transport = nodes.iter().find(|it| it.name == node.node)?.transport?;
            let complete = matches!(node.verdict, Verdict::Sound | Verdict::Unsound);
            (complete && node.node != self.here).then_some(())?;
            let part = Part::Memory(node.findings?.memory());
            Some(Finding { nodes: [self.here.clone(), node.node.clone()], transport, part })
        };
        self.nodes.iter().filter_map(of).collect()
    }

    fn status(&self) -> u8 {
        let any = |wanted: &[Verdict]| self.nodes.iter().any(|node| wanted.contains(&node.verdict));
        if any(&[Verdict::Unsound, Verdict::Failed]) {
            1
        } else if any(&[Verdict::Partial]) {
            INCOMPLETE_STATUS
        } else {
            0
        }
    }
}

/// Reason why a node was not tested after a stop request.
const INTERRUPTED: &str = "this was told to stop before";

/// Stop request, with its signal.
struct StopSignal(Arc<AtomicUsize>);

impl StopSignal {
    fn register() -> Result<StopSignal, Failure> {
        let stop_signal = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(signal, Arc::clone(&stop_signal), signal as usize)
                .map_err(Failure::system("listen for signals"))?;
        }
        Ok(StopSignal(stop_signal))
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn status(&self) -> Option<u8> {
        let signal = self.0.load(Ordering::Relaxed);
        (signal != 0).then(|| 128 + signal as u8)
    }
}

/// Returns the selected nodes, or all.
fn select_nodes(nodes: Vec<NodeInfo>, names: &[String]) -> Result<Vec<NodeInfo>, Failure> {
    for name in names {
        node_named(&nodes, name)?;
    }
    Ok(nodes.into_iter().filter(|node| names.is_empty() || names.contains(&node.name)).collect())
}

/// The two programs of a test.
struct PairTest<'a> {
    domain: &'a Domain,
    output: &'a ChildOutput,
    stop_signal: &'a StopSignal,
    image: &'a Path,
    options: &'a Options,
}

impl PairTest<'_> {
    fn run_test(&self, node: &str) -> Result<Outcome, Failure> {
        let job = format!("litmus/{}/{node}", self.domain.id());
        let spawn = |rank: u32, on: &str| {
            let options = SpawnOptions::image(self.image)
                .on(on)
                .rank(rank, 2, &job)
                .env("TOMBOLO_LITMUS_REPORT", "1")
                .env("TOMBOLO_LITMUS_ROUNDS", self.options.rounds.to_string())
                .env("TOMBOLO_LITMUS_SECONDS", self.options.seconds.to_string());
            self.domain.spawn(&options)
        };
        let first = spawn(0, self.domain.node_name())?;
        let second = match spawn(1, node) {
            Ok(second) => second,
            Err(error) => {
                first.kill()?;
                return Ok(Outcome::Failed(error.to_string()));
            }
        };
        let timeout = EXTRA_TIMEOUT + TESTS * Duration::from_secs(self.options.seconds.into());
        let mut until = Instant::now() + timeout;
        let mut ended: [Option<Exit>; 2] = [None, None];
        // If either fails, the other waits for it in vain, and is not waited for.
        while ended.iter().flatten().all(has_completed) && ended.iter().any(Option::is_none) {
            if self.stop_signal.is_set() || Instant::now() > until {
                break;
            }
            match self.domain.next_exit(POLL_INTERVAL) {
                Ok((id, exit)) if id == first.id() => {
                    ended[0] = Some(exit);
                    until = until.min(Instant::now() + SECOND_EXIT_TIMEOUT);
                }
                Ok((id, exit)) if id == second.id() => ended[1] = Some(exit),
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let stopped = self.stop_signal.is_set() && ended.iter().any(Option::is_none);
        first.kill()?;
        second.kill()?;
        let outputs = [self.output.take(first.id()), self.output.take(second.id())];
        Ok(match outcome(&ended, &outputs, timeout) {
            Outcome::Failed(_) if stopped => Outcome::Failed(INTERRUPTED.into()),
            outcome => outcome,
        })
    }
}

/// Returns whether a program completed its test: status 0 for sound, 1 for unsound.
fn has_completed(exit: &Exit) -> bool {
    matches!(exit, Exit::Exited { status: 0 | 1 })
}

fn outcome(ended: &[Option<Exit>; 2], outputs: &[String; 2], timeout: Duration) -> Outcome {
    if outputs[0].lines().any(|line| line == "unshared") {
        return Outcome::Unshared;
    }
    if let Some(findings) = outputs[0].lines().find_map(Findings::parse) {
        return Outcome::Found(findings);
    }
    let complaint =
        outputs.iter().flat_map(|output| output.lines()).find_map(|line| line.strip_prefix("litmus: "));
    Outcome::Failed(match (complaint, ended) {
        (Some(complaint), _) => complaint.to_owned(),
        (None, [None, None]) => format!("neither program had ended after {} s", timeout.as_secs()),
        (None, _) => "one of the two programs was ended before it had found anything".to_owned(),
    })
}

impl NodeReport {
    fn new(node: &NodeInfo, outcome: Outcome, rounds: u64) -> NodeReport {
        let (verdict, findings, error) = match outcome {
            Outcome::Found(findings) => (findings.verdict(rounds, node.kind), Some(findings), None),
            Outcome::Unshared => (Verdict::Unshared, None, None),
            Outcome::Failed(error) => (Verdict::Failed, None, Some(error)),
        };
        NodeReport {
            node: node.name.clone(),
            kind: node.kind.name(),
            isa: node.isa.name(),
            link: node.transport.map(|transport| transport.name()),
            verdict,
            findings,
            order: findings.map(|found| found.memory().order.name()),
            atomics: findings.map(|found| found.memory().atomics),
            error,
        }
    }

    /// Returns an explanation, with advice.
    fn advice(&self, here: &str, options: &Options) -> Option<String> {
        let node = &self.node;
        match (self.verdict, &self.error) {
            (Verdict::Partial, _) => {
                let (asked, seconds) = (options.rounds, options.seconds);
                let found = self.findings?;
                Some(format!(
                    "warning: {node} was not tested to the end: {} of {asked} rounds and {} of {} messages in {seconds} s \
                     each, all sound; of the rest nothing is known.\n\
                     hint: give each test more time with `--seconds`, or a processor of its own",
                    found.rounds,
                    found.messages,
                    asked / 4
                ))
            }
            (Verdict::Unsound, _) => Some(format!(
                "error: the memory between {here} and {node} cannot be trusted: messages can be lost or torn.\n\
                 hint: take the machine down. Where the node is emulated, look at its emulator's settings: with \
                 `-smp 1` QEMU drops memory barriers, with `-smp 1,maxcpus=2` it does not"
            )),
            (_, Some(error)) => Some(format!("error: {node} could not be tested: {}", one_line(error))),
            _ => None,
        }
    }
}

fn table(nodes: &[NodeReport]) -> Table {
    let mut table = Table::new(&[
        "NODE",
        "KIND",
        "ISA",
        "LINK",
        "MEMORY",
        "WHOLE>",
        "BOTH OLD>",
        "OF>",
        "TORN>",
        "OF>",
        "LOST>",
        "OF>",
    ]);
    for node in nodes {
        let verdict = match node.verdict {
            Verdict::Sound => "sound",
            Verdict::Unsound => "NOT SOUND",
            Verdict::Unshared => "not shared",
            Verdict::Partial => "cut short",
            Verdict::Failed => "not tested",
        };
        let number = |pick: fn(&Findings) -> u64| {
            node.findings.as_ref().map_or_else(|| "-".to_owned(), |findings| pick(findings).to_string())
        };
        table.row([
            node.node.clone(),
            node.kind.to_owned(),
            node.isa.to_owned(),
            node.link.unwrap_or("-").to_owned(),
            match &node.findings {
                Some(found) if !found.coherent => format!("{verdict}, not coherent"),
                _ => verdict.to_owned(),
            },
            number(|found| found.widest_store_bytes),
            number(|found| found.both_old),
            number(|found| found.rounds),
            number(|found| found.torn),
            number(|found| found.messages),
            number(|found| found.lost),
            number(|found| found.additions),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_that_of_the_worst_verdict() {
        let report = |verdicts: &[Verdict]| {
            let node = |verdict: &Verdict| NodeReport {
                node: "x".into(),
                kind: "vm",
                isa: "aarch64",
                link: None,
                verdict: *verdict,
                findings: None,
                order: None,
                atomics: None,
                error: None,
            };
            let (machine, here) = (String::new(), String::new());
            Report { machine, here, nodes: verdicts.iter().map(node).collect() }.status()
        };
        assert_eq!(report(&[Verdict::Sound, Verdict::Unshared]), 0);
        assert_eq!(report(&[Verdict::Sound, Verdict::Partial]), 3);
        assert_eq!(report(&[Verdict::Partial, Verdict::Failed]), 1);
        assert_eq!(report(&[Verdict::Unsound, Verdict::Partial]), 1);
    }

    #[test]
    fn output_explains_an_end_without_findings() {
        let outputs = |first: &str, second: &str| [first.to_owned(), second.to_owned()];
        let none = [None, None];
        assert!(matches!(outcome(&none, &outputs("unshared\n", ""), EXTRA_TIMEOUT), Outcome::Unshared));
        let Outcome::Failed(why) = outcome(&none, &outputs("", "litmus: no room\n"), EXTRA_TIMEOUT) else {
            panic!()
        };
        assert_eq!(why, "no room");
        let Outcome::Failed(why) = outcome(&none, &outputs("", ""), EXTRA_TIMEOUT) else { panic!() };
        assert!(why.contains("90 s"), "{why}");
        let killed = [Some(Exit::Signalled { signal: 9 }), None];
        let Outcome::Failed(why) = outcome(&killed, &outputs("", ""), EXTRA_TIMEOUT) else { panic!() };
        assert!(why.contains("was ended before"), "{why}");
    }
}
