//! Names: the records of a node or a machine, the sessions that wait for them, and the locks that sessions
//! hold.
//!
//! [`Naming`] is the state machine of one scope, a node or the machine, with its records, queries, watches,
//! locks, semaphores and barriers. Its inputs are requests, ends of sessions and time; its outputs are
//! answers and notices. It never blocks, reads no clock and is `no_std`, so monitors, the simulator and tests
//! run the same code.
//!
//! **Invariant:** everything that a session holds is released when the session is closed, and a session is
//! closed only on evidence that it ended.
//!
//! **Invariant:** every request takes a bounded number of steps ([`Limits`]), for any pattern.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod fault;
mod held;
mod limits;
mod name;
#[rustfmt::skip]
pub mod name_faults;
#[rustfmt::skip]
pub mod names;
mod operation;
pub mod pattern;
mod query;
mod record;
#[rustfmt::skip]
pub mod records;
mod store;
mod text;
mod value;

pub use limits::Limits;
pub use name::{MAX_ATTRIBUTE_BYTES, MAX_NAME_BYTES, NaturalName, is_attribute, is_name, split_scope};
pub use name_faults::NameFault;
pub use names::{
    Answer, Condition, DeleteCause, EndCause, Event, EventMask, Lifetime, Notice, ObjectInfo, Operation,
    SetMode,
};
pub use query::Matcher;
pub use record::AttributeError;
pub use records::{Comparison, Constraint, NamePattern, Query, Record, Scope, Test, Value};
pub use store::{Endpoint, Naming, Nanos, Output, Session};
pub use text::{TextError, parse_query, parse_record};
pub use value::{Attributes, Float};
