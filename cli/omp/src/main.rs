//! The command `tombolo ompcc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli_omp::main()
}
