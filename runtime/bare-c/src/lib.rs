//! Programs in C on boards without an operating system, with picolibc as their C library.
//!
//! - `start` initializes the C runtime, runs `main` with the arguments of the start order, and ends the
//!   program.
//! - `heap` is `malloc`, over the heap of programs in Rust.
//! - `support/board.c`, which is compiled with each program, has the streams and the system functions that
//!   picolibc calls. It is C because it uses picolibc's types.
//!
//! On all other targets the crate is empty.
#![no_std]
#![cfg(target_os = "none")]

extern crate alloc;

mod domain;
mod global;
mod heap;
mod start;

pub use domain::domain;
pub use global::Global;
pub use start::{exit, now_ns};
