//! `cargo xtask foreign`: the protocol crates' own tests, and those of the loops that copy, on other processors.

use crate::failure::Failure;
use crate::toolchain::{Toolchain, add_target, target_variable};
use crate::workspace::{Workspace, execute};

/// Runs the tests of every `no_std` crate, and of the loops that copy, on each foreign instruction set, under qemu-user.
///
/// The linkers are in `.cargo/config.toml`. The runners are not: miri runs a foreign target by itself.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let targets = Toolchain::find()?.foreign_targets();
    if targets.is_empty() {
        println!("SKIPPED: this Rust builds for no foreign instruction set");
        return Ok(());
    }
    execute(tests(workspace, &targets).args(packages(&workspace.layers.checks.no_std)))?;
    // Of what asks the operating system, what is made for each processor: the loops that copy.
    execute(tests(workspace, &targets).args(["--package", "tombolo-platform", "copy::"]))
}

fn packages(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().flat_map(|name| ["--package", name.as_str()])
}

/// Tests on each of the targets, by an emulator of it.
fn tests(workspace: &Workspace, targets: &[(&str, &str)]) -> std::process::Command {
    let mut test = workspace.cargo();
    // Its own folder, so that it can run beside what compiles the same crates for this machine.
    test.env("CARGO_TARGET_DIR", workspace.target.join("foreign"))
        // What differs by instruction set shows in every case; the many run natively.
        .env("PROPTEST_CASES", "32")
        .args(["test", "--lib", "--tests"]);
    for (isa, target) in targets {
        add_target(&mut test, target);
        test.env(target_variable(target, "RUNNER"), format!("qemu-{isa}"));
    }
    test
}
