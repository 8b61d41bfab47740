//! What goes wrong with tasks.

use std::time::Duration;

use tombolo_placement::PlacementError;
use tombolo_task::{Failure, FailureKind, Refusal, wire};

/// Why a task has no result, or was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// Its function panicked; in C it returned an error, in Python it raised an exception.
    #[error("task '{task}' on {node} failed: {message}")]
    Panicked {
        /// The name of its function.
        task: String,
        /// The node that it ran on.
        node: String,
        /// The message of the panic or error.
        message: String,
    },
    /// Its worker died. It may have run, and is not run again.
    #[error("task '{task}' is lost: its worker on {node} has ended ({why})")]
    Lost {
        /// The name of its function.
        task: String,
        /// The node of the worker; empty when the tasks of the whole program have ended.
        node: String,
        /// The evidence.
        why: String,
    },
    /// It was cancelled before it had a result.
    #[error("task '{task}' was cancelled")]
    Cancelled {
        /// The name of its function.
        task: String,
        /// The node that it ran on; empty when it had not begun.
        node: String,
    },
    /// The image of the worker has no such function.
    #[error(
        "the worker on {node} has no function '{task}' of these types; \
         register it before `run_worker`, with the types that it is started with"
    )]
    UnknownFunction {
        /// The name of the function.
        task: String,
        /// The node of the worker.
        node: String,
    },
    /// What came is not a value of the type of the argument or the result.
    #[error("the {what} of task '{task}' on {node} is not a value of its type; mend its `Value`")]
    BadValue {
        /// The name of its function.
        task: String,
        /// The node.
        node: String,
        /// `argument` or `result`.
        what: &'static str,
    },
    /// An argument or a result is too long for a message.
    #[error(
        "the {what} of task '{task}' is longer than {} bytes; send it through a hub or a pool",
        wire::MAX_VALUE_BYTES
    )]
    TooLong {
        /// The name of its function.
        task: String,
        /// `argument` or `result`.
        what: &'static str,
    },
    /// No worker that lives is on its node; it has not run.
    #[error("no worker for task '{task}' lives on {node}; start workers there: `Tasks::start(…, \"NODE\")`")]
    NoWorker {
        /// The name of its function.
        task: String,
        /// The node, or `any node`.
        node: String,
    },
    /// There are as many tasks as there may be; it has not run.
    #[error("task '{task}' was not started: there are as many tasks as there may be; wait for some to end")]
    TooMany {
        /// The name of its function.
        task: String,
    },
    /// It has not ended in time, and goes on.
    #[error("task '{task}' has not ended in {} s; wait longer with `join_within`, or cancel it", timeout.as_secs_f64())]
    TimedOut {
        /// The name of its function.
        task: String,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// A worker did not start.
    #[error("a worker on {node} did not start: {why}")]
    NotStarted {
        /// The node.
        node: String,
        /// Why not.
        why: String,
    },
    /// The text that is to name the type of an argument or a result does not.
    #[error(
        "'{text}', the type of the {what} of task '{task}', is not a type: write u8 to u64, i8 to i64, f32, f64, bool, \
         unit, text, the name of a declared type, or a tuple of 2 to 4, such as (u64, text)"
    )]
    BadType {
        /// The name of its function.
        task: String,
        /// `argument` or `result`.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// Workers cannot be placed.
    #[error(transparent)]
    Placement(PlacementError),
    /// Something beneath failed.
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
