//! Names: what a node or a machine knows under which name, who waits for it, and who holds what.
//!
//! [`Naming`] is the whole state machine of one scope, a node or the machine: records with attributes, queries,
//! watches, and the locks, semaphores and barriers that live beside them. Requests, the ends of sessions and time go
//! in; answers and notices come out. It blocks on nothing, reads no clock and is `no_std`, so monitors, simulators and
//! tests drive the same code.
//!
//! **Invariant:** whatever a session holds goes when the session is closed, and a session is closed on evidence of
//! its end alone.
//!
//! **Invariant:** no request costs more than a bounded number of steps ([`Limits`]), whatever pattern it brings.
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
