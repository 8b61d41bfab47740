//! Open files on another node.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use tombolo::Buffer;
use tombolo_platform::Deadline;

use crate::connection::{CallBuffer, Connection};
use crate::error::FileError;
use crate::messages::{FileFault, FilesReply, FilesRequest, OpenMode};
use crate::stream::{FileReader, FileWriter};
use crate::{FileMap, Files};

/// Options for opening a file; the default is to read only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    pub(crate) mode: OpenMode,
}

impl OpenOptions {
    /// Opens the file for reading.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with(self, mode: OpenMode) -> Self {
        OpenOptions { mode: self.mode | mode }
    }

    /// Opens the file for writing as well.
    #[must_use]
    pub fn write(self) -> Self {
        self.with(OpenMode::WRITE)
    }

    /// Opens the file for writing as well, and creates it if it does not exist.
    #[must_use]
    pub fn create(self) -> Self {
        self.with(OpenMode::WRITE | OpenMode::CREATE)
    }

    /// Creates the file, which must not exist, and opens it for writing as well.
    #[must_use]
    pub fn create_new(self) -> Self {
        self.with(OpenMode::WRITE | OpenMode::CREATE_NEW)
    }

    /// Truncates the file to length 0, and opens it for writing as well.
    #[must_use]
    pub fn truncate(self) -> Self {
        self.with(OpenMode::WRITE | OpenMode::TRUNCATE)
    }
}

/// Open file on another node. Clones refer to the same file, which is closed with the last one.
#[derive(Clone, Debug)]
pub struct File {
    opened: Arc<Opened>,
}

#[derive(Debug)]
struct Opened {
    files: Files,
    number: u32,
    path: PathBuf,
    options: OpenOptions,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.files.lock().close(self.number);
    }
}

impl File {
    pub(crate) fn new(files: Files, number: u32, path: &Path, options: OpenOptions) -> File {
        File { opened: Arc::new(Opened { files, number, path: path.to_owned(), options }) }
    }

