//! The far side of `tombolo bench ring` and `bench bulk`: started by them on the node that they measure.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tombolo_bench::bulk;
use tombolo_bench::ring::{Error, PeerArguments, peer};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, name] = arguments.as_slice()
        && what == "bulk"
    {
        return ended(bulk::far::run(name));
    }
    let arguments = match PeerArguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("bench-peer: {error}");
            return ExitCode::from(2);
        }
    };
    ended(peer::run(&arguments))
}

fn ended(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peer: {error}");
            ExitCode::FAILURE
        }
    }
}
