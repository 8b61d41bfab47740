//! Community detection by modularity, spread over nodes of unlike processors.
//!
//! * [`graph`]: graphs in memory, read from files or derived from Debian's package lists.
//! * [`search`]: the multilevel local search, in exact integers, so that its answer depends on graph and seed only.
//! * [`wire`], [`port`]: what master and workers say to each other, and over what.
//! * [`crew`]: the master's side; [`worker`]: the other one.
//! * [`launch`]: workers as domains of a machine; [`store`]: files, of this node or granted; [`publish`]: progress and result, for
//!   whoever watches. Only these know Tombolo.
//! * [`args`], [`job`], [`report`], [`emulation`], [`figure`]: the program around it.
#![forbid(unsafe_code)]

pub mod args;
pub mod crew;
pub mod emulation;
pub mod figure;
pub mod graph;
pub mod job;
pub mod launch;
pub mod port;
pub mod publish;
pub mod report;
pub mod search;
pub mod store;
pub mod wire;
pub mod worker;
