//! Many byte streams over one: what a link that is a single stream of bytes carries for channels.
//!
//! Both ends of the link have a [`Streams`]. Each gives it the ends of streams that programs have on its
//! side, by number, and either side may come first. Nothing is sent on a stream before the far side has
//! opened it too, and never more than the far side has room for: a program that does not read stops its own
//! sender and no other. A side that is done ends the stream in both directions, like a socket that is closed.
//! What was sent before is still delivered.
//!
//! The format is specified in `docs/specs/streams.md`. Bytes are arguments; there is no I/O here.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Bytes that a side takes of a stream before its program has read any.
pub const WINDOW_BYTES: u32 = 256 << 10;

/// The most bytes of a stream in one frame, so that streams take turns.
pub const MAX_DATA_BYTES: usize = 16 << 10;

/// While more than this waits for the link, no stream may send: what waits delays all streams.
pub const MAX_WAITING_BYTES: usize = 64 << 10;

/// The most streams that the far side may have opened and this one not yet.
pub const MAX_UNANSWERED: usize = 16 << 10;

/// Bytes before the data of a frame: the number of the stream, the kind and a count, little-endian.
pub const HEAD_BYTES: usize = 16;

const OPEN: u32 = 1;
const DATA: u32 = 2;
const ROOM: u32 = 3;
const END: u32 = 4;

/// What the far side did wrong; the link is of no use afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamsError {
    /// A kind of frame that there is not.
    #[error("a frame of the unknown kind {0}")]
    Kind(u32),
    /// More bytes than a frame has.
    #[error("a frame of {0} bytes; at most {MAX_DATA_BYTES} are allowed")]
    Length(u32),
    /// More bytes of a stream than there was room for, or bytes of one that is not open.
    #[error("{length_bytes} bytes of stream {stream}, which had room for {room_bytes}")]
    NoRoom {
        /// The stream.
        stream: u64,
        /// What came.
        length_bytes: u32,
        /// What could have come.
        room_bytes: u32,
    },
    /// A frame that does not fit the state of its stream.
    #[error("a frame of kind {kind} that stream {stream} cannot have now")]
    State {
        /// The stream.
        stream: u64,
        /// The kind.
        kind: u32,
    },
    /// Too many streams that only the far side has opened.
    #[error("more than {MAX_UNANSWERED} streams that this side has not opened")]
    TooMany,
}

/// Whether a side has a stream open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Not yet.
    Awaited,
    Open,
    /// It said that it is done.
    Ended,
}

/// A stream, as one side of the link has it.
#[derive(Debug)]
struct Stream {
    here: End,
    there: End,
    /// Bytes that the far side has room for.
    credit: u32,
    /// Bytes that this side has promised room for.
    promised: u32,
    /// Bytes delivered since room for them was promised anew.
    delivered: u32,
    /// Received and not yet delivered.
    pending: VecDeque<u8>,
}

impl Stream {
    fn new() -> Self {
        Stream {
            here: End::Awaited,
            there: End::Awaited,
            credit: 0,
            promised: 0,
            delivered: 0,
            pending: VecDeque::new(),
        }
    }

    /// Neither side will say anything more of it.
    fn is_over(&self) -> bool {
        (self.here, self.there) == (End::Ended, End::Ended)
    }
}

/// The streams of a link, as one side has them.
#[derive(Debug, Default)]
pub struct Streams {
    streams: BTreeMap<u64, Stream>,
    /// How many of them only the far side has opened.
    unanswered: usize,
    /// Frames that the link has not taken.
    outgoing: Vec<u8>,
    /// How many bytes of them it has taken.
    taken: usize,
    /// The head of the frame that arrives, as far as it is there.
    head: Vec<u8>,
    /// The stream whose data arrives, and how much is still to come.
    body: Option<(u64, usize)>,
}

impl Streams {
    /// A link without streams.
    #[must_use]
    pub fn new() -> Self {
        Streams::default()
    }

    /// How many streams there are, on either side.
    #[must_use]
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// A program of this side has its end of a stream. A number is opened once.
    pub fn open(&mut self, stream: u64) {
        let record = self.streams.entry(stream).or_insert_with(Stream::new);
        if record.here != End::Awaited {
            return;
        }
        self.unanswered -= usize::from(record.there != End::Awaited);
        (record.here, record.promised) = (End::Open, WINDOW_BYTES);
        push(&mut self.outgoing, stream, OPEN, WINDOW_BYTES, &[]);
    }

    /// The end of this side is gone, or never came to be: the far side learns it behind what was sent.
    pub fn end(&mut self, stream: u64) {
        let record = self.streams.entry(stream).or_insert_with(Stream::new);
        if record.here == End::Ended {
            return;
        }
        self.unanswered -= usize::from(record.here == End::Awaited && record.there != End::Awaited);
        record.here = End::Ended;
        record.pending = VecDeque::new();
        push(&mut self.outgoing, stream, END, 0, &[]);
        if record.is_over() {
            self.streams.remove(&stream);
        }
    }

    /// How many bytes may be sent on a stream now.
    #[must_use]
    pub fn room(&self, stream: u64) -> usize {
        let record = self.streams.get(&stream);
        match record.filter(|record| (record.here, record.there) == (End::Open, End::Open)) {
            Some(record) if self.waiting_bytes() <= MAX_WAITING_BYTES => {
                (record.credit as usize).min(MAX_DATA_BYTES)
            }
            _ => 0,
        }
    }

