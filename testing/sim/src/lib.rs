//! Whole machines under one seed.
//!
//! The real core of the root, the real agents, the real control messages, handshakes and rings run on one thread in
//! virtual time; sockets, processes, windows and the links between them are simulated. Everything that happens,
//! faults and their probabilities included, is drawn from a seed, so a seed that fails fails again.
//!
//! A run starts a machine, uses it while faults happen, heals it, demands that everything comes to an end, that every
//! node can be reached, and at last that nothing is left. [`audit`] and [`conversation`] hold what must be true.
#![forbid(unsafe_code)]

pub mod agent;
pub mod audit;
pub mod bulk;
pub mod canary;
pub mod channel;
pub mod conversation;
pub mod descriptor;
pub mod line;
pub mod maps;
pub mod memory;
pub mod node;
pub mod plan;
pub mod process;
pub mod random;
pub mod rights;
pub mod root;
pub mod shared;
pub mod window;
pub mod world;
