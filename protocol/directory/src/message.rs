//! What ranks send each other.

use crate::ranks::{Rank, Ranks};

/// What a program may do with a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Access {
    /// Nothing: the page is invalid here.
    #[default]
    None,
    /// Read it: it is shared.
    Read,
    /// Read and write it: it is modified, and no other rank has it.
    Write,
}

/// A message; `C` is the content of a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<C> {
    /// To the home: the sender needs a page.
    Want {
        /// The page.
        page: u32,
        /// Never [`Access::None`].
        access: Access,
        /// How many of the pages that follow in the same block may be granted for reading as well.
        ahead: u8,
    },
    /// From the home: reduce the access to `leave`, and answer with [`Yield`](Message::Yield).
    Recall {
        /// The page.
        page: u32,
        /// What the receiver may keep.
        leave: Access,
        /// Whether the answer needs the content.
        content: bool,
    },
    /// To the home: a recall has been obeyed.
    Yield {
        /// The page.
        page: u32,
        /// What is in it, if asked for.
        content: Option<C>,
    },
    /// From the home: the receiver may access a page from now on.
    Grant {
        /// The page.
        page: u32,
        /// What it may do.
        access: Access,
        /// What is in it, if the receiver has no valid copy.
        content: Option<C>,
    },
    /// From the home: the only copy of the page is gone.
    Lost {
        /// The page.
        page: u32,
        /// The rank that died with it.
        with: Rank,
    },
    /// To a new home: the sender holds these pages.
    Held {
        /// The first page.
        first: u32,
        /// Their number.
        count: u32,
        /// How it holds them.
        access: Access,
    },
    /// To all, after all [`Held`](Message::Held): the sender knows that these died, and has reported what it
    /// holds of the pages that have another home for that.
    Reported {
        /// All that it knows to be dead.
        dead: Ranks,
    },
    /// To the home, with release consistency: in what the sender's copy differs from what it got.
    Difference {
        /// The page.
        page: u32,
        /// The [bytes](crate::difference) that differ.
        content: C,
    },
    /// To a home, with release consistency: answer when all differences that came before are merged.
    Confirm {
        /// The release of the sender.
        number: u64,
    },
    /// From a home: they are.
    Confirmed {
        /// The release of the receiver.
        number: u64,
    },
}

impl<C> Message<C> {
    /// The content that it carries.
    #[must_use]
    pub fn content(&self) -> Option<&C> {
        match self {
            Message::Yield { content, .. } | Message::Grant { content, .. } => content.as_ref(),
            Message::Difference { content, .. } => Some(content),
            _ => None,
        }
    }

    /// The same with another type of content.
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
