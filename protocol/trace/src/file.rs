//! Trace files, specified in `docs/specs/trace.md`.
//!
//! A file consists of a header and chunks, each with its length and a checksum; the last chunk is marked.
//! Truncation and corruption are detected, and the error contains the position.

mod chunk;
mod read;
// Too slow under miri, without benefit: the tests only compute on private bytes.
#[cfg(all(test, not(miri)))]
mod tests;

use alloc::string::String;

pub use chunk::{Chunk, DomainHead, FinalState, NodeHead};
pub use read::{DomainRecording, Lane, Recording, read, salvage};

use tombolo_base::hash::fnv1a;

/// First bytes of every trace file.
pub const MAGIC: [u8; 8] = *b"TBTRACE\n";

/// Version of the format.
pub const VERSION: u32 = 1;

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 32;

/// Length of a chunk's header, in bytes.
pub const CHUNK_HEADER_BYTES: usize = 24;

/// Maximum length of a chunk's content, in bytes.
pub const MAX_CHUNK_BYTES: usize = 16 << 20;

/// Error in a file, with its position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct FileError {
    /// Position of the error, in bytes.
    pub offset: u64,
    /// Kind of the error.
    pub problem: Problem,
}

/// Kind of an error in a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Problem {
    /// The file does not begin with the magic of a trace file.
    #[error("not a trace file: it does not start with TBTRACE")]
    NotATrace,
    /// The file has another version.
    #[error(
        "the file has format version {0}; this program reads version {VERSION}, so use the release that wrote it"
    )]
    Version(u32),
    /// The file is truncated.
    #[error("the file is cut short: {needed_bytes} more bytes are needed, {available_bytes} follow")]
    Truncated { needed_bytes: u64, available_bytes: u64 },
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
    MissingEnd,
    /// Bytes follow the last chunk.
    #[error("the file is corrupt: bytes follow its last chunk")]
    TrailingBytes,
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
