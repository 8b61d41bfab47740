//! What can go wrong with bulk data.

use tombolo_bulk::session::BulkSendError;
use tombolo_bulk::wire::Veto;
use tombolo_bulk::{LayoutError, TableError, Trust};
use tombolo_link::TransportKind;
use tombolo_platform::copy::CopyError;

/// Why something about pools and buffers could not be done. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BulkError {
    /// The buffer's state does not allow it.
    #[error(transparent)]
    State(#[from] TableError),
    /// It cannot be said on this channel.
    #[error(transparent)]
    Send(#[from] BulkSendError),
    /// Not a shape of a pool.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// All buffers of the pool are in use.
    #[error("all {count} buffers of the pool are in use: wait until some come back, or make the pool larger")]
    NoBuffer {
        /// How many there are.
        count: u32,
    },
    /// The other side does not take the pool.
    #[error("the pool was not taken: {0}")]
    Vetoed(Veto),
    /// The pool is still needed on the other side.
    #[error(
        "the pool stays on the channel: the other side still uses buffers of it, or has assigned it further"
    )]
    Kept,
    /// The pool is not on this channel.
    #[error("the pool is not on this channel: assign it first")]
    NotOnChannel,
    /// The pool is on this channel already.
    #[error("the pool is on this channel already")]
    OnChannel,
    /// The domain that assigned the pool does not allow to assign it further.
    #[error("the domain that assigned the pool here does not allow to assign it further")]
    MayNotForward,
    /// The two sides of a channel do not trust each other alike, or the pool is of another kind.
    #[error("trust {ours} here, {theirs} there: both ends of a channel and its pools must be of one kind")]
    Trust {
        /// What is so here.
        ours: Trust,
        /// What is so there.
        theirs: Trust,
    },
    /// Buffers that travel in memory of their own need one kernel.
    #[error(
        "without full trust buffers travel as files of one kernel, which a {0} channel does not join: copy the data"
    )]
    NotOneKernel(TransportKind),
    /// A range that is not within the buffer.
    #[error("{length_bytes} bytes from {offset_bytes} on are not within the {available_bytes} of the buffer")]
    Range {
        /// Where it begins.
        offset_bytes: u64,
        /// How long it is.
        length_bytes: u64,
        /// How long the buffer is.
        available_bytes: u64,
    },
    /// Numbers that do not lie at a multiple of their length.
    #[error(
        "numbers of {align_bytes} bytes cannot begin at byte {offset_bytes} of the buffer: choose a multiple"
    )]
    Unaligned {
        /// Where the part of the buffer begins.
        offset_bytes: u64,
        /// How long a number is.
        align_bytes: u64,
    },
    /// The memory of the pool is not as long as it was to be.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A message names a buffer that is not here.
    #[error(
        "piece {piece} of transfer {number} is not here: it never came, was claimed already, or went back unclaimed"
    )]
    NoTransfer {
        /// The number of the transfer.
        number: u32,
        /// Which piece of it.
        piece: u32,
    },
    /// A message says that a buffer was moved which was lent, or the other way round.
    #[error("the buffer was lent where it should have been moved, or the other way round")]
    OtherVerb,
    /// Plain slices are not to be had of memory that others map.
    #[error("others map the memory of this pool: use read and write, or its words")]
    Mapped,
    /// What was sent did not arrive: this process has no room for its descriptors.
    #[error(
        "the content of {buffers} buffers was lost, for this process can open no more files (see `ulimit -n`)"
    )]
    Lost {
        /// How many.
        buffers: usize,
    },
}
