//! `cargo xtask model`: loom tries every schedule of the lock-free code, with tiny capacities.

use clap::Args;

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, execute};

/// Explores every schedule of the lock-free code with loom.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only the models whose names contain this
    filter: Option<String>,

    /// How often a schedule may preempt a thread that could continue
    #[arg(long, value_name = "N", default_value_t = 3)]
    preemptions: u32,
}

/// Runs the models of the crates that layers.toml lists under `loom`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let mut test = workspace.cargo();
    // `--cfg loom` changes every crate, but with a target named, not what runs in the compiler: that the
    // simulator shares.
    test.env("CARGO_TARGET_DIR", workspace.models())
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", options.preemptions.to_string())
        // The models alone: what else a crate has is tested without loom, and would be compiled for nothing.
        .args(["test", "--profile", "checker", "--test", "loom", "--target", &Toolchain::find()?.host()?]);
    for package in &workspace.layers.checks.loom {
        test.args(["--package", package]);
    }
    test.args(&options.filter);
    execute(&mut test)
}
