//! Tombolo for C: implements the functions that `tombolo.h` declares.
//!
//! The header is their documentation. A handle is a box that C holds by its address. Every function checks
//! what can be checked (null, UTF-8, a handle that is in use), turns errors into a [`Status`] and stores
//! their text for `tombolo_last_error`. A panic becomes [`Status::Internal`] and never crosses into C.
//! Sending and receiving do not allocate unless they fail.
//!
//! The caller is responsible for the rest, and the `# Safety` section of each function names it: pointers are
//! null or valid for the stated length, and handles came from this library and were not given back.

mod boundary;
pub mod bulk;
pub mod capability;
pub mod channel;
pub mod child;
pub mod domain;
pub mod files;
pub mod group;
pub mod hubs;
pub mod job;
pub mod mapping;
pub mod names;
pub mod opening;
pub mod passing;
pub mod pool;
pub mod region;
pub mod status;
pub mod tasks;
pub mod transfers;

pub use bulk::BulkHandle;
pub use channel::ChannelHandle;
pub use child::ChildHandle;
pub use domain::{DomainHandle, ListenerHandle, Options};
pub use files::{FileHandle, FileMapHandle, FilesHandle};
pub use group::GroupHandle;
pub use hubs::{HubHandle, TaskHandle};
pub use mapping::MappingHandle;
pub use opening::{OpeningHandle, RequestListenerHandle};
pub use pool::{BufferHandle, PoolHandle};
pub use region::CapabilityHandle;
pub use status::Status;
pub use tasks::{ContextHandle, FunctionsHandle, JoinedHandle, ResultHandle, TasksHandle};
