//! The command `tombolo`: brings machines up, runs jobs on them and shows their state.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli::main()
}
