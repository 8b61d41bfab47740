//! `cargo xtask model`: loom explores every schedule of the lock-free code, with tiny capacities.

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

/// Runs the loom models of the crates under `checks.loom` in `layers.toml`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let mut test = checker_tests(workspace, "loom", "loom", &workspace.layers.checks.loom)?;
    test.env("LOOM_MAX_PREEMPTIONS", options.preemptions.to_string());
    execute(test.args(&options.filter))
}

/// Returns a command that runs one test program of each crate, built with `--cfg <cfg>` so that a checker
/// sees its accesses to shared memory. Other targets of the crates are not compiled: they are tested without
/// it.
pub(crate) fn checker_tests(
    workspace: &Workspace,
    cfg: &str,
    program: &str,
    crates: &[String],
) -> Result<Command, Failure> {
    let mut test = workspace.cargo();
    // The flag changes every crate; with an explicit target, it does not apply to build scripts and
    // procedural macros, which are shared with other settings.
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
