//! Tombolo for C: implements the functions that `tombolo.h` declares.
//!
//! The header is their documentation. A handle is a box that C holds by its address. Every function checks
//! what can be checked (null, UTF-8, a handle that is in use), turns errors into a [`Status`] and stores
//! their text for `tombolo_last_error`. A panic becomes [`Status::Internal`] and never crosses into C.
//! Sending and receiving do not allocate unless they fail.
//!
//! On boards without an operating system, `tombolo_bare` takes the place of `tombolo`: there are domains,
//! names, channels and jobs. Programs that call what is not there do not link.
//!
//! The caller is responsible for the rest, and the `# Safety` section of each function names it: pointers are
//! null or valid for the stated length, and handles came from this library and were not given back.
#![cfg_attr(target_os = "none", no_std)]

extern crate alloc;

mod boundary;
#[cfg(not(target_os = "none"))]
pub mod bulk;
#[cfg(not(target_os = "none"))]
pub mod capability;
#[cfg(not(target_os = "none"))]
mod carrier;
pub mod channel;
#[cfg(not(target_os = "none"))]
pub mod child;
pub mod domain;
#[cfg(not(target_os = "none"))]
pub mod files;
#[cfg(not(target_os = "none"))]
pub mod group;
#[cfg(not(target_os = "none"))]
pub mod hubs;
pub mod job;
#[cfg(not(target_os = "none"))]
pub mod mapping;
#[cfg(not(target_os = "none"))]
pub mod names;
#[cfg(not(target_os = "none"))]
pub mod opening;
#[cfg(not(target_os = "none"))]
pub mod passing;
#[cfg(not(target_os = "none"))]
pub mod pool;
#[cfg(not(target_os = "none"))]
pub mod region;
pub mod status;
mod system;
#[cfg(not(target_os = "none"))]
pub mod tasks;
#[cfg(not(target_os = "none"))]
pub mod transfers;

#[cfg(not(target_os = "none"))]
pub use {
    bulk::BulkHandle,
    child::ChildHandle,
    files::{FileHandle, FileMapHandle, FilesHandle},
    group::GroupHandle,
    hubs::{HubHandle, TaskHandle},
    mapping::MappingHandle,
    opening::{OpeningHandle, RequestListenerHandle},
    pool::{BufferHandle, PoolHandle},
    region::CapabilityHandle,
    tasks::{ContextHandle, FunctionsHandle, JoinedHandle, ResultHandle, TasksHandle},
};

pub use channel::ChannelHandle;
pub use domain::{DomainHandle, ListenerHandle, Options};
pub use status::Status;
