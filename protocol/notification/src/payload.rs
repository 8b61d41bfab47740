//! Payload in the buffer: a FIFO of messages from one sender to one receiver.
//!
//! A message consists of a tag of eight bytes, chosen by the sender, a length and the payload. It starts on a
//! line of its own. The sender [puts](tombolo_onesided::put) it and raises a flag; the receiver gets it, and
//! raises a flag of its own to acknowledge it. Neither writes the other's lines.
//!
//! Positions are counted in lines from the first message on and never wrap; their place in memory is the
//! remainder by the number of lines of the FIFO. Each side computes them itself, from the lengths of messages
//! and the counts of the flags: a number in a line beside a flag could be newer than the flag, and refer to
//! data that has not arrived yet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::{CacheMaintenance, LINE_BYTES, OutOfRange, SharedMemory};
use tombolo_onesided::{FlagReader, FlagWriter, get, put};

use crate::Broken;

/// Size of a message before its payload, in bytes: tag and length.
pub const HEADER_BYTES: usize = 16;

/// Payload in the first line of a message, in bytes.
const FIRST_BYTES: usize = CACHE_LINE_BYTES - HEADER_BYTES;

/// Minimum length of a FIFO and unit of its length, in bytes.
pub const UNIT_BYTES: usize = LINE_BYTES;

/// Maximum length of a FIFO, in bytes.
pub const MAX_FIFO_BYTES: usize = 64 << 20;

/// Offsets of the parts of a FIFO, relative to its start. All of it must be zero initially.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    fifo_bytes: usize,
}

impl Layout {
    /// Computes the layout of a FIFO of `fifo_bytes`: a multiple of [`UNIT_BYTES`], up to [`MAX_FIFO_BYTES`].
    #[must_use]
    pub fn new(fifo_bytes: usize) -> Option<Layout> {
        let fits = (2 * UNIT_BYTES..=MAX_FIFO_BYTES).contains(&fifo_bytes);
        (fits && fifo_bytes.is_multiple_of(UNIT_BYTES)).then_some(Layout { fifo_bytes })
    }

    /// Returns the total length, with both flags, in bytes.
    #[must_use]
    pub fn total_bytes(self) -> usize {
        2 * LINE_BYTES + self.fifo_bytes
    }

    /// Returns the length of the FIFO alone, in bytes.
    #[must_use]
    pub fn fifo_bytes(self) -> usize {
        self.fifo_bytes
    }

    /// Returns the maximum payload, in bytes: a message takes at most half of the FIFO. So there is room for
    /// it once half is known to be free, and a receiver need not acknowledge every message.
    #[must_use]
    pub fn max_payload_bytes(self) -> usize {
        self.fifo_bytes / 2 - HEADER_BYTES
    }

    fn lines(self) -> u64 {
        (self.fifo_bytes / CACHE_LINE_BYTES) as u64
    }

    const SENT: usize = 0;
    const TAKEN: usize = LINE_BYTES;
    const DATA: usize = 2 * LINE_BYTES;
}

/// Returns the number of lines of a message.
#[must_use]
pub fn lines_of(payload_bytes: usize) -> u64 {
    (HEADER_BYTES + payload_bytes).div_ceil(CACHE_LINE_BYTES) as u64
}

/// Reason why a message was not sent. The caller still owns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The receiver has not taken enough of what was sent before.
    #[error("the receiver's buffer is full")]
    Full,
    /// The message will never fit.
    #[error("a message of {length_bytes} bytes is longer than the buffer allows, {max_bytes}")]
    TooLong {
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Maximum length, in bytes.
        max_bytes: usize,
    },
    /// The receiver violates the protocol.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Memory of a FIFO, with the code shared by both sides.
#[derive(Debug)]
struct Data<C: CacheMaintenance> {
    memory: SharedMemory<C>,
    layout: Layout,
}

impl<C: CacheMaintenance> Data<C> {
    /// Returns the pieces, at most two, that `length` bytes from a line on occupy: the offset of each piece
    /// in the memory, and its range of the bytes.
    fn pieces(&self, position: u64, length: usize) -> impl Iterator<Item = (usize, core::ops::Range<usize>)> {
        let at = (position % self.layout.lines()) as usize * CACHE_LINE_BYTES;
        let before_end = length.min(self.layout.fifo_bytes - at);
        [(at, 0..before_end), (0, before_end..length)].into_iter().filter(|(_, range)| !range.is_empty())
    }
}

/// Sending end of a FIFO. There must be only one.
#[derive(Debug)]
pub struct Sender<C: CacheMaintenance> {
    data: Data<C>,
    sent: FlagWriter<C>,
    taken: FlagReader<C>,
    /// Number of lines sent, and of these how many the receiver is known to have taken.
    position: u64,
    released: u64,
    /// End positions of the messages that it is not known to have taken.
    ends: VecDeque<u64>,
}

