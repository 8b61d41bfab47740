//! `cargo xtask foreign`: the protocol crates' own tests on other word orders and memory models.

use crate::failure::Failure;
use crate::toolchain::{Toolchain, add_target, target_variable};
use crate::workspace::{Workspace, execute};

/// Runs the tests of every `no_std` crate on each foreign instruction set, under qemu-user.
///
/// The linkers are in `.cargo/config.toml`. The runners are not: miri runs a foreign target by itself.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let targets = Toolchain::find()?.foreign_targets();
    if targets.is_empty() {
        println!("SKIPPED: this Rust builds for no foreign instruction set");
        return Ok(());
    }
    let mut test = workspace.cargo();
    // Its own folder, so that it can run beside what compiles the same crates for this machine.
    test.env("CARGO_TARGET_DIR", workspace.target.join("foreign"))
        // What differs by instruction set shows in every case; the many run natively.
        .env("PROPTEST_CASES", "32")
        .args(["test", "--lib", "--tests"]);
    for package in &workspace.layers.checks.no_std {
        test.args(["--package", package]);
    }
    for (isa, target) in targets {
        add_target(&mut test, target);
        test.env(target_variable(target, "RUNNER"), format!("qemu-{isa}"));
    }
    execute(&mut test)
}
