//! Side streams of children, as received from the monitor.

use std::collections::VecDeque;

use tombolo_base::DomainId;

use super::Inbox;

/// State of a child's side stream.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Pieces that arrived and were not taken; an empty piece marks the end. The child's monitor limits their
    /// total size.
    pub(crate) pieces: VecDeque<Vec<u8>>,
    /// Whether a `SideStream` exists for it.
    pub(crate) taken: bool,
    /// Request number of the last piece sent, until it is known to have been accepted.
    pub(crate) sending: Option<u32>,
    /// Whether the stream has ended.
    pub(crate) ended: bool,
}

impl Side {
    /// Whether there is something to receive, or the last piece sent has been accepted.
    pub(crate) fn is_ready(arrived: &Inbox, domain: DomainId) -> bool {
        arrived.sides.get(&domain).is_some_and(|side| {
            !side.pieces.is_empty() || side.sending.is_some_and(|request| arrived.has_reply(request))
        })
    }
}
