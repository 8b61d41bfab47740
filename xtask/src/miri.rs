//! `cargo xtask miri`: the protocol crates where every undefined behaviour is an error.

use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::toolchain;
use crate::workspace::{Workspace, execute};

/// Big-endian: what it reads must still be the little-endian bytes of the protocol.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

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
        let mut test = Command::new("rustup");
        test.current_dir(&workspace.root)
            .args(["run", "nightly", "cargo", "miri", "test", "--lib", "--tests"])
            .env("CARGO_TARGET_DIR", workspace.target.join("miri"))
            .env("MIRIFLAGS", "-Zmiri-strict-provenance -Zmiri-disable-isolation")
            // A few cases are enough to see every path under miri; the many run natively.
            .env("PROPTEST_CASES", "4")
            .env_remove("RUSTC")
            .env_remove("CARGO");
        for package in &workspace.layers.checks.miri {
            test.args(["--package", package]);
        }
        if let Some(target) = target {
            test.args(["--target", target]);
        }
        test.args(&options.filter);
        execute(&mut test)?;
    }
    Ok(())
}
