//! Runs measuring programs and parses their figures: lines of JSON among other output.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;

/// Grace period for a program to terminate its children after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// Runs a program to completion and parses the figures that it printed.
///
/// # Errors
/// A description: its exit status and last output, or that its output has no valid figures.
pub(crate) fn figures_of<T: DeserializeOwned>(command: Command, timeout: Duration) -> Result<Vec<T>, String> {
    let (status, output, errors) = output_of(command, timeout)?;
    if !status.success() {
        return Err(format!("{status}: {}", last_lines(&errors)));
    }
    parsed(&output)
}

/// Parses the lines that are figures. Launchers print lines of their own between them.
pub(crate) fn parsed<T: DeserializeOwned>(output: &str) -> Result<Vec<T>, String> {
    let lines = output.lines().map(str::trim).filter(|line| line.starts_with("{\"metric\""));
    let figures: Result<Vec<T>, _> = lines.map(serde_json::from_str).collect();
    match figures {
        Ok(figures) if figures.is_empty() => Err("it ended well and found nothing".into()),
        Ok(figures) => Ok(figures),
        Err(error) => Err(format!("it wrote what is no figure: {error}")),
    }
}

/// Returns the last lines of its error output, where a reason usually is.
pub(crate) fn last_lines(errors: &str) -> String {
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len() {
        0 => "and it said nothing".into(),
        many => lines[many.saturating_sub(3)..].join("; "),
    }
}

/// Runs a program to completion; after a timeout, terminates it and all its children.
pub(crate) fn output_of(
    mut command: Command,
    timeout: Duration,
) -> Result<(ExitStatus, String, String), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
    let (output, errors) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let until = Instant::now() + timeout;
    let status = loop {
        match child.try_wait().map_err(|error| format!("cannot wait for {name}: {error}"))? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                end(&mut child);
                return Err(format!("it did not end within {} s", timeout.as_secs()));
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
            // After a read error, the bytes read before it are used.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Asks a program to terminate its children, then kills the rest of its process group.
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
    use serde::Deserialize;

    use super::*;

    #[derive(PartialEq, Debug, Deserialize)]
    struct Figure {
        metric: String,
        bytes: u64,
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn figures_are_found_among_other_output() {
        let output = "warning: something\n{\"metric\": \"put\", \"bytes\": 8, \"p50\": 1.5, \"p99\": 2.0, \"samples\": 3}\n";
        let expected = Figure { metric: "put".into(), bytes: 8 };
        assert_eq!(parsed(output), Ok(vec![expected]));
        assert!(parsed::<Figure>("nothing\n").is_err());
        assert!(parsed::<Figure>("{\"metric\": 1}\n").is_err());
    }

    #[test]
    fn last_launcher_output_is_the_reason() {
        assert_eq!(last_lines("a\nb\n\nc\nd\n"), "b; c; d");
        assert_eq!(last_lines(""), "and it said nothing");
        let (status, output, errors) =
            output_of(shell("echo out; echo why >&2; exit 3"), Duration::from_secs(20)).expect("it ends");
        assert_eq!((status.code(), output.as_str(), errors.as_str()), (Some(3), "out\n", "why\n"));
    }

    #[test]
    fn timed_out_programs_die_with_children() {
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
