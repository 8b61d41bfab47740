//! Messages between two ranks: the sender puts pieces into its staging buffer, the receiver gets them from
//! there.
//!
//! Flags carry the protocol: `sent` counts the pieces that a sender has put for a receiver, `taken` those
//! that the receiver has got. A staging buffer has two halves, so a sender is at most two pieces ahead. A
//! message of up to [`INLINE_BYTES`] travels in the line of the flag itself. A send is complete when all of
//! it was taken, as RCCE's sends are.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};
use tombolo_onesided::{FLAG_WORDS, FlagReader, FlagWriter, get, put};

use super::PrivateBytes;
use crate::layout::{LaneKind, Layout};

/// The longest message that travels with its flag, in bytes. The first word of the line is its length.
pub const INLINE_BYTES: usize = (FLAG_WORDS - 1) * 8;

/// What a rank shares with all others for messages of one kind.
#[derive(Debug)]
pub(super) struct Lane<C: CacheMaintenance> {
    memory: SharedMemory<C>,
    peers: Vec<Peer<C>>,
    staging: usize,
    half_bytes: usize,
    /// The message that is in the staging buffer.
    staged: Option<u64>,
    /// The rank that a wildcard looks at first: the one after that of which a message came last.
    fair: usize,
}

#[derive(Debug)]
struct Peer<C: CacheMaintenance> {
    sent: FlagWriter<C>,
    acknowledged: FlagReader<C>,
    arrived: FlagReader<C>,
    taken: FlagWriter<C>,
    staging: usize,
}

impl<C: CacheMaintenance> Lane<C> {
    pub(super) fn new(
        memory: &SharedMemory<C>,
        layout: &Layout,
        kind: LaneKind,
        own: usize,
    ) -> Result<Self, OutOfRange> {
        let peer = |peer| {
            Ok(Peer {
                sent: FlagWriter::new(memory, layout.sent(kind, own, peer))?,
                acknowledged: FlagReader::new(memory, layout.taken(kind, own, peer))?,
                arrived: FlagReader::new(memory, layout.sent(kind, peer, own))?,
                taken: FlagWriter::new(memory, layout.taken(kind, peer, own))?,
                staging: layout.staging(kind, peer),
            })
        };
        let peers = (0..layout.ranks).map(peer).collect::<Result<_, OutOfRange>>()?;
        let (staging, half_bytes) = (layout.staging(kind, own), layout.buffer_bytes / 2);
        Ok(Lane { memory: memory.clone(), peers, staging, half_bytes, staged: None, fair: 0 })
    }

    /// Whether the first piece of a message from this rank is there.
    pub(super) fn has_arrived(&self, source: usize) -> Option<u64> {
        let arrived = &self.peers[source].arrived;
        arrived.is_raised().then(|| arrived.word(0))
    }

    fn pieces(&self, length: u64) -> u64 {
        if length <= INLINE_BYTES as u64 { 1 } else { length.div_ceil(self.half_bytes as u64) }
    }
}

/// A message on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    id: u64,
    pub(super) dest: usize,
    /// What the flag had counted before the first piece.
    before: u64,
    /// Pieces that were put.
    pub(super) posted: u64,
}

impl Outgoing {
    /// A message with an `id` that no other of this rank has.
    pub(super) fn new(id: u64, dest: usize) -> Self {
        Outgoing { id, dest, before: 0, posted: 0 }
    }

    /// Puts what can be put; returns whether all was taken. Messages to one rank advance one after another.
    pub(super) fn advance<C: CacheMaintenance>(&mut self, lane: &mut Lane<C>, message: &[u8]) -> bool {
        let pieces = lane.pieces(message.len() as u64);
        let is_inline = message.len() <= INLINE_BYTES;
        if self.posted == 0 {
            if !is_inline && lane.staged.is_some_and(|other| other != self.id) {
                return false;
            }
            lane.staged = if is_inline { lane.staged } else { Some(self.id) };
            self.before = lane.peers[self.dest].sent.raised();
        }
        let taken = lane.peers[self.dest].acknowledged.latest().saturating_sub(self.before);
        while self.posted < pieces && self.posted < taken.saturating_add(2) {
            self.post(lane, message, is_inline);
        }
        let complete = taken >= pieces;
        if complete && lane.staged == Some(self.id) {
            lane.staged = None;
        }
        complete
    }

    fn post<C: CacheMaintenance>(&mut self, lane: &mut Lane<C>, message: &[u8], is_inline: bool) {
        let sent = &mut lane.peers[self.dest].sent;
        let mut words = [0; FLAG_WORDS];
        words[0] = message.len() as u64;
        let mut used = 1;
        if is_inline {
            for (word, bytes) in words[1..].iter_mut().zip(message.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(whole);
                used += 1;
            }
        } else {
            let start = self.posted as usize * lane.half_bytes;
            let piece = &message[start..message.len().min(start + lane.half_bytes)];
            let half = lane.staging + (self.posted as usize % 2) * lane.half_bytes;
            put(&lane.memory, half, piece).expect("a half of this rank's staging buffer");
        }
        sent.raise_with(0, &words[..used]);
        self.posted += 1;
    }
}

