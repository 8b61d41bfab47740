//! Messages in place: read before they are consumed, written before they are sent.

use tombolo_base::coherence::Flushed;
use tombolo_base::{CacheMaintenance, Coherent};
use tombolo_link::end::EndError;
pub use tombolo_ring::B64_PAYLOAD_BYTES;
use tombolo_ring::{Batch as RingBatch, Claim, OutOfMessage, SendError, TargetTooShort, View};

/// Kind of memory in whose slots messages, drafts and batches of a transport can lie.
pub trait MessageMemory: CacheMaintenance + 'static {
    /// Wraps a received message.
    fn message(message: View<'_, Self>) -> Message<'_>;

    /// Wraps room for a message.
    fn draft(claim: Claim<'_, Self>) -> Draft<'_>;

    /// Wraps messages that are sent together.
    fn batch(batch: RingBatch<'_, Self>) -> Batch<'_>;
}

impl MessageMemory for Coherent {
    #[inline(always)]
    fn message(message: View<'_>) -> Message<'_> {
        Message { place: Storage::Slots(message) }
    }

    #[inline(always)]
    fn draft(claim: Claim<'_>) -> Draft<'_> {
        Draft { room: DraftStorage::Slots(claim) }
    }

    #[inline(always)]
    fn batch(batch: RingBatch<'_>) -> Batch<'_> {
        Batch { add: BatchSink::Slots(batch) }
    }
}

impl MessageMemory for Flushed {
    fn message(message: View<'_, Flushed>) -> Message<'_> {
        Message { place: Storage::Flushed(message) }
    }

    fn draft(claim: Claim<'_, Flushed>) -> Draft<'_> {
        Draft { room: DraftStorage::Flushed(claim) }
    }

    fn batch(batch: RingBatch<'_, Flushed>) -> Batch<'_> {
        Batch { add: BatchSink::Flushed(batch) }
    }
}

/// Received message, read in place. It is consumed when the closure that received it returns.
///
/// The length is validated and fixed. Over shared memory the sender can still write the bytes: an honest
/// sender leaves them alone, but a hostile one may change them between two reads. Read each value once, check
/// it, and use that copy.
#[derive(Debug)]
pub struct Message<'a> {
    place: Storage<'a>,
}

#[derive(Debug)]
enum Storage<'a> {
    Slots(View<'a>),
    Flushed(View<'a, Flushed>),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    /// Wraps a message received as bytes, for transports without shared memory.
    #[inline]
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Message { place: Storage::Bytes(bytes) }
    }

    /// Returns the length of the message, in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.place {
            Storage::Slots(message) => message.len(),
            Storage::Flushed(message) => message.len(),
            Storage::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether the message has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the whole message to the start of `target` and returns its length in bytes.
    ///
    /// # Errors
    /// [`TargetTooShort`]; nothing was copied.
    #[inline(always)]
    pub fn copy_to(&self, target: &mut [u8]) -> Result<usize, TargetTooShort> {
        let target_bytes = target.len();
        let copied = match &self.place {
            Storage::Slots(message) => return message.copy_to(target),
            Storage::Flushed(message) => copy_flushed(*message, target),
            Storage::Bytes(bytes) => copy_bytes(bytes, target),
        };
        let message_bytes = self.len();
        if copied { Ok(message_bytes) } else { Err(TargetTooShort { message_bytes, target_bytes }) }
    }

    /// Returns the message as `N` little-endian numbers, as sent by [`Batch::push_words`], or `None` if its
    /// length differs.
    #[inline(always)]
    #[must_use]
    pub fn to_words<const N: usize>(&self) -> Option<[u64; N]> {
        match &self.place {
            Storage::Slots(message) => message.to_words(),
            Storage::Flushed(_) | Storage::Bytes(_) if self.len() != 8 * N => None,
            Storage::Flushed(message) => Some(copy_words(|target| copy_flushed(*message, target))),
            Storage::Bytes(bytes) => Some(copy_words(|target| copy_bytes(bytes, target))),
        }
    }

    /// Copies the part of the message at `offset_bytes` that fills `target`.
    ///
    /// # Errors
    /// [`OutOfMessage`] when the part does not lie inside the message; nothing was copied.
    #[inline]
    pub fn read_at(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfMessage> {
        match &self.place {
            Storage::Slots(message) => message.read_at(offset_bytes, target),
            Storage::Flushed(message) => message.read_at(offset_bytes, target),
            Storage::Bytes(bytes) => {
                target.copy_from_slice(slice_at(bytes, offset_bytes, target.len())?);
                Ok(())
            }
        }
    }

    /// Reads a little-endian number at any offset, with one load if the offset is a multiple of eight.
    ///
    /// # Errors
    /// [`OutOfMessage`] when its eight bytes do not lie inside the message.
    #[inline(always)]
    pub fn read_u64_le(&self, offset_bytes: usize) -> Result<u64, OutOfMessage> {
        match &self.place {
            Storage::Slots(message) => message.read_u64_le(offset_bytes),
            Storage::Flushed(message) => message.read_u64_le(offset_bytes),
            Storage::Bytes(bytes) => {
                let mut value = [0; 8];
                value.copy_from_slice(slice_at(bytes, offset_bytes, 8)?);
                Ok(u64::from_le_bytes(value))
            }
        }
    }

    /// Copies the message into `buffer`, replacing its content.
    #[inline(always)]
    pub fn copy_into(&self, buffer: &mut Vec<u8>) {
        match &self.place {
            Storage::Slots(message) => {
                if buffer.len() != message.len() {
                    buffer.resize(message.len(), 0);
                }
                // Cannot fail: the buffer has the length of the message.
                let _ = message.copy_to(buffer);
            }
            Storage::Flushed(message) => *buffer = message.to_vec(),
            Storage::Bytes(bytes) => {
                buffer.clear();
                buffer.extend_from_slice(bytes);
            }
        }
    }

    /// Copies the message into a vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_into(&mut bytes);
        bytes
    }
}

/// Copies a message of up to 56 bytes, the payload of a slot of the usual size, to the start of `target` and
/// returns its length in bytes. The rest of `target` is unspecified. Returns `None` and copies nothing if the
/// message is longer.
#[inline(always)]
pub fn copy_short(message: &Message<'_>, target: &mut [u8; B64_PAYLOAD_BYTES]) -> Option<usize> {
    match &message.place {
        Storage::Slots(message) if message.copy_slot_to(target) => Some(message.len()),
        _ => copy_other_short(message, target),
    }
}

// Not inlined: only what the fastest carrier needs is inlined together with `copy_to`.

#[inline(never)]
fn copy_flushed(message: View<'_, Flushed>, target: &mut [u8]) -> bool {
    message.copy_to(target).is_ok()
}

#[inline(never)]
fn copy_bytes(bytes: &[u8], target: &mut [u8]) -> bool {
    let Some(target) = target.get_mut(..bytes.len()) else { return false };
    target.copy_from_slice(bytes);
    true
}

/// Returns the numbers whose bytes `copy` copies, through a separate array: words of slots stay in registers.
#[inline(always)]
fn copy_words<const N: usize>(copy: impl FnOnce(&mut [u8]) -> bool) -> [u64; N] {
    let mut bytes = [[0; 8]; N];
    copy(bytes.as_flattened_mut());
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes) {
        *word = u64::from_le_bytes(bytes);
    }
    words
}

#[inline(never)]
fn copy_other_short(message: &Message<'_>, target: &mut [u8; B64_PAYLOAD_BYTES]) -> Option<usize> {
    message.copy_to(target).ok()
}

fn slice_at(bytes: &[u8], offset_bytes: usize, length_bytes: usize) -> Result<&[u8], OutOfMessage> {
    let end = offset_bytes.checked_add(length_bytes);
    end.and_then(|end| bytes.get(offset_bytes..end)).ok_or(OutOfMessage {
        offset_bytes,
        length_bytes,
        message_bytes: bytes.len(),
    })
}

/// Room for one message, written in place. It is sent when the closure that received it returns. Bytes that
/// are not written are unspecified.
pub struct Draft<'a> {
    room: DraftStorage<'a>,
}

enum DraftStorage<'a> {
    Slots(Claim<'a>),
    Flushed(Claim<'a, Flushed>),
    Bytes(&'a mut [u8]),
}

impl<'a> Draft<'a> {
    /// Creates a draft in `bytes`, for transports without shared memory.
    #[inline]
    #[must_use]
    pub fn of_bytes(bytes: &'a mut [u8]) -> Self {
        Draft { room: DraftStorage::Bytes(bytes) }
    }

    /// Publishes a message in slots.
    #[inline(always)]
    pub(crate) fn commit(self) {
        match self.room {
            DraftStorage::Slots(claim) => claim.commit(),
            DraftStorage::Flushed(claim) => claim.commit(),
            DraftStorage::Bytes(_) => {}
        }
    }

    /// Returns the length of the message, in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.room {
            DraftStorage::Slots(claim) => claim.len(),
            DraftStorage::Flushed(claim) => claim.len(),
            DraftStorage::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether the message has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes `source` at any offset. Offsets that are multiples of eight are fastest.
    ///
    /// # Errors
    /// [`OutOfMessage`] when `source` does not lie inside the message; nothing was written.
    #[inline]
    pub fn write_at(&mut self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfMessage> {
        match &mut self.room {
            DraftStorage::Slots(claim) => claim.write_at(offset_bytes, source),
            DraftStorage::Flushed(claim) => claim.write_at(offset_bytes, source),
            DraftStorage::Bytes(bytes) => {
                slice_at(bytes, offset_bytes, source.len())?;
                bytes[offset_bytes..offset_bytes + source.len()].copy_from_slice(source);
                Ok(())
            }
        }
    }

    /// Writes a little-endian number at any offset, with one store if the offset is a multiple of eight.
    ///
    /// # Errors
    /// [`OutOfMessage`] when its eight bytes do not lie inside the message; nothing was written.
    #[inline(always)]
    pub fn write_u64_le(&mut self, offset_bytes: usize, value: u64) -> Result<(), OutOfMessage> {
        match &mut self.room {
            DraftStorage::Slots(claim) => claim.write_u64_le(offset_bytes, value),
            DraftStorage::Flushed(claim) => claim.write_u64_le(offset_bytes, value),
            DraftStorage::Bytes(_) => self.write_at(offset_bytes, &value.to_le_bytes()),
        }
    }
}

impl std::fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Draft({} bytes)", self.len())
    }
}

/// Messages that are sent together when the closure that received the batch returns.
pub struct Batch<'a> {
    add: BatchSink<'a>,
}

enum BatchSink<'a> {
    Slots(RingBatch<'a>),
    Flushed(RingBatch<'a, Flushed>),
    /// Sends the messages one by one, for transports where that costs the same.
    OneByOne {
        send: &'a mut dyn FnMut(&[u8]) -> Result<(), EndError>,
        max_message_bytes: usize,
        sent: u64,
    },
}

impl<'a> Batch<'a> {
    pub(crate) fn one_by_one(
        max_message_bytes: usize,
        send: &'a mut dyn FnMut(&[u8]) -> Result<(), EndError>,
    ) -> Self {
        Batch { add: BatchSink::OneByOne { send, max_message_bytes, sent: 0 } }
    }

    /// Publishes the messages in slots and returns their number.
    #[inline(always)]
    pub(crate) fn commit(self) -> u64 {
        match self.add {
            BatchSink::Slots(batch) => {
                let messages = batch.len();
                batch.commit();
                messages
            }
            BatchSink::Flushed(batch) => {
                let messages = batch.len();
                batch.commit();
                messages
            }
            BatchSink::OneByOne { sent, .. } => sent,
        }
    }

    /// Adds a copy of `message`.
    ///
    /// # Errors
    /// [`NotAdded`]; earlier messages are still sent.
    #[inline(always)]
    pub fn push(&mut self, message: &[u8]) -> Result<(), NotAdded> {
        match &mut self.add {
            BatchSink::Slots(batch) => Ok(batch.push(message)?),
            BatchSink::Flushed(batch) => Ok(batch.push(message)?),
            BatchSink::OneByOne { .. } => self.push_one(message),
        }
    }

    /// Like [`push`](Self::push), for a message of numbers, received as their little-endian bytes. In rings
    /// this is a quarter to a half faster, because the message need not be in memory first.
    ///
    /// # Errors
    /// Same as [`push`](Self::push).
    #[inline(always)]
    pub fn push_words<const N: usize>(&mut self, words: [u64; N]) -> Result<(), NotAdded> {
        match &mut self.add {
            BatchSink::Slots(batch) => Ok(batch.push_words(words)?),
            BatchSink::Flushed(batch) => Ok(batch.push_words(words)?),
            BatchSink::OneByOne { .. } => {
                let mut copy = words;
                self.push_words_one(&mut copy)
            }
        }
    }

    // Takes a mutable reference to a copy, so that the caller's array is forced into memory only on this
    // path.
    #[cold]
    #[inline(never)]
    fn push_words_one<const N: usize>(&mut self, words: &mut [u64; N]) -> Result<(), NotAdded> {
        self.push_one(words.map(u64::to_le_bytes).as_flattened())
    }

    /// Sends a message on its own.
    fn push_one(&mut self, message: &[u8]) -> Result<(), NotAdded> {
        let BatchSink::OneByOne { send, max_message_bytes, sent } = &mut self.add else { return Ok(()) };
        send(message).map_err(|error| match error {
            EndError::Full => NotAdded::Full,
            EndError::TooLong => {
                NotAdded::TooLong { length_bytes: message.len(), max_bytes: *max_message_bytes }
            }
            EndError::Closed | EndError::PeerDied | EndError::Broken => NotAdded::Ended,
        })?;
        *sent += 1;
        Ok(())
    }

    /// Returns the number of messages added so far.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.add {
            BatchSink::Slots(batch) => batch.len(),
            BatchSink::Flushed(batch) => batch.len(),
            BatchSink::OneByOne { sent, .. } => *sent,
        }
    }

    /// Whether no message was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} messages)", self.len())
    }
}

/// Reason why a message was not added to a [`Batch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum NotAdded {
    /// There is no room until the peer receives more.
    #[error("the channel has no room for another message")]
    Full,
    /// The message exceeds the channel's limit.
    #[error("a message of {length_bytes} bytes exceeds this channel's limit of {max_bytes} bytes")]
    TooLong { length_bytes: usize, max_bytes: usize },
    /// The channel has ended; the next operation on it returns the reason.
    #[error("the channel has ended")]
    Ended,
}

impl From<SendError> for NotAdded {
    #[inline]
    fn from(error: SendError) -> Self {
        match error {
            SendError::Full => NotAdded::Full,
            SendError::TooLong { len_bytes, max_bytes } => {
                NotAdded::TooLong { length_bytes: len_bytes, max_bytes }
            }
            SendError::Closed | SendError::Abandoned | SendError::Violation(_) => NotAdded::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo_base::{LINE_BYTES, SharedMemory};
    use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};

    use super::*;

    #[test]
    fn a_message_of_bytes_is_read_like_one_in_slots() {
        let bytes: Vec<u8> = (0..20).collect();
        let message = Message::of_bytes(&bytes);
        assert_eq!((message.len(), message.is_empty()), (20, false));
        assert_eq!(message.to_vec(), bytes);
        assert_eq!(message.read_u64_le(3).unwrap(), u64::from_le_bytes([3, 4, 5, 6, 7, 8, 9, 10]));
        let mut target = [0; 4];
        message.read_at(16, &mut target).unwrap();
        assert_eq!(target, [16, 17, 18, 19]);
        for offset_bytes in [13, 20, usize::MAX] {
            assert!(message.read_u64_le(offset_bytes).is_err());
        }
        assert_eq!(
            message.copy_to(&mut [0; 19]),
            Err(TargetTooShort { message_bytes: 20, target_bytes: 19 })
        );
        assert_eq!(message.copy_to(&mut [0; 21]), Ok(20));
        assert_eq!(message.to_words::<2>(), None);
        assert_eq!(message.to_words::<3>(), None);
        let words = Message::of_bytes(&bytes[..16]).to_words();
        assert_eq!(words, Some([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]));
    }

    #[test]
    fn short_messages_are_copied_from_slots_of_any_size_and_from_bytes() {
        for size in SlotSize::ALL {
            let config = RingConfig::new(size, SlotCount::new(8).unwrap(), Variant::EpochCredit);
            let memory = RingMemory {
                slots: SharedMemory::zeroed(config.slots_bytes()),
                producer_line: SharedMemory::zeroed(LINE_BYTES),
                credit_line: SharedMemory::zeroed(LINE_BYTES),
            };
            let mut producer = Producer::new(config, memory.clone()).unwrap();
            let mut consumer = Consumer::new(config, memory).unwrap();
            for length_bytes in 0..=64 {
                let bytes: Vec<u8> = (1..=length_bytes).collect();
                let expected = (bytes.len() <= B64_PAYLOAD_BYTES).then_some(bytes.len());
                producer.try_send(&bytes).unwrap();
                let in_slots = consumer.try_recv().unwrap().unwrap();
                for message in [Coherent::message(in_slots.view()), Message::of_bytes(&bytes)] {
                    let mut target = [0xee; B64_PAYLOAD_BYTES];
                    assert_eq!(copy_short(&message, &mut target), expected, "{size:?}, {length_bytes}");
                    match expected {
                        Some(length) => assert_eq!(target[..length], bytes),
                        None => assert_eq!(target, [0xee; B64_PAYLOAD_BYTES]),
                    }
                }
            }
        }
    }

    #[test]
    fn a_draft_of_bytes_is_written_like_one_in_slots() {
        let mut bytes = [0; 12];
        let mut draft = Draft::of_bytes(&mut bytes);
        assert_eq!((draft.len(), draft.is_empty()), (12, false));
        draft.write_u64_le(4, 0x0807_0605_0403_0201).unwrap();
        draft.write_at(0, &[9, 9]).unwrap();
        assert!(draft.write_u64_le(5, 0).is_err());
        assert!(draft.write_at(usize::MAX, &[1]).is_err());
        draft.commit();
        assert_eq!(bytes, [9, 9, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_batch_sent_one_by_one_reports_why_it_ends() {
        for (error, expected) in [
            (EndError::Full, NotAdded::Full),
            (EndError::PeerDied, NotAdded::Ended),
            (EndError::TooLong, NotAdded::TooLong { length_bytes: 1, max_bytes: 8 }),
        ] {
            let mut sent = Vec::new();
            let mut send = |message: &[u8]| {
                if sent.len() == 2 {
                    return Err(error);
                }
                sent.push(message.to_vec());
                Ok(())
            };
            let mut batch = Batch::one_by_one(8, &mut send);
            assert!(batch.is_empty());
            assert_eq!(
                [batch.push(b"a"), batch.push(b"b"), batch.push(b"c")],
                [Ok(()), Ok(()), Err(expected)]
            );
            assert_eq!(batch.commit(), 2);
            assert_eq!(sent, [b"a", b"b"]);
        }
    }
}
