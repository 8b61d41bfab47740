//! Engines: what copies and fills, each in its own way, and who chooses among them.
//!
//! An [`Engine`] takes [requests](Request), does them one after the other, and says what came of each, once. Those here are
//! the processor, on the caller's thread ([`cpu::Caller`]) or on others ([`cpu::Threads`]); the kernel, between processes
//! that share nothing ([`attach::Attach`]); the far side, told over a channel what to do, by bytes that the channel carries or by
//! its own processor ([`far::Far`]); and a graphics processor's copy engine ([`cuda::Cuda`]).
//!
//! A [`Manager`] has measured what each costs by the length, picks the cheapest that can, and says why.
#![forbid(unsafe_code)]

pub mod attach;
mod calibration;
mod contract;
pub mod cpu;
pub mod cuda;
mod curve;
pub mod far;
mod manager;
mod queue;
mod request;

pub use calibration::{Direction, Effort, NotMeasured, measure};
pub use contract::{Abilities, Engine, Rejected, WhyRejected, finish};
pub use curve::{Curve, CurveError, MAX_POINTS};
pub use manager::{Candidate, Choice, Estimate, Manager, Ticket, Unable, declared};
pub use request::{
    Completion, Failure, Location, Operation, OperationKind, Reach, Refusal, Request, RequestId, Route,
};
