//! Memory from which messages are read and to which they are written.

use alloc::vec::Vec;

/// Received message, in any memory. A peer may be able to change it between two reads, so each value is read
/// once, and only the validated copy is used.
#[derive(Clone, Copy)]
pub enum Source<'m> {
    /// In private memory, such as the copy of a short message. Read without a call.
    Bytes(&'m [u8]),
    /// In the memory where it was received, such as the slots of a ring.
    InPlace(&'m dyn InPlace),
}

/// Message that is read where it was received.
pub trait InPlace {
    /// Returns its length, in bytes.
    fn len_bytes(&self) -> usize;

    /// Returns the little-endian word at an offset that is a multiple of eight, if it lies completely in the
    /// message.
    fn word(&self, at: u32) -> Option<u64>;

    /// Copies bytes from any offset. Returns false and copies nothing if they do not lie in the message.
    fn copy(&self, at: u32, target: &mut [u8]) -> bool;
}

impl Source<'_> {
    /// Returns its length, in bytes.
    #[inline]
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match self {
            Source::Bytes(bytes) => bytes.len(),
            Source::InPlace(message) => message.len_bytes(),
        }
    }

    /// Returns the little-endian word at an offset that is a multiple of eight, if it lies completely in the
    /// message.
    #[inline]
    #[must_use]
    pub fn word(&self, at: u32) -> Option<u64> {
        match self {
            Source::Bytes(bytes) => {
                let rest = bytes.get(usize::try_from(at).ok()?..)?;
                rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
            }
            Source::InPlace(message) => message.word(at),
        }
    }

    /// Copies bytes from any offset. Returns false and copies nothing if they do not lie in the message.
    #[must_use]
    pub fn copy(&self, at: u32, target: &mut [u8]) -> bool {
        match self {
            Source::Bytes(bytes) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX);
                let Some(bytes) = start.checked_add(target.len()).and_then(|end| bytes.get(start..end))
                else {
                    return false;
                };
                target.copy_from_slice(bytes);
                true
            }
            Source::InPlace(message) => message.copy(at, target),
        }
    }

    /// Copies the whole message into `target`, replacing its contents. If the bytes cannot be read, `target`
    /// is left empty, and the decoder rejects it as too short.
    #[inline]
    pub(crate) fn copy_whole(&self, target: &mut Vec<u8>) {
        match self {
            Source::Bytes(bytes) => {
                target.clear();
                target.extend_from_slice(bytes);
            }
            Source::InPlace(message) => copy_in_place(*message, target),
        }
    }
}

#[inline(never)]
fn copy_in_place(message: &dyn InPlace, target: &mut Vec<u8>) {
    // Answers are mostly as long as the previous one.
    target.resize(message.len_bytes(), 0);
    if !message.copy(0, target) {
        target.clear();
    }
}

/// Buffer for a message to be sent. Writes outside of it are dropped: the writer has measured the message
/// before.
pub trait Sink {
    /// Writes a little-endian word at an offset that is a multiple of eight.
    fn word(&mut self, at: u32, value: u64);

    /// Writes bytes at an offset that is a multiple of eight, and zeros up to the next multiple.
    fn bytes(&mut self, at: u32, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        let mut at = at;
        for word in words {
            self.word(at, u64::from_le_bytes(*word));
            at = at.saturating_add(8);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(byte, value)| *byte = *value);
            self.word(at, u64::from_le_bytes(last));
        }
    }
}

impl Sink for [u8] {
    #[inline]
    fn word(&mut self, at: u32, value: u64) {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(place) = self.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
            *place = value.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a peer may remove between two reads.
    struct Shared(Vec<u8>, bool);

    impl InPlace for Shared {
        fn len_bytes(&self) -> usize {
            self.0.len()
        }

        fn word(&self, at: u32) -> Option<u64> {
            Source::Bytes(&self.0).word(at).filter(|_| !self.1)
        }

        fn copy(&self, at: u32, target: &mut [u8]) -> bool {
            !self.1 && Source::Bytes(&self.0).copy(at, target)
        }
    }

    #[test]
    fn whole_copy_is_complete_or_empty() {
        for length in [0, 1, 8, 57, 300] {
            let sent: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let there = Shared(sent.clone(), false);
            for source in [Source::Bytes(&sent), Source::InPlace(&there)] {
                for before in [0, 3, 400] {
                    let mut target = alloc::vec![0xee; before];
                    source.copy_whole(&mut target);
                    assert_eq!(target, sent);
                }
            }
            let mut target = alloc::vec![0xee; 9];
            Source::InPlace(&Shared(sent, true)).copy_whole(&mut target);
            assert!(target.is_empty(), "{length} bytes");
        }
    }
}
