//! Lines of a text file or stream, plain or gzip, with their numbers and a bound on their length.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use super::ReadError;
use crate::store;

/// Maximum line length, in bytes. A file with a longer line is not a text file.
pub const MAX_LINE_BYTES: usize = 1 << 20;

const BUFFER_BYTES: usize = 1 << 18;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Progress of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Lines read.
    pub lines: u64,
    /// Number of bytes read, before decompression.
    pub bytes: u64,
    /// Size of the file in bytes, if known.
    pub file_bytes: Option<u64>,
}

/// Reader of lines from a file or stream.
pub struct Lines<'w> {
    name: String,
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    bytes: Rc<Cell<u64>>,
    file_bytes: Option<u64>,
    watch: &'w mut dyn FnMut(Progress),
}

impl<'w> Lines<'w> {
    /// Opens a file; gzip is recognized by its first two bytes.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path, watch: &'w mut dyn FnMut(Progress)) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let failed = |source| ReadError::Io { name: name.clone(), source };
        let (stream, file_bytes) = store::open(path).map_err(failed)?;
        Self::new(name.clone(), stream, file_bytes, watch)
    }

    /// Reads any stream; errors refer to it as `name`.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn new(
        name: String,
        stream: impl Read + 'static,
        file_bytes: Option<u64>,
        watch: &'w mut dyn FnMut(Progress),
    ) -> Result<Self, ReadError> {
        let bytes = Rc::new(Cell::new(0));
        let counted = Counted { inner: stream, bytes: Rc::clone(&bytes) };
        let mut plain = BufReader::with_capacity(BUFFER_BYTES, counted);
        let start = plain.fill_buf().map_err(|source| ReadError::Io { name: name.clone(), source })?;
        let reader: Box<dyn BufRead> = if start.starts_with(&GZIP_MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(plain)))
        } else {
            Box::new(plain)
        };
        Ok(Self { name, reader, line: Vec::new(), number: 0, bytes, file_bytes, watch })
    }

    /// Returns the name of the source, for errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the line read last; the first is 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the line read last, without its terminator.
    #[must_use]
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Reads the next line; `false` at the end of the source.
    ///
    /// # Errors
    /// The source cannot be read, or the line is longer than [`MAX_LINE_BYTES`].
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        let mut bounded = self.reader.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        let count = bounded
            .read_until(b'\n', &mut self.line)
            .map_err(|source| ReadError::Io { name: self.name.clone(), source })?;
        if count == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.number.is_multiple_of(1 << 17) {
            let progress =
                Progress { lines: self.number, bytes: self.bytes.get(), file_bytes: self.file_bytes };
            (self.watch)(progress);
        }
        if self.line.len() > MAX_LINE_BYTES {
            return Err(self.malformed("a line of at most 1,048,576 bytes", "more: is this a text file?"));
        }
        while let Some(b'\n' | b'\r') = self.line.last() {
            self.line.pop();
        }
        Ok(true)
    }

    /// Creates the error for the line read last.
    #[must_use]
    pub fn malformed(&self, expected: &'static str, found: impl Into<String>) -> ReadError {
        ReadError::Line { name: self.name.clone(), line: self.number, expected, found: found.into() }
    }
}

/// Reader that counts the bytes read through it.
struct Counted<R> {
    inner: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

/// Splits a line into its fields, separated by white space.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty())
}

/// Quotes a piece of a line for an error message, cut to a readable length.
pub(super) fn quote(bytes: &[u8]) -> String {
    const LONGEST: usize = 60;
    let cut = &bytes[..bytes.len().min(LONGEST)];
    let dots = if bytes.len() > LONGEST { "…" } else { "" };
    format!("`{}{dots}`", cut.escape_ascii())
}
