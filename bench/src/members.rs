//! Trials whose members are processes of this host: each runs this program as a rank of a job.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Runs a trial `rounds` times and returns the figure of rank 0 in each.
pub(crate) fn repeat<F: DeserializeOwned>(
    rounds: u32,
    name: &str,
    members: u32,
    arguments: &[OsString],
    trial: &impl Serialize,
    timeout: Duration,
) -> Result<Vec<F>, String> {
    let once = || {
        let figures = run(name, members, arguments, trial, timeout)?;
        figures.into_iter().next().ok_or_else(|| "rank 0 found nothing".to_owned())
    };
    (0..rounds).map(|_| once()).collect()
}

/// Runs as a member of a trial, given as JSON, and prints the result of `measure`.
pub(crate) fn run_member_trial<T: DeserializeOwned, F: Serialize, E: std::fmt::Display>(
    trial: &str,
    measure: impl FnOnce(&T) -> Result<F, E>,
) -> Result<(), String> {
    let trial = serde_json::from_str(trial).map_err(|error| format!("no trial: {error}"))?;
    let figure = measure(&trial).map_err(|error| error.to_string())?;
    println!("{}", serde_json::to_string(&figure).map_err(|error| error.to_string())?);
    Ok(())
}

/// Starts `members` processes of this program with `arguments` and the trial as JSON, and returns the figure
/// that each printed, in rank order.
pub(crate) fn run<F: DeserializeOwned>(
    name: &str,
    members: u32,
    arguments: &[OsString],
    trial: &impl Serialize,
    timeout: Duration,
) -> Result<Vec<F>, String> {
    let trial = serde_json::to_string(trial).map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let job = format!("bench-{name}-{}-{}", std::process::id(), tombolo_platform::time::now_ns());
    let started = Instant::now();
    let mut children = Vec::new();
    for rank in 0..members {
        let membership = tombolo::job::Membership::new(rank, members, &job);
        let child = Command::new(&program)
            .args(arguments)
            .arg(&trial)
            .envs(membership.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Ok(child) => children.push(child),
            Err(error) => {
                end(&mut children);
                return Err(format!("cannot start a member: {error}"));
            }
        }
    }
    while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
        if started.elapsed() > timeout {
            end(&mut children);
            return Err(format!("it took longer than {} s", timeout.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    children.into_iter().map(figure_of).collect()
}

fn end(children: &mut [Child]) {
    for child in children {
        // Killing a process that has ended fails harmlessly.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn figure_of<F: DeserializeOwned>(child: Child) -> Result<F, String> {
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(crate::launch::last_lines(&String::from_utf8_lossy(&output.stderr)));
    }
    let figures = crate::launch::parsed(&String::from_utf8_lossy(&output.stdout))?;
    figures.into_iter().next().ok_or_else(|| "a member found nothing".to_owned())
}
