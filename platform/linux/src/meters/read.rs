//! Reads small files of the kernel and parses numbers in them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Length of the longest file: `/proc/stat` with a thousand processors.
const BUFFER_BYTES: usize = 128 * 1024;

/// Reader of kernel files with one reused buffer.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader { buffer: vec![0; BUFFER_BYTES] }
    }
}

/// Opens a file for reading.
pub(super) fn open(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).ok()
}

impl Reader {
    /// Returns the content of an open file, up to the size of the buffer. A file of one record is read in one
    /// call.
    pub(super) fn record(&mut self, file: impl AsFd) -> Option<&[u8]> {
        let count = rustix::io::pread(file, &mut self.buffer, 0).ok()?;
        self.buffer.get(..count)
    }

    /// Returns the content of an open file of many records, up to the size of the buffer.
    pub(super) fn records(&mut self, file: impl AsFd) -> Option<&[u8]> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            match rustix::io::pread(&file, &mut self.buffer[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(_) => return None,
            }
        }
        self.buffer.get(..filled)
    }

    /// Returns the content of a file, without surrounding white space.
    pub(super) fn file(&mut self, path: &Path) -> Option<&[u8]> {
        let file = open(path)?;
        self.record(file).map(<[u8]>::trim_ascii)
    }

    /// Returns the number in a file.
    pub(super) fn number(&mut self, path: &Path) -> Option<u64> {
        self.file(path).and_then(number)
    }

    /// Returns the text in a file.
    pub(super) fn text(&mut self, path: &Path) -> Option<String> {
        self.file(path).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned)
    }
}

/// Parses a decimal number that consists of digits only.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns the words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// Returns the lines of a file.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n')
}

/// Saturates a number to 32 bits.
pub(super) fn saturate_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
