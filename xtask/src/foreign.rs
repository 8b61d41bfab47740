//! `cargo xtask foreign`: the protocol crates' own tests on other word orders and memory models.

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, execute};

/// Runs the tests of every `no_std` crate on each foreign instruction set, under qemu-user.
///
/// The runners and linkers are in `.cargo/config.toml`.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let targets = Toolchain::find()?.foreign_targets();
    if targets.is_empty() {
        println!("SKIPPED: this Rust builds for no foreign instruction set");
        return Ok(());
    }
    let mut test = workspace.cargo();
    test.args(["test", "--lib", "--tests"]);
    for package in &workspace.layers.checks.no_std {
        test.args(["--package", package]);
    }
    for (_, target) in targets {
        test.args(["--target", target]);
    }
    execute(&mut test)
}
