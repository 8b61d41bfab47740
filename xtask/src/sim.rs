//! `cargo xtask sim`: runs the simulator and its canaries, built so that it sees every store.

use clap::Args;

use crate::failure::Failure;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, capture, execute};

/// Simulates whole machines, one per seed; see the chapter on simulation in `docs/book`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Arguments of the simulator: `--seed N`, `--seeds N`, `--endless`, `--canaries`, `--help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the simulator. The process exits with its exit status.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    // `--cfg sim` changes every crate; with an explicit target, it does not apply to build scripts and
    // procedural macros, which are shared with the loom models.
    let (target, host) = (workspace.models(), Toolchain::find()?.host()?);
    let mut build = workspace.cargo();
    build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "--cfg sim").args([
        "build",
        "--quiet",
        "--profile",
        "checker",
        "--package",
        "tombolo-sim",
        "--target",
        &host,
    ]);
    execute(&mut build)?;
    let mut simulator = std::process::Command::new(target.join(&host).join("checker/tombolo-sim"));
    simulator.current_dir(&workspace.root).args(&options.arguments).args(["--commit", &commit(workspace)]);
    let program = "tombolo-sim".to_owned();
    let status = simulator.status().map_err(|source| Failure::NotStarted { program, source })?;
    match status.code() {
        Some(0) => Ok(()),
        // The simulator has already reported the usage error or the failed seed.
        Some(code) => std::process::exit(code),
        None => Err(Failure::Found(format!("the simulator ended by {status}"))),
    }
}

/// Returns the commit that is checked out, marked if the tree has changes.
fn commit(workspace: &Workspace) -> String {
    let mut describe = std::process::Command::new("git");
    describe.current_dir(&workspace.root).args(["describe", "--always", "--dirty=+changes", "--abbrev=12"]);
    // A tree without git history can be simulated as well.
    capture(&mut describe).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
