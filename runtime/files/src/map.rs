//! Parts of files as slices.

use std::ops::{Deref, DerefMut, Range};

use tombolo_platform::{Errno, OsError};

use crate::error::FileError;
use crate::file::File;
use crate::messages::FileFault;

/// Private copy of a part of a file. Changes reach the file when it is [flushed](Self::flush), and are lost
/// otherwise.
#[derive(Debug)]
pub struct FileMap {
    file: File,
    offset_bytes: u64,
    bytes: Vec<u8>,
    /// Range that may have been changed since the last flush.
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

    /// File that the bytes were read from.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns a range to be changed; the next flush writes only the changed ranges.
    ///
    /// # Errors
    /// [`FileFault::OpenedReadOnly`]; [`FileFault::OutOfRange`] for a range that is not within the map.
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
        self.mark_changed(range.clone());
        Ok(&mut self.bytes[range])
    }

    fn mark_changed(&mut self, range: Range<usize>) {
        self.changed = if self.changed.is_empty() {
            range
        } else {
            self.changed.start.min(range.start)..self.changed.end.max(range.end)
        };
    }

    /// Writes back the changes, from the first changed byte to the last.
    ///
    /// # Errors
    /// Same as [`File::write_at`]; the flush can be repeated then.
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

/// Marks everything as changed; [`range_mut`](FileMap::range_mut) is more specific.
impl DerefMut for FileMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mark_changed(0..self.bytes.len());
        &mut self.bytes
    }
}
