//! The command `tombolo bench`: what things cost, beside the limit and beside peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli_bench::main()
}
