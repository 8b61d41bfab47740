//! Transfers between files of this node and buffers, without intermediate memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tombolo::bulk::BulkError;
use tombolo::{Buffer, Error};
use tombolo_platform::OsError;
use tombolo_platform::copy::file::{self, FileCopyError};

/// Reads a file of this node into buffers, and writes it from buffers. The kernel copies between the file and
/// the memory of the buffer, without intermediate memory.
///
/// ```no_run
/// use std::fs::File;
///
/// use tombolo::{Domain, Error};
/// use tombolo_files::BufferFile;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut bulk = Domain::attach()?.connect_bulk("frames")?;
/// let mut frame = bulk.recv_pool()?.take()?;
/// let most = frame.len_bytes();
/// let length = File::open("frame.raw")?.read_into(&mut frame, 0, most)?;
/// frame.set_part(0, length)?;
/// bulk.move_to(frame, b"number 1").map_err(Error::from)?;
/// # Ok(())
/// # }
/// ```
pub trait BufferFile: sealed::BufferFile {
    /// Reads up to `length_bytes` bytes of the file, from `offset_bytes` on, into the selected part of the
    /// buffer. Returns the number of bytes, which is smaller than requested only at the end of the file.
    ///
    /// # Errors
    /// [`BulkError::Range`] if the part is shorter; [`Error::Revoked`]; errors of the kernel. The contents of
    /// the buffer are then undefined.
    fn read_into(&self, buffer: &mut Buffer, offset_bytes: u64, length_bytes: u64) -> Result<u64, Error>;

    /// Writes the selected part of the buffer to the file, from `offset_bytes` on.
    ///
    /// # Errors
    /// [`Error::Revoked`]; errors of the kernel. Some bytes may have been written then.
    fn write_from(&self, buffer: &Buffer, offset_bytes: u64) -> Result<(), Error>;
}

mod sealed {
    pub trait BufferFile {}
    impl BufferFile for std::fs::File {}
}

impl BufferFile for File {
    fn read_into(&self, buffer: &mut Buffer, offset_bytes: u64, length_bytes: u64) -> Result<u64, Error> {
        let available_bytes = buffer.len_bytes();
        if length_bytes > available_bytes {
            return Err(BulkError::Range { offset_bytes: 0, length_bytes, available_bytes }.into());
        }
        // At most the length of the buffer, which fits an address.
        let length = length_bytes as usize;
        if let Some(memory) = buffer.memory() {
            let read = file::read_at(self, offset_bytes, (&memory, 0), length).map_err(copy_error)?;
            check(buffer)?;
            return Ok(read as u64);
        }
        if let Ok(bytes) = buffer.bytes_mut() {
            return read_all(self, offset_bytes, &mut bytes[..length]);
        }
        // Memory that others map, and a part that does not begin at a word.
        let mut bytes = vec![0; length];
        let read = read_all(self, offset_bytes, &mut bytes)?;
        buffer.write(0, &bytes[..read as usize])?;
        Ok(read)
    }

    fn write_from(&self, buffer: &Buffer, offset_bytes: u64) -> Result<(), Error> {
        if let Some(memory) = buffer.memory() {
            file::write_at(self, offset_bytes, (&memory, 0), length(buffer)).map_err(copy_error)?;
            return check(buffer);
        }
        if let Ok(bytes) = buffer.bytes() {
            return write_all(self, offset_bytes, bytes);
        }
        let mut bytes = vec![0; length(buffer)];
        buffer.read(0, &mut bytes)?;
        write_all(self, offset_bytes, &bytes)
    }
}

/// Length of the selected part; it fits an address.
fn length(buffer: &Buffer) -> usize {
    buffer.len_bytes() as usize
}

/// Fails if the memory of the pool was revoked meanwhile, which every read of a buffer checks.
fn check(buffer: &Buffer) -> Result<(), Error> {
    buffer.read(0, &mut [])
}

fn read_all(file: &File, offset_bytes: u64, target: &mut [u8]) -> Result<u64, Error> {
    let mut done = 0;
    while done < target.len() {
        match file.read_at(&mut target[done..], offset_bytes.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(OsError::from_io("read a file", &error).into()),
        }
    }
    Ok(done as u64)
}

fn write_all(file: &File, offset_bytes: u64, source: &[u8]) -> Result<(), Error> {
    file.write_all_at(source, offset_bytes).map_err(|error| OsError::from_io("write a file", &error).into())
}

fn copy_error(error: FileCopyError) -> Error {
    match error {
        FileCopyError::Copy(error) => BulkError::from(error).into(),
        FileCopyError::Os(error) => error.into(),
    }
}

/// Operations of the server on the buffer of a request.
pub(crate) trait Content {
    fn len_bytes(&self) -> u64;
    fn set_part(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Error>;
    fn write(&mut self, offset_bytes: u64, source: &[u8]) -> Result<(), Error>;
    fn read_file(&mut self, file: &File, offset_bytes: u64, length_bytes: u64) -> Result<u64, Error>;
    fn write_file(&self, file: &File, offset_bytes: u64) -> Result<(), Error>;
}

impl Content for Buffer {
    fn len_bytes(&self) -> u64 {
        self.len_bytes()
    }

    fn set_part(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Error> {
        self.set_part(offset_bytes, length_bytes)
    }

    fn write(&mut self, offset_bytes: u64, source: &[u8]) -> Result<(), Error> {
        self.write(offset_bytes, source)
    }

    fn read_file(&mut self, file: &File, offset_bytes: u64, length_bytes: u64) -> Result<u64, Error> {
        file.read_into(self, offset_bytes, length_bytes)
    }

    fn write_file(&self, file: &File, offset_bytes: u64) -> Result<(), Error> {
        file.write_from(self, offset_bytes)
    }
}

/// Buffer without a pool, like those of a pool without trust.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    part: std::ops::Range<usize>,
}

#[cfg(test)]
impl Bytes {
    pub(crate) fn new(length: usize) -> Bytes {
        Bytes { bytes: vec![0; length], part: 0..length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.part.clone()]
    }
}

#[cfg(test)]
impl Content for Bytes {
    fn len_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn set_part(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Error> {
        let (start, length) = (offset_bytes as usize, length_bytes as usize);
        assert!(start + length <= self.bytes.len());
        self.part = start..start + length;
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, source: &[u8]) -> Result<(), Error> {
        self.bytes[self.part.clone()][offset_bytes as usize..][..source.len()].copy_from_slice(source);
        Ok(())
    }

    fn read_file(&mut self, file: &File, offset_bytes: u64, length_bytes: u64) -> Result<u64, Error> {
        read_all(file, offset_bytes, &mut self.bytes[self.part.clone()][..length_bytes as usize])
    }

    fn write_file(&self, file: &File, offset_bytes: u64) -> Result<(), Error> {
        write_all(file, offset_bytes, self.bytes())
    }
}
