//! Multiplexes many byte streams over one, for links that consist of a single byte stream.
//!
//! Each end of the link has a [`Streams`], to which the streams of its side's programs are added by number.
//! Either side may come first. Nothing is sent on a stream before the far side has opened it too, and never
//! more than the far side has room for: a program that does not read blocks only its own sender. A side that
//! is done ends the stream in both directions, like a closed socket; what was sent before is still delivered.
//!
//! The format is specified in `docs/specs/streams.md`. Sans-IO: bytes are arguments and results.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Receive window: bytes of a stream that a side accepts before its program has read any.
pub const WINDOW_BYTES: u32 = 256 << 10;

/// Maximum data bytes in one frame, so that streams take turns.
pub const MAX_DATA_BYTES: usize = 16 << 10;

/// No stream may send while more bytes than this wait for the link, because they delay all streams.
pub const MAX_WAITING_BYTES: usize = 64 << 10;

/// Maximum number of streams that the far side has opened and this one has not.
pub const MAX_UNACCEPTED: usize = 16 << 10;

/// Bytes of a frame's header: stream number, kind and count, little-endian.
pub const HEAD_BYTES: usize = 16;

const OPEN: u32 = 1;
const DATA: u32 = 2;
const ROOM: u32 = 3;
const END: u32 = 4;

/// Protocol violation by the far side. The link is unusable afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamsError {
    /// The kind of a frame is unknown.
    #[error("a frame of the unknown kind {0}")]
    Kind(u32),
    /// A frame is longer than the maximum.
    #[error("a frame of {0} bytes; at most {MAX_DATA_BYTES} are allowed")]
    Length(u32),
    /// A stream's data exceeds its window, or the stream is not open.
    #[error("{length_bytes} bytes of stream {stream}, which had room for {room_bytes}")]
    NoRoom {
        /// Number of the stream.
        stream: u64,
        /// Length of the data received.
        length_bytes: u32,
        /// Length that would have been allowed.
        room_bytes: u32,
    },
    /// A frame is invalid in the state of its stream.
    #[error("a frame of kind {kind} that stream {stream} cannot have now")]
    State {
        /// Number of the stream.
        stream: u64,
        /// Kind of the frame.
        kind: u32,
    },
    /// The far side has opened too many streams that this side has not.
    #[error("more than {MAX_UNACCEPTED} streams that this side has not opened")]
    TooMany,
}

/// State of a stream on one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SideState {
    /// Not opened yet.
    Unopened,
    Open,
    /// Ended.
    Ended,
}

/// State of a stream on one side of the link.
#[derive(Debug)]
struct Stream {
    local: SideState,
    remote: SideState,
    /// Bytes that the far side has room for.
    credit: u32,
    /// Bytes of window granted to the far side and not used yet.
    granted: u32,
    /// Bytes delivered since the window was last extended.
    delivered: u32,
    /// Bytes received and not yet delivered.
    pending: VecDeque<u8>,
}

impl Stream {
    fn new() -> Self {
        Stream {
            local: SideState::Unopened,
            remote: SideState::Unopened,
            credit: 0,
            granted: 0,
            delivered: 0,
            pending: VecDeque::new(),
        }
    }

    /// Whether both sides have ended the stream.
    fn is_closed(&self) -> bool {
        (self.local, self.remote) == (SideState::Ended, SideState::Ended)
    }
}

/// Streams of a link, as seen from one side.
#[derive(Debug, Default)]
pub struct Streams {
    streams: BTreeMap<u64, Stream>,
    /// Number of streams that only the far side has opened.
    unaccepted: usize,
    /// Frames that the link has not fully accepted yet.
    outgoing: Vec<u8>,
    /// Number of bytes of `outgoing` that it has accepted.
    written: usize,
    /// Received part of an incomplete frame header.
    head: Vec<u8>,
    /// Stream whose data is being received, and the number of bytes still missing.
    body: Option<(u64, usize)>,
}

impl Streams {
    /// Creates the state of a link without streams.
    #[must_use]
    pub fn new() -> Self {
        Streams::default()
    }

    /// Returns the number of streams open on either side.
    #[must_use]
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream on this side. A number may be opened once.
    pub fn open(&mut self, stream: u64) {
        let record = self.streams.entry(stream).or_insert_with(Stream::new);
        if record.local != SideState::Unopened {
            return;
        }
        self.unaccepted -= usize::from(record.remote != SideState::Unopened);
        (record.local, record.granted) = (SideState::Open, WINDOW_BYTES);
        push(&mut self.outgoing, stream, OPEN, WINDOW_BYTES, &[]);
    }

    /// Ends a stream on this side, even if it was never opened. The far side learns it after everything sent
    /// before.
    pub fn end(&mut self, stream: u64) {
        let record = self.streams.entry(stream).or_insert_with(Stream::new);
        if record.local == SideState::Ended {
            return;
        }
        self.unaccepted -=
            usize::from(record.local == SideState::Unopened && record.remote != SideState::Unopened);
        record.local = SideState::Ended;
        record.pending = VecDeque::new();
        push(&mut self.outgoing, stream, END, 0, &[]);
        if record.is_closed() {
            self.streams.remove(&stream);
        }
    }

