//! What is said about pools and buffers on a channel, byte by byte. `docs/specs/bulk.md` says the same in words.
//!
//! Every message begins with eight bytes: its kind, a count, a length, and its number among all of its direction.
//! Numbers are little-endian and what is reserved is zero. The decoder takes exactly what the encoder makes.

use alloc::vec::Vec;

use crate::layout::{Layout, LayoutError};

/// The version of this protocol, first in what both sides say.
pub const VERSION: u8 = 1;

/// The most pools that one channel can have.
pub const MAX_POOLS: u8 = 32;

/// The most pieces of a transfer.
pub const MAX_SEGMENTS: usize = 32;

/// The most bytes of metadata of a transfer.
pub const MAX_METADATA_BYTES: usize = 2048;

const HEAD_BYTES: usize = 8;
const SEGMENT_BYTES: usize = 24;

/// The longest message.
pub const MAX_MESSAGE_BYTES: usize = transfer_bytes(MAX_SEGMENTS, MAX_METADATA_BYTES);

/// How long a transfer of so many pieces and so much metadata is, in bytes.
#[must_use]
pub const fn transfer_bytes(segments: usize, metadata_bytes: usize) -> usize {
    HEAD_BYTES + segments * SEGMENT_BYTES + metadata_bytes
}

/// What stands for this protocol when a channel opens.
pub const INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo bulk 1");

/// How far the ends of a channel trust each other with its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Trust {
    /// All domains of a pool map all of it; the verbs say who may touch what. Nothing is mapped or unmapped.
    Full = 1,
    /// Rights really change: each buffer travels in memory of its own, which nobody else can write.
    None = 2,
}

impl Trust {
    fn from_byte(byte: u8) -> Option<Self> {
        [Trust::Full, Trust::None].into_iter().find(|trust| *trust as u8 == byte)
    }
}

impl core::fmt::Display for Trust {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Trust::Full => "full",
            Trust::None => "none",
        })
    }
}

/// What happens to the right to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Verb {
    /// The right to read and write goes over, and the content with it.
    Move = 8,
    /// A right to read is lent; nobody may write until all are released.
    Share = 9,
    /// The right to read and write goes over; what the buffer holds means nothing any more.
    Pass = 10,
    /// A right to read that was lent goes back.
    Release = 11,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 4] = [Verb::Move, Verb::Share, Verb::Pass, Verb::Release];

    /// Whether it brings bytes to read.
    #[must_use]
    pub const fn brings_content(self) -> bool {
        matches!(self, Verb::Move | Verb::Share)
    }
}

impl core::fmt::Display for Verb {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Verb::Move => "move",
            Verb::Share => "share",
            Verb::Pass => "pass",
            Verb::Release => "release",
        })
    }
}

/// What one side of a channel is ready to do. The lower of both sides' numbers hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Must be the same on both sides.
    pub trust: Trust,
    /// Pools, 1 to [`MAX_POOLS`].
    pub max_pools: u8,
    /// Pieces of a transfer, 1 to [`MAX_SEGMENTS`].
    pub max_segments: u8,
    /// Bytes of metadata, up to [`MAX_METADATA_BYTES`].
    pub max_metadata_bytes: u16,
}

/// A pool's place on a channel: the number that whoever assigned it chose, and which side that was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolIndex(u8);

impl PoolIndex {
    const ACCEPTING: u8 = 0x80;

    /// PoolIndex `index` among those that one side assigns; `None` for one beyond [`MAX_POOLS`].
    #[must_use]
    pub const fn new(by_accepting_side: bool, index: u8) -> Option<Self> {
        let side = if by_accepting_side { Self::ACCEPTING } else { 0 };
        if index < MAX_POOLS { Some(PoolIndex(index | side)) } else { None }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        PoolIndex::new(byte & Self::ACCEPTING != 0, byte & !Self::ACCEPTING)
    }

    /// Whether the side that accepted the channel assigned it.
    #[must_use]
    pub const fn by_accepting_side(self) -> bool {
        self.0 & Self::ACCEPTING != 0
    }

    /// Its number among those.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & !Self::ACCEPTING) as usize
    }
}

/// A piece of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Of which pool of the channel.
    pub place: PoolIndex,
    /// Which buffer of it.
    pub buffer: u32,
    /// Where in the buffer it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u64,
}

/// Who a pool is, machine-wide: the domain that made it, and a number that this never uses twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId {
    /// The domain's id in 64 bits.
    pub domain: u64,
    /// Its number there.
    pub number: u64,
}

