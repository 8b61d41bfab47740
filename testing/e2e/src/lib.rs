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

/// The deadline of everything that is known to happen: ten times what a busy machine of two processors needs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The deadline of the promise that a death is known: much less than [`PATIENCE`], to be told from a
/// time-out.
pub const DEATH_IS_KNOWN: Duration = Duration::from_secs(10);

/// Reports what a test left out for lack of a tool, past the harness, which hides the output of tests that
/// pass. `cargo xtask ci --complete` fails for it.
pub fn skipped(what: &str) {
    // A closed standard output is not a reason to fail.
    let _ = writeln!(std::io::stdout(), "\nSKIPPED {what}");
}

/// Reports what was left out because the kit has no part for it that is only built when asked for, past the
/// harness. Unlike [`skipped`] it fails nowhere.
pub fn not_asked_for(what: &str) {
    let _ = writeln!(std::io::stdout(), "\nOPTIONAL {what}");
}

/// Reports what this kernel cannot do, or what this user may not do, past the harness.
pub fn unsupported(what: &str) {
    let _ = writeln!(std::io::stdout(), "\nUNSUPPORTED {what}");
}
