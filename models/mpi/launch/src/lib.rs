//! Starting unmodified MPI programs on the nodes of a machine: jobs, the process manager interface, builds.
//!
//! A [`Job`](job::Job) starts the ranks as domains of the machine, serves each over its side stream by [`pmi`], and ends all
//! of them when one cannot go on. What it prints and who reads is its [`Watcher`](job::Watcher)'s.
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
