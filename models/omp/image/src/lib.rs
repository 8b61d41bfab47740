//! Compiles an OpenMP program for several instruction sets so that every function and variable, including
//! those of the C library, has the same address in each build.
//!
//! Workers of a team that share memory can then pass plain pointers to each other, to data, constants and
//! functions, on any processor. [`compile`] compiles the sources, links each build once to learn its
//! contents, computes one [`plan`] for all builds, links again with the linker script from [`script`], and
//! verifies the addresses ([`symbols`]). Types that differ between processors are refused by name
//! ([`types`]).
#![forbid(unsafe_code)]

pub mod compile;
pub mod input;
mod installation;
mod marks;
pub mod plan;
mod report;
pub mod script;
pub mod symbols;
pub mod types;

pub use installation::{Installation, InstallationError};
pub use report::{AreaReport, Report};
pub use types::Refusal;
