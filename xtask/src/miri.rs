//! `cargo xtask miri`: runs the protocol crates under miri, which reports undefined behaviour.

use std::process::Command;
use std::thread;

use clap::Args;

use crate::failure::Failure;
use crate::toolchain;
use crate::workspace::{Workspace, execute, execute_buffered};

/// Big-endian target, which must still decode the protocol's little-endian bytes.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

/// Tests interpreted on the big-endian target: the library that loads and stores words, which alone has
/// `unsafe` code, and of the others the test programs about byte layout. No other use of memory depends on
/// byte order, and all tests of all crates run on s390x under qemu (`cargo xtask foreign`).
const OF_WORDS: &str = "tombolo-base";
const OF_LAYOUT: [&str; 2] = ["golden", "specification"];

/// Runs the protocol crates under miri, little-endian and big-endian.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only the tests whose names contain this
    filter: Option<String>,
}

/// Runs the tests of the crates around shared memory under nightly's miri.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    if !toolchain::has_miri() {
        println!(
            "SKIPPED: miri comes only with rustup's nightly, which is not here; `make setup` tries to add it"
        );
        return Ok(());
    }
    for target in [None, Some(BIG_ENDIAN)] {
        // Build miri's standard library before the threads start: both builds use the same folder.
        execute(cargo_miri(workspace, "setup", target).arg("--quiet"))?;
    }
    // Miri uses one processor, so both targets run in parallel; the output of each is printed in one piece.
    let (little, big) = thread::scope(|scope| {
        let little = scope.spawn(|| run_under_miri(workspace, options, None));
        let big = run_under_miri(workspace, options, Some(BIG_ENDIAN));
        (little.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), big)
    });
    little.and(big)
}

/// Runs the tests under miri for a target, or for this machine's own.
fn run_under_miri(workspace: &Workspace, options: &Options, target: Option<&str>) -> Result<(), Failure> {
    if target == Some(BIG_ENDIAN) {
        let words = tests(workspace, options, target, &[OF_WORDS], &["--lib"]);
        let programs = OF_LAYOUT.map(|program| ["--test", program]);
        return words.and(tests(
            workspace,
            options,
            target,
            &workspace.layers.checks.miri,
            programs.as_flattened(),
        ));
    }
    tests(workspace, options, target, &workspace.layers.checks.miri, &["--lib", "--tests"])
}

fn tests(
    workspace: &Workspace,
    options: &Options,
    target: Option<&str>,
    packages: &[impl AsRef<str>],
    targets: &[&str],
) -> Result<(), Failure> {
    let mut test = cargo_miri(workspace, "test", target);
    test.arg("--no-fail-fast").args(targets);
    test.env("CARGO_TARGET_DIR", workspace.target.join("miri"))
        .env("MIRIFLAGS", "-Zmiri-strict-provenance -Zmiri-disable-isolation")
        // Undefined behaviour shows in any case that takes the path; the full number of cases runs natively
        // and on s390x.
        .env("PROPTEST_CASES", "2");
    for package in packages {
        test.args(["--package", package.as_ref()]);
    }
    test.args(&options.filter);
    execute_buffered(&mut test)
}

fn cargo_miri(workspace: &Workspace, command: &str, target: Option<&str>) -> Command {
    let mut cargo = Command::new("rustup");
    cargo
        .current_dir(&workspace.root)
        .args(["run", "nightly", "cargo", "miri", command])
        .env_remove("RUSTC")
        .env_remove("CARGO");
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    cargo
}
