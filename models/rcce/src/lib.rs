//! RCCE and iRCCE, the message library of the Single-chip Cloud Computer (Mattson and van der Wijngaart 2010,
//! Clauss and others 2011), for C programs on the nodes of a machine.
//!
//! Every rank of a job has a message buffer in memory that all ranks map. `include/RCCE.h` and `iRCCE.h`
//! declare what programs call; their names and meanings are those of RCCE 1.x and 2.0, so that programs
//! compile unchanged.
//!
//! - [`engine`]: messages, flags and collectives of one rank, over [`tombolo_onesided`], for memory that is
//!   coherent and for memory that is not. It does no I/O: what happens while a call waits is its caller's.
//! - [`layout`]: where in the memory everything lies.
//! - [`job`]: how the ranks of a job come by one memory, and notice that one of them has ended.
//! - [`abi`]: the functions of the headers.
//!
//! Ranks run on boards without an operating system too; `system` is what differs there.
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

pub mod abi;
pub mod engine;
pub mod failure;
pub mod job;
pub mod layout;
mod system;
mod world;

// The library has what programs of `tombolo.h` call as well: two libraries in Rust do not link together.
use tombolo_c as _;
// What starts a C program on a board, and what its C library asks of a system.
#[cfg(target_os = "none")]
use tombolo_bare_c as _;
