//! Serves the message device of a node to the node's programs. `tombolo xipx` starts one on each node:
//!
//! ```text
//! tombolo-xipx-server GROUP FIFO_BYTES
//! ```
//!
//! It prints a line `ready: …` when it is ready.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use tombolo::Domain;
use tombolo_xipx::{JoinOptions, Node, Server, XipxError, address_of};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match words.as_slice() {
        [group, fifo_bytes] => fifo_bytes.parse().ok().map(|fifo_bytes| (group, fifo_bytes)),
        _ => None,
    };
    let Some((group, fifo_bytes)) = parsed else {
        eprintln!("error: invalid arguments {words:?}; use `tombolo xipx`");
        return ExitCode::from(2);
    };
    match serve(group, fifo_bytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(group: &str, fifo_bytes: usize) -> Result<(), XipxError> {
    let domain = Domain::attach()?;
    let name = address_of(domain.machine_name(), group, domain.node_name());
    let node = Node::join(&domain, &JoinOptions { fifo_bytes, ..JoinOptions::default() })?;
    let server = Server::new(node.clone(), &name)?;
    // The device is served even if the output has no reader.
    let _ = writeln!(
        std::io::stdout(),
        "ready: node {} of {}, messages of up to {} bytes, at @{name}",
        node.number(),
        node.names().len(),
        node.max_message_bytes()
    );
    server.run()
}