/// A pool that is offered to the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Its place on the channel.
    pub place: PoolIndex,
    /// Who it is.
    pub pool: PoolId,
    /// Its shape.
    pub layout: Layout,
    /// The capability to its memory, as monitors know it; 0 where buffers travel in memory of their own.
    pub capability: u64,
    /// Where in that memory it begins, in bytes.
    pub offset_bytes: u64,
    /// Whether the other side may assign it to channels of its own.
    pub may_forward: bool,
}

/// Why a pool was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[repr(u8)]
pub enum Veto {
    /// The program did not want it.
    #[error("the program there declined it")]
    Declined = 1,
    /// It has as many pools as it takes.
    #[error("it has as many pools as it takes")]
    TooManyPools = 2,
    /// It is larger than the other side takes.
    #[error("it is larger than the other side takes")]
    TooLarge = 3,
    /// It has this pool from another channel: its domains must form a tree.
    #[error("the other side has this pool already, over another channel")]
    Known = 4,
    /// Its memory cannot be reached from there.
    #[error("its memory cannot be reached from there: copy the data")]
    Unreachable = 5,
    /// The system there had no room for it.
    #[error("the system there had no room for it")]
    OutOfMemory = 6,
}

impl Veto {
    const ALL: [Veto; 6] = [
        Veto::Declined,
        Veto::TooManyPools,
        Veto::TooLarge,
        Veto::Known,
        Veto::Unreachable,
        Veto::OutOfMemory,
    ];
}

/// What is said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// First of all, by both sides: what this side is ready to do.
    Terms(Terms),
    /// A pool is offered.
    Assign(Offer),
    /// It was taken.
    Assigned(PoolIndex),
    /// It was not.
    Vetoed(PoolIndex, Veto),
    /// This side wants the pool off this channel.
    Unassign(PoolIndex),
    /// It is off.
    Unassigned(PoolIndex),
    /// It stays, for something of it is still in use.
    Kept(PoolIndex),
    /// Rights to buffers go over.
    Transfer(Transfer<'a>),
}

/// Rights to buffers that go over, as encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer<'a> {
    /// What happens to them.
    pub verb: Verb,
    segments: &'a [u8],
    /// What the program adds.
    pub metadata: &'a [u8],
}

impl<'a> Transfer<'a> {
    /// How many pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.len() / SEGMENT_BYTES
    }

    /// Whether there is no piece, which no decoder lets through.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The pieces.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + Clone + use<'a> {
        // What cannot be decoded was refused when the message was.
        self.segments.as_chunks::<SEGMENT_BYTES>().0.iter().filter_map(|bytes| segment(bytes).ok())
    }
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Too short or too long for what it says it is.
    #[error("a message of {length_bytes} bytes is not as long as it says")]
    Length {
        /// How long it is.
        length_bytes: usize,
    },
    /// Another version.
    #[error("version {0} of the protocol, where this is {VERSION}")]
    Version(u8),
    /// No such kind.
    #[error("a message of kind {0}, which there is not")]
    Kind(u8),
    /// A field has a value that it cannot have.
    #[error("{0} has a value that it cannot have")]
    Field(&'static str),
    /// A pool that cannot be.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// One buffer twice in a transfer.
    #[error("buffer {0} is in one transfer twice")]
    Twice(u32),
}

const TERMS: u8 = 1;
const ASSIGN: u8 = 2;
const ASSIGNED: u8 = 3;
const VETOED: u8 = 4;
const UNASSIGN: u8 = 5;
const UNASSIGNED: u8 = 6;
const KEPT: u8 = 7;

fn head(kind: u8, count: u8, length: u16, number: u32, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[kind, count]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
}

/// Encodes a transfer in place of what `out` held. The caller has bounded the pieces and the metadata.
pub(crate) fn encode_transfer(
    verb: Verb,
    segments: impl ExactSizeIterator<Item = Segment>,
    metadata: &[u8],
    number: u32,
    out: &mut Vec<u8>,
) {
    head(verb as u8, segments.len() as u8, metadata.len() as u16, number, out);
    for segment in segments {
        out.extend_from_slice(&[segment.place.0, 0, 0, 0]);
        out.extend_from_slice(&segment.buffer.to_le_bytes());
        out.extend_from_slice(&segment.offset_bytes.to_le_bytes());
        out.extend_from_slice(&segment.length_bytes.to_le_bytes());
    }
    out.extend_from_slice(metadata);
}

/// Words of a transfer of one piece without metadata.
pub const PIECE_WORDS: usize = (HEAD_BYTES + SEGMENT_BYTES) / 8;

