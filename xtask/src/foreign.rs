//! `cargo xtask foreign`: the protocol crates' own tests, and those of the loops that copy, on other
//! processors.
//!
//! Another processor has another order of bytes, which everything that reads and writes messages may get
//! wrong: so every crate is tested on the big-endian one. Or it has another order of memory and other
//! instructions: so what is written for each processor, and the rings that stand on it, are tested on each.
//! What stands above them runs on each in the tests on machines.

use crate::failure::Failure;
use crate::toolchain::{Toolchain, add_target, target_variable};
use crate::workspace::{Workspace, execute};

/// The foreign instruction set that is big-endian.
const BIG_ENDIAN: &str = "s390x";

/// What is written for each processor, and what uses all of it.
const OF_EACH: [&str; 2] = ["tombolo-base", "tombolo-ring"];

/// Runs the tests of every `no_std` crate on the big-endian instruction set, and on the others those of
/// [`OF_EACH`]; on each, those of the loops that copy; all under qemu-user.
///
/// The linkers are in `.cargo/config.toml`. The runners are not: miri runs a foreign target by itself.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let targets = Toolchain::find()?.foreign_targets();
    if targets.is_empty() {
        println!("SKIPPED: this Rust builds for no foreign instruction set");
        return Ok(());
    }
    let (big, little): (Vec<_>, Vec<_>) = targets.iter().copied().partition(|(isa, _)| *isa == BIG_ENDIAN);
    run_tests(workspace, &big, &workspace.layers.checks.no_std)?;
    run_tests(workspace, &little, &OF_EACH)?;
    // Of what asks the operating system, what is made for each processor: the loops that copy.
    execute(tests(workspace, &targets).args(["--package", "tombolo-platform", "copy::"]))
}

/// Runs the tests of these crates on each of the targets, if there are any.
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

/// Tests on each of the targets, by an emulator of it.
fn tests(workspace: &Workspace, targets: &[(&str, &str)]) -> std::process::Command {
    let mut test = workspace.cargo();
    test.env("CARGO_TARGET_DIR", workspace.checks())
        // What differs by instruction set shows in every case; the many run natively.
        .env("PROPTEST_CASES", "32")
        // A test that fails here is looked into natively, or says where it failed.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .args(["test", "--lib", "--tests"]);
    for (isa, target) in targets {
        add_target(&mut test, target);
        test.env(target_variable(target, "RUNNER"), format!("qemu-{isa}"));
    }
    test
}
