//! Trace files, specified in `docs/specs/trace.md`.
//!
//! A file is a header and chunks, each with its length and a checksum; the last chunk is marked as such.
//! Truncation and corruption are detected, and the error gives the position.

mod chunk;
mod read;
// Too slow under miri, without benefit: these only compute on bytes of their own.
#[cfg(all(test, not(miri)))]
mod tests;

use alloc::string::String;

pub use chunk::{Chunk, DomainHead, Fate, NodeHead};
pub use read::{DomainRecording, Lane, Recording, read, salvage};

use tombolo_base::hash::fnv1a;

/// The first bytes of every trace file.
pub const MAGIC: [u8; 8] = *b"TBTRACE\n";

/// The version of the format.
pub const VERSION: u32 = 1;

/// The length of the header.
pub const HEADER_BYTES: usize = 32;

/// The length of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 24;

/// The longest content of a chunk.
pub const MAX_CHUNK_BYTES: usize = 16 << 20;

/// An error in a file, and its position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct FileError {
    /// The position of the error.
    pub offset: u64,
    /// The error.
    pub problem: Problem,
}

/// The kinds of error in a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Problem {
    /// It does not begin with the magic of a trace file.
    #[error("not a trace file: it does not start with TBTRACE")]
    NotATrace,
    /// It has another version.
    #[error(
        "the file has format version {0}; this program reads version {VERSION}, so use the release that wrote it"
    )]
    Version(u32),
    /// It is truncated.
    #[error("the file is cut short: {needed_bytes} more bytes are needed, {available_bytes} follow")]
    CutShort { needed_bytes: u64, available_bytes: u64 },
    /// A checksum does not match.
    #[error("the file is corrupt: the checksum of these {length_bytes} bytes is wrong")]
    Checksum { length_bytes: u64 },
    /// The length of a chunk is invalid.
    #[error("the file is corrupt: invalid chunk length of {0} bytes")]
    Length(u64),
    /// The content of a chunk is invalid.
    #[error("the file is corrupt: {0}")]
    Content(String),
    /// The last chunk is missing.
    #[error("the file is cut short: the recording was not finished")]
    NoEnd,
    /// Bytes follow the last chunk.
    #[error("the file is corrupt: bytes follow its last chunk")]
    AfterEnd,
}

/// Encodes the header of a file; `created_ns` is in nanoseconds since 1970.
#[must_use]
pub fn header(created_ns: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&created_ns.to_le_bytes());
    let checksum = fnv1a(&bytes[..24]);
    bytes[24..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}
