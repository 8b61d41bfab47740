//! Files as streams, with read-ahead and write-behind.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom, Write};

use tombolo::Buffer;

use crate::connection::{BufferPermit, CallBuffer, Connection};
use crate::error::{FileError, to_io};
use crate::file::{File, seek_target};

/// Bytes held between two calls of the program.
#[derive(Debug)]
enum HeldBytes {
    /// In the buffer that they arrived in, or are sent from.
    Buffer { buffer: Buffer, _permit: BufferPermit },
    /// Copied, so that others can use the buffer.
    Copy(Vec<u8>),
}

/// Reads a file sequentially, with several reads in flight. The read-ahead grows as the program reads on, up
/// to half of the buffers.
#[derive(Debug)]
pub struct FileReader {
    file: File,
    /// Bytes being read by the program, with the number consumed.
    current: Option<(HeldBytes, usize)>,
    /// Position of the program.
    position: u64,
    /// Calls in flight, each with its offset in the file.
    in_flight: VecDeque<(u32, u64)>,
    /// Offset of the next read-ahead.
    next_offset: u64,
    depth: usize,
}

impl FileReader {
    pub(crate) fn new(file: File) -> FileReader {
        FileReader { file, current: None, position: 0, in_flight: VecDeque::new(), next_offset: 0, depth: 1 }
    }

    /// File that is read.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Discards the read-ahead and continues at the program's position.
    fn restart_read_ahead(&mut self, connection: &mut Connection) {
        self.in_flight.drain(..).for_each(|(number, _)| connection.discard(number));
        self.next_offset = self.position;
    }

    /// Returns the next bytes, as they arrived; `None` at the end of the file.
    fn fetch(&mut self) -> Result<Option<HeldBytes>, FileError> {
        let file = self.file.clone();
        let mut connection = file.lock();
        let deadline = connection.deadline();
        let length = connection.buffer_bytes();
        loop {
            if self.in_flight.is_empty() {
                let request = file.read_request(self.next_offset, length);
                self.in_flight
                    .push_back((connection.submit(request, CallBuffer::Empty, deadline)?, self.next_offset));
                self.next_offset = self.next_offset.saturating_add(length as u64);
            }
            while self.in_flight.len() < self.depth {
                let request = file.read_request(self.next_offset, length);
                let Some(number) = connection.submit_read_ahead(request)? else { break };
                self.in_flight.push_back((number, self.next_offset));
                self.next_offset = self.next_offset.saturating_add(length as u64);
            }
            let Some((number, _)) = self.in_flight.pop_front() else { return Ok(None) };
            let Some(answer) = connection.wait_unless_discarded(number, ("read", file.path()), deadline)?
            else {
                // Another reader took its buffer.
                self.restart_read_ahead(&mut connection);
                self.depth = 1;
                continue;
            };
            let buffer = file.content(&connection, answer, length)?;
            self.depth = (self.depth * 2).min(connection.depth());
            let count = buffer.len_bytes();
            if count < length as u64 {
                // The end, unless the file is longer when the program gets there.
                self.position += count;
                self.restart_read_ahead(&mut connection);
                self.position -= count;
                self.depth = 1;
            }
            return match connection.try_buffer_permit() {
                _ if count == 0 => Ok(None),
                Some(permit) => Ok(Some(HeldBytes::Buffer { buffer, _permit: permit })),
                None => {
                    let mut copy = vec![0; count as usize];
                    buffer.read(0, &mut copy)?;
                    Ok(Some(HeldBytes::Copy(copy)))
                }
            };
        }
    }
}

impl Read for FileReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        if self.current.is_none() {
            self.current = self.fetch().map_err(to_io)?.map(|held| (held, 0));
        }
        let Some((held, taken)) = &mut self.current else { return Ok(0) };
        let available = match held {
            HeldBytes::Buffer { buffer, .. } => buffer.len_bytes() as usize,
            HeldBytes::Copy(bytes) => bytes.len(),
        };
        let count = target.len().min(available - *taken);
        match held {
            HeldBytes::Buffer { buffer, .. } => {
                buffer.read(*taken as u64, &mut target[..count]).map_err(|error| to_io(error.into()))?;
            }
            HeldBytes::Copy(bytes) => target[..count].copy_from_slice(&bytes[*taken..][..count]),
        }
        *taken += count;
        self.position += count as u64;
        if *taken == available {
            self.current = None;
        }
        Ok(count)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let to = seek_target(position, self.position, || self.file.len_bytes())?;
        if to != self.position {
            self.current = None;
            self.position = to;
            let file = self.file.clone();
            self.restart_read_ahead(&mut file.lock());
        }
        Ok(to)
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        self.current = None;
        let file = self.file.clone();
        self.restart_read_ahead(&mut file.lock());
    }
}

