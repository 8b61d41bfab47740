//! Whole messages: a header and a body.

use crate::encode::{Body, HEADER_BYTES, Out};
use crate::error::{Malformed, OverLimit};
use crate::source::{Sink, Source};
use crate::view::Record;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// One-way.
    Message = 1,
    /// Wants an answer.
    Call = 2,
    /// The results of a call.
    Reply = 3,
    /// The declared error of a call.
    Error = 4,
    /// A call that was not served; see [`Fault`].
    Fault = 5,
    /// The client does not want the answer any more.
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

/// Why a call was not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The server has no such call: it is older than the client.
    #[error("the server does not know this call: it may be older than the client")]
    Unknown,
    /// The server could not read the request.
    #[error("the server refused the request as malformed")]
    Malformed,
    /// The server serves no calls of this kind.
    #[error("the server does not serve this call")]
    Unserved,
    /// The answer was longer than the interface or the channel allows.
    #[error("the answer is longer than the interface or the channel allows")]
    TooLong,
    /// Too many calls wait for their answers.
    #[error("too many calls of this client wait for their answers")]
    Busy,
    /// A right that came with the request is not the server's: it was revoked, taken up before, or granted by
    /// another domain.
    #[error("the server was not given a right that came with the request, or has it no more")]
    Refused,
    /// The server had put the answer off, and can give none any more.
    #[error("the server dropped the call without an answer")]
    Dropped,
    /// A reason that this side does not know.
    #[error("the server gave reason {0}, which is unknown here")]
    Other(u32),
}

impl Fault {
    /// Its number on the wire.
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

    /// The reason of that number.
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

/// What a message begins with: what it is, its ordinal in the interface, and which call it belongs to.
///
/// It is the first word of the message, without the length: as one number it is stored and loaded at once.
/// Fields by themselves would be stored one by one and loaded together with each move, which a processor
/// stalls for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    word: u64,
}

const KIND_SHIFT: u32 = 32;
const CALL_SHIFT: u32 = 40;
const RECORD_SHIFT: u32 = 16;
const RECORD_MASK: u64 = 0xffff;

impl Header {
    /// Of that message; `call` has 24 bits, chosen by the caller, and is 0 for those that belong to none.
    #[inline]
    #[must_use]
    pub const fn new(ordinal: u16, kind: Kind, call: u32) -> Self {
        Header { word: ordinal as u64 | (kind as u64) << KIND_SHIFT | (call as u64) << CALL_SHIFT }
    }

    /// The ordinal of the message in its interface.
    #[inline]
    #[must_use]
    pub const fn ordinal(self) -> u16 {
        self.word as u16
    }

    /// Whether it is a one-way message, a call, an answer or a cancellation.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> Kind {
        // One that is made or read has a kind.
        match Kind::from_number((self.word >> KIND_SHIFT) as u8) {
            Some(kind) => kind,
            None => Kind::Cancel,
        }
    }

    /// Which call it belongs to; 0 for none.
    #[inline]
    #[must_use]
    pub const fn call(self) -> u32 {
        (self.word >> CALL_SHIFT) as u32
    }

    /// Whether it is of an answer to that call; none is to 0.
    #[inline]
    #[must_use]
    pub const fn answers(self, call: u32) -> bool {
        call != 0 && self.call() == call && matches!(self.kind(), Kind::Reply | Kind::Error | Kind::Fault)
    }

    /// The same of another kind: an answer.
    #[inline]
    #[must_use]
    pub const fn with_kind(self, kind: Kind) -> Self {
        Header::new(self.ordinal(), kind, self.call())
    }

    /// The first word of a message whose body has that many bytes, a multiple of eight.
    #[inline]
    #[must_use]
    pub const fn word(self, record_bytes: u32) -> u64 {
        self.word | ((record_bytes / 8) as u64 & RECORD_MASK) << RECORD_SHIFT
    }

    /// The header of a message, and its body.
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

/// A message that is ready to be written.
#[derive(Debug)]
pub struct Outgoing<'a, B: Body> {
    header: Header,
    body: &'a B,
    length_bytes: usize,
}

impl<'a, B: Body> Outgoing<'a, B> {
    /// Measures a message.
    ///
    /// # Errors
    /// A field that is longer than the interface allows.
    #[inline]
    pub fn new(header: Header, body: &'a B) -> Result<Self, OverLimit> {
        let inline = HEADER_BYTES as usize + body.record_bytes() as usize;
        Ok(Outgoing { header, body, length_bytes: inline + body.measure()? })
    }

    /// Length of the message, in bytes: a multiple of eight.
    #[inline]
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Writes all of it.
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

/// A body without fields.
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

/// What a fault carries.
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
