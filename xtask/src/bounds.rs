//! `cargo xtask bounds`: counts the accesses to shared memory of operations that have bounds.

use crate::failure::Failure;
use crate::model::checker_tests;
use crate::workspace::{Workspace, execute};

/// Runs `tests/bounds.rs` of the crates under `checks.bounds` in `layers.toml`, built with `--cfg sim` so
/// that accesses are counted.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    execute(&mut checker_tests(workspace, "sim", "bounds", &workspace.layers.checks.bounds)?)
}