/// The words of a transfer of one piece without metadata.
#[inline]
pub(crate) fn piece_words(verb: Verb, segment: Segment, number: u32) -> [u64; PIECE_WORDS] {
    let Segment { place, buffer, offset_bytes, length_bytes } = segment;
    let content = if verb.brings_content() { [offset_bytes, length_bytes] } else { [0, 0] };
    let head = u64::from(verb as u8) | 1 << 8 | u64::from(number) << 32;
    [head, u64::from(place.0) | u64::from(buffer) << 32, content[0], content[1]]
}

/// The transfer that these words are, and its number: of one piece, with whatever range. Of anything else nothing.
#[inline]
pub(crate) fn piece_of(words: [u64; PIECE_WORDS]) -> Option<(Verb, Segment, u32)> {
    let [head, place, offset_bytes, length_bytes] = words;
    let verb = Verb::ALL.into_iter().find(|verb| *verb as u64 == head & 0xff)?;
    // One piece, no metadata; and what is reserved after the pool's place.
    if (head >> 8) & 0xff_ffff != 1 || (place >> 8) & 0xff_ffff != 0 {
        return None;
    }
    if !verb.brings_content() && (offset_bytes, length_bytes) != (0, 0) {
        return None;
    }
    let (place, buffer) = (PoolIndex::from_byte(place as u8)?, (place >> 32) as u32);
    Some((verb, Segment { place, buffer, offset_bytes, length_bytes }, (head >> 32) as u32))
}

impl Message<'_> {
    /// Encodes it in place of what `out` held, as message `number` of its direction.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        match *self {
            Message::Terms(terms) => {
                head(TERMS, VERSION, terms.max_metadata_bytes, number, out);
                out.extend_from_slice(&[
                    terms.trust as u8,
                    terms.max_pools,
                    terms.max_segments,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]);
            }
            Message::Assign(offer) => {
                head(ASSIGN, offer.place.0, u16::from(offer.may_forward), number, out);
                for word in [offer.pool.domain, offer.pool.number, offer.layout.buffer_bytes()] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                for word in [u64::from(offer.layout.count()), offer.capability, offer.offset_bytes] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
            Message::Assigned(place) => head(ASSIGNED, place.0, 0, number, out),
            Message::Vetoed(place, veto) => head(VETOED, place.0, veto as u16, number, out),
            Message::Unassign(place) => head(UNASSIGN, place.0, 0, number, out),
            Message::Unassigned(place) => head(UNASSIGNED, place.0, 0, number, out),
            Message::Kept(place) => head(KEPT, place.0, 0, number, out),
            Message::Transfer(transfer) => {
                let (count, length) = (transfer.len() as u8, transfer.metadata.len() as u16);
                head(transfer.verb as u8, count, length, number, out);
                out.extend_from_slice(transfer.segments);
                out.extend_from_slice(transfer.metadata);
            }
        }
    }
}

/// Decodes a message and its number.
///
/// # Errors
/// [`Malformed`] says what is wrong with it. Whether it fits what was said before is for the [session](crate::session).
pub fn decode(bytes: &[u8]) -> Result<(Message<'_>, u32), Malformed> {
    let wrong_length = Malformed::Length { length_bytes: bytes.len() };
    let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(wrong_length)?;
    let [kind, count, l0, l1, n0, n1, n2, n3] = *head;
    let (length, number) = (u16::from_le_bytes([l0, l1]), u32::from_le_bytes([n0, n1, n2, n3]));
    let place = || PoolIndex::from_byte(count).ok_or(Malformed::Field("a pool's place"));
    let short = |message| {
        if !body.is_empty() {
            return Err(wrong_length);
        }
        if length != 0 && kind != VETOED { Err(Malformed::Field("a length")) } else { Ok(message) }
    };
    let message = match kind {
        TERMS if count != VERSION => return Err(Malformed::Version(count)),
        TERMS => Message::Terms(terms(length, body).ok_or(wrong_length)??),
        ASSIGN => Message::Assign(offer(place()?, length, body).ok_or(wrong_length)??),
        ASSIGNED => short(Message::Assigned(place()?))?,
        VETOED => {
            let veto = Veto::ALL.into_iter().find(|veto| *veto as u16 == length);
            short(Message::Vetoed(place()?, veto.ok_or(Malformed::Field("a reason"))?))?
        }
        UNASSIGN => short(Message::Unassign(place()?))?,
        UNASSIGNED => short(Message::Unassigned(place()?))?,
        KEPT => short(Message::Kept(place()?))?,
        kind => {
            let verb = Verb::ALL.into_iter().find(|verb| *verb as u8 == kind).ok_or(Malformed::Kind(kind))?;
            Message::Transfer(transfer(verb, usize::from(count), usize::from(length), body)?)
        }
    };
    Ok((message, number))
}

