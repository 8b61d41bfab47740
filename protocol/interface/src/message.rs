//! Complete messages: a header and a body.

use crate::encode::{Body, HEADER_BYTES, Out};
use crate::error::{Malformed, OverLimit};
use crate::source::{Sink, Source};
use crate::view::Record;

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// One-way message.
    Message = 1,
    /// Call that requires an answer.
    Call = 2,
    /// Results of a call.
    Reply = 3,
    /// Declared error of a call.
    Error = 4,
    /// Report of a call that was not served; see [`Fault`].
    Fault = 5,
    /// Cancellation: the client no longer wants the answer.
    Cancel = 6,
}

impl Kind {
    #[inline]
    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Kind::Message,
            2 => Kind::Call,
            3 => Kind::Reply,
            4 => Kind::Error,
            5 => Kind::Fault,
            6 => Kind::Cancel,
            _ => return None,
        })
    }
}

/// Reason why a call was not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The server does not know the call: it is older than the client.
    #[error("the server does not know this call: it may be older than the client")]
    Unknown,
    /// The server could not decode the request.
    #[error("the server refused the request as malformed")]
    Malformed,
    /// The server does not implement this call.
    #[error("the server does not serve this call")]
    Unserved,
    /// The answer exceeded a limit of the interface or the channel.
    #[error("the answer is longer than the interface or the channel allows")]
    TooLong,
    /// Too many calls are waiting for their answers.
    #[error("too many calls of this client wait for their answers")]
    Busy,
    /// A right in the request does not belong to the server: it was revoked, already used, or granted by
    /// another domain.
    #[error("the server was not given a right that came with the request, or has it no more")]
    Refused,
    /// The server dropped the call without an answer.
    #[error("the server dropped the call without an answer")]
    Dropped,
    /// A reason unknown to this side.
    #[error("the server gave reason {0}, which is unknown here")]
    Other(u32),
}

impl Fault {
    /// Returns the number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Fault::Unknown => 1,
            Fault::Malformed => 2,
            Fault::Unserved => 3,
            Fault::TooLong => 4,
            Fault::Busy => 5,
            Fault::Refused => 6,
            Fault::Dropped => 7,
            Fault::Other(number) => number,
        }
    }

    /// Returns the reason for a number.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Fault::Unknown,
            2 => Fault::Malformed,
            3 => Fault::Unserved,
            4 => Fault::TooLong,
            5 => Fault::Busy,
            6 => Fault::Refused,
            7 => Fault::Dropped,
            other => Fault::Other(other),
        }
    }
}

/// Header of a message: its kind, its ordinal in the interface, and the call that it belongs to.
///
/// It is the first word of the message without the length. As a single number it is stored and loaded at
/// once. Separate fields would be stored one by one and loaded together with each move, which stalls store
/// forwarding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    word: u64,
}

const KIND_SHIFT: u32 = 32;
const CALL_SHIFT: u32 = 40;
const RECORD_SHIFT: u32 = 16;
const RECORD_MASK: u64 = 0xffff;

impl Header {
    /// Creates a header. `call` has 24 bits, chosen by the caller, and is 0 for messages that belong to no
    /// call.
    #[inline]
    #[must_use]
    pub const fn new(ordinal: u16, kind: Kind, call: u32) -> Self {
        Header { word: ordinal as u64 | (kind as u64) << KIND_SHIFT | (call as u64) << CALL_SHIFT }
    }

    /// Returns the ordinal of the message in its interface.
    #[inline]
    #[must_use]
    pub const fn ordinal(self) -> u16 {
        self.word as u16
    }

