//! Disks across the machine: one node [serves](serve()) a file or disk, another [attaches](attach()) it.

mod attach;
mod disk;
mod frontend;
mod nbd;
mod serve;

pub(crate) use attach::{AttachTarget, attach};
pub(crate) use disk::Disk;
pub(crate) use serve::serve;

/// Size of a buffer: longer requests are split.
const BUFFER_BYTES: u64 = 128 << 10;
