//! `cargo xtask bare`: the protocol crates without an operating system under them.

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, execute};

const TARGET: &str = "aarch64-unknown-none";

/// Builds every `no_std` crate for a target that has no `std`, and the base also without an allocator.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    if !Toolchain::find()?.has(TARGET) {
        println!("SKIPPED: this Rust has no library for {TARGET}; with rustup, `make setup` adds it");
        return Ok(());
    }
    let mut build = workspace.cargo();
    build.args(["build", "--target", TARGET]);
    for package in &workspace.layers.checks.no_std {
        build.args(["--package", package]);
    }
    execute(&mut build)?;
    let mut without_allocator = workspace.cargo();
    without_allocator.args([
        "check",
        "--target",
        TARGET,
        "--package",
        "tombolo-base",
        "--no-default-features",
    ]);
    execute(&mut without_allocator)
}