    /// Path with which the file was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// Whether the file was opened for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.opened.options.mode.contains(OpenMode::WRITE)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.opened.files.lock()
    }

    fn request(&self, operation: &'static str, request: FilesRequest) -> Result<FilesReply, FileError> {
        self.lock().call((operation, self.path()), request, CallBuffer::Empty).map(|(reply, _)| reply)
    }

    /// Returns the current length of the file, in bytes.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server.
    pub fn len_bytes(&self) -> Result<u64, FileError> {
        match self.request("look at", FilesRequest::Length { file: self.opened.number })? {
            FilesReply::Length { length_bytes } => Ok(length_bytes),
            other => Err(self.lock().unexpected(&other)),
        }
    }

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// Same as [`write_at`](Self::write_at).
    pub fn set_len(&self, length_bytes: u64) -> Result<(), FileError> {
        let request = FilesRequest::SetLength { file: self.opened.number, length_bytes };
        self.request("set the length of", request).map(|_| ())
    }

    /// Waits until everything that was written is on the disk.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server.
    pub fn sync(&self) -> Result<(), FileError> {
        self.request("sync", FilesRequest::Sync { file: self.opened.number }).map(|_| ())
    }

    pub(crate) fn read_request(&self, offset_bytes: u64, length_bytes: usize) -> FilesRequest {
        FilesRequest::Read { file: self.opened.number, offset_bytes, length_bytes: length_bytes as u64 }
    }

    /// Reads from `offset_bytes` of the file into `target`. Returns the number of bytes, which is smaller
    /// than requested only at the end of the file.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server. The contents of `target` are then undefined.
    pub fn read_at(&self, offset_bytes: u64, target: &mut [u8]) -> Result<usize, FileError> {
        let mut connection = self.lock();
        let mut in_flight = VecDeque::new();
        let read = self.read_pieces(&mut connection, &mut in_flight, offset_bytes, target);
        in_flight.into_iter().for_each(|(number, _)| connection.discard(number));
        read
    }

    fn read_pieces(
        &self,
        connection: &mut Connection,
        in_flight: &mut VecDeque<(u32, usize)>,
        offset_bytes: u64,
        target: &mut [u8],
    ) -> Result<usize, FileError> {
        let deadline = connection.deadline();
        let (piece_bytes, depth) = (connection.buffer_bytes(), connection.depth());
        let (mut asked, mut done) = (0, 0);
        loop {
            while asked < target.len() && in_flight.len() < depth {
                let length = piece_bytes.min(target.len() - asked);
                let request = self.read_request(offset_bytes.saturating_add(asked as u64), length);
                let number = connection.submit(request, CallBuffer::Empty, deadline)?;
                in_flight.push_back((number, length));
                asked += length;
            }
            let Some((number, length)) = in_flight.pop_front() else { return Ok(done) };
            let answer = connection.wait(number, ("read", self.path()), deadline)?;
            let buffer = self.content(connection, answer, length)?;
            let count = buffer.len_bytes() as usize;
            buffer.read(0, &mut target[done..done + count])?;
            done += count;
            if count < length {
                return Ok(done);
            }
        }
    }

    /// Returns the buffer that a read delivered.
    pub(crate) fn content(
        &self,
        connection: &Connection,
        (reply, buffer): crate::connection::Answer,
        length: usize,
    ) -> Result<Buffer, FileError> {
        match buffer {
            Some(buffer) if buffer.len_bytes() <= length as u64 => Ok(buffer),
            _ => Err(connection.unexpected(&reply)),
        }
    }

    /// Reads exactly as many bytes as `target` holds.
    ///
    /// # Errors
    /// Same as [`read_at`](Self::read_at); [`FileError::Ended`] if there are fewer.
    pub fn read_exact_at(&self, offset_bytes: u64, target: &mut [u8]) -> Result<(), FileError> {
        let read = self.read_at(offset_bytes, target)?;
        if read < target.len() {
            let (wanted_bytes, available_bytes) = (target.len() as u64, read as u64);
            return Err(FileError::Ended { path: self.path().into(), wanted_bytes, available_bytes });
        }
        Ok(())
    }

    /// Reads up to one buffer from `offset_bytes` on, and leaves the bytes in place: in memory that the
    /// file's server can also reach. Dropping the buffer makes it available for further reads.
    ///
    /// # Errors
    /// Same as [`read_at`](Self::read_at); [`BulkError::NoBuffer`](tombolo::bulk::BulkError::NoBuffer) if the
    /// program holds all buffers.
    pub fn buffer_at(&self, offset_bytes: u64) -> Result<Buffer, FileError> {
        let mut connection = self.lock();
        let length = connection.buffer_bytes();
        let request = self.read_request(offset_bytes, length);
        let answer = connection.call(("read", self.path()), request, CallBuffer::Empty)?;
        self.content(&connection, answer, length)
    }

    /// Writes all of `source` at `offset_bytes` of the file; a gap after its end is filled with zeros.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server. Some bytes may have been written then.
    pub fn write_at(&self, offset_bytes: u64, source: &[u8]) -> Result<(), FileError> {
        let mut connection = self.lock();
        let deadline = connection.deadline();
        let mut in_flight = VecDeque::new();
        let mut written = Ok(());
        let piece_bytes = connection.buffer_bytes();
        for (index, piece) in source.chunks(piece_bytes).enumerate() {
            let at = offset_bytes.saturating_add((index * piece_bytes) as u64);
            written = self.write_piece(&mut connection, &mut in_flight, (at, piece), deadline);
            if written.is_err() {
                break;
            }
        }
        for number in in_flight {
            // After a failure the others are still awaited, so that nothing is in flight when this returns.
            let done = connection.wait(number, ("write", self.path()), deadline);
            written = written.and(done.map(|_| ()));
        }
        written
    }

    fn write_piece(
        &self,
        connection: &mut Connection,
        in_flight: &mut VecDeque<u32>,
        (offset_bytes, piece): (u64, &[u8]),
        deadline: Deadline,
    ) -> Result<(), FileError> {
        if in_flight.len() >= connection.depth()
            && let Some(number) = in_flight.pop_front()
        {
            connection.wait(number, ("write", self.path()), deadline)?;
        }
        let mut buffer = connection.take(deadline)?;
        buffer.write(0, piece)?;
        in_flight.push_back(self.submit_write(connection, buffer, (offset_bytes, piece.len()), deadline)?);
        Ok(())
    }

    /// Submits a write of the first bytes of a buffer.
    pub(crate) fn submit_write(
        &self,
        connection: &mut Connection,
        mut buffer: Buffer,
        (offset_bytes, length): (u64, usize),
        deadline: Deadline,
    ) -> Result<u32, FileError> {
        if !self.is_writable() {
            let (operation, path) = ("write", self.path().to_owned());
            return Err(FileError::Fault { operation, path, fault: FileFault::OpenedReadOnly });
        }
        buffer.set_part(0, length as u64)?;
        let request = FilesRequest::Write { file: self.opened.number, offset_bytes };
        connection.submit(request, CallBuffer::Filled(buffer), deadline)
    }

    /// Reads the whole file into memory, to be read and changed as a slice.
    ///
    /// # Errors
    /// Same as [`read_exact_at`](Self::read_exact_at); `ENOMEM` if there is not enough memory.
    pub fn map(&self) -> Result<FileMap, FileError> {
        let length_bytes = self.len_bytes()?;
        self.map_range(0, length_bytes)
    }

    /// Reads a part of the file into memory.
    ///
    /// # Errors
    /// Same as [`map`](Self::map).
    pub fn map_range(&self, offset_bytes: u64, length_bytes: u64) -> Result<FileMap, FileError> {
        FileMap::new(self.clone(), offset_bytes, length_bytes)
    }

    /// Returns a reader from the beginning of the file, with read-ahead.
    #[must_use]
    pub fn reader(&self) -> FileReader {
        FileReader::new(self.clone())
    }

    /// Returns a buffered writer from the beginning of the file; flushing it ensures that the bytes have
    /// arrived.
    #[must_use]
    pub fn writer(&self) -> FileWriter {
        FileWriter::new(self.clone())
    }
}

/// Computes the target of a seek from the current position and the end of the file.
pub(crate) fn seek_target(
    position: io::SeekFrom,
    now: u64,
    end: impl FnOnce() -> Result<u64, FileError>,
) -> io::Result<u64> {
    let (from, by) = match position {
        io::SeekFrom::Start(offset) => return Ok(offset),
        io::SeekFrom::Current(by) => (now, by),
        io::SeekFrom::End(by) => (end().map_err(crate::error::to_io)?, by),
    };
    let before = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning of the file");
    from.checked_add_signed(by).ok_or_else(before)
}
