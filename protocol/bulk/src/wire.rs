//! Encoding of the messages about pools and buffers on a channel. Specified in `docs/specs/bulk.md`.
//!
//! Every message begins with eight bytes: its kind, a count, a length, and its number in its direction.
//! Numbers are little-endian and reserved fields are zero. The decoder accepts exactly what the encoder
//! produces.

use alloc::vec::Vec;

use crate::layout::{Layout, LayoutError};

/// Version of this protocol, sent in the first message of each side.
pub const VERSION: u8 = 2;

/// Maximum number of pools on one channel.
pub const MAX_POOLS: u8 = 32;

/// Maximum number of pieces of a transfer.
pub const MAX_SEGMENTS: usize = 32;

/// Maximum metadata of a transfer, in bytes.
pub const MAX_METADATA_BYTES: usize = 2048;

/// Maximum content of one message, in bytes.
pub const MAX_CONTENT_BYTES: usize = u16::MAX as usize;

/// Size of a content message before the content, in bytes.
pub const CONTENT_HEAD_BYTES: usize = HEAD_BYTES + 16;

const HEAD_BYTES: usize = 8;
const SEGMENT_BYTES: usize = 24;

/// Maximum length of a message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = transfer_bytes(MAX_SEGMENTS, MAX_METADATA_BYTES);

/// Returns the length of a transfer with this many pieces and bytes of metadata, in bytes.
#[must_use]
pub const fn transfer_bytes(segments: usize, metadata_bytes: usize) -> usize {
    HEAD_BYTES + segments * SEGMENT_BYTES + metadata_bytes
}

/// Interface hash of this protocol when a channel opens.
pub const INTERFACE_HASH: u64 = tombolo_base::hash::fnv1a(b"tombolo bulk 2");

/// Trust between the ends of a channel regarding its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Trust {
    /// All domains of a pool map all of it; the verbs determine who may access what. Nothing is remapped.
    Full = 1,
    /// Rights are enforced: each buffer travels in memory of its own that no other domain can write.
    None = 2,
    /// A domain reaches only the buffers that were sent to it, and is trusted with those from then on: each
    /// travels in memory of its own, which is never taken back.
    Half = 3,
}

impl Trust {
    /// All levels of trust, the highest first.
    pub const ALL: [Trust; 3] = [Trust::Full, Trust::Half, Trust::None];

    /// Whether each buffer has memory of its own, which travels with its contents.
    #[must_use]
    pub const fn has_own_memory(self) -> bool {
        !matches!(self, Trust::Full)
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|trust| *trust as u8 == byte)
    }
}

impl core::fmt::Display for Trust {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Trust::Full => "full",
            Trust::Half => "half",
            Trust::None => "none",
        })
    }
}

/// Effect of a transfer on the right to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Verb {
    /// Moves the right to read and write, with the contents.
    Move = 8,
    /// Lends a right to read. No domain may write until all shares are released.
    Share = 9,
    /// Moves the right to read and write; the contents become undefined.
    Pass = 10,
    /// Returns a right to read that was lent.
    Release = 11,
}

impl Verb {
    /// All verbs, in the order of their codes.
    pub const ALL: [Verb; 4] = [Verb::Move, Verb::Share, Verb::Pass, Verb::Release];

    /// Whether it transfers bytes to be read.
    #[must_use]
    pub const fn carries_content(self) -> bool {
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

/// Capabilities of one side of a channel. The lower of both sides' limits applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Level of trust, which must be the same on both sides.
    pub trust: Trust,
    /// Maximum number of pools, 1 to [`MAX_POOLS`].
    pub max_pools: u8,
    /// Maximum number of pieces of a transfer, 1 to [`MAX_SEGMENTS`].
    pub max_segments: u8,
    /// Maximum metadata of a transfer in bytes, up to [`MAX_METADATA_BYTES`].
    pub max_metadata_bytes: u16,
}

/// Identifier of a pool on a channel: a number chosen by the side that assigned it, and which side that was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolIndex(u8);

impl PoolIndex {
    const ACCEPTING: u8 = 0x80;

    /// Returns pool `index` of those assigned by one side, or `None` from [`MAX_POOLS`] on.
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

    /// Returns the number among the pools of the same side.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 & !Self::ACCEPTING) as usize
    }
}

/// Part of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Pool on the channel.
    pub pool_index: PoolIndex,
    /// Buffer in the pool.
    pub buffer: u32,
    /// Offset in the buffer, in bytes.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// Machine-wide id of a pool: the domain that created it, and a number that the domain never reuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId {
    /// Id of the domain, in 64 bits.
    pub domain: u64,
    /// Number assigned by that domain.
    pub number: u64,
}

