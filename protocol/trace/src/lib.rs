//! Traces of a machine: what domains record while they run, and how the records of all nodes are merged into
//! one file.
//!
//! Each domain has a *page*, memory that it shares with the monitor of its node. It holds a control word that
//! turns tracing on, counters for each end of a channel, and rings of events, one per thread, called *lanes*
//! ([`layout`], [`page`]). A recorder reads the pages from outside ([`snapshot`]) into a file ([`mod@file`]),
//! including the events of a domain that was killed. Nodes have no common clock: [`merge`] puts their events
//! into causal order by matching the n-th message sent on a channel with the n-th received. [`perfetto`]
//! exports the result and [`stats`] summarises it.
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
