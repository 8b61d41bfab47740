//! Starting unmodified MPI programs on the nodes of a machine: jobs, the process manager interface, builds.

pub mod compile;
mod installation;
mod mark;

pub use installation::{Installation, InstallationError, PREFIX};
pub use mark::{DifferentBuilds, Mark, check_builds};