fn terms(max_metadata_bytes: u16, body: &[u8]) -> Option<Result<Terms, Malformed>> {
    let [trust, max_pools, max_segments, 0, 0, 0, 0, 0] = *<&[u8; 8]>::try_from(body).ok()? else {
        return Some(Err(Malformed::Field("what is reserved")));
    };
    let Some(trust) = Trust::from_byte(trust) else { return Some(Err(Malformed::Field("trust"))) };
    if max_pools == 0 || max_pools > MAX_POOLS {
        return Some(Err(Malformed::Field("the number of pools")));
    }
    if max_segments == 0 || usize::from(max_segments) > MAX_SEGMENTS {
        return Some(Err(Malformed::Field("the number of pieces")));
    }
    if usize::from(max_metadata_bytes) > MAX_METADATA_BYTES {
        return Some(Err(Malformed::Field("the length of metadata")));
    }
    Some(Ok(Terms { trust, max_pools, max_segments, max_metadata_bytes }))
}

fn offer(place: PoolIndex, flags: u16, body: &[u8]) -> Option<Result<Offer, Malformed>> {
    let body = <&[u8; 48]>::try_from(body).ok()?;
    let word = |index: usize| word_at(body, index * 8);
    if flags > 1 {
        return Some(Err(Malformed::Field("what may be done with a pool")));
    }
    let Ok(count) = u32::try_from(word(3)) else {
        return Some(Err(Malformed::Field("the number of buffers")));
    };
    let layout = match Layout::new(word(2), count) {
        Ok(layout) => layout,
        Err(error) => return Some(Err(error.into())),
    };
    let pool = PoolId { domain: word(0), number: word(1) };
    let (capability, offset_bytes, may_forward) = (word(4), word(5), flags == 1);
    Some(Ok(Offer { place, pool, layout, capability, offset_bytes, may_forward }))
}

fn transfer(verb: Verb, count: usize, length: usize, body: &[u8]) -> Result<Transfer<'_>, Malformed> {
    if count == 0 || count > MAX_SEGMENTS {
        return Err(Malformed::Field("the number of pieces"));
    }
    if length > MAX_METADATA_BYTES {
        return Err(Malformed::Field("the length of metadata"));
    }
    if body.len() != count * SEGMENT_BYTES + length {
        return Err(Malformed::Length { length_bytes: HEAD_BYTES + body.len() });
    }
    let (segments, metadata) = body.split_at(count * SEGMENT_BYTES);
    let pieces = segments.as_chunks::<SEGMENT_BYTES>().0;
    for (index, bytes) in pieces.iter().enumerate() {
        let piece = segment(bytes)?;
        if !verb.brings_content() && (piece.offset_bytes, piece.length_bytes) != (0, 0) {
            return Err(Malformed::Field("the place of what has no content"));
        }
        // The first eight bytes are the pool and the buffer.
        if pieces[..index].iter().any(|before| before[..8] == bytes[..8]) {
            return Err(Malformed::Twice(piece.buffer));
        }
    }
    Ok(Transfer { verb, segments, metadata })
}

fn segment(bytes: &[u8; SEGMENT_BYTES]) -> Result<Segment, Malformed> {
    let [place, r0, r1, r2, b0, b1, b2, b3, ..] = *bytes;
    if [r0, r1, r2] != [0; 3] {
        return Err(Malformed::Field("what is reserved"));
    }
    Ok(Segment {
        place: PoolIndex::from_byte(place).ok_or(Malformed::Field("a pool's place"))?,
        buffer: u32::from_le_bytes([b0, b1, b2, b3]),
        offset_bytes: word_at(bytes, 8),
        length_bytes: word_at(bytes, 16),
    })
}

/// The number at `offset` of bytes that are long enough.
fn word_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// What each side of a channel of typed messages says on it first, when a bulk channel is to be opened beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preface {
    /// Where the accepting side listens for the bulk channel; 0 from the other one.
    pub endpoint: u64,
    /// Pools that this side assigns to begin with, up to [`MAX_POOLS`].
    pub pools: u32,
}

impl Preface {
    const MAGIC: [u8; 8] = *b"tombulk1";

    /// The message.
    #[must_use]
    pub fn encode(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..16].copy_from_slice(&self.endpoint.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pools.to_le_bytes());
        bytes
    }

    /// What a message says; `None` for one that is no preface.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>().filter(|_| bytes.len() == 24)?;
        let (endpoint, rest) = rest.split_first_chunk::<8>()?;
        let (pools, reserved) = rest.split_first_chunk::<4>()?;
        let pools = u32::from_le_bytes(*pools);
        let well_formed = *magic == Self::MAGIC && reserved == [0; 4] && pools <= u32::from(MAX_POOLS);
        well_formed.then_some(Preface { endpoint: u64::from_le_bytes(*endpoint), pools })
    }
}