    /// Returns how many bytes may be sent on a stream now.
    #[must_use]
    pub fn room(&self, stream: u64) -> usize {
        let record = self.streams.get(&stream);
        match record.filter(|record| (record.local, record.remote) == (SideState::Open, SideState::Open)) {
            Some(record) if self.waiting_bytes() <= MAX_WAITING_BYTES => {
                (record.credit as usize).min(MAX_DATA_BYTES)
            }
            _ => 0,
        }
    }

    /// Sends as many bytes as there is [`room`](Self::room) for and returns their number.
    pub fn send(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let count = self.room(stream).min(bytes.len());
        if let Some(record) = self.streams.get_mut(&stream).filter(|_| count > 0) {
            record.credit -= count as u32;
            push(&mut self.outgoing, stream, DATA, count as u32, &bytes[..count]);
        }
        count
    }

    /// Returns the bytes received for this side's program, or a first part of them.
    #[must_use]
    pub fn pending(&self, stream: u64) -> &[u8] {
        self.streams.get(&stream).map_or(&[], |record| record.pending.as_slices().0)
    }

    /// Removes `count` pending bytes that the program on this side accepted.
    pub fn consume_pending(&mut self, stream: u64, count: usize) {
        let Some(record) = self.streams.get_mut(&stream) else { return };
        let count = count.min(record.pending.len());
        record.pending.drain(..count);
        record.delivered += count as u32;
        // Not for every few bytes, but early enough that a sender need not stop.
        if record.delivered >= WINDOW_BYTES / 4 && record.remote == SideState::Open {
            record.granted += record.delivered;
            push(&mut self.outgoing, stream, ROOM, record.delivered, &[]);
            record.delivered = 0;
        }
    }

    /// Whether the far side has ended and everything that it sent was delivered. The caller should then close
    /// its end and [end](Self::end) the stream.
    #[must_use]
    pub fn is_done(&self, stream: u64) -> bool {
        let record = self.streams.get(&stream);
        record.is_none_or(|record| record.remote == SideState::Ended && record.pending.is_empty())
    }

    /// Returns bytes to be written to the link.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.written..]
    }

    fn waiting_bytes(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Removes `count` outgoing bytes that the link accepted.
    pub fn consume_outgoing(&mut self, count: usize) {
        self.written = (self.written + count).min(self.outgoing.len());
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
        } else if self.written > MAX_WAITING_BYTES {
            self.outgoing.drain(..self.written);
            self.written = 0;
        }
    }

    /// Processes bytes received from the link.
    ///
    /// # Errors
    /// [`StreamsError`] when the far side violated the protocol.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), StreamsError> {
        while !bytes.is_empty() {
            if let Some((stream, left)) = self.body {
                let (data, rest) = bytes.split_at(left.min(bytes.len()));
                // Data received after this side has ended is dropped.
                if let Some(record) = self.streams.get_mut(&stream).filter(|it| it.local == SideState::Open) {
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
                self.handle_frame(head as u64, (head >> 64) as u32, (head >> 96) as u32)?;
            }
        }
        Ok(())
    }

    fn handle_frame(&mut self, stream: u64, kind: u32, count: u32) -> Result<(), StreamsError> {
        match kind {
            OPEN | END => {
                if let Entry::Vacant(vacant) = self.streams.entry(stream) {
                    vacant.insert(Stream::new());
                }
                self.handle_remote_state(stream, kind, count)
            }
            DATA if count as usize > MAX_DATA_BYTES => Err(StreamsError::Length(count)),
            DATA => {
                let record = self.streams.get_mut(&stream).filter(|it| it.remote == SideState::Open);
                let room_bytes = record.as_ref().map_or(0, |record| record.granted);
                match record.filter(|_| count <= room_bytes) {
                    Some(record) => record.granted -= count,
                    None => return Err(StreamsError::NoRoom { stream, length_bytes: count, room_bytes }),
                }
                self.body = (count > 0).then_some((stream, count as usize));
                Ok(())
            }
            ROOM => {
                let record = self.streams.get_mut(&stream).filter(|it| it.remote == SideState::Open);
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

    /// Handles the opening or the end of a stream by the far side.
    fn handle_remote_state(&mut self, stream: u64, kind: u32, count: u32) -> Result<(), StreamsError> {
        let Some(record) = self.streams.get_mut(&stream) else { return Ok(()) };
        let first = record.remote == SideState::Unopened;
        record.remote = match (kind, record.remote) {
            (OPEN, SideState::Unopened) if count <= WINDOW_BYTES => SideState::Open,
            (END, SideState::Unopened | SideState::Open) => SideState::Ended,
            _ => return Err(StreamsError::State { stream, kind }),
        };
        if kind == OPEN {
            record.credit = count;
        }
        self.unaccepted += usize::from(first && record.local == SideState::Unopened);
        if record.is_closed() {
            self.streams.remove(&stream);
        }
        if self.unaccepted > MAX_UNACCEPTED { Err(StreamsError::TooMany) } else { Ok(()) }
    }
}

fn push(outgoing: &mut Vec<u8>, stream: u64, kind: u32, count: u32, data: &[u8]) {
    outgoing.extend_from_slice(&stream.to_le_bytes());
    outgoing.extend_from_slice(&kind.to_le_bytes());
    outgoing.extend_from_slice(&count.to_le_bytes());
    outgoing.extend_from_slice(data);
}

// Not under miri: there is no unsafe or shared code here, and the tests transfer too much data.
#[cfg(all(test, not(loom), not(miri)))]
mod tests;
