//! `tombolo trace record`, `start`, `stop` and `dump`

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo::Domain;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo_admin::Machine;
use tombolo_admin::trace::{CollectError, Collector, Recording, Summary};

use crate::context::Context;
use crate::failure::Failure;
use crate::text::count;

/// Interval between two reads of the domains' events. A lane holds more events than a program writes in this
/// time, unless it only sends messages of minimum size.
const READ_INTERVAL: Duration = Duration::from_millis(2);

/// Records a machine into a file
///
/// Records until COMMAND ends, or for the given time, or until Ctrl-C. A domain that writes events faster
/// than they are read never waits: it drops the oldest events, or with --keep-first the latest, and they are
/// counted.
///
/// COMMAND finds the machine in TOMBOLO_MACHINE. Its exit status is that of this command.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace record -o job.tbt -- tombolo run --on host,arm0 pingpong.tbi
  tombolo trace record -o now.tbt --for 5s
  tombolo trace record -o now.tbt                                             until Ctrl-C")]
pub(super) struct Options {
    /// The trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Record for this long: 500ms, 5s, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "command")]
    time: Option<Duration>,

    /// Keep the first events when a buffer is full, not the latest
    #[arg(long)]
    keep_first: bool,

    /// The command to run meanwhile
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Starts to trace, until `tombolo trace stop`
///
/// Every domain keeps its latest events in memory, about 30,000 for each of its threads, like a flight
/// recorder. `tombolo trace dump` writes them to a file, as often as you like.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace start
  tombolo trace dump -o before-it-crashed.tbt")]
pub(super) struct StartOptions {
    /// Keep the first events, not the latest
    #[arg(long)]
    keep_first: bool,
}

/// Stops tracing; the events can be dumped once more
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace stop")]
pub(super) struct StopOptions {}

/// Writes the events of all domains to a file, and those of domains that died
///
/// A machine that traces goes on to do so. After `tombolo trace stop`, the events of dead domains are freed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace dump -o crash.tbt")]
pub(super) struct DumpOptions {
    /// The trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Parses a time span, such as `500ms`, `5s` or `2m`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and a unit: 500ms, 5s, 2m".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    match &text[digits..] {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    let file = File::create(path).map_err(Failure::system(format!("create {}", path.display())))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// Converts an error of writing to a file.
fn collect_failure(path: &Path) -> impl Fn(CollectError) -> Failure {
    move |error| match error {
        CollectError::Machine(error) => error.into(),
        CollectError::Write(error) => Failure::system(format!("write {}", path.display()))(error),
    }
}

fn report_summary(context: &Context, path: &Path, summary: &Summary) {
    let events = count(summary.events as usize, "event");
    let domains = count(summary.domains, "domain");
    let missed = match summary.missed {
        0 => String::new(),
        missed => format!("; {missed} were lost, because they came faster than they could be read"),
    };
    let lost = match summary.lost {
        0 => String::new(),
        lost => {
            format!("; {} lost with a node, and the latest events of these", count(lost, "domain"))
        }
    };
    context.info(format!("{}: {events} of {domains}{missed}{lost}", path.display()));
}

pub(super) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let domain = if options.command.is_empty() { context.attach_running()? } else { context.attach()? };
    let machine = Machine::of(&domain);
    let failed = collect_failure(&options.output);
    let mut collector = Collector::new(&machine, create(&options.output)?).map_err(&failed)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(Failure::system("listen for signals"))?;
    }
    machine.start_trace(Recording { keep_first: options.keep_first, while_attached: true })?;
    let mut command = RecordedCommand::start(&domain, &options.command)?;
    let until = options.time.map(|time| Instant::now() + time);
    let status = loop {
        let found = collector.collect().map_err(&failed)?;
        if let Some(status) = command.ended()? {
            break Some(status);
        }
        // Another client stopped it: the machine goes down when this one has read the rest and left.
        if !collector.is_on() {
            break None;
        }
        let over = until.is_some_and(|until| Instant::now() >= until);
        // A command decides itself when to end: it has received the signal too.
        if over || (interrupted.load(Ordering::Relaxed) && options.command.is_empty()) {
            break Some(0);
        }
        if found == 0 {
            collector.flush().map_err(&failed)?;
            let left = until.map_or(READ_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
            std::thread::sleep(READ_INTERVAL.min(left));
        }
    };
    if status.is_some() {
        machine.stop_trace()?;
    }
    while collector.collect().map_err(&failed)? > 0 {}
    let summary = collector.finish().map_err(&failed)?;
    let let_go = machine.stop_trace();
    if status.is_some() {
        let_go?;
    }
    drop((machine, domain));
    report_summary(context, &options.output, &summary);
    loop {
        if let Some(status) = status.or(command.ended()?) {
            return Ok(status);
        }
        if options.command.is_empty() {
            return Ok(0);
        }
        std::thread::sleep(READ_INTERVAL);
    }
}

/// The command run during the recording, if any.
struct RecordedCommand {
    child: Option<(String, Child)>,
}

impl RecordedCommand {
    fn start(domain: &Domain, words: &[String]) -> Result<RecordedCommand, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Ok(RecordedCommand { child: None });
        };
        let mut command = Command::new(program);
        command.args(arguments).env("TOMBOLO_MACHINE", domain.machine_name());
        let child = command.spawn().map_err(|source| Failure::NotRun { program: program.into(), source })?;
        Ok(RecordedCommand { child: Some((program.clone(), child)) })
    }

    /// Returns its exit status once it has ended, by the convention of shells.
    fn ended(&mut self) -> Result<Option<u8>, Failure> {
        let Some((program, child)) = &mut self.child else { return Ok(None) };
        let status = child.try_wait().map_err(Failure::system(format!("wait for {program}")))?;
        Ok(status.map(|status| {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            u8::try_from(code).unwrap_or(1)
        }))
    }
}

