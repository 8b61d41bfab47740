//! Chooses nodes: by what a program needs of one ([`needs`]) and what the machine knows of each ([`facts`]),
//! the best first ([`choose`](choose())). And assigns the ranks of a job to nodes: `--on` of `tombolo run`
//! and `tombolo mpirun`.
//!
//! All that chooses a node by itself does so here: `tombolo place`, `--on auto`, the start form of the web
//! page, the nodes of an OpenMP program with `OMP_TOMBOLO_NODES=all`.
//!
//! Programs on boards have [`Kernels`] alone: what else chooses nodes runs where there is an operating
//! system.
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
