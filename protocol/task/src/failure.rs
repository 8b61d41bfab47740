//! Results and failures of tasks.

use alloc::string::String;

use crate::Bytes;

/// End of a task.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// The task returned this result.
    Done(Bytes),
    /// The task has no result.
    Failed(Failure),
}

/// Failure of a task.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Node that the task ran on, or was to run on; empty if it was not assigned to one.
    pub node: String,
    /// The message of a panic, or the evidence of a death; otherwise empty.
    pub text: String,
}

impl Failure {
    /// Creates a failure without a node and a text.
    #[must_use]
    pub fn new(kind: FailureKind) -> Failure {
        Failure { kind, node: String::new(), text: String::new() }
    }

    /// Adds a text to the failure.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Failure {
        Failure { text: text.into(), ..self }
    }
}

/// Kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FailureKind {
    /// The function panicked.
    Panicked = 1,
    /// The worker that it was assigned to died. The task may have run.
    Lost = 2,
    /// It was cancelled before it had a result.
    Cancelled = 3,
    /// The image of the worker has no function of this name and these types.
    UnknownFunction = 4,
    /// The argument cannot be decoded as its type.
    BadArgument = 5,
    /// The result exceeds the length of a message.
    TooLong = 6,
    /// There is no live worker on the required node. The task has not run.
    NoWorker = 7,
    /// The limit of tasks is reached. The task has not run.
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

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<FailureKind> {
        FailureKind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Reason why a task was not started.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no live worker that could run it.
    #[error("no worker that could run it lives")]
    NoWorker,
    /// The limit of tasks is reached.
    #[error("there are {0} tasks, as many as there may be; wait for some to end")]
    TooMany(u32),
}

/// Protocol violation by a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Violation {
    /// A message of this many bytes is malformed.
    #[error("a malformed message of {0} bytes")]
    Malformed(usize),
    /// The task that ended was not assigned to this worker, or has already ended.
    #[error("the end of task {0}, which it does not have")]
    NotAssigned(u32),
    /// The worker started two tasks with one number.
    #[error("two tasks under the number {0}")]
    DuplicateNumber(u32),
    /// The worker wants more tasks than the limit.
    #[error("it wants {0} more tasks")]
    TooManyWanted(u32),
    /// The message is for the other side.
    #[error("a message that only the other side sends")]
    WrongSide,
}