/// Offer of a pool to the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Index for the pool on the channel.
    pub pool_index: PoolIndex,
    /// Machine-wide id of the pool.
    pub pool: PoolId,
    /// Number and size of its buffers.
    pub layout: Layout,
    /// Capability to its memory. 0 if buffers travel in memory of their own, and, with full trust, if the
    /// other side cannot reach the memory: it then uses memory of its own for the pool, and content is
    /// copied.
    pub capability: u64,
    /// Offset of the pool in that memory, in bytes.
    pub offset_bytes: u64,
    /// Whether the other side may assign it to channels of its own.
    pub may_forward: bool,
}

/// Reason why a pool was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[repr(u8)]
pub enum Veto {
    /// The program declined it.
    #[error("the other side's program declined it")]
    Declined = 1,
    /// The other side already has its maximum number of pools.
    #[error("the other side has as many pools as it accepts")]
    TooManyPools = 2,
    /// The pool is larger than the other side accepts.
    #[error("it is larger than the other side accepts")]
    TooLarge = 3,
    /// The other side already has this pool from another channel: a pool's domains must form a tree.
    #[error("the other side already has this pool over another channel")]
    Known = 4,
    /// The other side cannot reach the pool's memory.
    #[error("the other side cannot reach the pool's memory; copy the data instead")]
    Unreachable = 5,
    /// The other side lacks resources, such as memory or descriptors.
    #[error("the other side lacks the resources to map the pool")]
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

/// Message of the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// The first message of each side: its terms.
    Terms(Terms),
    /// Offers a pool to the other side.
    Assign(Offer),
    /// Accepts an offered pool.
    Assigned(PoolIndex),
    /// Refuses an offered pool.
    Vetoed(PoolIndex, Veto),
    /// Asks to take the pool off this channel.
    Unassign(PoolIndex),
    /// The pool is off this channel.
    Unassigned(PoolIndex),
    /// The pool stays, because it is still in use.
    Kept(PoolIndex),
    /// Transfers rights to buffers.
    Transfer(Transfer<'a>),
    /// Bytes of a buffer whose transfer follows, for a side that cannot reach the pool's memory.
    Content(Content<'a>),
}

/// Bytes of a buffer, for a pool whose content is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content<'a> {
    /// Pool on the channel.
    pub pool_index: PoolIndex,
    /// Buffer in the pool.
    pub buffer: u32,
    /// Offset of the first byte in the buffer.
    pub offset_bytes: u64,
    /// Content, of 1 to [`MAX_CONTENT_BYTES`] bytes.
    pub bytes: &'a [u8],
}

/// Transfer of rights to buffers, as encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer<'a> {
    /// Effect on the rights.
    pub verb: Verb,
    segments: &'a [u8],
    /// Bytes added by the program.
    pub metadata: &'a [u8],
}

