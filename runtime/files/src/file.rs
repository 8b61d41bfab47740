//! One open file.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use tombolo::Buffer;
use tombolo_platform::Deadline;

use crate::connection::{Connection, With};
use crate::error::FileError;
use crate::messages::{FileFault, FilesReply, FilesRequest, OpenMode};
use crate::stream::{FileReader, FileWriter};
use crate::{FileMap, Files};

/// How a file is opened: to read, unless more is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    pub(crate) mode: OpenMode,
}

impl OpenOptions {
    /// To read.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with(self, mode: OpenMode) -> Self {
        OpenOptions { mode: self.mode | mode }
    }

    /// To write as well.
    #[must_use]
    pub fn write(self) -> Self {
        self.with(OpenMode::WRITE)
    }

    /// To write as well, and made if it is not there.
    #[must_use]
    pub fn create(self) -> Self {
        self.with(OpenMode::WRITE | OpenMode::CREATE)
    }

    /// To write as well; made, and it must not be there.
    #[must_use]
    pub fn create_new(self) -> Self {
        self.with(OpenMode::WRITE | OpenMode::CREATE_NEW)
    }

    /// To write as well, and empty from then on.
    #[must_use]
    pub fn truncate(self) -> Self {
        self.with(OpenMode::WRITE | OpenMode::TRUNCATE)
    }
}

