//! `communities`: master and worker in one program.

use std::error::Error;
use std::process::ExitCode;

use communities::args::{self, Command};
use communities::{job, launch};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("communities: {error}\nTry `communities --help`.");
            return ExitCode::from(2);
        }
    };
    let result: Result<(), Box<dyn Error>> = match command {
        Command::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        Command::Work { master, number } => launch::work(&master, number).map_err(Into::into),
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
