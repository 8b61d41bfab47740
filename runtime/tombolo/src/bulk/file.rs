//! Between files and buffers, with no other memory in between.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tombolo_platform::OsError;
use tombolo_platform::copy::file::{self, FileCopyError};

use super::buffer::Buffer;
use crate::error::BulkError;
use crate::error::Error;

impl Buffer {
    /// Reads up to `length_bytes` of a file, from `file_offset_bytes` on, into the part that is meant. Says
    /// how much: less than asked for at the end of the file alone.
    ///
    /// # Errors
    /// [`BulkError::Range`] for more than the part has; [`Error::Revoked`]; what the kernel refused. What the
    /// buffer holds then means nothing.
    pub fn read_file(
        &mut self,
        file: &File,
        file_offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<u64, Error> {
        let length = usize::try_from(length_bytes).unwrap_or(usize::MAX);
        let handle = &mut self.handle;
        let to = handle.range(0, length)?;
        let Some((memory, start)) = handle.mapped() else {
            let target = &mut handle.content.bytes_mut()?[to..][..length];
            return read_all(file, file_offset_bytes, target)
                .map_err(|error| OsError::from_io("read a file", &error).into());
        };
        let read = file::read_at(file, file_offset_bytes, (memory, start + to), length).map_err(of_copy)?;
        handle.check()?;
        Ok(read as u64)
    }

    /// Writes the part that is meant to a file, from `file_offset_bytes` on.
    ///
    /// # Errors
    /// [`Error::Revoked`]; what the kernel refused. Some may have been written then.
    pub fn write_file(&self, file: &File, file_offset_bytes: u64) -> Result<(), Error> {
        let handle = &self.handle;
        let length = usize::try_from(handle.length_bytes).unwrap_or(usize::MAX);
        let from = handle.range(0, length)?;
        let Some((memory, start)) = handle.mapped() else {
            return file
                .write_all_at(self.bytes()?, file_offset_bytes)
                .map_err(|error| OsError::from_io("write a file", &error).into());
        };
        file::write_at(file, file_offset_bytes, (memory, start + from), length).map_err(of_copy)?;
        handle.check()
    }
}

fn read_all(file: &File, offset_bytes: u64, target: &mut [u8]) -> io::Result<u64> {
    let mut done = 0;
    while done < target.len() {
        match file.read_at(&mut target[done..], offset_bytes.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done as u64)
}

fn of_copy(error: FileCopyError) -> Error {
    match error {
        FileCopyError::Copy(error) => BulkError::from(error).into(),
        FileCopyError::Os(error) => error.into(),
    }
}
