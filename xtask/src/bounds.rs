//! `cargo xtask bounds`: counts the accesses to shared memory of operations that have bounds.

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, execute};

/// Runs `tests/bounds.rs` of the crates that layers.toml lists, built as the simulator is, so that accesses
/// are counted.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let mut test = workspace.cargo();
    test.env("CARGO_TARGET_DIR", workspace.models()).env("RUSTFLAGS", "--cfg sim").args([
        "test",
        "--profile",
        "checker",
        "--test",
        "bounds",
        "--target",
        &Toolchain::find()?.host()?,
    ]);
    for package in &workspace.layers.checks.bounds {
        test.args(["--package", package]);
    }
    execute(&mut test)
}
