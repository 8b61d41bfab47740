//! What a monitor has said of the side streams of children.

use std::collections::VecDeque;

use tombolo_base::DomainId;

use super::Arrived;

/// What is known of a child's side stream.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// What came and was not taken; an empty piece is the end. No more than the child's monitor lets be on
    /// its way.
    pub(crate) pieces: VecDeque<Vec<u8>>,
    /// There is a `SideStream` of it.
    pub(crate) taken: bool,
    /// What was sent last, until it is known to have been taken.
    pub(crate) sending: Option<u32>,
    /// Nothing more comes.
    pub(crate) ended: bool,
}

impl Side {
    /// Whether there is something to receive, or what was sent has been taken.
    pub(crate) fn is_ready(arrived: &Arrived, domain: DomainId) -> bool {
        arrived.sides.get(&domain).is_some_and(|side| {
            !side.pieces.is_empty() || side.sending.is_some_and(|request| arrived.has_reply(request))
        })
    }
}
