//! The command `tombolo`: brings machines up, runs jobs on them and shows what they do.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli::main()
}
