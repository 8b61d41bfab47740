//! The command `tombolo bench`: measures costs, beside the limit and beside peers.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli_bench::main()
}
