//! Messages of monitors: to the domains of their node, and to each other.
//!
//! They are declared in `interfaces/control/*.tbl`, and `cargo xtask codegen` writes the types. `no_std`, no
//! I/O, no `unsafe`. Descriptors travel beside a message, never inside it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use core::time::Duration;

use tombolo_base::hash::fnv1a;
use tombolo_base::{Isa, NodeId, Target};
use tombolo_link::hello::PROTOCOL_VERSION;

#[rustfmt::skip]
pub mod agent;
mod error;
mod exit;
mod held;
mod in_flight;
mod job;
#[rustfmt::skip]
pub mod machine;
#[rustfmt::skip]
pub mod monitor;
#[rustfmt::skip]
pub mod observation;
mod pages;
pub mod wire;

pub use tombolo_capability::{
    CapabilityFault, CapabilityId, CapabilityInfo, Extent, MemoryOptions, RegionId, RegionInfo, Rights, Seal,
    capabilities,
};
pub use tombolo_interface::owned::request;
pub use tombolo_interface::{Malformed, Unsendable};
pub use tombolo_naming::{MAX_NAME_BYTES, is_name, name_faults, names, records};

pub use agent::{AgentReply as Report, AgentRequest as Order, Attachment, AttachmentWindow, StartOrder};
pub use exit::Signal;
pub use in_flight::InFlight;
pub use job::{JobError, Membership};
pub use machine::MAX_RELAYS;
pub use machine::{CpuPlacement, Exit, Fault, NodeInfo, NodeKind, ProgramSpec, WindowInfo};
pub use monitor::{
    DomainInfo, ForeignPlace, Grant, MonitorReply as Reply, MonitorRequest as Request, RegionMap,
    RegionPlace, RelayNode, SpawnRequest, TracedInfo, WindowPlace,
};
pub use pages::all_pages;
pub use wire::{
    ClientMessage, MAX_MESSAGE_BYTES, MAX_ORDER_BYTES, MonitorMessage, Wire, encode_or_fault,
    is_naming_request, observation_bytes,
};

/// Build in [`StartOrder`] that stands for the program of the agent itself, which the agent already has.
pub const OWN_PROGRAM: [u8; 32] = [0; 32];

/// Name of a relay, and the argument that makes the agent's own program one.
pub const RELAY_PROGRAM: &str = "relay";

/// Numbers of a domain's streams in [`Request::Input`] and [`Reply::Output`].
pub mod streams {
    /// Number of standard input.
    pub const INPUT: u8 = 0;
    /// Number of standard output.
    pub const OUTPUT: u8 = 1;
    /// Number of standard error.
    pub const ERROR: u8 = 2;
    /// Number of the side stream, in both directions.
    pub const SIDE: u8 = 3;
}

/// First listener number of exports in the scope of a node, which are numbered by its agent. Lower numbers
/// are assigned by the root.
pub const NODE_LISTENERS: u32 = 1 << 31;

/// Fingerprint of all messages with their encodings, and of the channel protocol. Both sides send theirs in
/// their first message ([`Request::Attach`], [`Report::Ready`]), and a monitor refuses a client with a
/// different one.
///
/// **Invariant:** the encodings of these two messages, of [`Order::Welcome`] and of [`Fault::Refused`] as an
/// answer never change, so that any two builds can report to each other that they differ.
pub const FINGERPRINT: u32 = {
    let folded = fold(fold(monitor::MONITOR_FINGERPRINT, agent::AGENT_FINGERPRINT), PROTOCOL_VERSION as u64);
    (folded ^ (folded >> 32)) as u32
};

const fn fold(one: u64, next: u64) -> u64 {
    let (a, b) = (one.to_le_bytes(), next.to_le_bytes());
    fnv1a(&[a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
}

/// Maximum number of bytes of a trace page read by one request; together with a header, one message.
pub const MAX_TRACE_READ_BYTES: u32 = 48 * 1024;

/// Returns the abstract socket name of a monitor: of the machine's root, or of the agent of one of its nodes.
///
/// All names contain the user id. [`parse_socket_name`] is used to find running machines.
#[must_use]
pub fn socket_name(user_id: u32, machine: &str, node: Option<&str>) -> alloc::string::String {
    match node {
        None => alloc::format!("tombolo/{user_id}/{machine}"),
        Some(node) => alloc::format!("tombolo/{user_id}/{machine}/{node}"),
    }
}

/// Parses a root's socket name into the user and the machine. Returns `None` for an agent's name, or any
/// other.
#[must_use]
pub fn parse_socket_name(name: &str) -> Option<(u32, &str)> {
    let (user_id, machine) = name.strip_prefix("tombolo/")?.split_once('/')?;
    (!machine.is_empty() && !machine.contains('/')).then_some((user_id.parse().ok()?, machine))
}

/// Cause given for a node that is neither up nor down yet.
pub const STARTING: &str = "starting";

impl Default for WindowInfo {
    fn default() -> Self {
        WindowInfo {
            id: 0,
            name: String::new(),
            nodes: alloc::vec::Vec::new(),
            bytes: (0, 0),
            trust: String::new(),
            home: NodeId::HOST,
            read_ns: 0,
            line_ns: 0,
        }
    }
}

impl NodeInfo {
    /// Describes a node that has not been started yet.
    #[must_use]
    pub fn new(id: NodeId, name: impl Into<String>, kind: NodeKind, isa: Isa) -> NodeInfo {
        NodeInfo {
            id,
            name: name.into(),
            kind,
            isa,
            generation: 1,
            up: false,
            cause: STARTING.into(),
            cores: 0,
            domains: 0,
            transport: None,
            window_bytes: (0, 0),
            boot: Duration::ZERO,
            pid: 0,
        }
    }

    /// Returns the target that programs for the node are built for.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { bare: self.kind == NodeKind::Bare, isa: self.isa }
    }

    /// Whether the node has been started and is not ready yet.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        !self.up && self.cause == STARTING
    }
}

#[cfg(test)]
mod tests;
