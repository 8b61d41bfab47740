//! `cargo xtask foreign`: runs the tests of the protocol crates and of the copy loops on other processors.
//!
//! A different byte order can break all code that encodes or decodes messages, so every crate is tested on
//! the big-endian instruction set. Memory ordering and instructions differ as well, so processor-specific
//! code and the rings above it are tested on each instruction set. Higher layers run on each of them in the
//! tests on machines.

use crate::failure::Failure;
use crate::toolchain::{Toolchain, add_target, target_variable};
use crate::workspace::{Workspace, execute};

/// The foreign instruction set that is big-endian.
const BIG_ENDIAN: &str = "s390x";

/// Crates with processor-specific code, and the crate that uses all of it.
const OF_EACH: [&str; 2] = ["tombolo-base", "tombolo-ring"];

/// Runs the tests of every `no_std` crate on the big-endian instruction set, the tests of [`OF_EACH`] on the
/// other ones, and the tests of the copy loops on each; all under qemu-user.
///
/// Linkers are configured in `.cargo/config.toml`. Runners are not, because miri runs foreign targets itself.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let targets = Toolchain::find()?.foreign_targets();
    if targets.is_empty() {
        println!("SKIPPED: this Rust builds for no foreign instruction set");
        return Ok(());
    }
    let (big, little): (Vec<_>, Vec<_>) = targets.iter().copied().partition(|(isa, _)| *isa == BIG_ENDIAN);
    run_tests(workspace, &big, &workspace.layers.checks.no_std)?;
    run_tests(workspace, &little, &OF_EACH)?;
    // Of the crates that need an operating system, only the copy loops have processor-specific code.
    execute(tests(workspace, &targets).args(["--package", "tombolo-platform", "copy::"]))
}

/// Runs the tests of these crates on each target; does nothing if there are no targets.
fn run_tests(
    workspace: &Workspace,
    targets: &[(&str, &str)],
    crates: &[impl AsRef<str>],
) -> Result<(), Failure> {
    if targets.is_empty() {
        return Ok(());
    }
    execute(tests(workspace, targets).args(crates.iter().flat_map(|name| ["--package", name.as_ref()])))
}

/// Returns a `cargo test` command that runs on each target under qemu-user.
fn tests(workspace: &Workspace, targets: &[(&str, &str)]) -> std::process::Command {
    let mut test = workspace.cargo();
    test.env("CARGO_TARGET_DIR", workspace.checks())
        // Differences between instruction sets show in any case; the full number of cases runs natively.
        .env("PROPTEST_CASES", "32")
        // No debug information: failures are debugged natively, or their message is enough.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .args(["test", "--lib", "--tests"]);
    for (isa, target) in targets {
        add_target(&mut test, target);
        test.env(target_variable(target, "RUNNER"), format!("qemu-{isa}"));
    }
    test
}