/// Writes a file sequentially, with several writes in flight. The error of a write is returned by a later
/// call, at the latest by [`flush`](Write::flush). Dropping it writes the rest and ignores errors.
#[derive(Debug)]
pub struct FileWriter {
    file: File,
    /// Bytes being filled, with their number.
    current: Option<(HeldBytes, usize)>,
    /// Offset of these bytes in the file.
    position: u64,
    in_flight: VecDeque<u32>,
}

impl FileWriter {
    pub(crate) fn new(file: File) -> FileWriter {
        FileWriter { file, current: None, position: 0, in_flight: VecDeque::new() }
    }

    /// File that is written.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Waits until at most `most` writes are in flight.
    fn wait_in_flight(&mut self, connection: &mut Connection, most: usize) -> Result<(), FileError> {
        let mut result = Ok(());
        while self.in_flight.len() > most
            && let Some(number) = self.in_flight.pop_front()
        {
            let done = connection.wait(number, ("write", self.file.path()), connection.deadline());
            result = result.and(done.map(|_| ()));
        }
        result
    }

    /// Sends the bytes that were filled.
    fn send(&mut self, connection: &mut Connection) -> Result<(), FileError> {
        let Some((held, filled)) = self.current.take() else { return Ok(()) };
        self.wait_in_flight(connection, connection.depth() - 1)?;
        let deadline = connection.deadline();
        let buffer = match held {
            HeldBytes::Buffer { buffer, .. } => buffer,
            HeldBytes::Copy(bytes) => {
                let mut buffer = connection.take(deadline)?;
                buffer.write(0, &bytes[..filled])?;
                buffer
            }
        };
        let at = (self.position, filled);
        self.in_flight.push_back(self.file.submit_write(connection, buffer, at, deadline)?);
        self.position += filled as u64;
        Ok(())
    }

    /// Returns memory to fill.
    fn memory_to_fill(&mut self, connection: &mut Connection) -> Result<HeldBytes, FileError> {
        let Some(permit) = connection.try_buffer_permit() else {
            return Ok(HeldBytes::Copy(vec![0; connection.buffer_bytes()]));
        };
        self.wait_in_flight(connection, connection.depth() - 1)?;
        let deadline = connection.deadline();
        Ok(HeldBytes::Buffer { buffer: connection.take(deadline)?, _permit: permit })
    }

    fn write_some(&mut self, source: &[u8]) -> Result<usize, FileError> {
        let file = self.file.clone();
        let mut connection = file.lock();
        if self.current.is_none() {
            self.current = Some((self.memory_to_fill(&mut connection)?, 0));
        }
        let Some((held, filled)) = &mut self.current else { return Ok(0) };
        let room = connection.buffer_bytes() - *filled;
        let count = source.len().min(room);
        match held {
            HeldBytes::Buffer { buffer, .. } => buffer.write(*filled as u64, &source[..count])?,
            HeldBytes::Copy(bytes) => bytes[*filled..][..count].copy_from_slice(&source[..count]),
        }
        *filled += count;
        if count == room {
            self.send(&mut connection)?;
        }
        Ok(count)
    }

    fn finish(&mut self) -> Result<(), FileError> {
        let file = self.file.clone();
        let mut connection = file.lock();
        let sent = self.send(&mut connection);
        let result = self.wait_in_flight(&mut connection, 0);
        sent.and(result)
    }
}

impl Write for FileWriter {
    fn write(&mut self, source: &[u8]) -> io::Result<usize> {
        self.write_some(source).map_err(to_io)
    }

    /// Waits until the written bytes have reached the file; [`File::sync`] waits for the disk.
    fn flush(&mut self) -> io::Result<()> {
        self.finish().map_err(to_io)
    }
}

impl Seek for FileWriter {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.flush()?;
        self.position = seek_target(position, self.position, || self.file.len_bytes())?;
        Ok(self.position)
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
