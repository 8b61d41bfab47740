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
mod limits;
mod name;
mod operation;
pub mod pattern;
mod query;
mod record;
mod store;
mod text;
mod value;

pub use fault::NameFault;
pub use limits::Limits;
pub use name::{MAX_ATTRIBUTE_BYTES, MAX_NAME_BYTES, NaturalName, Scope, is_attribute, is_name, split_scope};
pub use operation::{
    Answer, Condition, DeleteCause, EndCause, Event, EventMask, Lifetime, Notice, ObjectInfo, Operation,
    SetMode,
};
pub use query::{Comparison, Constraint, Matcher, NamePattern, Query, Test};
pub use record::{AttributeError, Record};
pub use store::{Endpoint, Naming, Nanos, Output, Session};
pub use text::{TextError, parse_query, parse_record};
pub use value::{Attributes, Float, Value};
