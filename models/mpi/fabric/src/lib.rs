//! Reliable datagrams between the domains of a job: the core of the libfabric provider, without
//! libfabric's C interface.
//!
//! An [`Engine`] is one libfabric endpoint. It exchanges messages with any number of peers, matches tagged
//! messages, and reads, writes and atomically updates memory that peers registered. It has no thread: it
//! makes progress when it is polled, and the caller takes [`Completion`]s from it. A [`Net`] connects it to
//! its peers; [`ChannelNet`] does so with channels and regions of the façade. `docs/specs/fabric.md`
//! specifies the message format, ADR 0042 records the design decisions.
//!
//! Everything that a peer writes is validated before use. A peer that violates the protocol can only make
//! its own transfers fail.

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
pub use completion::{Completion, CompletionKind, Counts, Failure, flags};
pub use engine::{
    Access, Atomic, CREDIT_BYTES, CREDIT_MESSAGES, Engine, INJECT_BYTES, MAX_ATOMIC_BYTES, NO_ADDRESS, Peek,
    PostError, Read, Receive, Region, Send, Write,
};
pub use memory::Memory;
pub use net::{ChannelNet, Event, Exposed, LinkEnd, LinkId, MAX_PIECES, Net, Replace, Stages};
