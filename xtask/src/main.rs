//! The project's own tool, run as `cargo xtask <command>`: one module per command.

mod atomic_write;
mod bare;
mod board_c;
mod bounds;
mod c_library;
mod chaos;
mod ci;
mod codegen;
mod coherent;
mod disk;
mod dist;
mod failure;
mod foreign;
mod fuzz;
mod gomp;
mod images;
mod install;
mod installation;
mod kit;
mod layers;
mod miri;
mod model;
mod mpi;
mod needs;
mod omp;
mod placing;
mod rust_sources;
mod schedule;
mod sim;
mod step;
mod surface;
mod tidy;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use workspace::Workspace;

/// Development tool of the project; CI runs nothing else
#[derive(Parser)]
#[command(name = "cargo xtask", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks the tree: layers, `unsafe`, length of files, English, stale generated files
    Tidy,
    /// Write the generated files
    Codegen(codegen::Options),
    /// Simulates whole machines with faults, one per seed: `--seed N` repeats one
    Sim(sim::Options),
    /// Counts the accesses to shared memory of operations that have bounds
    Bounds,
    /// Checks that coherent memory compiles to the machine code of plain memory
    Coherent,
    /// Explores every schedule of the lock-free code with loom
    Model(model::Options),
    /// Runs the protocol crates under miri, little-endian and big-endian
    Miri(miri::Options),
    /// Runs the protocol crates' tests on foreign instruction sets under qemu-user
    Foreign,
    /// Builds the protocol crates for a target without an operating system
    Bare,
    Kit(kit::Options),
    Install(install::Options),
    Dist(dist::Options),
    Chaos(chaos::Options),
    /// Runs the code around shared memory with the address sanitizer
    Asan,
    Fuzz(fuzz::FuzzOptions),
    /// Everything that `make test` does, as named steps
    Ci(ci::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    match command {
        Command::Tidy => tidy::run(&workspace),
        Command::Codegen(options) => codegen::run(&workspace, options),
        Command::Sim(options) => sim::run(&workspace, options),
        Command::Bounds => bounds::run(&workspace),
        Command::Coherent => coherent::run(&workspace),
        Command::Model(options) => model::run(&workspace, options),
        Command::Miri(options) => miri::run(&workspace, options),
        Command::Foreign => foreign::run(&workspace),
        Command::Bare => bare::run(&workspace),
        Command::Kit(options) => kit::run(&workspace, options),
        Command::Install(options) => install::run(&workspace, options),
        Command::Dist(options) => dist::run(&workspace, options),
        Command::Chaos(options) => chaos::run(&workspace, options),
        Command::Asan => fuzz::address_sanitizer(&workspace),
        Command::Fuzz(options) => fuzz::run(&workspace, options),
        Command::Ci(options) => ci::run(&workspace, options),
    }
}
