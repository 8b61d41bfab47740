//! Trace files. `docs/specs/trace.md` says what is in them.
//!
//! A file is a header and chunks, each with its length and a checksum, the last of which says that it is the last:
//! whatever is cut off or changed is noticed, and the message says where.

mod chunk;
mod read;
// Interpreting these takes long and can find nothing: they compute over bytes of their own.
#[cfg(all(test, not(miri)))]
mod tests;

use alloc::string::String;

pub use chunk::{Chunk, DomainHead, Fate, NodeHead};
pub use read::{DomainRecording, Lane, Recording, read, salvage};

use tombolo_base::hash::fnv1a;

/// First bytes of every trace file.
pub const MAGIC: [u8; 8] = *b"TBTRACE\n";

/// Version of the format.
pub const VERSION: u32 = 1;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

/// Bytes in front of a chunk's content.
pub const CHUNK_HEADER_BYTES: usize = 24;

/// The longest content of a chunk.
pub const MAX_CHUNK_BYTES: usize = 16 << 20;

/// What is wrong with a file, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct FileError {
    /// First byte of what is wrong.
    pub offset: u64,
    /// What that is.
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// It does not start as one.
    #[error("this is no trace file: it does not start with TBTRACE")]
    NotATrace,
    /// Another version.
    #[error(
        "the file has format version {0}, and version {VERSION} is understood: use the release that wrote it"
    )]
    Version(u32),
    /// It ends too early.
    #[error("the file is cut short: {needed_bytes} bytes should follow, and {available_bytes} do")]
    CutShort {
        /// Bytes that should be there.
        needed_bytes: u64,
        /// Bytes that are there.
        available_bytes: u64,
    },
    /// What is there is not what was written.
    #[error("the file is corrupt: the checksum of these {length_bytes} bytes is wrong")]
    Checksum {
        /// How many bytes the checksum is of.
        length_bytes: u64,
    },
    /// A length that no chunk has.
    #[error("the file is corrupt: a chunk of {0} bytes")]
    Length(u64),
    /// A chunk that says what cannot be.
    #[error("the file is corrupt: {0}")]
    Content(String),
    /// No last chunk.
    #[error("the file is cut short: whoever recorded did not finish it")]
    NoEnd,
    /// Something behind the last chunk.
    #[error("the file is corrupt: something follows its end")]
    AfterEnd,
}

/// The header of a file; `created_ns` is since 1970.
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
