//! Tests of whole machines: each is brought up by the real command, used, killed, and checked for leftovers.
//!
//! A test makes a [`Machine`] from its own machine file and under its own name, so tests can run in parallel.
//! Every process that a test starts has the machine's name in its environment. [`leftovers`] uses that to
//! find processes, sockets and files that should be gone. Every wait has a deadline; no test measures time.
//!
//! Without the kit or an emulator a test fails and names the remedy, `make kit`; [`skipped`] has the other
//! reasons for which tests may be skipped.

pub mod c;
mod command;
mod cross;
pub mod go;
mod kit;
pub mod leftovers;
mod machine;
pub mod mpi;
pub mod omp;
pub mod outside;
pub mod python;
mod terminal;
pub mod web;
mod window;

pub use command::{Finished, Running, eventually};
pub use kit::{
    actor_image, built, has_narrow, has_virtual_machine, host_actor, image, kit_folder, libgomp,
    narrow_actor_image, restartable_actor_image, tombolo,
};
pub use machine::{Machine, MachineFile};
pub use terminal::Terminal;
pub use tombolo_base::Random;
pub use window::WindowFile;

use std::io::Write;
use std::time::Duration;

/// Deadline for events that must happen: ten times what a busy two-processor host needs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Deadline for detecting a death: much shorter than [`PATIENCE`], so that a late detection differs from a
/// timeout.
pub const DEATH_IS_KNOWN: Duration = Duration::from_secs(10);

/// Reports a check that was skipped because a tool is missing. Writes past the test harness, which hides the
/// output of passing tests. `cargo xtask ci --complete` fails on such a line.
pub fn skipped(what: &str) {
    // A closed standard output must not fail the test.
    let _ = writeln!(std::io::stdout(), "\nSKIPPED {what}");
}

/// Reports a check that was skipped because the kit lacks a part that is only built on request. Writes past
/// the test harness. Unlike [`skipped`] it never fails a run.
pub fn report_optional(what: &str) {
    let _ = writeln!(std::io::stdout(), "\nOPTIONAL {what}");
}

/// Reports a feature that this kernel lacks or denies to this user. Writes past the test harness.
pub fn unsupported(what: &str) {
    let _ = writeln!(std::io::stdout(), "\nUNSUPPORTED {what}");
}
