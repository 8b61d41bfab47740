//! Errors of operations on shared objects.

use std::time::Duration;

use tombolo_onesided::NoSpace;
use tombolo_placement::NoCommonWindow;
use tombolo_sharing::Fault;

/// Error of an operation that was not performed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The deadline passed.
    #[error("{what} within {timeout:?}{}", rank_text(*.rank))]
    TimedOut {
        /// The operation that failed.
        what: String,
        /// Timeout of the operation.
        timeout: Duration,
        /// The rank that it was waiting for.
        rank: Option<u32>,
    },
    /// A rank died while it wrote the object, which may be half written.
    #[error(
        "rank {rank} died while it wrote the object, which may be half written: write all of it with repair()"
    )]
    WriterDied {
        /// The rank; the lowest of several.
        rank: u32,
    },
    /// The operation needs a rank that has ended.
    #[error("rank {rank} has ended; {what} needs it")]
    RankEnded {
        /// The rank.
        rank: u32,
        /// The operation that needs it.
        what: &'static str,
    },
    /// This rank holds a guard of the object already.
    #[error("this rank has a guard of the object already, by another handle; drop that first")]
    AlreadyHeld,
    /// The object cannot be used.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The memory of this rank's objects is full.
    #[error("no room for an object: {0}; join with a larger memory_bytes")]
    NoSpace(#[from] NoSpace),
    /// An index space is full.
    #[error("the index space has room for {capacity} indexes; create it with more")]
    SpaceFull {
        /// Maximum number of indices.
        capacity: u64,
    },
    /// A rank sent a value of another length.
    #[error(
        "rank {rank} sent {length_bytes} bytes where others expect {expected_bytes}: call the same collective"
    )]
    Unequal {
        /// The rank.
        rank: u32,
        /// Length of the value that it sent.
        length_bytes: usize,
        /// Length of this rank's value.
        expected_bytes: usize,
    },
    /// A remote call failed at the called rank.
    #[error("rank {rank} could not do '{method}': {why}")]
    CallFailed {
        /// The rank.
        rank: u32,
        /// The method.
        method: &'static str,
        /// Text of its error.
        why: String,
    },
    /// The job cannot start.
    #[error("the job cannot share objects: {why}")]
    Refused {
        /// Explanation of the problem.
        why: String,
    },
    /// The ranks have no memory in common.
    #[error(transparent)]
    NoWindow(#[from] NoCommonWindow),
    /// A name, a channel, a region or the monitor failed.
    #[error(transparent)]
    Domain(#[from] tombolo::Error),
}

fn rank_text(rank: Option<u32>) -> String {
    rank.map(|rank| format!("; rank {rank} has it, or comes first")).unwrap_or_default()
}
