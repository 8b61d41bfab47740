//! Completions of operations, and counts of them.

/// Completion flags, with libfabric's values so that no translation is needed.
pub mod flags {
    /// The operation is an untagged message.
    pub const MSG: u64 = 1 << 1;
    /// The operation accesses memory of a peer.
    pub const RMA: u64 = 1 << 2;
    /// The operation is a tagged message.
    pub const TAGGED: u64 = 1 << 3;
    /// The operation is an atomic access to memory.
    pub const ATOMIC: u64 = 1 << 4;
    /// The operation reads memory of a peer.
    pub const READ: u64 = 1 << 8;
    /// The operation writes to memory of a peer.
    pub const WRITE: u64 = 1 << 9;
    /// The operation receives a message.
    pub const RECV: u64 = 1 << 10;
    /// The operation sends a message.
    pub const SEND: u64 = 1 << 11;
    /// A peer wrote to memory of this endpoint.
    pub const REMOTE_WRITE: u64 = 1 << 13;
    /// The buffer for several messages was released to the program.
    pub const MULTI_RECV: u64 = 1 << 16;
    /// The completion has data that the peer sent with the operation.
    pub const REMOTE_CQ_DATA: u64 = 1 << 17;
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The message was longer than the buffer; the buffer holds as much of it as fits.
    #[error("the message is longer than the buffer by {missing_bytes} bytes")]
    Truncated {
        /// Number of bytes that did not fit.
        missing_bytes: usize,
    },
    /// The program canceled it.
    #[error("canceled")]
    Canceled,
    /// No matching message has arrived yet.
    #[error("no such message has come yet")]
    NoMessage,
    /// There is no reachable endpoint at the address.
    #[error("no endpoint is to be reached at that address")]
    Unreachable,
    /// The peer closed its endpoint.
    #[error("the peer closed its endpoint")]
    PeerClosed,
    /// The peer died.
    #[error("the peer died")]
    PeerDied,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol")]
    Violation,
    /// The peer has registered no memory under that key.
    #[error("the peer has registered no memory under that key")]
    NoKey,
    /// The key does not allow this kind of access, or not to this range.
    #[error("the memory of that key may not be accessed there, or not so")]
    NoAccess,
    /// The peer does not support the operation on the datatype.
    #[error("the peer does not have that operation on that type")]
    NoSuchOperation,
}

/// Record of a completed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Context that the program passed with the operation.
    pub context: usize,
    /// Kind of the operation, see [`flags`].
    pub flags: u64,
    /// Number of bytes received; for a peek, length of the message.
    pub length: usize,
    /// Address of the bytes, for buffers of several messages.
    pub buffer: usize,
    /// Data that the peer sent with the operation.
    pub data: u64,
    /// Tag of the message.
    pub tag: u64,
    /// The sender, as an index of the address vector, or [`NO_ADDRESS`](crate::NO_ADDRESS).
    pub source: u64,
    /// Reason of the failure, if the operation failed.
    pub failure: Option<Failure>,
}

/// The kinds of operation that are counted separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletionKind {
    /// Sends.
    Send,
    /// Receives.
    Receive,
    /// Reads, and atomic operations that fetch.
    Read,
    /// Writes, and atomic operations that do not fetch.
    Write,
    /// Reads by peers.
    RemoteRead,
    /// Writes by peers.
    RemoteWrite,
}

/// Numbers of completed operations, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    succeeded: [u64; 6],
    failed: [u64; 6],
}

impl Counts {
    /// Returns how many operations of a kind have succeeded.
    #[must_use]
    pub fn succeeded(&self, kind: CompletionKind) -> u64 {
        self.succeeded[kind as usize]
    }

    /// Returns how many operations of a kind have failed.
    #[must_use]
    pub fn failed(&self, kind: CompletionKind) -> u64 {
        self.failed[kind as usize]
    }

    #[inline]
    pub(crate) fn record(&mut self, kind: CompletionKind, failed: bool) {
        let counts = if failed { &mut self.failed } else { &mut self.succeeded };
        counts[kind as usize] += 1;
    }
}
