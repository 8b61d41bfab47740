//! Makes one OpenMP program for unlike processors: builds of one source in which every function and every variable, the C
//! library's included, has the same address.
//!
//! Workers of a team whose memory is shared can then hand each other plain pointers, whatever processor they run on: to data,
//! to constants, to functions. [`compile`] does it: it compiles, links each build once to see what is in it, makes one
//! [`plan`] for all, links again as [`script`] says, and looks whether it came out so ([`symbols`]). What cannot be equal is
//! refused by name ([`types`]).
#![forbid(unsafe_code)]

pub mod compile;
pub mod input;
mod installation;
pub mod plan;
mod report;
pub mod script;
pub mod symbols;
pub mod types;

pub use installation::{Installation, InstallationError};
pub use report::{AreaReport, Report};
pub use types::Refusal;
