//! Engines that copy and fill memory by different means, and a manager that chooses among them.
//!
//! An [`Engine`] accepts [requests](Request), executes them in order, and reports the completion of each
//! once. The engines here are the processor, on the caller's thread ([`cpu::Caller`]) or on others
//! ([`cpu::Threads`]); the kernel, between processes that share nothing ([`attach::Attach`]); the far side
//! of a channel, which sends bytes or copies with its own processor ([`far::Far`]); and the copy engine of
//! a GPU ([`cuda::Cuda`]).
//!
//! A [`Manager`] knows the measured cost of each by length, picks the cheapest that can do a request, and
//! says why.
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