impl Drop for RecordedCommand {
    /// Ends the command if recording fails.
    fn drop(&mut self) {
        if let Some((_, child)) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) fn start(context: &Context, options: &StartOptions) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let machine = Machine::of(&domain);
    machine.start_trace(Recording { keep_first: options.keep_first, while_attached: false })?;
    context.info(format!("machine {} traces", domain.machine_name()));
    Ok(())
}

pub(super) fn stop(context: &Context) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let machine = Machine::of(&domain);
    let was_on = machine.is_tracing()?;
    machine.stop_trace()?;
    let (name, state) = (domain.machine_name(), if was_on { "traces no more" } else { "did not trace" });
    context.info(format!("machine {name} {state}"));
    Ok(())
}

pub(super) fn dump(context: &Context, options: &DumpOptions) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let machine = Machine::of(&domain);
    let failed = collect_failure(&options.output);
    let mut collector = Collector::new(&machine, create(&options.output)?).map_err(&failed)?;
    collector.collect().map_err(&failed)?;
    let summary = collector.finish().map_err(&failed)?;
    if !machine.is_tracing()? {
        machine.stop_trace()?;
    }
    report_summary(context, &options.output, &summary);
    for node in domain.nodes()?.iter().filter(|node| node.kind != NodeKind::Host) {
        if let Some(gone) = lost_trace_warning(node) {
            context.info(gone);
        }
    }
    Ok(())
}

/// Returns a warning about traces that were lost with a node that went down or was restarted.
fn lost_trace_warning(node: &NodeInfo) -> Option<String> {
    let NodeInfo { name, generation, up, cause, .. } = node;
    let hint = "`tombolo trace record` saves events while they happen";
    if !up {
        return Some(format!("the trace of node {name} is lost, because it is down ({cause}); {hint}"));
    }
    (*generation > 1).then(|| {
        format!("the trace of node {name} from before its restart is lost (generation {generation}); {hint}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_names_nodes_with_lost_traces() {
        let node = |generation, up| NodeInfo {
            generation,
            up,
            cause: "killed".into(),
            ..NodeInfo::new(tombolo::NodeId(1), "arm0", NodeKind::Vm, tombolo::Isa::Aarch64)
        };
        assert_eq!(lost_trace_warning(&node(1, true)), None);
        assert!(
            lost_trace_warning(&node(1, false))
                .unwrap()
                .contains("node arm0 is lost, because it is down (killed)")
        );
        assert!(lost_trace_warning(&node(2, true)).unwrap().contains("before its restart"));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["5", "s", "", "-1s", "5 s", "1h", "99999999999999999999s", "18446744073709551615m"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
