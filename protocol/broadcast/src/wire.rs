//! Encoding of the messages. Specified in `docs/specs/broadcast.md`.
//!
//! Numbers are little-endian and reserved fields are zero. The decoder accepts exactly what the encoder
//! produces.

use alloc::collections::BTreeMap;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::view::View;
use crate::{MAX_MEMBERS, MemberId};

/// Version of the protocol, sent in each [`Sync`].
pub const VERSION: u16 = 1;

/// Maximum length of the header of a chunk or submission, in bytes.
pub const MAX_HEADER_BYTES: usize = 48;

const CHUNK: u8 = 1;
const RELAYED_CHUNK: u8 = 2;
const FLAGS: u8 = 3;
const SUBMIT: u8 = 4;
const SYNC: u8 = 5;
const LEAVE: u8 = 6;

/// Maximum id, and maximum number of a chunk.
const MAX_WORD: u64 = u64::MAX >> 1;

const FIRST: u8 = 1;
const LAST: u8 = 2;
const JOINING: u8 = 1;

/// Part of a message, of at most the configured length.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Chunk {
    /// Member that broadcasts the message.
    pub origin: MemberId,
    /// Number among all chunks of its origin, from 1.
    pub number: u64,
    /// Whether it is the first chunk of a message.
    pub first: bool,
    /// Whether it is the last chunk of a message.
    pub last: bool,
    /// Contents of the chunk.
    pub data: Arc<[u8]>,
}

/// Progress of a member in the stream of a source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Progress {
    /// Last chunk that it has received; it has all earlier ones.
    pub have: u64,
    /// Last chunk that its program has taken.
    pub taken: u64,
}

/// Progress of a member when its view changes. Nothing that it sent before depends on the new view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sync {
    /// View of the member.
    pub view: View,
    /// Whether it is joining and has no streams yet.
    pub is_joining: bool,
    /// Its streams by source, including those of sources that are gone.
    pub streams: BTreeMap<MemberId, Progress>,
}

/// Message of the protocol.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// A chunk, sent along the tree of its source: the notification and the content of the paper's buffer.
    Chunk {
        /// Root of the tree: the origin or, with a total order, the sequencer.
        source: MemberId,
        /// Sequence number in the stream of the source, from 1.
        seq: u64,
        /// Sequence number up to which all members have taken the chunks.
        stable: u64,
        /// Contents of the chunk.
        chunk: Chunk,
    },
    /// Acknowledgements: the paper's done flags.
    Flags {
        /// Number of chunks that the sender of this message has received from its receiver.
        received: u64,
        /// By source, the last chunk that the sender and all members below it in the tree have taken.
        taken: Vec<(MemberId, u64)>,
    },
    /// A chunk for the sequencer, to be broadcast in its stream.
    Submit(Chunk),
    /// A change of the view.
    Sync(Sync),
    /// Orderly departure of the sender: its last message.
    Leave,
}

impl Message {
    /// Appends the encoded message.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let word = |bytes: &mut Vec<u8>, word: u64| bytes.extend_from_slice(&word.to_le_bytes());
        match self {
            Message::Chunk { source, seq, stable, chunk } => {
                // A source's own chunks have a single number, which is not sent twice.
                let own = chunk.origin == *source && chunk.number == *seq;
                push_head(bytes, if own { CHUNK } else { RELAYED_CHUNK }, edge_flags(chunk), 0);
                for field in [source.0, *seq, *stable] {
                    word(bytes, field);
                }
                if !own {
                    word(bytes, chunk.origin.0);
                    word(bytes, chunk.number);
                }
                bytes.extend_from_slice(&chunk.data);
            }
            Message::Flags { received, taken } => {
                push_head(bytes, FLAGS, 0, 0);
                word(bytes, *received);
                for (source, seq) in taken {
                    word(bytes, source.0);
                    word(bytes, *seq);
                }
            }
            Message::Submit(chunk) => {
                push_head(bytes, SUBMIT, edge_flags(chunk), 0);
                word(bytes, chunk.origin.0);
                word(bytes, chunk.number);
                bytes.extend_from_slice(&chunk.data);
            }
            Message::Leave => push_head(bytes, LEAVE, 0, 0),
            Message::Sync(sync) => {
                push_head(bytes, SYNC, if sync.is_joining { JOINING } else { 0 }, VERSION);
                word(bytes, sync.view.highest.0);
                word(bytes, sync.view.members.len() as u64);
                for member in &sync.view.members {
                    word(bytes, member.0);
                }
                for (source, progress) in &sync.streams {
                    for field in [source.0, progress.have, progress.taken] {
                        word(bytes, field);
                    }
                }
            }
        }
    }

    /// Decodes a message. Returns `None` for bytes that are not a valid message.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (head, mut rest) = bytes.split_first_chunk::<8>()?;
        let [kind, flags, low, high, 0, 0, 0, 0] = *head else { return None };
        let version = u16::from_le_bytes([low, high]);
        if version != if kind == SYNC { VERSION } else { 0 } {
            return None;
        }
        let rest = &mut rest;
        match kind {
            CHUNK | RELAYED_CHUNK => {
                let (source, seq, stable) = (MemberId(take_word(rest)?), take_word(rest)?, take_word(rest)?);
                let (origin, number) = if kind == CHUNK {
                    (source, seq)
                } else {
                    (MemberId(take_word(rest)?), take_word(rest)?)
                };
                let twice = kind == RELAYED_CHUNK && (origin, number) == (source, seq);
                let chunk = decode_chunk(origin, number, flags, rest)?;
                let valid = !twice && seq > stable;
                valid.then_some(Message::Chunk { source, seq, stable, chunk })
            }
            FLAGS if flags == 0 && rest.len() % 16 == 8 => {
                let received = take_word(rest)?;
                let mut taken = Vec::with_capacity(rest.len() / 16);
                while !rest.is_empty() {
                    taken.push((MemberId(take_word(rest)?), take_word(rest)?));
                }
                Some(Message::Flags { received, taken })
            }
            SUBMIT => {
                let (origin, number) = (MemberId(take_word(rest)?), take_word(rest)?);
                Some(Message::Submit(decode_chunk(origin, number, flags, rest)?))
            }
            LEAVE if flags == 0 && rest.is_empty() => Some(Message::Leave),
            SYNC if flags & !JOINING == 0 => Some(Message::Sync(read_sync(flags == JOINING, rest)?)),
            _ => None,
        }
    }
}

