//! Reliable datagrams between the domains of a job: what a provider for libfabric is made of, without libfabric.
//!
//! An [`Engine`] is one endpoint: it sends messages to and receives them from any number of others, matches tagged ones, and
//! reads, writes and changes memory that others registered. It does nothing by itself: whoever polls it makes it progress, and
//! takes [`Completion`]s from it. What joins it to others is a [`Net`]; [`ChannelNet`] is one of channels and regions of the
//! façade. The bytes of its messages are in `docs/specs/fabric.md`, the reasons in ADR 0042.
//!
//! What a peer writes is checked before it is used, and what it does wrong ends its own transfers.

mod address;
mod atomic;
mod completion;
mod engine;
mod matching;
mod memory;
mod net;
mod slab;
mod wire;

pub use address::{ADDRESS_BYTES, Address};
pub use atomic::{AtomicOp, Datatype};
pub use completion::{Completion, Counts, Failure, Kind, flags};
pub use engine::{
    Access, Atomic, Busy, CREDIT_BYTES, CREDIT_MESSAGES, Engine, INJECT_BYTES, MAX_ATOMIC_BYTES, NO_ADDRESS,
    Peek, Read, Receive, Region, Send, Write,
};
pub use memory::Memory;
pub use net::{ChannelNet, Event, Exposed, LinkEnd, LinkId, MAX_PIECES, Net, Replace, Stages};
