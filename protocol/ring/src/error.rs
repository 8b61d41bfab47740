//! What can go wrong, and whose doing it was.

/// The peer broke the ring protocol. The ring stays failed: nothing it holds can be believed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// A slot has neither the tag that it should get next nor the one from before.
    #[error("slot position {position} has lap tag {found:#06x}, expected {expected:#06x}")]
    LapTag {
        /// Position from the start of the ring's life.
        position: u64,
        /// The tag of that position.
        expected: u16,
        /// What was there.
        found: u16,
    },
    /// Bits that must be zero are not.
    #[error("slot position {position} has control word {word:#018x}, with reserved bits set")]
    ReservedBits {
        /// Position from the start of the ring's life.
        position: u64,
        /// The whole word.
        word: u64,
    },
    /// More bytes than a slot has, none in a continuation, or a slot that is not full though the message goes on.
    #[error("slot position {position} claims {length_bytes} bytes of payload, which cannot be")]
    FragmentLength {
        /// Position from the start of the ring's life.
        position: u64,
        /// What it claims.
        length_bytes: u8,
    },
    /// A message was published before all of its slots were.
    #[error("slot position {position} continues a published message and was not written")]
    FragmentMissing {
        /// Position of the slot that is missing.
        position: u64,
    },
    /// A message is longer than the agreed limit.
    #[error("the message at slot position {position} is longer than the agreed {max_bytes} bytes")]
    MessageTooLong {
        /// Position of its first slot.
        position: u64,
        /// The limit.
        max_bytes: usize,
    },
    /// The producer says that it closed where it cannot have.
    #[error("the producer closed at slot position {closed_at}, while {position} is next to be consumed")]
    CloseOutOfRange {
        /// Where it says it closed.
        closed_at: u64,
        /// The consumer's position.
        position: u64,
    },
    /// The consumer acknowledges what was not sent.
    #[error("the consumer acknowledges {credit} slots of {sent} that were sent")]
    CreditBeyondSent {
        /// Slots acknowledged.
        credit: u64,
        /// Slots sent.
        sent: u64,
    },
    /// The consumer takes back what it had acknowledged.
    #[error("the consumer acknowledges {credit} slots after it had acknowledged {before}")]
    CreditWentBack {
        /// Slots acknowledged now.
        credit: u64,
        /// Slots acknowledged before.
        before: u64,
    },
}

/// A message was not sent; the ring is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// There is no room until the consumer gives slots back.
    #[error("the ring has no room until the receiver has consumed more")]
    Full,
    /// Longer than the ring's limit; it would never fit.
    #[error("a message of {len_bytes} bytes is longer than this ring's limit of {max_bytes}")]
    TooLong {
        /// Length of the message.
        len_bytes: usize,
        /// The ring's limit.
        max_bytes: usize,
    },
    /// This end or the other closed the ring.
    #[error("the ring is closed")]
    Closed,
    /// This end gave the ring up with [`Producer::abandon`](crate::Producer::abandon).
    #[error("the ring was given up")]
    Abandoned,
    /// The consumer broke the protocol; the ring has failed for good.
    #[error("the receiver broke the ring protocol: {0}")]
    Violation(#[from] Violation),
}

/// No message can be received any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecvError {
    /// The producer closed and all that it sent was received, or this end was closed.
    #[error("the ring is closed and empty")]
    Closed,
    /// The producer broke the protocol; the ring has failed for good.
    #[error("the sender broke the ring protocol: {0}")]
    Violation(#[from] Violation),
}

/// A range does not lie in the message that it was asked of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("bytes {offset_bytes}..+{length_bytes} do not lie in a message of {message_bytes} bytes")]
pub struct OutOfMessage {
    /// First byte asked for.
    pub offset_bytes: usize,
    /// How many were asked for.
    pub length_bytes: usize,
    /// How many the message has.
    pub message_bytes: usize,
}

impl OutOfMessage {
    /// Checks a range against a message.
    #[inline]
    pub(crate) fn check(offset_bytes: usize, length_bytes: usize, message_bytes: usize) -> Result<(), Self> {
        if length_bytes <= message_bytes && offset_bytes <= message_bytes - length_bytes {
            Ok(())
        } else {
            Err(OutOfMessage { offset_bytes, length_bytes, message_bytes })
        }
    }
}

/// A buffer is shorter than the message to be copied there; nothing was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of {message_bytes} bytes does not fit in a buffer of {target_bytes}")]
pub struct TargetTooShort {
    /// Length of the message.
    pub message_bytes: usize,
    /// Length of the buffer.
    pub target_bytes: usize,
}
