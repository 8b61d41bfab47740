//! Errors of shared pages.

use std::time::Duration;

use tombolo_platform::OsError;
use tombolo_platform::memory::Unavailable;

/// Decision about an access to a lost page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostAccess {
    /// The access ends the program with SIGBUS.
    Ends,
    /// The access waits for the same time again.
    Waits,
}

/// Waiting time of an access to a lost page, and the callback that is called afterwards.
pub(crate) type OnLoss = (Duration, fn(&LostPage) -> LostAccess);

/// A page whose content is lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("page {page} ({address:#x}) existed only at rank {rank} on {node}, which ended")]
pub struct LostPage {
    /// Index of the page in the range.
    pub page: u32,
    /// Address of the page.
    pub address: usize,
    /// Rank that held the only copy.
    pub rank: u32,
    /// Node of that rank.
    pub node: String,
}

/// Error of opening or using pages.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This node does not support such memory.
    #[error("this node cannot have pages in common with others: {0}")]
    Unavailable(#[from] Unavailable),
    /// A channel to another rank could not be opened.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
    /// A syscall failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The job has too many members.
    #[error("a job of {size} domains cannot have pages in common: use up to 64")]
    TooManyRanks {
        /// Number of members.
        size: u32,
    },
    /// The length of the range is not supported.
    #[error("{bytes} bytes cannot be in common: use 1 byte to {max_bytes} bytes")]
    Length {
        /// The requested length.
        bytes: u64,
        /// The maximum length.
        max_bytes: u64,
    },
    /// The parameters of the range are not supported.
    #[error("these pages cannot be in common: {0}")]
    Geometry(#[from] tombolo_directory::GeometryError),
    /// Two ranks opened different ranges, or their nodes have different page sizes.
    #[error(
        "rank {rank} on {node} opens the range with another {what}: {theirs}, and this rank with {ours}; use the same"
    )]
    Mismatch {
        /// The other rank.
        rank: u32,
        /// Its node.
        node: String,
        /// The property that differs.
        what: &'static str,
        /// The other's value.
        theirs: u64,
        /// The value here.
        ours: u64,
    },
    /// The content of a page is lost.
    #[error(transparent)]
    Lost(#[from] LostPage),
    /// A rank that this one waits for has ended.
    #[error("rank {rank} on {node} has ended, and this rank was waiting for it")]
    RankEnded {
        /// The rank.
        rank: u32,
        /// Its node.
        node: String,
    },
    /// A rank violated the protocol. Pages that it took part in cannot be trusted.
    #[error("rank {rank} on {node} broke the protocol of pages: {what}")]
    Violation {
        /// The rank.
        rank: u32,
        /// Its node.
        node: String,
        /// Description of the message.
        what: String,
    },
    /// The range cannot admit this rank.
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
    #[error("waited {timeout:?} in vain for {what}")]
    TimedOut {
        /// Operation that did not complete.
        what: &'static str,
        /// Timeout of the operation.
        timeout: Duration,
    },
    /// The service thread of the pages has ended.
    #[error("the pages are not served any more: {0}")]
    NotServed(String),
}
