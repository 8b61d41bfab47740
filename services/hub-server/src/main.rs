//! Serves the hubs of a node. `tombolo hubs` starts it:
//!
//! ```text
//! tombolo-hub-server NAME:KIND:CAPACITY:INITIAL:BYTES:TYPE:INHERITANCE …
//! ```
//!
//! It prints a line `ready: …` when it is ready.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use tombolo::Domain;
use tombolo_hubs::{Description, HubError, Server, plan};

fn main() -> ExitCode {
    let mut hubs = Vec::new();
    for word in std::env::args().skip(1) {
        match plan::from_argument(&word) {
            Some(hub) => hubs.push(hub),
            None => {
                eprintln!("error: invalid hub '{word}'; use `tombolo hubs`");
                return ExitCode::from(2);
            }
        }
    }
    match serve(hubs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(hubs: Vec<Description>) -> Result<(), HubError> {
    let domain = Domain::attach()?;
    let count = hubs.len();
    let server = Server::start(&domain, hubs)?;
    // The hubs are served even if the output has no reader.
    let _ = writeln!(std::io::stdout(), "ready: {count} hubs on {}", domain.node_name());
    server.run()
}
