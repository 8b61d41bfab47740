//! Chooses nodes by the needs of a program ([`needs`]) and the facts about each node ([`facts`]), best first
//! ([`choose`](choose())), and assigns the ranks of a job to nodes: `--on` of `tombolo run` and `tombolo
//! mpirun`.
//!
//! Every automatic choice of a node is made here: for `tombolo place`, `--on auto`, the start form of the web
//! page, and the nodes of an OpenMP program with `OMP_TOMBOLO_NODES=all`.
//!
//! On boards only [`Kernels`] is available: everything else that chooses nodes runs on an operating system.
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(not(target_os = "none"))]
pub mod choose;
#[cfg(not(target_os = "none"))]
pub mod facts;
mod kernels;
#[cfg(not(target_os = "none"))]
pub mod needs;
#[cfg(not(target_os = "none"))]
mod ranks;

#[cfg(not(target_os = "none"))]
pub use choose::{Auto, Choice, choose};
#[cfg(not(target_os = "none"))]
pub use facts::Facts;
pub use kernels::{Kernels, NoCommonWindow};
#[cfg(not(target_os = "none"))]
pub use needs::{Needs, NeedsError};
#[cfg(not(target_os = "none"))]
pub use ranks::{AUTO, MAX_RANKS, Order, Placement, PlacementError, place, position};
