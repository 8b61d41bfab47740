//! Message passing between programs on unlike processors.
//!
//! A *machine* is a set of *nodes*: this host, Arm programs under emulation, virtual machines behind a
//! shared-memory window. A running program on a node is a *domain*. Two domains exchange messages over a
//! *channel*, whose semantics do not depend on the link between their nodes.
//!
//! ```no_run
//! use tombolo::{Domain, Error};
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
//! A [`WaitSet`] waits for many channels, timers and descriptors at once. Every operation that waits has an async
//! variant for any executor, such as [`Channel::recv_into_async`]. [`LatencyOptions`] bound the time of an answer.
//!
//! * Every wait has a deadline, and ends early with [`Error::PeerDied`] when the peer dies. The default is 30 seconds;
//!   the domain, the channel or [`within`](Channel::within) can set another.
//! * A failed send returns an error, and you keep the message.
//! * On a plain host no set-up is needed: the first program starts a monitor.
#![forbid(unsafe_code)]

mod admin;
mod bulk;
mod capture;
mod channel;
mod domain;
mod endpoint;
pub mod engines;
mod error;
mod exits;
pub mod files;
pub mod find;
mod future;
pub mod interface;
mod job;
mod latency;
mod monitor;
mod names;
pub mod observe;
mod options;
mod region;
mod side;
mod spawn;
#[cfg(test)]
mod testing;
pub mod trace;
mod transport;
mod waitset;

pub use admin::{Console, DomainInfo, NodeInfo};
pub use bulk::{
    Arrival, Buffer, BulkChannel, BulkError, BulkOptions, MAX_UNCLAIMED, NotSent, Parcelled, Pool, PoolOffer,
    PoolOptions, Received, Shared, Transfers,
};
pub use capture::CAPTURE_VARIABLE;
pub use channel::{Channel, wait_any, wait_any_from};
pub use domain::{Domain, Listener};
pub use endpoint::Endpoint;
pub use error::Error;
pub use future::sleep;
pub use job::Job;
pub use latency::{LatencyOptions, Placed, Scheduling};
pub use monitor::ConsoleOutput;
pub use names::{
    AttributeError, Attributes, Barrier, Change, Changed, Comparison, Condition, DeleteCause, Delivered,
    EndCause, EventMask, Lock, LockGuard, Meeting, NameFault, Names, NewRecord, Notice, ObjectInfo, Permit,
    PublishedEvent, Publisher, Query, Record, Semaphore, Subscriber, Value, Watch, WatchOptions,
};
pub use options::ChannelOptions;
pub use region::{
    Capability, FarEnd, Granted, MapOptions, Mapping, Region, RegionFile, RegionOptions, Right, Shown,
};
pub use side::SideStream;
pub use spawn::{Child, Exit, SpawnOptions, Stream};
pub use waitset::{DescriptorReady, Interest, Ready, Token, Trigger, WaitSet, WaitStats, Waker};

pub use tombolo_base::{ChannelId, DomainId, Isa, NodeId, Target};
pub use tombolo_base::{OutOfRange, SharedMemory};
pub use tombolo_bulk::session::BulkSendError;
pub use tombolo_bulk::wire::Veto;
pub use tombolo_bulk::{Counts, LayoutError, TableError, Terms, Trust};
pub use tombolo_capability::{
    Backing, CapabilityFault, CapabilityId, CapabilityInfo, Extent, RegionId, RegionInfo, Revoked, Rights,
    Seal,
};
pub use tombolo_control::{Fault, ForeignPlace, JobError, Membership, TracedInfo};
pub use tombolo_link::TransportKind;
pub use tombolo_transport::memory::RawMemory;
pub use tombolo_transport::{Batch, Draft, Message, NotAdded, Stats};
