//! Functions that GCC calls for OpenMP: the interface of `libgomp.so.1`, as of GCC 12, on top of
//! `tombolo-omp-team`.
//!
//! The functions only convert arguments. `libgomp.map` lists the version of each symbol. OpenACC and plug-ins
//! for accelerators are left out, so a program that needs them does not start.

#![allow(non_snake_case, reason = "the names are GCC's")]

pub mod api;
#[cfg(target_env = "musl")]
pub mod cancellation;
#[cfg(target_env = "gnu")]
pub mod entry;
#[cfg(target_env = "musl")]
mod exceptions;
pub mod fortran;
pub mod heap;
#[cfg(target_env = "musl")]
pub mod image;
#[cfg(target_env = "musl")]
pub mod jumps;
#[cfg(target_env = "musl")]
pub mod locks;
pub mod max_threads;
pub mod memory;
#[cfg(target_env = "musl")]
pub mod migrate;
#[cfg(target_env = "gnu")]
pub mod own_calls;
#[cfg(target_env = "musl")]
pub mod process;
pub mod region;
pub mod replicate;
#[cfg(target_env = "musl")]
pub mod sleeps;
pub mod start;
#[cfg(target_env = "gnu")]
pub mod streams;
pub mod symbols;
pub mod sync;
pub mod target;
pub mod tasks;
#[cfg(target_env = "musl")]
pub mod thread_locals;
#[cfg(target_env = "musl")]
pub mod thread_objects;
#[cfg(target_env = "musl")]
pub mod threads;
#[cfg(target_env = "musl")]
mod variables;
pub mod worksharing;
