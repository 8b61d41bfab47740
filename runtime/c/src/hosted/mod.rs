//! Functions for programs on an operating system, in addition to those available on boards.

pub mod bulk;
pub mod capability;
pub(crate) mod carrier;
pub mod child;
pub mod files;
pub mod group;
pub mod hubs;
pub mod mapping;
pub mod names;
pub mod opening;
pub mod passing;
pub mod pool;
pub mod region;
pub mod tasks;
pub mod transfers;

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
