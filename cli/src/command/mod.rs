//! The subcommands, one module each.

mod bench;
mod bench_bulk;
mod bench_mpi;
mod bench_mpi_network;
mod bench_network;
mod bench_omp;
mod bench_rpc;
mod bench_suite;
mod build;
mod bulk;
mod capture;
mod channels;
mod compilers;
mod console;
mod down;
mod idl;
mod image;
mod kill;
mod litmus;
mod mpicc;
pub(crate) mod mpirun;
mod names;
mod ompcc;
mod ps;
mod regions;
mod replay;
mod restart;
mod run;
mod status;
mod top;
mod trace;
mod up;
mod web;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// What `tombolo` can do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Up(up::Options),
    Down(down::Options),
    Status(status::Options),
    Restart(restart::Options),
    Run(run::Options),
    Mpirun(mpirun::Options),
    Ps(ps::Options),
    Kill(kill::Options),
    Top(top::Options),
    Web(web::Options),
    Names(names::Options),
    Channels(channels::Options),
    Regions(regions::Options),
    Bulk(bulk::Options),
    Trace(trace::Options),
    Capture(capture::Options),
    Replay(replay::Options),
    Console(console::Options),
    Build(build::Options),
    Image(image::Options),
    Idl(idl::Options),
    Mpicc(mpicc::Options),
    Ompcc(ompcc::Options),
    Litmus(litmus::Options),
    Bench(bench::Options),
}

/// Runs a command; `Ok` is its exit status.
pub(crate) fn run(context: &Context, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Up(options) => up::run(context, &options)?,
        Command::Down(options) => down::run(context, &options)?,
        Command::Status(options) => status::run(context, &options)?,
        Command::Restart(options) => restart::run(context, &options)?,
        Command::Run(options) => run::run(context, &options)?,
        Command::Mpirun(options) => mpirun::run(context, &options)?,
        Command::Ps(options) => ps::run(context, &options)?,
        Command::Kill(options) => kill::run(context, &options)?,
        Command::Top(options) => top::run(context, &options)?,
        Command::Web(options) => web::run(context, &options)?,
        Command::Names(options) => names::run(context, &options)?,
        Command::Channels(options) => channels::run(context, &options)?,
        Command::Regions(options) => regions::run(context, &options)?,
        Command::Bulk(options) => bulk::run(context, &options)?,
        Command::Capture(options) => capture::run(context, &options)?,
        Command::Replay(options) => replay::run(context, &options)?,
        Command::Trace(options) => return trace::run(context, &options),
        Command::Console(options) => return console::run(context, &options),
        Command::Build(options) => build::run(context, &options)?,
        Command::Image(options) => image::run(context, &options)?,
        Command::Mpicc(options) => mpicc::run(context, &options)?,
        Command::Ompcc(options) => ompcc::run(context, &options)?,
        Command::Idl(options) => return idl::run(context, &options),
        Command::Litmus(options) => return litmus::run(context, &options),
        Command::Bench(options) => return bench::run(context, &options),
    }
    Ok(0)
}
