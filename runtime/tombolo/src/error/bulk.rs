//! Errors of pools and buffers.

use tombolo_bulk::session::BulkSendError;
use tombolo_bulk::wire::Veto;
use tombolo_bulk::{LayoutError, TableError, Trust};
use tombolo_link::TransportKind;
use tombolo_platform::copy::CopyError;

/// Error of an operation on pools or buffers. The operation has changed nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BulkError {
    /// The state of the buffer does not allow the operation.
    #[error(transparent)]
    State(#[from] TableError),
    /// The message cannot be sent on this channel.
    #[error(transparent)]
    Send(#[from] BulkSendError),
    /// Invalid buffer size or count.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// All buffers of the pool are in use.
    #[error(
        "the pool has no free buffer, {count} in use: wait until some come back, or make the pool larger"
    )]
    NoBuffer {
        /// Number of buffers in the pool.
        count: u32,
    },
    /// The other side refused the pool.
    #[error("the pool was not taken: {0}")]
    Vetoed(Veto),
    /// The other side still uses the pool.
    #[error(
        "the pool stays on the channel: the other side still uses buffers of it, or has assigned it further"
    )]
    Kept,
    /// The pool is not on this channel.
    #[error("the pool is not on this channel: assign it first")]
    NotOnChannel,
    /// The pool is already on this channel.
    #[error("the pool is on this channel already")]
    OnChannel,
    /// The domain that assigned the pool does not allow assigning it further.
    #[error("the domain that assigned the pool here does not allow to assign it further")]
    MayNotForward,
    /// The two sides of a channel chose different trust, or the pool's trust is not the channel's.
    #[error("trust {ours} here, {theirs} there: both ends of a channel and its pools must be of one kind")]
    Trust {
        /// Trust of this side.
        ours: Trust,
        /// Trust of the other side, or of the pool.
        theirs: Trust,
    },
    /// Buffers with memory of their own need both ends on one kernel.
    #[error(
        "without full trust buffers travel as files of one kernel, which a {0} channel does not join: copy the data"
    )]
    NotOneKernel(TransportKind),
    /// The range is not within the buffer.
    #[error("{length_bytes} bytes from {offset_bytes} on are not within the {available_bytes} of the buffer")]
    Range {
        /// Start of the range, in bytes.
        offset_bytes: u64,
        /// Length of the range, in bytes.
        length_bytes: u64,
        /// Length of the buffer, or of its selected part, in bytes.
        available_bytes: u64,
    },
    /// The numbers do not begin at a multiple of their size.
    #[error(
        "numbers of {align_bytes} bytes cannot begin at byte {offset_bytes} of the buffer: choose a multiple"
    )]
    Unaligned {
        /// Offset of the selected part in the buffer, in bytes.
        offset_bytes: u64,
        /// Size of a number, in bytes.
        align_bytes: u64,
    },
    /// The memory of the pool is shorter than expected.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A message refers to a buffer that is not here.
    #[error(
        "piece {piece} of transfer {number} is not here: it never came, was claimed already, or went back unclaimed"
    )]
    NoTransfer {
        /// Number of the transfer.
        number: u32,
        /// Index of the piece in the transfer.
        piece: u32,
    },
    /// A message refers to a shared buffer as moved, or to a moved one as shared.
    #[error("the buffer was lent where it should have been moved, or the other way round")]
    OtherVerb,
    /// Memory that other domains map cannot be accessed as a slice.
    #[error("others map the memory of this pool: use read and write, or its words")]
    Mapped,
    /// The contents of a transfer were lost: this process has no room for the descriptors.
    #[error(
        "this process can open no more files (see `ulimit -n`); number of buffers whose content was lost: {buffers}"
    )]
    Lost {
        /// Number of buffers in the transfer.
        buffers: usize,
    },
}
