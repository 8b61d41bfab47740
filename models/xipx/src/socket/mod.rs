//! Access to the devices of a node for its other programs, through a local socket. `docs/specs/xipx.md`
//! specifies the protocol, so programs can use it without a library.

mod client;
mod server;
mod wire;

pub use client::Client;
pub use server::Server;

use tombolo_platform::process::user_id;

/// Returns the abstract name of the socket that serves the devices of a node in a group of a machine.
#[must_use]
pub fn address_of(machine: &str, group: &str, node: &str) -> String {
    format!("tombolo-xipx/{}/{machine}/{group}/{node}", user_id())
}
