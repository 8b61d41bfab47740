//! Deterministic simulation of whole machines.
//!
//! The real core of the root, the real agents, control messages, handshakes and rings run on one thread in
//! virtual time; sockets, processes, windows and the links between them are simulated. All events, and the
//! faults with their probabilities, are drawn from one seed, so a seed that fails fails again.
//!
//! A run starts a machine, uses it while faults happen, heals it, and checks that every request is answered,
//! that every node can be reached, and finally that nothing is left. The checks are in [`audit`] and
//! [`conversation`].
#![forbid(unsafe_code)]

pub mod agent;
pub mod audit;
pub mod broadcast;
pub mod bulk;
pub mod canary;
pub mod channel;
pub mod conversation;
pub mod descriptor;
pub mod hubs;
pub mod line;
pub mod maps;
pub mod memory;
pub mod node;
pub mod pages;
pub mod plan;
pub mod process;
pub mod relays;
pub mod release;
pub mod rights;
pub mod root;
pub mod shared;
pub mod window;
pub mod world;
