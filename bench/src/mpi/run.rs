//! Running the program once, on one stack.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::Options;
use super::stack::{Place, Stack};

/// A figure, as the program writes it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Figure {
    metric: String,
    bytes: u64,
    p50: f64,
    p99: f64,
}

/// A figure, and whose it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) stack: String,
    pub(super) metric: String,
    pub(super) bytes: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Found {
    /// Whether it is the same figure, of another round.
    pub(super) fn is_of(&self, other: &Found) -> bool {
        self.place == other.place
            && self.stack == other.stack
            && self.metric == other.metric
            && self.bytes == other.bytes
    }
}

/// How long a launcher may take to end its ranks once it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// Runs `measure` on a stack and reads what it found.
pub(super) fn once(stack: &Stack, options: &Options) -> Result<Vec<Found>, String> {
    let seconds = format!("{:.3}", options.length.as_secs_f64());
    let mut command = Command::new(&stack.program);
    for part in &stack.arguments {
        command.args(part).arg("--seconds").arg(&seconds).args(&options.metrics);
    }
    command.envs(stack.environment.iter().map(|(name, value)| (name, value)));
    let (status, output, errors) = output_of(command, options.patience)?;
    if !status.success() {
        return Err(format!("{status}: {}", last_lines(&errors)));
    }
    let found = figures(&output)?.into_iter().map(|figure| Found {
        place: stack.place.clone(),
        stack: stack.name.clone(),
        metric: figure.metric,
        bytes: figure.bytes,
        p50: figure.p50,
        p99: figure.p99,
    });
    Ok(found.collect())
}

/// The lines that are figures. Launchers say things of their own between them.
fn figures(output: &str) -> Result<Vec<Figure>, String> {
    let lines = output.lines().map(str::trim).filter(|line| line.starts_with("{\"metric\""));
    let figures: Result<Vec<Figure>, _> = lines.map(serde_json::from_str).collect();
    match figures {
        Ok(figures) if figures.is_empty() => Err("it ended well and found nothing".into()),
        Ok(figures) => Ok(figures),
        Err(error) => Err(format!("it wrote what is no figure: {error}")),
    }
}

/// What it said last: the reason is at the end, if there is one.
fn last_lines(errors: &str) -> String {
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len() {
        0 => "and it said nothing".into(),
        many => lines[many.saturating_sub(3)..].join("; "),
    }
}

/// Runs a launcher to its end, and ends it with everything that it has started if that takes too long.
fn output_of(mut command: Command, patience: Duration) -> Result<(ExitStatus, String, String), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
    let (output, errors) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let until = Instant::now() + patience;
    let status = loop {
        match child.try_wait().map_err(|error| format!("cannot wait for {name}: {error}"))? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                end(&mut child);
                return Err(format!("it did not end within {} s", patience.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = |reader: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok((status, text(output), text(errors)))
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read until it broke is what there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Asks a launcher to end its ranks, and kills what is left of the group.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = |signal| group.map(|group| kill_process_group(group, signal));
    let _ = signal(Signal::TERM);
    let until = Instant::now() + GRACE;
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = signal(Signal::KILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn figures_are_found_among_what_else_is_said() {
        let output = "warning: something\n{\"metric\": \"put\", \"bytes\": 8, \"p50\": 1.5, \"p99\": 2.0, \"samples\": 3}\n";
        let expected = Figure { metric: "put".into(), bytes: 8, p50: 1.5, p99: 2.0 };
        assert_eq!(figures(output), Ok(vec![expected]));
        assert!(figures("nothing\n").is_err());
        assert!(figures("{\"metric\": 1}\n").is_err());
    }

    #[test]
    fn what_a_launcher_says_last_is_why() {
        assert_eq!(last_lines("a\nb\n\nc\nd\n"), "b; c; d");
        assert_eq!(last_lines(""), "and it said nothing");
        let (status, output, errors) =
            output_of(shell("echo out; echo why >&2; exit 3"), Duration::from_secs(20)).expect("it ends");
        assert_eq!((status.code(), output.as_str(), errors.as_str()), (Some(3), "out\n", "why\n"));
    }

    #[test]
    fn what_does_not_end_is_ended_with_its_children() {
        let marker = format!("tombolo-bench-{}", std::process::id());
        let script = format!("sh -c 'sleep 300 # {marker}' & wait");
        let why = output_of(shell(&script), Duration::from_millis(200)).expect_err("it does not end");
        assert!(why.contains("did not end"), "{why}");
        let left = std::process::Command::new("pgrep").args(["-f", &marker]).output();
        if let Ok(left) = left {
            assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
        }
    }
}
