//! Community detection by modularity, distributed over nodes with different processors.
//!
//! * [`graph`]: graphs in memory, read from files or derived from Debian's package lists.
//! * [`search`]: the multilevel local search, in exact integers, so that its result depends on graph and seed
//!   only.
//! * [`wire`], [`port`]: the messages between master and workers, and what carries them.
//! * [`crew`]: the master; [`worker`]: a worker.
//! * [`launch`]: workers as domains of a machine; [`store`]: files, of this node or granted; [`publish`]:
//!   progress and result as records. Only these three use Tombolo.
//! * [`args`], [`job`], [`report`], [`emulation`], [`figure`]: the rest of the program.
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
pub mod random;
pub mod report;
pub mod search;
pub mod store;
pub mod wire;
pub mod worker;
