//! What GCC calls for OpenMP: the interface of `libgomp.so.1`, as GCC 12 has it, over teams of our own.
//!
//! Everything is thin: arguments are turned into what `tombolo-omp` takes. Which version each symbol has is in
//! `libgomp.map`; OpenACC and plug-ins for accelerators are left out, so a program that needs them does not start.

#![allow(non_snake_case, reason = "the names are GCC's")]

pub mod api;
#[cfg(target_env = "gnu")]
pub mod entry;
#[cfg(target_env = "musl")]
pub mod files;
pub mod fortran;
pub mod heap;
#[cfg(target_env = "musl")]
pub mod image;
pub mod memory;
pub mod region;
pub mod replicate;
pub mod start;
#[cfg(target_env = "gnu")]
pub mod streams;
pub mod symbols;
pub mod sync;
pub mod target;
pub mod tasks;
pub mod worksharing;
