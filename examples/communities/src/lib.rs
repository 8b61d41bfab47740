//! Community detection by modularity, spread over nodes of unlike processors.
//!
//! * [`graph`]: graphs in memory, read from files or derived from Debian's package lists.
//! * [`search`]: the multilevel local search, in exact integers, so that its answer depends on graph and seed only.
//! * [`wire`], [`port`]: what master and workers say to each other, and over what.
//! * [`crew`]: the master's side; [`worker`]: the other one.
#![forbid(unsafe_code)]

pub mod crew;
pub mod graph;
pub mod port;
pub mod search;
pub mod wire;
pub mod worker;
