//! Tasks: functions that a program starts on workers of different kinds of nodes.
//!
//! A *starter* has workers, each of which runs any number of tasks as light-weight threads, one at a time.
//! The functions may wait for each other, so the number of tasks on a worker is not bounded by its
//! processors: a worker reports how many more it *wants* when one of its tasks has ended or waits for
//! something.
//!
//! * [`Scheduler`] is the starter's side: the queue, the assignment by measured speed, cancellation, and the
//!   handling of tasks of a worker that died. Its inputs are starts, messages of workers, their ends and
//!   time; its outputs are messages to workers and ends of tasks.
//! * [`wire`] defines the messages between the two.
//!
//! **Invariant:** every task that was started ends once: with its result, a failure, or the loss of its
//! worker.
//!
//! **Invariant:** a task is assigned to at most one worker, so that it runs at most once.
//!
//! `no_std`, no I/O, no clock.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod failure;
mod scheduler;
mod share;
#[cfg(test)]
mod tests;
pub mod wire;

pub use failure::{End, Failure, FailureKind, Refusal, Violation};
pub use scheduler::{Limits, Nanos, Origin, Output, Scheduler, TaskId, WorkerId, WorkerUsage};
pub use wire::Message;

/// Encoded argument or result.
pub type Bytes = alloc::boxed::Box<[u8]>;
