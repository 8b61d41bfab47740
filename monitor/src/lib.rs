//! The monitor of a node: names, spawning, channels, death.
//!
//! On the host it is the root of a machine: [`root`] does what [`core`] decides. On every other node it is an
//! [`agent`] at the end of a [`link`] to the root.
#![forbid(unsafe_code)]

pub mod agent;
pub mod core;
pub mod leaf;
pub mod link;
pub mod root;

/// Stands for the messages between monitors when their channel opens: the version of the control protocol.
pub(crate) const CONTROL_INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo.control.1");

/// Processors that this process may use.
pub(crate) fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| count.get().try_into().unwrap_or(u16::MAX))
}
