//! A part of a file as a slice.

use std::ops::{Deref, DerefMut, Range};

use tombolo_platform::{Errno, OsError};

use crate::error::FileError;
use crate::file::File;
use crate::messages::FileFault;

/// A part of a file that was brought here: a copy that belongs to this program alone. What is changed here is
/// the file's when it was [flushed](Self::flush), and is lost if it was not.
#[derive(Debug)]
pub struct FileMap {
    file: File,
    offset_bytes: u64,
    bytes: Vec<u8>,
    /// What may have been changed since the last flush.
    changed: Range<usize>,
}

impl FileMap {
    pub(crate) fn new(file: File, offset_bytes: u64, length_bytes: u64) -> Result<FileMap, FileError> {
        let short = || OsError::new(format!("bring {length_bytes} bytes of a file here"), Errno::NOMEM);
        let length = usize::try_from(length_bytes).map_err(|_| short())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| short())?;
        bytes.resize(length, 0);
        file.read_exact_at(offset_bytes, &mut bytes)?;
        Ok(FileMap { file, offset_bytes, bytes, changed: 0..0 })
    }

    /// The file that the bytes were read from.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes to be changed, of which alone the next flush writes.
    ///
    /// # Errors
    /// [`FileFault::OpenedReadOnly`]; [`FileFault::OutOfRange`] for what is not in it.
    pub fn range_mut(&mut self, range: Range<usize>) -> Result<&mut [u8], FileError> {
        let fault = if !self.file.is_writable() {
            Some(FileFault::OpenedReadOnly)
        } else if range.start > range.end || range.end > self.bytes.len() {
            Some(FileFault::OutOfRange)
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(FileError::Fault { operation: "change", path: self.file.path().into(), fault });
        }
        self.mark(range.clone());
        Ok(&mut self.bytes[range])
    }

    fn mark(&mut self, range: Range<usize>) {
        self.changed = if self.changed.is_empty() {
            range
        } else {
            self.changed.start.min(range.start)..self.changed.end.max(range.end)
        };
    }

    /// Writes back what was changed, from its first byte to its last.
    ///
    /// # Errors
    /// As [`File::write_at`]; it can be flushed again then.
    pub fn flush(&mut self) -> Result<(), FileError> {
        if !self.changed.is_empty() {
            let offset_bytes = self.offset_bytes + self.changed.start as u64;
            self.file.write_at(offset_bytes, &self.bytes[self.changed.clone()])?;
            self.changed = 0..0;
        }
        Ok(())
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// All of it counts as changed; [`range_mut`](FileMap::range_mut) says more.
impl DerefMut for FileMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mark(0..self.bytes.len());
        &mut self.bytes
    }
}
