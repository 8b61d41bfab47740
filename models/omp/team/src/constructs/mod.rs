//! Constructs of OpenMP, implemented on the records of [`crate::team`].

pub mod affinity;
pub mod barrier;
pub mod cancel;
pub mod doacross;
pub mod group;
pub mod loops;
pub mod reduction;
pub mod region;
pub mod share;
pub mod tasking;
pub mod taskloop;
pub mod tasks;
