//! The commands `tombolo mpirun` and `tombolo mpicc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tombolo_cli_mpi::main()
}