impl<'a> Transfer<'a> {
    /// Returns the number of pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.len() / SEGMENT_BYTES
    }

    /// Whether there are no pieces, which the decoder rejects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the pieces in order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + Clone + use<'a> {
        // Pieces that cannot be decoded were rejected with the message.
        self.segments.as_chunks::<SEGMENT_BYTES>().0.iter().filter_map(|bytes| segment(bytes).ok())
    }
}

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Malformed {
    /// The length differs from the one implied by the message.
    #[error("a message of {length_bytes} bytes states another length")]
    Length { length_bytes: usize },
    /// The protocol version differs.
    #[error("protocol version {0} instead of {VERSION}")]
    Version(u8),
    /// The kind is unknown.
    #[error("a message of the unknown kind {0}")]
    Kind(u8),
    /// A field has an invalid value.
    #[error("{0} has an invalid value")]
    Field(&'static str),
    /// The layout of a pool is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A buffer occurs twice in a transfer.
    #[error("buffer {0} occurs twice in the transfer")]
    DuplicateBuffer(u32),
}

const TERMS: u8 = 1;
const ASSIGN: u8 = 2;
const ASSIGNED: u8 = 3;
const VETOED: u8 = 4;
const UNASSIGN: u8 = 5;
const UNASSIGNED: u8 = 6;
const KEPT: u8 = 7;
const CONTENT: u8 = 12;

fn push_head(kind: u8, count: u8, length: u16, number: u32, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[kind, count]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
}

/// Encodes a transfer into `out`, replacing its contents. The caller has checked the pieces and the metadata.
pub(crate) fn encode_transfer(
    verb: Verb,
    segments: impl ExactSizeIterator<Item = Segment>,
    metadata: &[u8],
    number: u32,
    out: &mut Vec<u8>,
) {
    push_head(verb as u8, segments.len() as u8, metadata.len() as u16, number, out);
    for segment in segments {
        out.extend_from_slice(&[segment.pool_index.0, 0, 0, 0]);
        out.extend_from_slice(&segment.buffer.to_le_bytes());
        out.extend_from_slice(&segment.offset_bytes.to_le_bytes());
        out.extend_from_slice(&segment.length_bytes.to_le_bytes());
    }
    out.extend_from_slice(metadata);
}

/// Encodes a message with the content of a part of a buffer into `out`, replacing its contents, and returns
/// the zeroed content for the caller to fill. The caller has checked the part.
pub(crate) fn encode_content(segment: Segment, number: u32, out: &mut Vec<u8>) -> &mut [u8] {
    push_head(CONTENT, segment.pool_index.0, segment.length_bytes as u16, number, out);
    out.extend_from_slice(&segment.buffer.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&segment.offset_bytes.to_le_bytes());
    out.resize(CONTENT_HEAD_BYTES + segment.length_bytes as usize, 0);
    &mut out[CONTENT_HEAD_BYTES..]
}

/// Number of words of a transfer of one piece without metadata.
pub const PIECE_WORDS: usize = (HEAD_BYTES + SEGMENT_BYTES) / 8;

/// Encodes a transfer of one piece without metadata as words.
#[inline]
pub(crate) fn encode_piece(verb: Verb, segment: Segment, number: u32) -> [u64; PIECE_WORDS] {
    let Segment { pool_index, buffer, offset_bytes, length_bytes } = segment;
    let content = if verb.carries_content() { [offset_bytes, length_bytes] } else { [0, 0] };
    let head = u64::from(verb as u8) | 1 << 8 | u64::from(number) << 32;
    [head, u64::from(pool_index.0) | u64::from(buffer) << 32, content[0], content[1]]
}

/// Decodes a transfer of one piece, with any range, and its number. Returns `None` for any other message.
#[inline]
pub(crate) fn decode_piece(words: [u64; PIECE_WORDS]) -> Option<(Verb, Segment, u32)> {
    let [head, pool_index, offset_bytes, length_bytes] = words;
    let verb = Verb::ALL.into_iter().find(|verb| *verb as u64 == head & 0xff)?;
    // One piece, no metadata, and zero in the reserved bytes after the pool.
    if (head >> 8) & 0xff_ffff != 1 || (pool_index >> 8) & 0xff_ffff != 0 {
        return None;
    }
    if !verb.carries_content() && (offset_bytes, length_bytes) != (0, 0) {
        return None;
    }
    let (pool_index, buffer) = (PoolIndex::from_byte(pool_index as u8)?, (pool_index >> 32) as u32);
    Some((verb, Segment { pool_index, buffer, offset_bytes, length_bytes }, (head >> 32) as u32))
}

impl Message<'_> {
    /// Encodes the message into `out`, replacing its contents, as message `number` of its direction.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        match *self {
            Message::Terms(terms) => {
                push_head(TERMS, VERSION, terms.max_metadata_bytes, number, out);
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
                push_head(ASSIGN, offer.pool_index.0, u16::from(offer.may_forward), number, out);
                for word in [offer.pool.domain, offer.pool.number, offer.layout.buffer_bytes()] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                for word in [u64::from(offer.layout.count()), offer.capability, offer.offset_bytes] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
            }
            Message::Assigned(pool_index) => push_head(ASSIGNED, pool_index.0, 0, number, out),
            Message::Vetoed(pool_index, veto) => push_head(VETOED, pool_index.0, veto as u16, number, out),
            Message::Unassign(pool_index) => push_head(UNASSIGN, pool_index.0, 0, number, out),
            Message::Unassigned(pool_index) => push_head(UNASSIGNED, pool_index.0, 0, number, out),
            Message::Kept(pool_index) => push_head(KEPT, pool_index.0, 0, number, out),
            Message::Transfer(transfer) => {
                let (count, length) = (transfer.len() as u8, transfer.metadata.len() as u16);
                push_head(transfer.verb as u8, count, length, number, out);
                out.extend_from_slice(transfer.segments);
                out.extend_from_slice(transfer.metadata);
            }
            Message::Content(Content { pool_index, buffer, offset_bytes, bytes }) => {
                let length_bytes = bytes.len() as u64;
                let segment = Segment { pool_index, buffer, offset_bytes, length_bytes };
                encode_content(segment, number, out).copy_from_slice(bytes);
            }
        }
    }
}

