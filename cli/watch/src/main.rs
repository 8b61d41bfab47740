//! The commands `tombolo top` and `tombolo web`: a machine, live.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli_watch::main()
}
