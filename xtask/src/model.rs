//! `cargo xtask model`: loom tries every schedule of the lock-free code, with tiny capacities.

use std::process::Command;

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
    let mut test = checker_tests(workspace, "loom", "loom", &workspace.layers.checks.loom)?;
    test.env("LOOM_MAX_PREEMPTIONS", options.preemptions.to_string());
    execute(test.args(&options.filter))
}

/// One test program of each of some crates, which are built with `--cfg` this so that a checker sees what
/// they do to shared memory. What else a crate has is tested without it, and would be compiled for nothing.
pub(crate) fn checker_tests(
    workspace: &Workspace,
    cfg: &str,
    program: &str,
    crates: &[String],
) -> Result<Command, Failure> {
    let mut test = workspace.cargo();
    // The setting changes every crate, but with a target named, not what runs in the compiler: that is shared
    // with other settings.
    test.env("CARGO_TARGET_DIR", workspace.models()).env("RUSTFLAGS", format!("--cfg {cfg}")).args([
        "test",
        "--profile",
        "checker",
        "--test",
        program,
        "--target",
        &Toolchain::find()?.host()?,
    ]);
    test.args(crates.iter().flat_map(|name| ["--package", name]));
    Ok(test)
}
