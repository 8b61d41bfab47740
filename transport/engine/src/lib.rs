//! Engines that copy and fill memory by different means, and a manager that chooses between them.
//!
//! An [`Engine`] accepts [requests](Request), executes them in order, and reports the completion of each
//! exactly once. The engines are: the processor, on the calling thread ([`cpu::Caller`]) or on other threads
//! ([`cpu::Threads`]); the kernel, between processes that share no memory ([`attach::Attach`]); the peer of a
//! channel, which copies itself or sends the bytes over the channel ([`far::Far`]); and the copy engine of a
//! GPU ([`cuda::Cuda`]).
//!
//! A [`Manager`] holds the measured cost of each engine by length, picks the cheapest engine that can execute
//! a request, and explains its choice.
#![forbid(unsafe_code)]

pub mod attach;
mod calibration;
mod contract;
pub mod cpu;
pub mod cuda;
pub mod far;
mod manager;
mod queue;
mod request;

pub use calibration::{Direction, Effort, NotMeasured, measure};
pub use contract::{Abilities, Engine, Rejected, RejectionReason, finish};
pub use manager::{Candidate, Choice, Estimate, Manager, Ticket, Unable, declared};
pub use request::{Completion, Failure, Location, Operation, Refusal, Request, RequestId};
pub use tombolo_link::copy_cost::{Curve, CurveError, MAX_POINTS, OperationKind, Reach, Route};
