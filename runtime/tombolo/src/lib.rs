//! Message passing between programs on heterogeneous processors.
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
//! A [`WaitSet`] waits for many channels, timers and descriptors at once. Every operation that waits has an
//! async variant for any executor, such as [`Channel::recv_into_async`].
//! [`LatencyOptions`](latency::LatencyOptions) help to bound response times.
//!
//! * Every wait has a deadline, and ends early with [`Error::PeerDied`] if the peer dies. The default timeout
//!   is 30 seconds; the domain, the channel or [`within`](Channel::within) can set another one.
//! * A failed send returns an error, and the message remains yours.
//! * On a plain host no setup is needed: the first program starts a monitor.
//!
//! The crate `tombolo-admin` operates and observes machines.
#![forbid(unsafe_code)]

mod address;
pub mod bulk;
mod capture;
pub mod channel;
mod channel_descriptors;
pub mod control;
mod domain;
mod endpoint;
pub mod error;
mod exits;
pub mod find;
mod future;
mod in_transit;
pub mod interface;
pub mod job;
pub mod latency;
mod listener;
mod monitor;
pub mod names;
pub mod nodes;
mod opening;
mod options;
mod reactor;
mod recorder;
pub mod region;
#[doc(hidden)]
pub mod relay;
mod side;
pub mod spawn;
#[cfg(test)]
mod testing;
pub mod trace;
mod transport;
pub mod waitset;

pub use address::Address;
pub use bulk::{Arrival, Buffer, BulkChannel, BulkOptions, NotSent, Pool, PoolOptions, Shared, Trust};
pub use channel::{Batch, Channel, Draft, Message, TransportKind, wait_any};
pub use domain::Domain;
pub use endpoint::Endpoint;
pub use error::Error;
pub use future::sleep;
pub use job::Job;
pub use listener::{Accepted, Incoming, Listener};
pub use opening::{MAX_REASON_BYTES, MAX_REQUEST_BYTES, Opening};
pub use options::ChannelOptions;
pub use spawn::{Child, Exit, SpawnOptions};
pub use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
pub use waitset::{Interest, Ready, Token, WaitSet, Waited};
