//! Tombolo for C: implements the functions declared in `tombolo.h`.
//!
//! The header documents them. A handle is a box that C holds by its address. Every function checks what can
//! be checked (null, UTF-8, a handle that is in use), converts errors to a [`Status`], and stores their text
//! for `tombolo_last_error`. A panic becomes [`Status::Internal`] and never unwinds into C. Sending and
//! receiving do not allocate unless they fail.
//!
//! On boards without an operating system, `tombolo_bare` replaces `tombolo`: it provides domains, names,
//! channels and jobs. Programs that call any other function do not link.
//!
//! The caller is responsible for the rest, listed in the `# Safety` section of each function: pointers are
//! null or valid for the stated length, and handles came from this library and were not released.
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

mod boundary;
pub mod channel;
pub mod domain;
#[cfg(not(target_os = "none"))]
mod hosted;
pub mod job;
pub mod status;
mod system;

pub use channel::ChannelHandle;
pub use domain::{DomainHandle, ListenerHandle, Options};
#[cfg(not(target_os = "none"))]
pub use hosted::*;
pub use status::Status;
