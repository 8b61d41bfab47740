//! Runtime library of generated stubs: the wire format of typed messages, clients and servers.
//!
//! `no_std`. Encoding and decoding never panic on any input of a peer, and allocate only for [`owned`]
//! values. Clients and servers allocate when they are created, and when an answer arrives that is not awaited
//! yet. Time and bytes come from a [`Port`]. The format is specified in `docs/specs/interface.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod client;
mod declare;
pub mod encode;
mod error;
mod fits;
pub mod flight;
pub mod local;
mod macros;
pub mod message;
pub mod owned;
mod owned_macros;
mod port;
pub mod server;
mod source;
pub mod view;

pub use alloc::collections::BTreeMap;
pub use alloc::string::String;
pub use alloc::vec::Vec;
pub use client::{Answer, BindError, CallError, Called, Client, Pending};
pub use declare::{Declined, Event, Hears, Interface, Method, OneWay, Request, Serves};
pub use encode::{Body, Encode};
pub use error::{Malformed, OverLimit};
pub use fits::Fits;
#[doc(hidden)]
pub use macros::lower_case;
pub use message::{Fault, Header, Kind, Outgoing};
pub use owned::{Envelope, Holds, HoldsPair, Messages, Unsendable};
pub use port::{Carries, Connect, Port, Sent, Waited};
pub use server::{
    Call, Decline, Incoming, MAX_OUTSTANDING, Outcome, ReplyError, Responder, Response, ServeError, Served,
    Server,
};
pub use source::{InPlace, Sink, Source};
pub use tombolo_base::DomainId;
pub use view::{Array, Blob, Budget, Domain, Handle, List, Never, Record, Text, View};

/// Right to an endpoint; moved to the receiver if `MOVED`.
pub type Endpoint<const MOVED: bool> = Handle<1, MOVED>;
/// Right to a region; moved to the receiver if `MOVED`.
pub type Region<const MOVED: bool> = Handle<2, MOVED>;
/// Right to any object; moved to the receiver if `MOVED`.
pub type Capability<const MOVED: bool> = Handle<3, MOVED>;
/// Bulk memory from a pool; moved to the receiver if `MOVED`.
pub type Buffer<const MOVED: bool> = Handle<4, MOVED>;