impl<C: CacheMaintenance> Sender<C> {
    /// Creates the sending end of the unused FIFO in `memory`.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is shorter than the layout.
    pub fn new(memory: &SharedMemory<C>, layout: Layout) -> Result<Self, OutOfRange> {
        Ok(Sender {
            data: Data { memory: memory.slice(Layout::DATA, layout.fifo_bytes)?, layout },
            sent: FlagWriter::new(memory, Layout::SENT)?,
            taken: FlagReader::new(memory, Layout::TAKEN)?,
            position: 0,
            released: 0,
            ends: VecDeque::new(),
        })
    }

    /// Sends a message. The caller must then check whether the receiver sleeps.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn try_send(&mut self, tag: u64, payload: &[u8]) -> Result<(), SendError> {
        let max_bytes = self.data.layout.max_payload_bytes();
        if payload.len() > max_bytes {
            return Err(SendError::TooLong { length_bytes: payload.len(), max_bytes });
        }
        let lines = lines_of(payload.len());
        if !self.has_room(lines) {
            self.refresh_released()?;
            if !self.has_room(lines) {
                return Err(SendError::Full);
            }
        }
        let mut first = [0; CACHE_LINE_BYTES];
        let (head, rest) = payload.split_at(payload.len().min(FIRST_BYTES));
        first[..8].copy_from_slice(&tag.to_le_bytes());
        first[8..HEADER_BYTES].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        first[HEADER_BYTES..HEADER_BYTES + head.len()].copy_from_slice(head);
        for (at, range) in self.data.pieces(self.position, HEADER_BYTES + head.len()) {
            put(&self.data.memory, at, &first[range]).map_err(Broken::from)?;
        }
        for (at, range) in self.data.pieces(self.position + 1, rest.len()) {
            put(&self.data.memory, at, &rest[range]).map_err(Broken::from)?;
        }
        self.position += lines;
        self.ends.push_back(self.position);
        self.sent.raise();
        Ok(())
    }

    fn has_room(&self, lines: u64) -> bool {
        self.position - self.released + lines <= self.data.layout.lines()
    }

    /// Updates the number of lines that the receiver has taken.
    fn refresh_released(&mut self) -> Result<(), Broken> {
        let (taken, sent) = (self.taken.latest(), self.sent.raised());
        let before = sent - self.ends.len() as u64;
        if taken < before || taken > sent {
            return Err(Broken::Taken { taken, sent, before });
        }
        for end in self.ends.drain(..(taken - before) as usize) {
            self.released = end;
        }
        Ok(())
    }

    /// Returns the number of messages sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.raised()
    }
}

/// Tag and length of a received message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Tag set by the sender.
    pub tag: u64,
    /// Length of its payload, in bytes.
    pub length: usize,
}

/// Receiving end of a FIFO. There must be only one.
#[derive(Debug)]
pub struct Receiver<C: CacheMaintenance> {
    data: Data<C>,
    sent: FlagReader<C>,
    taken: FlagWriter<C>,
    /// Number of lines taken, and of these how many were acknowledged.
    position: u64,
    acknowledged: u64,
    /// Number of messages known to be sent, and number taken.
    known_sent: u64,
    received: u64,
}

impl<C: CacheMaintenance> Receiver<C> {
    /// Creates the receiving end, like [`Sender::new`].
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is shorter than the layout.
    pub fn new(memory: &SharedMemory<C>, layout: Layout) -> Result<Self, OutOfRange> {
        Ok(Receiver {
            data: Data { memory: memory.slice(Layout::DATA, layout.fifo_bytes)?, layout },
            sent: FlagReader::new(memory, Layout::SENT)?,
            taken: FlagWriter::new(memory, Layout::TAKEN)?,
            position: 0,
            acknowledged: 0,
            known_sent: 0,
            received: 0,
        })
    }

    /// Receives the next message into `payload`, if there is one.
    ///
    /// # Errors
    /// [`Broken`] when the sender violates the protocol. The FIFO is unusable afterwards.
    pub fn try_receive(&mut self, payload: &mut Vec<u8>) -> Result<Option<Received>, Broken> {
        if self.received == self.known_sent && !self.refresh_sent()? {
            return Ok(None);
        }
        let mut first = [0; CACHE_LINE_BYTES];
        for (at, range) in self.data.pieces(self.position, CACHE_LINE_BYTES) {
            get(&self.data.memory, at, &mut first[range])?;
        }
        let word = |at: usize| u64::from_le_bytes(first[at..at + 8].try_into().unwrap_or_default());
        let (tag, length_bytes) = (word(0), word(8));
        let max_bytes = self.data.layout.max_payload_bytes() as u64;
        if length_bytes > max_bytes {
            return Err(Broken::Length { length_bytes, max_bytes });
        }
        let length = length_bytes as usize;
        let head = length.min(FIRST_BYTES);
        payload.clear();
        payload.extend_from_slice(&first[HEADER_BYTES..HEADER_BYTES + head]);
        payload.resize(length, 0);
        for (at, range) in self.data.pieces(self.position + 1, length - head) {
            get(&self.data.memory, at, &mut payload[head..][range])?;
        }
        self.position += lines_of(length);
        self.received += 1;
        if self.position - self.acknowledged >= self.data.layout.lines() / 2 {
            self.release();
        }
        Ok(Some(Received { tag, length }))
    }

