//! Traces of a machine: the pages that domains write while they run, and their evaluation.
//!
//! Each domain has a *page*, memory that it shares with the monitor of its node: a control word that turns
//! tracing on, a row of counters for each channel end, and rings of events, one per thread, called *lanes*
//! ([`layout`], [`page`]). A recorder reads pages from outside ([`snapshot`]) into a file ([`mod@file`]),
//! which also holds what a domain wrote just before it was killed. Nodes have no common clock: [`merge`]
//! puts their events in causal order by matching the n-th message sent on a channel with the n-th received;
//! [`perfetto`] and [`stats`] evaluate the result.
//!
//! `no_std`, no I/O, no clock: time is an argument.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod clock;
pub mod event;
pub mod file;
pub mod layout;
pub mod merge;
pub mod page;
pub mod perfetto;
pub mod snapshot;
pub mod stats;

pub use event::{Event, EventKind};
pub use layout::Shape;