/// An open file, which is elsewhere. Cloning names the same one; it is closed with the last clone.
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

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// Whether it was opened for writing.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.opened.options.mode.contains(OpenMode::WRITE)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.opened.files.lock()
    }

    fn ask(&self, operation: &'static str, request: FilesRequest) -> Result<FilesReply, FileError> {
        self.lock().call((operation, self.path()), request, With::Empty).map(|(reply, _)| reply)
    }

    /// Its length, in bytes, as it is now.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server.
    pub fn len_bytes(&self) -> Result<u64, FileError> {
        match self.ask("look at", FilesRequest::Length { file: self.opened.number })? {
            FilesReply::Length { length_bytes } => Ok(length_bytes),
            other => Err(self.lock().unexpected(&other)),
        }
    }

    /// Cuts it, or makes it longer by zeros.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&self, length_bytes: u64) -> Result<(), FileError> {
        let request = FilesRequest::SetLength { file: self.opened.number, length_bytes };
        self.ask("set the length of", request).map(|_| ())
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server.
    pub fn sync(&self) -> Result<(), FileError> {
        self.ask("sync", FilesRequest::Sync { file: self.opened.number }).map(|_| ())
    }

    pub(crate) fn read_request(&self, offset_bytes: u64, length_bytes: usize) -> FilesRequest {
        FilesRequest::Read { file: self.opened.number, offset_bytes, length_bytes: length_bytes as u64 }
    }

    /// Reads into `target`, from `offset_bytes` of the file on. Says how much: less than asked for at the end
    /// of the file alone.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server. What `target` holds then means nothing.
    pub fn read_at(&self, offset_bytes: u64, target: &mut [u8]) -> Result<usize, FileError> {
        let mut connection = self.lock();
        let mut under_way = VecDeque::new();
        let read = self.read_pieces(&mut connection, &mut under_way, offset_bytes, target);
        under_way.into_iter().for_each(|(number, _)| connection.give_up(number));
        read
    }

    fn read_pieces(
        &self,
        connection: &mut Connection,
        under_way: &mut VecDeque<(u32, usize)>,
        offset_bytes: u64,
        target: &mut [u8],
    ) -> Result<usize, FileError> {
        let deadline = connection.deadline();
        let (piece_bytes, depth) = (connection.buffer_bytes(), connection.depth());
        let (mut asked, mut done) = (0, 0);
        loop {
            while asked < target.len() && under_way.len() < depth {
                let length = piece_bytes.min(target.len() - asked);
                let request = self.read_request(offset_bytes.saturating_add(asked as u64), length);
                let number = connection.submit(request, With::Empty, deadline)?;
                under_way.push_back((number, length));
                asked += length;
            }
            let Some((number, length)) = under_way.pop_front() else { return Ok(done) };
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

    /// The buffer that a read brought.
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

    /// Reads exactly as much as `target` holds.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`FileError::Ended`] when there is less.
    pub fn read_exact_at(&self, offset_bytes: u64, target: &mut [u8]) -> Result<(), FileError> {
        let read = self.read_at(offset_bytes, target)?;
        if read < target.len() {
            let (wanted_bytes, available_bytes) = (target.len() as u64, read as u64);
            return Err(FileError::Ended { path: self.path().into(), wanted_bytes, available_bytes });
        }
        Ok(())
    }

    /// Reads up to a buffer, from `offset_bytes` on, and leaves the bytes where they arrived: in memory that
    /// the file's server can reach too. Dropping the buffer gives it back to be read into again.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`BulkError::NoBuffer`](tombolo::bulk::BulkError::NoBuffer) when the
    /// program has all.
    pub fn buffer_at(&self, offset_bytes: u64) -> Result<Buffer, FileError> {
        let mut connection = self.lock();
        let length = connection.buffer_bytes();
        let request = self.read_request(offset_bytes, length);
        let answer = connection.call(("read", self.path()), request, With::Empty)?;
        self.content(&connection, answer, length)
    }

    /// Writes all of `source`, from `offset_bytes` of the file on; what lies between its end and there
    /// becomes zeros.
    ///
    /// # Errors
    /// [`FileError::Fault`]; the end of the server. Some may have been written then.
    pub fn write_at(&self, offset_bytes: u64, source: &[u8]) -> Result<(), FileError> {
        let mut connection = self.lock();
        let deadline = connection.deadline();
        let mut under_way = VecDeque::new();
        let mut written = Ok(());
        let piece_bytes = connection.buffer_bytes();
        for (index, piece) in source.chunks(piece_bytes).enumerate() {
            let at = offset_bytes.saturating_add((index * piece_bytes) as u64);
            written = self.write_piece(&mut connection, &mut under_way, (at, piece), deadline);
            if written.is_err() {
                break;
            }
        }
        for number in under_way {
            // Where one failed the others are waited for too: nothing is under way any more when this
            // returns.
            let done = connection.wait(number, ("write", self.path()), deadline);
            written = written.and(done.map(|_| ()));
        }
        written
    }

    fn write_piece(
        &self,
        connection: &mut Connection,
        under_way: &mut VecDeque<u32>,
        (offset_bytes, piece): (u64, &[u8]),
        deadline: Deadline,
    ) -> Result<(), FileError> {
        if under_way.len() >= connection.depth()
            && let Some(number) = under_way.pop_front()
        {
            connection.wait(number, ("write", self.path()), deadline)?;
        }
        let mut buffer = connection.take(deadline)?;
        buffer.write(0, piece)?;
        under_way.push_back(self.submit_write(connection, buffer, (offset_bytes, piece.len()), deadline)?);
        Ok(())
    }

    /// Writes the first bytes of a buffer.
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
        connection.submit(request, With::Filled(buffer), deadline)
    }

    /// Brings all of it here, to be read and changed as a slice.
    ///
    /// # Errors
    /// As [`read_exact_at`](Self::read_exact_at); `ENOMEM` when there is not so much memory.
    pub fn map(&self) -> Result<FileMap, FileError> {
        let length_bytes = self.len_bytes()?;
        self.map_range(0, length_bytes)
    }

    /// Brings a part of it here.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_range(&self, offset_bytes: u64, length_bytes: u64) -> Result<FileMap, FileError> {
        FileMap::new(self.clone(), offset_bytes, length_bytes)
    }

    /// Reads it from its beginning, ahead of the program.
    #[must_use]
    pub fn reader(&self) -> FileReader {
        FileReader::new(self.clone())
    }

    /// Writes it from its beginning, behind the program: what is written has arrived when it was flushed.
    #[must_use]
    pub fn writer(&self) -> FileWriter {
        FileWriter::new(self.clone())
    }
}

/// Where `position` leads, from where something is now and where it ends.
pub(crate) fn sought(
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
