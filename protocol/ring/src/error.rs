//! Errors of a ring, classified by the party that caused them.

/// Protocol violation by the peer. The ring has failed permanently: its contents can no longer be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    /// A slot has neither its next tag nor its previous one.
    #[error("slot position {position} has lap tag {found:#06x}, expected {expected:#06x}")]
    LapTag { position: u64, expected: u16, found: u16 },
    /// Reserved bits are not zero.
    #[error("slot position {position} has control word {word:#018x}, with reserved bits set")]
    ReservedBits { position: u64, word: u64 },
    /// A slot claims more bytes than it holds, a continuation is empty, or a slot is not full although its
    /// message continues.
    #[error("slot position {position} claims an impossible payload of {length_bytes} bytes")]
    FragmentLength { position: u64, length_bytes: u8 },
    /// A message was published before all of its slots were written.
    #[error("slot position {position} continues a published message and was not written")]
    FragmentMissing { position: u64 },
    /// A message is longer than the agreed limit.
    #[error("the message at slot position {position} is longer than the agreed {max_bytes} bytes")]
    MessageTooLong { position: u64, max_bytes: usize },
    /// The producer claims to have closed at an impossible position.
    #[error("the producer closed at slot position {closed_at}, while {position} is next to be consumed")]
    CloseOutOfRange { closed_at: u64, position: u64 },
    /// The consumer acknowledges slots that were never sent.
    #[error("the consumer acknowledges {credit} slots, but only {sent} were sent")]
    CreditBeyondSent { credit: u64, sent: u64 },
    /// The consumer acknowledges less than before.
    #[error("the consumer acknowledges {credit} slots, fewer than {before} earlier")]
    CreditWentBack { credit: u64, before: u64 },
}

/// Error of a message that was not sent. The ring is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum SendError {
    /// There is no room until the consumer returns slots.
    #[error("the ring is full until the receiver consumes more")]
    Full,
    /// The message exceeds the ring's limit and will never fit.
    #[error("a message of {len_bytes} bytes exceeds this ring's limit of {max_bytes} bytes")]
    TooLong { len_bytes: usize, max_bytes: usize },
    /// Either end closed the ring.
    #[error("the ring is closed")]
    Closed,
    /// This end was abandoned with [`Producer::abandon`](crate::Producer::abandon).
    #[error("this end of the ring was abandoned after its peer was reported dead")]
    Abandoned,
    /// The consumer violated the protocol. The ring has failed permanently.
    #[error("the receiver broke the ring protocol: {0}")]
    Violation(#[from] Violation),
}

/// Error of a ring from which nothing more can be received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecvError {
    /// The producer closed and everything it sent was received, or this end was closed.
    #[error("the ring is closed and empty")]
    Closed,
    /// The producer violated the protocol. The ring has failed permanently.
    #[error("the sender broke the ring protocol: {0}")]
    Violation(#[from] Violation),
}

/// Error of an access outside a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("bytes {offset_bytes}..+{length_bytes} do not lie in a message of {message_bytes} bytes")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct OutOfMessage {
    pub offset_bytes: usize,
    pub length_bytes: usize,
    pub message_bytes: usize,
}

impl OutOfMessage {
    #[inline]
    pub(crate) fn check(offset_bytes: usize, length_bytes: usize, message_bytes: usize) -> Result<(), Self> {
        if length_bytes <= message_bytes && offset_bytes <= message_bytes - length_bytes {
            Ok(())
        } else {
            Err(OutOfMessage { offset_bytes, length_bytes, message_bytes })
        }
    }
}

/// Error of a copy into a buffer shorter than the message. Nothing was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of {message_bytes} bytes does not fit in a buffer of {target_bytes} bytes")]
#[allow(missing_docs, reason = "the messages name the fields")]
pub struct TargetTooShort {
    pub message_bytes: usize,
    pub target_bytes: usize,
}