    /// Returns the kind of the message.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> Kind {
        // Every header that was created or decoded has a valid kind.
        match Kind::from_number((self.word >> KIND_SHIFT) as u8) {
            Some(kind) => kind,
            None => Kind::Cancel,
        }
    }

    /// Returns the number of the call that it belongs to; 0 for none.
    #[inline]
    #[must_use]
    pub const fn call(self) -> u32 {
        (self.word >> CALL_SHIFT) as u32
    }

    /// Whether it is the header of an answer to that call. No message answers call 0.
    #[inline]
    #[must_use]
    pub const fn answers(self, call: u32) -> bool {
        call != 0 && self.call() == call && matches!(self.kind(), Kind::Reply | Kind::Error | Kind::Fault)
    }

    /// Returns the header with another kind, for an answer.
    #[inline]
    #[must_use]
    pub const fn with_kind(self, kind: Kind) -> Self {
        Header::new(self.ordinal(), kind, self.call())
    }

    /// Returns the first word of a message whose body has `record_bytes` bytes, a multiple of eight.
    #[inline]
    #[must_use]
    pub const fn word(self, record_bytes: u32) -> u64 {
        self.word | ((record_bytes / 8) as u64 & RECORD_MASK) << RECORD_SHIFT
    }

    /// Decodes the header of a message, and returns it with the body.
    ///
    /// # Errors
    /// [`Malformed::Short`], [`Malformed::Kind`].
    #[inline]
    pub fn read(source: Source<'_>) -> Result<(Header, Record<'_>), Malformed> {
        let length = source.len_bytes();
        let word = source.word(0).filter(|_| length.is_multiple_of(8)).ok_or(Malformed::Short)?;
        let record_bytes = (word >> RECORD_SHIFT & RECORD_MASK) as u32 * 8;
        let kind = (word >> KIND_SHIFT) as u8;
        if Kind::from_number(kind).is_none() {
            return Err(Malformed::Kind { kind });
        }
        let header = Header { word: word & !(RECORD_MASK << RECORD_SHIFT) };
        let body = Record::new(source, HEADER_BYTES, record_bytes).ok_or(Malformed::Short)?;
        Ok((header, body))
    }
}

impl core::fmt::Debug for Header {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Header")
            .field("ordinal", &self.ordinal())
            .field("kind", &self.kind())
            .field("call", &self.call())
            .finish()
    }
}

/// Message that is ready to be written.
#[derive(Debug)]
pub struct Outgoing<'a, B: Body> {
    header: Header,
    body: &'a B,
    length_bytes: usize,
}

impl<'a, B: Body> Outgoing<'a, B> {
    /// Measures a message to be sent.
    ///
    /// # Errors
    /// A field exceeds its limit in the interface.
    #[inline]
    pub fn new(header: Header, body: &'a B) -> Result<Self, OverLimit> {
        let inline = HEADER_BYTES as usize + body.record_bytes() as usize;
        Ok(Outgoing { header, body, length_bytes: inline + body.measure()? })
    }

    /// Returns the length of the message, in bytes: a multiple of eight.
    #[inline]
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Writes the complete message.
    #[inline]
    pub fn write<K: Sink + ?Sized>(&self, sink: &mut K) {
        let record_bytes = self.body.record_bytes();
        sink.word(0, self.header.word(record_bytes));
        let mut out = Out::new(sink);
        let _header = out.object(HEADER_BYTES);
        let mut record = out.object(record_bytes);
        let start = record.start();
        self.body.fields(&mut record, start, &mut out);
        record.finish(&mut out);
    }
}

/// Body of a message without fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Empty;

impl Body for Empty {
    fn record_bytes(&self) -> u32 {
        0
    }

    fn measure(&self) -> Result<usize, OverLimit> {
        Ok(0)
    }

    fn fields<K: Sink + ?Sized>(&self, _: &mut crate::encode::Place, _: u32, _: &mut Out<'_, K>) {}
}

/// Body of a fault.
pub(crate) struct FaultBody(pub(crate) Fault);

impl Body for FaultBody {
    fn record_bytes(&self) -> u32 {
        8
    }

    fn measure(&self) -> Result<usize, OverLimit> {
        Ok(0)
    }

    fn fields<K: Sink + ?Sized>(&self, place: &mut crate::encode::Place, at: u32, out: &mut Out<'_, K>) {
        place.bits(out, at, u64::from(self.0.number()));
    }
}
