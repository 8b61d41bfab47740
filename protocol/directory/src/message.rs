//! Messages between ranks.

use crate::ranks::{Rank, Ranks};

/// Access of a program to a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Access {
    /// No access: the page is invalid here.
    #[default]
    None,
    /// Read access: the page is shared.
    Read,
    /// Read and write access: the page is modified, and no other rank has it.
    Write,
}

/// Message between ranks; `C` is the content of a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<C> {
    /// Request to the home for access to a page.
    Want {
        /// Number of the page.
        page: u32,
        /// Requested access; never [`Access::None`].
        access: Access,
        /// Number of following pages in the same block that may be granted for reading as well.
        ahead: u8,
    },
    /// Order of the home to reduce the access to `leave`, answered with [`Yield`](Message::Yield).
    Recall {
        /// Number of the page.
        page: u32,
        /// Access that the receiver may keep.
        leave: Access,
        /// Whether the answer must contain the content.
        content: bool,
    },
    /// Answer to the home that a recall has been obeyed.
    Yield {
        /// Number of the page.
        page: u32,
        /// Content of the page, if requested.
        content: Option<C>,
    },
    /// Grant of the home: the receiver may access a page from now on.
    Grant {
        /// Number of the page.
        page: u32,
        /// Granted access.
        access: Access,
        /// Content of the page, if the receiver has no valid copy.
        content: Option<C>,
    },
    /// Report of the home that the only copy of the page is gone.
    Lost {
        /// Number of the page.
        page: u32,
        /// Rank that died with it.
        with: Rank,
    },
    /// Report to a new home that the sender holds these pages.
    Held {
        /// Number of the first page.
        first: u32,
        /// Number of pages.
        count: u32,
        /// Access of the sender.
        access: Access,
    },
    /// Report to all, after all [`Held`](Message::Held), that the sender knows of these deaths and has
    /// reported the pages that it holds and that have another home because of them.
    Reported {
        /// All ranks that it knows to be dead.
        dead: Ranks,
    },
    /// Difference of the sender's copy from the content that it got, to the home, with release consistency.
    Difference {
        /// Number of the page.
        page: u32,
        /// [Difference](crate::difference), encoded.
        content: C,
    },
    /// Request to a home, with release consistency, to confirm that all earlier differences are merged.
    Confirm {
        /// Number of the sender's release.
        number: u64,
    },
    /// Confirmation of a home that they are merged.
    Confirmed {
        /// Number of the receiver's release.
        number: u64,
    },
}

impl<C> Message<C> {
    /// Returns the content that the message carries.
    #[must_use]
    pub fn content(&self) -> Option<&C> {
        match self {
            Message::Yield { content, .. } | Message::Grant { content, .. } => content.as_ref(),
            Message::Difference { content, .. } => Some(content),
            _ => None,
        }
    }

    /// Returns the same message with another type of content.
    pub fn map<D>(self, change: impl FnOnce(C) -> D) -> Message<D> {
        match self {
            Message::Want { page, access, ahead } => Message::Want { page, access, ahead },
            Message::Recall { page, leave, content } => Message::Recall { page, leave, content },
            Message::Yield { page, content } => Message::Yield { page, content: content.map(change) },
            Message::Grant { page, access, content } => {
                Message::Grant { page, access, content: content.map(change) }
            }
            Message::Lost { page, with } => Message::Lost { page, with },
            Message::Held { first, count, access } => Message::Held { first, count, access },
            Message::Reported { dead } => Message::Reported { dead },
            Message::Difference { page, content } => Message::Difference { page, content: change(content) },
            Message::Confirm { number } => Message::Confirm { number },
            Message::Confirmed { number } => Message::Confirmed { number },
        }
    }
}
