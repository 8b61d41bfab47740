//! Errors of tasks.

use std::time::Duration;

use tombolo_placement::PlacementError;
use tombolo_task::{Failure, FailureKind, Refusal, wire};

/// Reason why a task has no result, or was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The function panicked; in C it returned an error, in Python it raised an exception.
    #[error("task '{task}' on {node} failed: {message}")]
    Panicked {
        /// Name of the function.
        task: String,
        /// Node that the task ran on.
        node: String,
        /// Message of the panic or error.
        message: String,
    },
    /// The worker died. The task may have run, and is not run again.
    #[error("task '{task}' is lost: its worker on {node} has ended ({why})")]
    Lost {
        /// Name of the function.
        task: String,
        /// Node of the worker; empty if the tasks of the whole program have ended.
        node: String,
        /// Evidence of the death.
        why: String,
    },
    /// The task was cancelled before it had a result.
    #[error("task '{task}' was cancelled")]
    Cancelled {
        /// Name of the function.
        task: String,
        /// Node that the task ran on; empty if it had not begun.
        node: String,
    },
    /// The image of the worker has no such function.
    #[error(
        "the worker on {node} has no function '{task}' of these types; \
         register it before `run_worker`, with the types that it is started with"
    )]
    UnknownFunction {
        /// Name of the function.
        task: String,
        /// Node of the worker.
        node: String,
    },
    /// The bytes are not a valid value of the argument's or result's type.
    #[error("the {what} of task '{task}' on {node} is not a value of its type; mend its `Value`")]
    BadValue {
        /// Name of the function.
        task: String,
        /// Node of the task.
        node: String,
        /// Either `argument` or `result`.
        what: &'static str,
    },
    /// An argument or a result is too long for a message.
    #[error(
        "the {what} of task '{task}' is longer than {} bytes; send it through a hub or a pool",
        wire::MAX_VALUE_BYTES
    )]
    TooLong {
        /// Name of the function.
        task: String,
        /// Either `argument` or `result`.
        what: &'static str,
    },
    /// There is no live worker on the requested node; the task has not run.
    #[error("no worker for task '{task}' lives on {node}; start workers there: `Tasks::start(…, \"NODE\")`")]
    NoWorker {
        /// Name of the function.
        task: String,
        /// Name of the node, or `any node`.
        node: String,
    },
    /// The maximum number of tasks is reached; the task has not run.
    #[error("task '{task}' was not started: there are as many tasks as there may be; wait for some to end")]
    TooMany {
        /// Name of the function.
        task: String,
    },
    /// The task has not ended in time, and continues to run.
    #[error("task '{task}' has not ended in {} s; wait longer with `join_within`, or cancel it", timeout.as_secs_f64())]
    TimedOut {
        /// Name of the function.
        task: String,
        /// Timeout of the wait.
        timeout: Duration,
    },
    /// A worker did not start.
    #[error("a worker on {node} did not start: {why}")]
    NotStarted {
        /// Node of the worker.
        node: String,
        /// Reason of the failure.
        why: String,
    },
    /// The name of an argument's or result's type is invalid.
    #[error(
        "'{text}', the type of the {what} of task '{task}', is not a type: write u8 to u64, i8 to i64, f32, f64, bool, \
         unit, text, the name of a declared type, or a tuple of 2 to 4, such as (u64, text)"
    )]
    BadType {
        /// Name of the function.
        task: String,
        /// Either `argument` or `result`.
        what: &'static str,
        /// The invalid name.
        text: String,
    },
    /// The workers cannot be placed.
    #[error(transparent)]
    Placement(PlacementError),
    /// An operation of the underlying library failed.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
}

impl From<PlacementError> for TaskError {
    fn from(error: PlacementError) -> TaskError {
        match error {
            PlacementError::Machine(error) => TaskError::Tombolo(error),
            error => TaskError::Placement(error),
        }
    }
}

impl TaskError {
    pub(crate) fn of(task: &str, failure: Failure) -> TaskError {
        let (task, node) = (task.to_owned(), failure.node);
        match failure.kind {
            FailureKind::Panicked => TaskError::Panicked { task, node, message: failure.text },
            FailureKind::Lost => TaskError::Lost { task, node, why: failure.text },
            FailureKind::Cancelled => TaskError::Cancelled { task, node },
            FailureKind::UnknownFunction => TaskError::UnknownFunction { task, node },
            FailureKind::BadArgument => TaskError::BadValue { task, node, what: "argument" },
            FailureKind::TooLong => TaskError::TooLong { task, what: "result" },
            FailureKind::NoWorker => TaskError::NoWorker { task, node: or_any(node) },
            FailureKind::TooMany => TaskError::TooMany { task },
        }
    }

    pub(crate) fn refused(task: &str, node: &str, refusal: Refusal) -> TaskError {
        let task = task.to_owned();
        match refusal {
            Refusal::NoWorker => TaskError::NoWorker { task, node: or_any(node.to_owned()) },
            Refusal::TooMany(_) => TaskError::TooMany { task },
        }
    }
}

fn or_any(node: String) -> String {
    if node.is_empty() { "any node".to_owned() } else { node }
}