/// How long a message may be that a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// As RCCE's receives: both sides state the same length, in bytes.
    Exactly(usize),
    /// Any that fits (`iRCCE_ANY_LENGTH`).
    UpTo(usize),
}

impl core::fmt::Display for Wanted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Wanted::Exactly(bytes) => write!(f, "{bytes}"),
            Wanted::UpTo(bytes) => write!(f, "up to {bytes}"),
        }
    }
}

/// A message was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its sender.
    pub source: usize,
    /// Its length, in bytes.
    pub length: usize,
}

/// A message had another length than its receive, and was thrown away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("rank {source_rank} sent {sent_bytes} bytes, and this receive is for {wanted}")]
pub struct WrongLength {
    /// Its sender.
    pub source_rank: usize,
    /// Its length, in bytes.
    pub sent_bytes: u64,
    /// What the receive was for.
    pub wanted: Wanted,
}

/// A message on its way in, or one that is waited for.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The rank that it comes from; a wildcard has none until a message has come.
    pub(super) source: Option<usize>,
    wanted: Wanted,
    /// Its length and the pieces that were got, once one was.
    begun: Option<(u64, u64)>,
}

/// Sources whose next message goes to an earlier receive.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) all: bool,
    pub(super) sources: Vec<bool>,
}

impl Claims {
    pub(super) fn claim(&mut self, source: Option<usize>, ranks: usize) {
        self.sources.resize(ranks, false);
        match source {
            Some(source) => self.sources[source] = true,
            None => self.all = true,
        }
    }

    pub(super) fn clear(&mut self) {
        self.all = false;
        self.sources.clear();
    }

    fn has(&self, source: usize) -> bool {
        self.all || self.sources.get(source).copied().unwrap_or(false)
    }
}

impl Incoming {
    pub(super) fn new(source: Option<usize>, wanted: Wanted) -> Self {
        Incoming { source, wanted, begun: None }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Gets what can be got into `target`; `None` while something is missing.
    pub(super) fn advance<C: CacheMaintenance>(
        &mut self,
        lane: &mut Lane<C>,
        claims: &Claims,
        target: &mut impl PrivateBytes,
    ) -> Option<Result<Arrived, WrongLength>> {
        // A correct sender is at most two pieces ahead. One that claims to have put more gets no more of a
        // call.
        for _ in 0..2 {
            if !self.has_begun() {
                self.begin(lane, claims)?;
            } else if !lane.peers[self.source?].arrived.take() {
                return None;
            }
            let (source, (length, got)) = (self.source?, self.begun?);
            self.get_piece(lane, source, length, got, target);
            lane.peers[source].taken.raise();
            self.begun = Some((length, got + 1));
            if got + 1 == lane.pieces(length) {
                return Some(self.outcome(source, length));
            }
        }
        None
    }

    /// Takes the first piece of a message that this receive is for.
    fn begin<C: CacheMaintenance>(&mut self, lane: &mut Lane<C>, claims: &Claims) -> Option<()> {
        let ranks = lane.peers.len();
        let (first, candidates) = self.source.map_or((lane.fair, ranks), |source| (source, 1));
        let mut candidates = (0..candidates).map(|index| (first + index) % ranks);
        let peers = &mut lane.peers;
        let source = candidates.find(|source| !claims.has(*source) && peers[*source].arrived.take())?;
        lane.fair = source + 1;
        self.source = Some(source);
        self.begun = Some((lane.peers[source].arrived.word(0), 0));
        Some(())
    }

    fn fits(&self, length: u64) -> bool {
        match self.wanted {
            Wanted::Exactly(wanted) => length == wanted as u64,
            Wanted::UpTo(room) => length <= room as u64,
        }
    }

    fn get_piece<C: CacheMaintenance>(
        &self,
        lane: &Lane<C>,
        source: usize,
        length: u64,
        got: u64,
        target: &mut impl PrivateBytes,
    ) {
        if !self.fits(length) {
            return;
        }
        // It fits, so it is no longer than what is wanted, which is a `usize`.
        let length = length as usize;
        let target = target.bytes_mut(length);
        if length <= INLINE_BYTES {
            for (index, bytes) in target[..length].chunks_mut(8).enumerate() {
                let word = lane.peers[source].arrived.word(1 + index).to_le_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
            return;
        }
        let start = got as usize * lane.half_bytes;
        let piece = &mut target[start..length.min(start + lane.half_bytes)];
        let half = lane.peers[source].staging + (got as usize % 2) * lane.half_bytes;
        get(&lane.memory, half, piece).expect("a half of a rank's staging buffer");
    }

    fn outcome(&self, source: usize, length: u64) -> Result<Arrived, WrongLength> {
        if self.fits(length) {
            Ok(Arrived { source, length: length as usize })
        } else {
            Err(WrongLength { source_rank: source, sent_bytes: length, wanted: self.wanted })
        }
    }
}
