//! Programs for boards without an operating system: the API of `tombolo`, without the parts that need one.
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//!
//! use tombolo_bare::prelude::*;
//! use tombolo_bare::{Domain, Error};
//!
//! tombolo_bare::main!(main);
//!
//! fn main() -> Result<(), Error> {
//!     let mut channel = Domain::attach()?.connect("pong")?;
//!     channel.send(b"ping")?;
//!     let mut answer = Vec::new();
//!     channel.recv_into(&mut answer)?;
//!     println!("{} said {}", channel.peer_node(), String::from_utf8_lossy(&answer));
//!     Ok(())
//! }
//! ```
//!
//! Names, semantics and errors are those of `tombolo`. `tombolo build --bare` builds such a program, and
//! `tombolo run --on` runs it on a board. A board runs one program at a time, with one thread.
//!
//! On all other targets the crate is empty.
#![no_std]
#![forbid(unsafe_code)]
#![cfg(target_os = "none")]

extern crate alloc;

mod channel;
mod domain;
pub mod env;
pub mod error;
mod link;
pub mod names;
pub mod nodes;
pub mod output;
pub mod region;
mod start;
pub mod time;

pub use channel::{Channel, ChannelOptions, Either, RawMemory, Stats, wait_any};
pub use domain::{Domain, Job, Listener};
pub use error::Error;
pub use start::Outcome;

pub use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
pub use tombolo_control::{JobError, Membership};
pub use tombolo_link::TransportKind;
pub use tombolo_link::end::Awaited;
#[doc(hidden)]
pub use tombolo_platform_bare::board_program;

/// Names that programs with an operating system get from the standard prelude.
pub mod prelude {
    pub use alloc::borrow::ToOwned;
    pub use alloc::boxed::Box;
    pub use alloc::format;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec;
    pub use alloc::vec::Vec;

    pub use crate::{console, eprintln, print, println};
}
