//! What can be wrong with a message.

/// Why a received message, or a part of it, was refused. Offsets are bytes of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Its length is no multiple of eight, or shorter than its header says.
    #[error("the message is shorter than it says, or cut within a word")]
    Short,
    /// The kind in the header is unknown.
    #[error("kind {kind} of message is unknown")]
    Kind {
        /// What it says.
        kind: u8,
    },
    /// Something out of line does not lie in the message.
    #[error("what is referred to at byte {at} does not lie in the message")]
    Reference {
        /// Where the reference is.
        at: u32,
    },
    /// More elements or bytes than the interface allows.
    #[error("{count} elements at byte {at}, where at most {max} may be")]
    TooMany {
        /// Where it says so.
        at: u32,
        /// How many.
        count: u32,
        /// How many may be.
        max: u32,
    },
    /// A byte that is 0 or 1 has another value.
    #[error("{value} at byte {at} is neither 0 nor 1")]
    Bool {
        /// Its offset in the message, in bytes.
        at: u32,
        /// Its value.
        value: u8,
    },
    /// A value that an enum or flags do not have.
    #[error("value {value} at byte {at} is not one that the interface names")]
    Value {
        /// Its offset in the message, in bytes.
        at: u32,
        /// The value.
        value: u64,
    },
    /// Text that is not UTF-8.
    #[error("the text referred to at byte {at} is not UTF-8")]
    Utf8 {
        /// Where the reference is.
        at: u32,
    },
    /// A capability of another kind than the interface says.
    #[error("the capability at byte {at} is not of the kind that the interface names")]
    Handle {
        /// Its offset in the message, in bytes.
        at: u32,
    },
    /// A right that this side was not given, or has no more.
    #[error("a right that the message brought was not granted to this side, or is gone")]
    Right,
    /// Parts of the message overlap so that reading all of it would take longer than its length justifies.
    #[error("parts of the message overlap")]
    Overlap,
    /// A message that the interface does not have.
    #[error("the interface has no message {ordinal} of this kind")]
    Unknown {
        /// Its ordinal.
        ordinal: u16,
    },
    /// A value that the interface has, and that means nothing.
    #[error("a value that is no {what}")]
    Meaning {
        /// What it should be.
        what: &'static str,
    },
    /// An answer that cannot be, such as an error where the interface declares none.
    #[error("an answer that the interface does not have")]
    Answer,
}

/// A value that is longer than the interface allows; nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{field}` has {count} elements or bytes; the interface allows {max}")]
pub struct OverLimit {
    /// Which field.
    pub field: &'static str,
    /// How many it has.
    pub count: usize,
    /// How many it may have.
    pub max: usize,
}
