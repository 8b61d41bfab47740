//! Serves copies on a node. Started by `tombolo copies`, without arguments.
//!
//! Prints a line `ready: …` when it is ready.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::io::Write;
use std::process::ExitCode;

use tombolo::{Domain, Error};
use tombolo_copies::{Server, ServerOptions, service_name};

fn main() -> ExitCode {
    if let Some(argument) = std::env::args().nth(1) {
        eprintln!("error: unexpected argument '{argument}'; use `tombolo copies`");
        return ExitCode::from(2);
    }
    match serve() {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<Infallible, Error> {
    let domain = Domain::attach()?;
    let server = Server::start(&domain, ServerOptions::default())?;
    // The server runs even if the output has no reader.
    let _ = writeln!(std::io::stdout(), "ready: {}", service_name(domain.node_name()));
    server.run()
}
