//! What can go wrong with pages.

use std::time::Duration;

use tombolo_platform::OsError;
use tombolo_platform::memory::Unavailable;

/// What becomes of an access to a lost page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostAccess {
    /// It ends the program with SIGBUS.
    Ends,
    /// It waits as long again.
    Waits,
}

/// After how long of an access to a lost page what is called.
pub(crate) type OnLoss = (Duration, fn(&LostPage) -> LostAccess);

/// A page that is lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("page {page} ({address:#x}) existed only at rank {rank} on {node}, which ended")]
pub struct LostPage {
    /// The page, from the start of the range.
    pub page: u32,
    /// Where it is.
    pub address: usize,
    /// The rank that it was lost with.
    pub rank: u32,
    /// The node of that rank.
    pub node: String,
}

/// Why pages cannot be opened or used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This node cannot have such memory.
    #[error("this node cannot have pages in common with others: {0}")]
    Unavailable(#[from] Unavailable),
    /// A channel to another rank could not be opened.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
    /// The kernel refused something.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The job has too many members.
    #[error("a job of {size} domains cannot have pages in common: use up to 64")]
    TooManyRanks {
        /// Its size.
        size: u32,
    },
    /// The length of the range.
    #[error("{bytes} bytes cannot be in common: use 1 byte to {max_bytes} bytes")]
    Length {
        /// The length that was given.
        bytes: u64,
        /// The most.
        max_bytes: u64,
    },
    /// The range cannot be as it was asked for.
    #[error("these pages cannot be in common: {0}")]
    Unusable(#[from] tombolo_directory::Unusable),
    /// Two ranks open different ranges, or their nodes have pages of different sizes.
    #[error(
        "rank {rank} on {node} opens the range with another {what}: {theirs}, and this rank with {ours}; use the same"
    )]
    Mismatch {
        /// The other rank.
        rank: u32,
        /// Its node.
        node: String,
        /// What differs.
        what: &'static str,
        /// The other's value.
        theirs: u64,
        /// The value here.
        ours: u64,
    },
    /// The content is gone.
    #[error(transparent)]
    Lost(#[from] LostPage),
    /// A rank ended that others wait for.
    #[error("rank {rank} on {node} ended, which this rank waits for")]
    RankEnded {
        /// The rank.
        rank: u32,
        /// Its node.
        node: String,
    },
    /// A rank sent what the protocol does not allow. What it had a part in cannot be relied on.
    #[error("rank {rank} on {node} broke the protocol of pages: {what}")]
    Violation {
        /// The rank.
        rank: u32,
        /// Its node.
        node: String,
        /// What it sent.
        what: String,
    },
    /// A range takes no such rank.
    #[error("rank {rank} cannot come to these pages: ranks 1 to 63 can, each once, if rank 0 opened them so")]
    NoSuchRank {
        /// The rank.
        rank: u32,
    },
    /// There is no such page.
    #[error("page {page} is outside the range of {pages} pages")]
    NoSuchPage {
        /// The page.
        page: u32,
        /// Number of pages.
        pages: u32,
    },
    /// The deadline passed.
    #[error("{what} did not happen within {timeout:?}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        timeout: Duration,
    },
    /// The thread that serves the pages has ended.
    #[error("the pages are not served any more: {0}")]
    NotServed(String),
}
