//! The subcommands, one module each.

mod build;
mod bulk;
mod capture;
mod channels;
mod console;
mod copies;
mod devices;
mod down;
mod hubs;
mod idl;
mod image;
mod join;
mod kill;
mod litmus;
mod names;
mod new;
mod pages;
mod place;
mod ps;
pub(crate) mod rccerun;
mod regions;
mod replay;
mod restart;
mod run;
mod status;
mod trace;
mod up;
mod xipx;

use std::ffi::OsString;

use clap::{Args, Subcommand};
use tombolo_cli_common::programs::{self, about, exec_program};

use crate::context::Context;
use crate::failure::Failure;

/// Subcommands of `tombolo`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Up(up::Options),
    Down(down::Options),
    Join(join::Options),
    Status(status::Options),
    Restart(restart::Options),
    Run(run::Options),
    Place(place::Options),
    #[command(about = about::MPIRUN)]
    Mpirun(OtherProgram),
    Rccerun(rccerun::Options),
    Ps(ps::Options),
    Kill(kill::Options),
    #[command(about = about::TOP)]
    Top(OtherProgram),
    #[command(about = about::WEB)]
    Web(OtherProgram),
    Names(names::Options),
    Channels(channels::Options),
    Regions(regions::Options),
    Pages(pages::Options),
    Bulk(bulk::Options),
    Trace(trace::Options),
    Capture(capture::Options),
    Replay(replay::Options),
    Console(console::Options),
    Net(devices::net::Options),
    Block(devices::block::Options),
    Copies(copies::Options),
    Hubs(hubs::Options),
    Xipx(xipx::Options),
    New(new::Options),
    Build(build::Options),
    Image(image::Options),
    Idl(idl::Options),
    #[command(about = about::MPICC)]
    Mpicc(OtherProgram),
    #[command(about = about::OMPCC)]
    Ompcc(OtherProgram),
    Litmus(litmus::Options),
    #[command(about = about::BENCH)]
    Bench(OtherProgram),
}

/// Arguments of a command that another program implements, which parses them itself.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct OtherProgram {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

impl Command {
    /// Commands implemented by other programs.
    #[cfg(test)]
    pub(crate) const OTHERS: [&str; 6] = ["bench", "mpicc", "mpirun", "ompcc", "top", "web"];
}

/// Runs a command. Returns its exit status.
pub(crate) fn run(context: &Context, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Up(options) => up::run(context, &options)?,
        Command::Down(options) => down::run(context, &options)?,
        Command::Join(options) => match join::run(&options)? {},
        Command::Status(options) => status::run(context, &options)?,
        Command::Restart(options) => restart::run(context, &options)?,
        Command::Run(options) => run::run(context, &options)?,
        Command::Rccerun(options) => rccerun::run(context, &options)?,
        Command::Copies(options) => copies::run(context, &options)?,
        Command::Xipx(options) => xipx::run(context, &options)?,
        Command::Place(options) => place::run(context, &options)?,
        Command::Ps(options) => ps::run(context, &options)?,
        Command::Kill(options) => kill::run(context, &options)?,
        Command::Names(options) => names::run(context, &options)?,
        Command::Channels(options) => channels::run(context, &options)?,
        Command::Regions(options) => regions::run(context, &options)?,
        Command::Pages(options) => pages::run(context, &options)?,
        Command::Bulk(options) => bulk::run(context, &options)?,
        Command::Capture(options) => capture::run(context, &options)?,
        Command::Replay(options) => replay::run(context, &options)?,
        Command::Trace(options) => return trace::run(context, &options),
        Command::Console(options) => return console::run(context, &options),
        Command::New(options) => new::run(context, &options)?,
        Command::Build(options) => build::run(context, &options)?,
        Command::Image(options) => image::run(context, &options)?,
        Command::Idl(options) => return idl::run(context, &options),
        Command::Net(options) => return devices::net::run(context, &options),
        Command::Block(options) => return devices::block::run(context, &options),
        Command::Hubs(options) => return hubs::run(context, &options),
        Command::Litmus(options) => return litmus::run(context, &options),
        Command::Bench(_) => return exec_program(context, programs::BENCH),
        Command::Mpicc(_) | Command::Mpirun(_) => return exec_program(context, programs::MPI),
        Command::Ompcc(_) => return exec_program(context, programs::OMP),
        Command::Top(_) | Command::Web(_) => return exec_program(context, programs::WATCH),
    }
    Ok(0)
}
