//! Starts unmodified MPI programs on the nodes of a machine: jobs, the process manager interface, builds.
//!
//! A [`Job`](job::Job) starts the ranks as domains of the machine, serves the process manager interface to
//! each rank ([`pmi`]), and ends all ranks when one fails. Its [`Watcher`](job::Watcher) receives the ranks'
//! output.
#![forbid(unsafe_code)]

pub mod compile;
pub mod environment;
mod installation;
pub mod job;
mod mark;
pub mod pmi;
pub mod program;

pub use installation::{Installation, InstallationError, PREFIX};
pub use mark::{DifferentBuilds, Mark, check_builds};
