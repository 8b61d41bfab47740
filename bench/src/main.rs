//! The far side of `tombolo bench ring`: started by it on the node that it measures.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tombolo_bench::ring::{PeerArguments, peer};

fn main() -> ExitCode {
    let arguments = match PeerArguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("bench-peer: {error}");
            return ExitCode::from(2);
        }
    };
    match peer::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peer: {error}");
            ExitCode::FAILURE
        }
    }
}