    /// Checks whether more was sent.
    fn refresh_sent(&mut self) -> Result<bool, Broken> {
        let sent = self.sent.latest();
        let (ahead, capacity) = (sent.wrapping_sub(self.taken.raised()), self.data.layout.lines());
        if ahead > capacity || sent < self.known_sent {
            return Err(Broken::Sent { ahead, capacity });
        }
        let is_more = sent > self.known_sent;
        self.known_sent = sent;
        Ok(is_more)
    }

    /// Acknowledges everything that was taken. Half of a FIFO is acknowledged without this.
    pub fn release(&mut self) {
        if self.has_unacknowledged() {
            self.acknowledged = self.position;
            self.taken.raise_by(self.received - self.taken.raised());
        }
    }

    /// Whether messages were taken that were not acknowledged.
    #[must_use]
    pub fn has_unacknowledged(&self) -> bool {
        self.acknowledged < self.position
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tombolo_base::Coherent;
    use tombolo_base::sync::Ordering;

    fn pair(fifo_bytes: usize) -> (SharedMemory, Sender<Coherent>, Receiver<Coherent>) {
        let layout = Layout::new(fifo_bytes).unwrap();
        let memory = SharedMemory::zeroed(layout.total_bytes());
        let (sender, receiver) = (Sender::new(&memory, layout), Receiver::new(&memory, layout));
        (memory, sender.unwrap(), receiver.unwrap())
    }

    #[test]
    fn the_limits_of_a_layout() {
        for fifo_bytes in [0, 128, 300, 257, MAX_FIFO_BYTES + 128] {
            assert_eq!(Layout::new(fifo_bytes), None, "{fifo_bytes}");
        }
        assert_eq!(Layout::new(256).unwrap().max_payload_bytes(), 112);
        assert!(Layout::new(MAX_FIFO_BYTES).is_some());
    }

    #[test]
    fn a_message_of_the_longest_length_fits_and_one_byte_more_does_not() {
        let (_, mut sender, mut receiver) = pair(256);
        let message = [7; 113];
        assert_eq!(
            sender.try_send(1, &message),
            Err(SendError::TooLong { length_bytes: 113, max_bytes: 112 })
        );
        let mut payload = Vec::new();
        for round in 0..9 {
            sender.try_send(round, &message[1..]).unwrap();
            let received = receiver.try_receive(&mut payload).unwrap();
            assert_eq!(received, Some(Received { tag: round, length: 112 }));
            assert_eq!(payload, message[1..]);
        }
    }

    #[test]
    fn full_fifo_accepts_after_an_acknowledgement() {
        let (_, mut sender, mut receiver) = pair(256);
        for tag in 0..4 {
            sender.try_send(tag, &[]).unwrap();
        }
        assert_eq!(sender.try_send(4, &[]), Err(SendError::Full));
        let mut payload = vec![1];
        receiver.try_receive(&mut payload).unwrap();
        assert!(payload.is_empty() && receiver.has_unacknowledged());
        assert_eq!(sender.try_send(4, &[]), Err(SendError::Full));
        receiver.release();
        assert!(!receiver.has_unacknowledged());
        assert_eq!(sender.try_send(4, &[]), Ok(()));
        for _ in 0..2 {
            receiver.try_receive(&mut payload).unwrap();
        }
        assert!(!receiver.has_unacknowledged(), "half was taken");
        assert_eq!((sender.try_send(5, &[]), sender.sent()), (Ok(()), 6));
    }

    #[test]
    fn invalid_peer_words_are_refused() {
        let (memory, mut sender, mut receiver) = pair(256);
        sender.try_send(1, &[]).unwrap();
        let length = (Layout::DATA + 8) / 8;
        memory.words()[length].store(113_u64.to_le(), Ordering::Relaxed);
        let error = receiver.try_receive(&mut Vec::new()).unwrap_err();
        assert_eq!(error, Broken::Length { length_bytes: 113, max_bytes: 112 });
        memory.words()[length].store(0, Ordering::Relaxed);
        receiver.try_receive(&mut Vec::new()).unwrap();
        for sent in [6, u64::MAX, 0] {
            memory.words()[7].store(u64::to_le(sent), Ordering::Relaxed);
            assert!(matches!(receiver.try_receive(&mut Vec::new()), Err(Broken::Sent { .. })), "{sent}");
        }
        memory.words()[Layout::TAKEN / 8 + 7].store(u64::MAX, Ordering::Relaxed);
        let refused = (0..6).find_map(|_| sender.try_send(1, &[0; 100]).err());
        assert!(matches!(refused, Some(SendError::Broken(Broken::Taken { .. }))), "{refused:?}");
    }

    proptest! {
        #[test]
        fn any_memory_gives_messages_within_the_limits_or_an_error(words in prop::collection::vec(
            prop_oneof![any::<u64>(), 0_u64..300], 64,
        )) {
            let (memory, _, mut receiver) = pair(256);
            for (word, value) in memory.words().iter().zip(words) {
                word.store(value, Ordering::Relaxed);
            }
            let mut payload = Vec::new();
            for _ in 0..8 {
                match receiver.try_receive(&mut payload) {
                    Ok(Some(received)) => prop_assert!(received.length <= 112),
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }
}
