//! The devices of a node for its other programs, by a local socket: `docs/specs/xipx.md` has the bytes. A
//! program needs no library for it.

mod client;
mod server;
mod wire;

pub use client::Client;
pub use server::Server;

use tombolo_platform::process::user_id;

/// The abstract name of the socket at which a node's devices are: of a machine, a group and a node.
#[must_use]
pub fn address_of(machine: &str, group: &str, node: &str) -> String {
    format!("tombolo-xipx/{}/{machine}/{group}/{node}", user_id())
}