/// Decodes a message and its number.
///
/// # Errors
/// [`Malformed`], with the reason. The [session](crate::session) decides whether the message is valid now.
pub fn decode(bytes: &[u8]) -> Result<(Message<'_>, u32), Malformed> {
    let wrong_length = Malformed::Length { length_bytes: bytes.len() };
    let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(wrong_length)?;
    let [kind, count, l0, l1, n0, n1, n2, n3] = *head;
    let (length, number) = (u16::from_le_bytes([l0, l1]), u32::from_le_bytes([n0, n1, n2, n3]));
    let pool_index = || PoolIndex::from_byte(count).ok_or(Malformed::Field("a pool's place"));
    let short = |message| {
        if !body.is_empty() {
            return Err(wrong_length);
        }
        if length != 0 && kind != VETOED { Err(Malformed::Field("a length")) } else { Ok(message) }
    };
    let message = match kind {
        TERMS if count != VERSION => return Err(Malformed::Version(count)),
        TERMS => Message::Terms(terms(length, body).ok_or(wrong_length)??),
        ASSIGN => Message::Assign(offer(pool_index()?, length, body).ok_or(wrong_length)??),
        ASSIGNED => short(Message::Assigned(pool_index()?))?,
        VETOED => {
            let veto = Veto::ALL.into_iter().find(|veto| *veto as u16 == length);
            short(Message::Vetoed(pool_index()?, veto.ok_or(Malformed::Field("a reason"))?))?
        }
        UNASSIGN => short(Message::Unassign(pool_index()?))?,
        UNASSIGNED => short(Message::Unassigned(pool_index()?))?,
        KEPT => short(Message::Kept(pool_index()?))?,
        CONTENT => Message::Content(content(pool_index()?, usize::from(length), body).ok_or(wrong_length)??),
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

fn offer(pool_index: PoolIndex, flags: u16, body: &[u8]) -> Option<Result<Offer, Malformed>> {
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
    Some(Ok(Offer { pool_index, pool, layout, capability, offset_bytes, may_forward }))
}

fn content(pool_index: PoolIndex, length: usize, body: &[u8]) -> Option<Result<Content<'_>, Malformed>> {
    let (fields, bytes) = body.split_first_chunk::<16>().filter(|(_, bytes)| bytes.len() == length)?;
    let [b0, b1, b2, b3, 0, 0, 0, 0, ..] = *fields else {
        return Some(Err(Malformed::Field("what is reserved")));
    };
    if bytes.is_empty() {
        return Some(Err(Malformed::Field("the length of content")));
    }
    let (buffer, offset_bytes) = (u32::from_le_bytes([b0, b1, b2, b3]), word_at(fields, 8));
    Some(Ok(Content { pool_index, buffer, offset_bytes, bytes }))
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
        if !verb.carries_content() && (piece.offset_bytes, piece.length_bytes) != (0, 0) {
            return Err(Malformed::Field("the place of what has no content"));
        }
        // The first eight bytes are the pool and the buffer.
        if pieces[..index].iter().any(|before| before[..8] == bytes[..8]) {
            return Err(Malformed::DuplicateBuffer(piece.buffer));
        }
    }
    Ok(Transfer { verb, segments, metadata })
}

fn segment(bytes: &[u8; SEGMENT_BYTES]) -> Result<Segment, Malformed> {
    let [pool_index, r0, r1, r2, b0, b1, b2, b3, ..] = *bytes;
    if [r0, r1, r2] != [0; 3] {
        return Err(Malformed::Field("what is reserved"));
    }
    Ok(Segment {
        pool_index: PoolIndex::from_byte(pool_index).ok_or(Malformed::Field("a pool's place"))?,
        buffer: u32::from_le_bytes([b0, b1, b2, b3]),
        offset_bytes: word_at(bytes, 8),
        length_bytes: word_at(bytes, 16),
    })
}

/// Returns the number at `offset` of bytes that are long enough.
fn word_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// First message of each side on a typed channel, if a bulk channel is to be opened beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preface {
    /// Endpoint where the accepting side listens for the bulk channel; 0 from the other side.
    pub endpoint: u64,
    /// Number of pools that this side assigns at the start, up to [`MAX_POOLS`].
    pub pools: u32,
}

impl Preface {
    const MAGIC: [u8; 8] = *b"tombulk1";

    /// Encodes the preface as its 24 bytes on the wire.
    #[must_use]
    pub fn encode(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..16].copy_from_slice(&self.endpoint.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pools.to_le_bytes());
        bytes
    }

    /// Decodes a message. Returns `None` if it is not a preface.
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
