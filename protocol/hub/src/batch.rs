//! Batches: several values of a fifo in one message.
//!
//! Each value is preceded by its length in two bytes. A batch is at most as long as one value may be, so that
//! it takes no more of a channel or a server than a long value does.

use alloc::vec::Vec;

use crate::MAX_VALUE_BYTES;

/// Maximum number of values of a batch.
pub const MAX_BATCH: u32 = 256;

/// Size of the length before each value, in bytes.
const LENGTH_BYTES: usize = 2;

/// Maximum size of a batch with more than one value, in bytes.
const MAX_BYTES: usize = MAX_VALUE_BYTES as usize;

/// One to [`MAX_BATCH`] values, as encoded in a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Batch<'m> {
    bytes: &'m [u8],
    count: u32,
}

impl<'m> Batch<'m> {
    /// Decodes the end of a message. Returns `None` for bytes that are not a batch.
    pub(crate) fn read(bytes: &'m [u8]) -> Option<Batch<'m>> {
        let mut count = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = first(rest)?;
            count += 1;
        }
        let is_short = bytes.len() <= MAX_BYTES || count == 1;
        let longest = bytes.len() <= MAX_BYTES + LENGTH_BYTES;
        (is_short && longest && (1..=MAX_BATCH).contains(&count)).then_some(Batch { bytes, count })
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the values in order.
    pub fn iter(&self) -> impl Iterator<Item = &'m [u8]> + use<'m> {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (value, after) = first(rest)?;
            rest = after;
            Some(value)
        })
    }

    pub(crate) fn bytes(&self) -> &'m [u8] {
        self.bytes
    }
}

/// Returns the first of packed values, and the bytes after it.
pub(crate) fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(u16::from_le_bytes(*length).into())
}

/// Buffer in which values are collected for one message.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BatchBuf {
    bytes: Vec<u8>,
    count: u32,
}

impl BatchBuf {
    /// Creates an empty batch.
    #[must_use]
    pub const fn new() -> BatchBuf {
        BatchBuf { bytes: Vec::new(), count: 0 }
    }

    /// Whether there is room for a value of `bytes` bytes.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let is_first = self.count == 0 && bytes <= MAX_BYTES;
        is_first || (self.count < MAX_BATCH && self.bytes.len() + LENGTH_BYTES + bytes <= MAX_BYTES)
    }

    /// Adds a value. Returns false if there is no [room](Self::has_room).
    pub fn push(&mut self, value: &[u8]) -> bool {
        let fits = self.has_room(value.len());
        if let (true, Ok(length)) = (fits, u16::try_from(value.len())) {
            self.bytes.extend(length.to_le_bytes());
            self.bytes.extend(value);
            self.count += 1;
        }
        fits
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Removes all values but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Returns the values as they are sent, or `None` if there are none.
    #[must_use]
    pub fn batch(&self) -> Option<Batch<'_>> {
        (self.count > 0).then_some(Batch { bytes: &self.bytes, count: self.count })
    }

    /// Returns the values in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.batch().into_iter().flat_map(|batch| batch.iter())
    }
}

/// Reader that takes the values of a batch one by one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BatchReader {
    bytes: Vec<u8>,
    at: usize,
}

impl BatchReader {
    /// Returns the next value, or `None` after the last.
    pub fn next_value(&mut self) -> Option<&[u8]> {
        let (value, rest) = first(self.bytes.get(self.at..)?)?;
        self.at = self.bytes.len() - rest.len();
        Some(value)
    }
}

impl From<BatchBuf> for BatchReader {
    fn from(batch: BatchBuf) -> BatchReader {
        BatchReader { bytes: batch.bytes, at: 0 }
    }
}

impl From<Batch<'_>> for BatchBuf {
    fn from(batch: Batch<'_>) -> BatchBuf {
        BatchBuf { bytes: batch.bytes.to_vec(), count: batch.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_values_round_trip() {
        let mut batch = BatchBuf::new();
        assert!(batch.batch().is_none());
        for value in [&b"one"[..], b"", b"three"] {
            assert!(batch.push(value));
        }
        let sent = batch.batch().unwrap();
        assert_eq!(sent.bytes(), b"\x03\x00one\x00\x00\x05\x00three");
        let read = Batch::read(sent.bytes()).unwrap();
        assert_eq!(
            (read.count(), read.iter().collect::<Vec<_>>()),
            (3, alloc::vec![&b"one"[..], b"", b"three"])
        );
        assert_eq!(BatchBuf::from(read), batch);
        let mut reader = BatchReader::from(batch);
        for value in [&b"one"[..], b"", b"three"] {
            assert_eq!(reader.next_value(), Some(value));
        }
        assert_eq!(reader.next_value(), None);
    }

    #[test]
    fn limits_hold_for_both_sides() {
        let longest = alloc::vec![7; MAX_BYTES];
        let mut batch = BatchBuf::new();
        assert!(!batch.push(&alloc::vec![7; MAX_BYTES + 1]));
        assert!(batch.push(&longest) && !batch.push(b""), "the longest value is alone");
        assert!(Batch::read(&batch.bytes).is_some());
        batch.clear();
        assert!((0..MAX_BATCH).all(|_| batch.push(b"")) && !batch.push(b""));
        assert!(Batch::read(&batch.bytes).is_some());
        let one_more = [&batch.bytes[..], &[0, 0]].concat();
        let mut full = BatchBuf::new();
        assert!(full.push(&longest[..MAX_BYTES - 4]) && full.push(b"") && !full.push(b""));
        let too_long = [&full.bytes[..], &[0, 0]].concat();
        for wrong in [&b""[..], b"\x01", b"\x01\x00", b"\x00\x00\x01\x00", &one_more, &too_long] {
            assert_eq!(Batch::read(wrong), None);
        }
    }
}