fn push_head(bytes: &mut Vec<u8>, kind: u8, flags: u8, version: u16) {
    let [low, high] = version.to_le_bytes();
    bytes.extend_from_slice(&[kind, flags, low, high, 0, 0, 0, 0]);
}

fn edge_flags(chunk: &Chunk) -> u8 {
    (u8::from(chunk.first) * FIRST) | (u8::from(chunk.last) * LAST)
}

fn take_word(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    // Bounded so that sums with another number do not overflow.
    Some(u64::from_le_bytes(*word)).filter(|word| *word <= MAX_WORD)
}

fn decode_chunk(origin: MemberId, number: u64, flags: u8, data: &[u8]) -> Option<Chunk> {
    let valid = flags & !(FIRST | LAST) == 0 && number != 0;
    let (first, last) = (flags & FIRST != 0, flags & LAST != 0);
    valid.then(|| Chunk { origin, number, first, last, data: Arc::from(data) })
}

fn read_sync(is_joining: bool, rest: &mut &[u8]) -> Option<Sync> {
    let (highest, count) = (MemberId(take_word(rest)?), take_word(rest)?);
    if count > MAX_MEMBERS as u64 {
        return None;
    }
    let mut members = BTreeSet::new();
    for _ in 0..count {
        let member = MemberId(take_word(rest)?);
        if members.last().is_some_and(|last| *last >= member) || member > highest {
            return None;
        }
        members.insert(member);
    }
    // One for each member, and for those that are gone and whose chunks are still in transit.
    if !rest.len().is_multiple_of(24) || rest.len() / 24 > 2 * MAX_MEMBERS {
        return None;
    }
    let mut streams = BTreeMap::new();
    while !rest.is_empty() {
        let (source, progress) =
            (MemberId(take_word(rest)?), Progress { have: take_word(rest)?, taken: take_word(rest)? });
        let in_order = streams.last_key_value().is_none_or(|(last, _)| *last < source);
        if !in_order || progress.taken > progress.have {
            return None;
        }
        streams.insert(source, progress);
    }
    Some(Sync { view: View { highest, members }, is_joining, streams })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    }

    fn chunk(origin: u64, number: u64) -> Chunk {
        Chunk { origin: MemberId(origin), number, first: true, last: false, data: Arc::from(*b"abc") }
    }

    #[test]
    fn encoded_bytes_are_golden() {
        let own = Message::Chunk { source: MemberId(3), seq: 7, stable: 5, chunk: chunk(3, 7) };
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(bytes_of(&own), [words(&[0x101, 3, 7, 5]), b"abc".to_vec()].concat());
        let relayed = Message::Chunk { source: MemberId(1), seq: 7, stable: 5, chunk: chunk(3, 7) };
        assert_eq!(bytes_of(&relayed), [words(&[0x102, 1, 7, 5, 3, 7]), b"abc".to_vec()].concat());
        let flags = Message::Flags { received: 9, taken: alloc::vec![(MemberId(1), 2)] };
        assert_eq!(bytes_of(&flags), words(&[3, 9, 1, 2]));
        assert_eq!(bytes_of(&Message::Leave), words(&[6]));
        assert_eq!(bytes_of(&Message::Submit(chunk(3, 7)))[..24], words(&[0x104, 3, 7]));
        let sync = Sync {
            view: View::of([MemberId(2), MemberId(9)]),
            is_joining: true,
            streams: BTreeMap::from([(MemberId(2), Progress { have: 4, taken: 3 })]),
        };
        assert_eq!(bytes_of(&Message::Sync(sync)), words(&[0x1_0105, 9, 2, 2, 9, 2, 4, 3]));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        for bytes in [
            words(&[]),
            words(&[0x601]),
            words(&[0x401, 3, 7, 5]),       // an unknown flag
            words(&[0x101, 3, 7, 7]),       // stable before it was received
            words(&[0x102, 3, 7, 5, 3, 7]), // the short form exists
            words(&[3, 9, 1]),
            words(&[6, 0]),
            words(&[3, 1 << 63]),
            words(&[0x1_0005, 9, 2, 9, 2]),       // members out of order
            words(&[0x1_0005, 1, 1, 9]),          // a member above the highest
            words(&[0x1_0005, 9, 1, 9, 9, 1, 2]), // taken before it was received
            words(&[0x1_0005, 9, u64::MAX, 9]),   // more members than there can be
            words(&[0x2_0005, 9, 1, 9]),          // another version
        ] {
            assert_eq!(Message::decode(&bytes), None, "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(kind in 0u8..8, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if bytes.len() >= 8 {
                bytes[1] &= 3;
                bytes[2..8].fill(0);
                bytes[2] = u8::from(kind == SYNC);
            }
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(bytes_of(&message), bytes);
            }
        }
    }
}
