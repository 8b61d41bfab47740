//! `cargo xtask chaos`: kills random parts of a busy machine.

use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::kit;
use crate::workspace::{Workspace, execute};

/// Kills random parts of a busy machine, and asserts that nothing else is harmed; `--help` lists the options
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Arguments of the program `chaos`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Builds the kit and the program `chaos`, and runs the program.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    let asks_for_help = options.words.iter().any(|word| matches!(word.as_str(), "-h" | "--help"));
    if !asks_for_help {
        kit::run(workspace, &kit::Options::default())?;
    }
    let mut build = workspace.cargo();
    build.args(["build", "--quiet", "--workspace", "--bin", "actor", "--bin", "chaos"]);
    execute(&mut build)?;
    let mut chaos = Command::new(workspace.target.join("debug/chaos"));
    execute(chaos.current_dir(&workspace.root).args(&options.words))
}
