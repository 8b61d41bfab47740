//! Copies in the background: the [`engines`] of a node, for a program's own memory, and a service that copies
//! between memories of several programs.
//!
//! A [`Server`] is a domain with the engines of its node. Its clients register memory by capability and
//! enqueue descriptors, each with a source and a target. The server reports the end of each descriptor, in
//! the order of completion. A client polls for ends or waits for them with a deadline, and continues with
//! other work meanwhile. It need not map the memory, nor be able to.
//!
//! ```no_run
//! use std::time::Duration;
//! use tombolo::Domain;
//! use tombolo::region::{RegionOptions, Rights};
//! use tombolo_copies::{Copies, Copy};
//!
//! fn main() -> Result<(), tombolo_copies::CopiesError> {
//!     let domain = Domain::attach()?;
//!     let (from, to) = (RegionOptions::new(1 << 20), RegionOptions::new(1 << 20));
//!     let (from, to) = (domain.create_region(&from)?, domain.create_region(&to)?);
//!     let mut copies = Copies::connect(&domain, "host")?;
//!     let from = copies.register(&from, Rights::READ)?;
//!     let to = copies.register(&to, Rights::READ_WRITE)?;
//!     let descriptor = copies.enqueue(&Copy::new(from.at(0), to.at(0), 1 << 20))?;
//!     // Something else.
//!     copies.wait(descriptor, Duration::from_secs(10))?;
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

mod client;
pub mod engines;
mod error;
mod schedule;
mod server;

pub use client::{Completion, Copies, Copy, Descriptor, Fill, Memory, Place};
pub use error::CopiesError;
pub use server::{Server, ServerOptions, service_name};
pub use tombolo_stubs::copies::{CopyFault, MAX_DESCRIPTORS, MAX_MEMORIES};
