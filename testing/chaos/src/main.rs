//! Program behind `cargo xtask chaos`; see its help text.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tombolo_chaos::{Arguments, Chaos};

/// Exit status of an interrupted run, which is neither a success nor a failure.
const INTERRUPTED: u8 = 130;

/// Registers handlers for termination signals. The first signal sets the returned flag, so that the run ends
/// and takes the machine down; a second one exits at once.
fn listen() -> std::io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(INTERRUPTED),
            Arc::clone(&interrupted),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A default seed from the clock is short enough to type.
    let clock =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_micros() as u64 % 1_000_000);
    let seed = arguments.seed.unwrap_or_else(clock);
    let commit = commit();
    let replay = arguments.replay(seed);
    eprintln!("chaos: seed {seed}, commit {commit}");
    let json = arguments.json;
    let interrupted = match listen() {
        Ok(interrupted) => interrupted,
        Err(error) => {
            eprintln!("chaos: cannot listen for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    let run = || Chaos::start(arguments, seed, interrupted).map(|chaos| chaos.run(seed));
    // Assertions about the machine panic. They end the run, too, and the command that repeats it must be
    // printed.
    let summary = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(summary)) => summary,
        Ok(Err(failure)) => {
            eprintln!("chaos: {failure}");
            return ExitCode::FAILURE;
        }
        Err(_) => {
            eprintln!("chaos: FAILED, see above; again with: {replay} (commit {commit})");
            return ExitCode::FAILURE;
        }
    };
    if json {
        println!("{}", summary.to_json(&commit));
    } else {
        println!("{}", summary.table());
    }
    for failure in &summary.failures {
        eprintln!("chaos: FAILED: {failure}");
    }
    if summary.failures.is_empty() {
        return if summary.interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS };
    }
    eprintln!("chaos: again with: {replay} (commit {commit})");
    ExitCode::FAILURE
}

/// Returns the commit of the source tree, marked as dirty if the tree has changes.
fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
