//! `communities`: master and worker in one program.

use std::error::Error;
use std::process::ExitCode;

use communities::args::Command;
use communities::{job, launch};

fn main() -> ExitCode {
    let command = Command::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let result: Result<(), Box<dyn Error>> = match command {
        Command::Work(worker) => launch::work(&worker.connect, worker.number).map_err(Into::into),
        Command::Search(request) => job::run(&request).map_err(Into::into),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("communities: {error}");
            ExitCode::FAILURE
        }
    }
}
