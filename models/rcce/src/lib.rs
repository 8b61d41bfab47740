//! RCCE and iRCCE, the message library of the Single-chip Cloud Computer (Mattson and van der Wijngaart 2010,
//! Clauss and others 2011), for C programs on the nodes of a machine.
//!
//! Every rank of a job has a message buffer in memory that all ranks map. `include/RCCE.h` and `iRCCE.h`
//! declare the interface; names and semantics are those of RCCE 1.x and 2.0, so programs compile unchanged.
//!
//! - [`engine`]: messages, flags and collectives of one rank, over [`tombolo_onesided`], for coherent and
//!   non-coherent memory. It does no I/O; the caller decides how a call waits.
//! - [`layout`]: layout of the memory.
//! - [`job`]: setup of the memory shared by the ranks of a job, and detection of ended ranks.
//! - [`abi`]: the functions of the headers.
//!
//! Ranks also run on boards without an operating system; `system` contains the differences.
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

pub mod abi;
pub mod engine;
pub mod failure;
pub mod job;
pub mod layout;
mod system;
mod world;

// The library also exports the functions of `tombolo.h`: two static libraries in Rust cannot be linked
// together.
use tombolo_c as _;
// Startup code for C programs on boards, and the system interface of their C library.
#[cfg(target_os = "none")]
use tombolo_bare_c as _;