    /// Sends bytes, as many as there is [`room`](Self::room) for; returns how many.
    pub fn send(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let count = self.room(stream).min(bytes.len());
        if let Some(record) = self.streams.get_mut(&stream).filter(|_| count > 0) {
            record.credit -= count as u32;
            push(&mut self.outgoing, stream, DATA, count as u32, &bytes[..count]);
        }
        count
    }

    /// What has arrived for this side's end of a stream, or the first part of it.
    #[must_use]
    pub fn pending(&self, stream: u64) -> &[u8] {
        self.streams.get(&stream).map_or(&[], |record| record.pending.as_slices().0)
    }

    /// The end of this side has taken `count` of the pending bytes.
    pub fn delivered(&mut self, stream: u64, count: usize) {
        let Some(record) = self.streams.get_mut(&stream) else { return };
        let count = count.min(record.pending.len());
        record.pending.drain(..count);
        record.delivered += count as u32;
        // Not for every few bytes, and early enough that a sender need not stop.
        if record.delivered >= WINDOW_BYTES / 4 && record.there == End::Open {
            record.promised += record.delivered;
            push(&mut self.outgoing, stream, ROOM, record.delivered, &[]);
            record.delivered = 0;
        }
    }

    /// Whether the far side is done and everything that it sent was delivered: this side's end is to be
    /// closed and [ended](Self::end).
    #[must_use]
    pub fn is_done(&self, stream: u64) -> bool {
        let record = self.streams.get(&stream);
        record.is_none_or(|record| record.there == End::Ended && record.pending.is_empty())
    }

    /// Bytes for the link.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.taken..]
    }

    fn waiting_bytes(&self) -> usize {
        self.outgoing.len() - self.taken
    }

    /// The link has taken `count` of the outgoing bytes.
    pub fn sent(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.outgoing.len());
        if self.taken == self.outgoing.len() {
            self.outgoing.clear();
            self.taken = 0;
        } else if self.taken > MAX_WAITING_BYTES {
            self.outgoing.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Takes in bytes of the link.
    ///
    /// # Errors
    /// [`StreamsError`]: the far side broke the protocol.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), StreamsError> {
        while !bytes.is_empty() {
            if let Some((stream, left)) = self.body {
                let (data, rest) = bytes.split_at(left.min(bytes.len()));
                // What comes after this side has ended is dropped.
                if let Some(record) = self.streams.get_mut(&stream).filter(|it| it.here == End::Open) {
                    record.pending.extend(data);
                }
                self.body = Some((stream, left - data.len())).filter(|(_, left)| *left > 0);
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at((HEAD_BYTES - self.head.len()).min(bytes.len()));
            self.head.extend_from_slice(part);
            bytes = rest;
            if let Some(head) = self.head.first_chunk::<HEAD_BYTES>() {
                let head = u128::from_le_bytes(*head);
                self.head.clear();
                self.frame(head as u64, (head >> 64) as u32, (head >> 96) as u32)?;
            }
        }
        Ok(())
    }

    fn frame(&mut self, stream: u64, kind: u32, count: u32) -> Result<(), StreamsError> {
        match kind {
            OPEN | END => {
                if let Entry::Vacant(vacant) = self.streams.entry(stream) {
                    vacant.insert(Stream::new());
                }
                self.answered(stream, kind, count)
            }
            DATA if count as usize > MAX_DATA_BYTES => Err(StreamsError::Length(count)),
            DATA => {
                let record = self.streams.get_mut(&stream).filter(|it| it.there == End::Open);
                let room_bytes = record.as_ref().map_or(0, |record| record.promised);
                match record.filter(|_| count <= room_bytes) {
                    Some(record) => record.promised -= count,
                    None => return Err(StreamsError::NoRoom { stream, length_bytes: count, room_bytes }),
                }
                self.body = (count > 0).then_some((stream, count as usize));
                Ok(())
            }
            ROOM => {
                let record = self.streams.get_mut(&stream).filter(|it| it.there == End::Open);
                let more = record.and_then(|record| {
                    let credit = record.credit.checked_add(count).filter(|sum| *sum <= WINDOW_BYTES)?;
                    record.credit = credit;
                    Some(())
                });
                more.ok_or(StreamsError::State { stream, kind })
            }
            _ => Err(StreamsError::Kind(kind)),
        }
    }

    /// The far side has opened or ended a stream.
    fn answered(&mut self, stream: u64, kind: u32, count: u32) -> Result<(), StreamsError> {
        let Some(record) = self.streams.get_mut(&stream) else { return Ok(()) };
        let first = record.there == End::Awaited;
        record.there = match (kind, record.there) {
            (OPEN, End::Awaited) if count <= WINDOW_BYTES => End::Open,
            (END, End::Awaited | End::Open) => End::Ended,
            _ => return Err(StreamsError::State { stream, kind }),
        };
        if kind == OPEN {
            record.credit = count;
        }
        self.unanswered += usize::from(first && record.here == End::Awaited);
        if record.is_over() {
            self.streams.remove(&stream);
        }
        if self.unanswered > MAX_UNANSWERED { Err(StreamsError::TooMany) } else { Ok(()) }
    }
}

fn push(outgoing: &mut Vec<u8>, stream: u64, kind: u32, count: u32, data: &[u8]) {
    outgoing.extend_from_slice(&stream.to_le_bytes());
    outgoing.extend_from_slice(&kind.to_le_bytes());
    outgoing.extend_from_slice(&count.to_le_bytes());
    outgoing.extend_from_slice(data);
}

// Nothing here is unsafe or shared, and what the tests send is much for miri.
#[cfg(all(test, not(loom), not(miri)))]
mod tests;
