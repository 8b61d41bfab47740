//! The hidden command with which `tombolo bench mpi` measures TCP to a virtual machine.

use std::path::PathBuf;

use clap::Args;
use tombolo_bench::mpi::network;

use crate::failure::Failure;

/// Be MPI's launcher in a network of its own; `tombolo bench mpi` starts it
#[derive(Args, Debug)]
pub(crate) struct NetworkOptions {
    /// The kit's folder
    #[arg(long)]
    kit: PathBuf,

    /// The processor model of the machine
    #[arg(long)]
    cpu: String,

    /// Its memory
    #[arg(long)]
    memory_mib: u32,

    /// Program and arguments of `measure`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the launcher and returns the exit status of rank 0.
pub(crate) fn run(options: &NetworkOptions) -> Result<u8, Failure> {
    let NetworkOptions { kit, cpu, memory_mib, arguments } = options;
    let (kit, cpu, arguments) = (kit.clone(), cpu.clone(), arguments.clone());
    Ok(network::run(&network::Options { kit, cpu, memory_mib: *memory_mib, arguments })?)
}
