//! Reading small files of the kernel, and the numbers in them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Bytes of the longest file: `/proc/stat` of a thousand processors.
const BUFFER_BYTES: usize = 128 * 1024;

/// Reads files of the kernel, into the same memory.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader { buffer: vec![0; BUFFER_BYTES] }
    }
}

/// Opens a file to read it.
pub(super) fn open(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).ok()
}

impl Reader {
    /// What an open file says now, up to what fits: files of one record come whole in one call.
    pub(super) fn record(&mut self, file: impl AsFd) -> Option<&[u8]> {
        let count = rustix::io::pread(file, &mut self.buffer, 0).ok()?;
        self.buffer.get(..count)
    }

    /// What an open file of many records says now, up to what fits.
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

    /// What a file says, without white space around it.
    pub(super) fn file(&mut self, path: &Path) -> Option<&[u8]> {
        let file = open(path)?;
        self.record(file).map(<[u8]>::trim_ascii)
    }

    /// The number that a file says.
    pub(super) fn number(&mut self, path: &Path) -> Option<u64> {
        self.file(path).and_then(number)
    }

    /// The text that a file says.
    pub(super) fn text(&mut self, path: &Path) -> Option<String> {
        self.file(path).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned)
    }
}

/// A decimal number of nothing but digits.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// The lines of a file.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n')
}

/// A number as one of 32 bits; the largest for what is larger.
pub(super) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
