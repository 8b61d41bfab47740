//! Errors of messages.

/// Reason why a received message, or a part of it, was rejected. Offsets are in bytes of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The length is not a multiple of eight, or less than the header claims.
    #[error("the message is shorter than it says, or cut within a word")]
    Short,
    /// The kind in the header is unknown.
    #[error("kind {kind} of message is unknown")]
    Kind {
        /// Kind in the header.
        kind: u8,
    },
    /// An out-of-line object does not lie in the message.
    #[error("what is referred to at byte {at} does not lie in the message")]
    Reference {
        /// Offset of the reference.
        at: u32,
    },
    /// There are more elements or bytes than the interface allows.
    #[error("{count} elements at byte {at}, where at most {max} may be")]
    TooMany {
        /// Offset of the count.
        at: u32,
        /// Number found.
        count: u32,
        /// Maximum allowed.
        max: u32,
    },
    /// A byte that must be 0 or 1 has another value.
    #[error("{value} at byte {at} is neither 0 nor 1")]
    Bool {
        /// Offset in the message, in bytes.
        at: u32,
        /// Value found.
        value: u8,
    },
    /// The value is not defined for an enum or flags.
    #[error("value {value} at byte {at} is not one that the interface names")]
    Value {
        /// Offset in the message, in bytes.
        at: u32,
        /// Value found.
        value: u64,
    },
    /// Text is not valid UTF-8.
    #[error("the text referred to at byte {at} is not UTF-8")]
    Utf8 {
        /// Offset of the reference.
        at: u32,
    },
    /// A capability has another kind than the interface declares.
    #[error("the capability at byte {at} is not of the kind that the interface names")]
    Handle {
        /// Offset in the message, in bytes.
        at: u32,
    },
    /// A right does not belong to this side, or no longer.
    #[error("a right that the message brought was not granted to this side, or is gone")]
    Right,
    /// Parts of the message overlap so that reading all of it would take longer than its length justifies.
    #[error("parts of the message overlap")]
    Overlap,
    /// The interface has no such message.
    #[error("the interface has no message {ordinal} of this kind")]
    Unknown {
        /// Ordinal of the message.
        ordinal: u16,
    },
    /// A value is well-formed but has no meaning.
    #[error("a value that is no {what}")]
    Meaning {
        /// Expected meaning.
        what: &'static str,
    },
    /// The answer is impossible, such as an error where the interface declares none.
    #[error("an answer that the interface does not have")]
    Answer,
}

/// Error of a value that exceeds its limit in the interface. Nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{field}` has {count} elements or bytes; the interface allows {max}")]
pub struct OverLimit {
    /// Name of the field.
    pub field: &'static str,
    /// Number of elements or bytes.
    pub count: usize,
    /// Maximum allowed.
    pub max: usize,
}
