//! How tasks end.

use alloc::string::String;

use crate::Bytes;

/// How a task ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// With this result.
    Done(Bytes),
    /// Without one.
    Failed(Failure),
}

/// Why a task has no result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Failure {
    /// What became of the task.
    pub kind: FailureKind,
    /// The node that it ran on, or was to run on; empty when it was not given to one.
    pub node: String,
    /// The message of a panic, or the evidence of a death; otherwise empty.
    pub text: String,
}

impl Failure {
    /// A failure without a node and a text.
    #[must_use]
    pub fn new(kind: FailureKind) -> Failure {
        Failure { kind, node: String::new(), text: String::new() }
    }

    /// The same with this text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Failure {
        Failure { text: text.into(), ..self }
    }
}

/// Why a task has no result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FailureKind {
    /// The function panicked.
    Panicked = 1,
    /// The worker that it was given to died. It may have run.
    Lost = 2,
    /// It was cancelled before it had a result.
    Cancelled = 3,
    /// The image of the worker has no function of this name and these types.
    UnknownFunction = 4,
    /// The argument is not a value of its type.
    BadArgument = 5,
    /// The result is longer than a message may be.
    TooLong = 6,
    /// No worker that lives is on the node that it is for; it has not run.
    NoWorker = 7,
    /// There are as many tasks as there may be; it has not run.
    TooMany = 8,
}

impl FailureKind {
    const ALL: [FailureKind; 8] = [
        FailureKind::Panicked,
        FailureKind::Lost,
        FailureKind::Cancelled,
        FailureKind::UnknownFunction,
        FailureKind::BadArgument,
        FailureKind::TooLong,
        FailureKind::NoWorker,
        FailureKind::TooMany,
    ];

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<FailureKind> {
        FailureKind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Why a task was not started.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// No worker that could run it lives.
    #[error("no worker that could run it lives")]
    NoWorker,
    /// The limit of tasks is reached.
    #[error("there are {0} tasks, as many as there may be; wait for some to end")]
    TooMany(u32),
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Violation {
    /// A message of this many bytes that is not one.
    #[error("a malformed message of {0} bytes")]
    Malformed(usize),
    /// The end of a task that was not given to this worker, or has ended.
    #[error("the end of task {0}, which it does not have")]
    NotIts(u32),
    /// It began two tasks under one number.
    #[error("two tasks under the number {0}")]
    Twice(u32),
    /// It wants more tasks than there may be.
    #[error("it wants {0} more tasks")]
    Wants(u32),
    /// A message for the other side.
    #[error("a message that only the other side sends")]
    WrongSide,
}
