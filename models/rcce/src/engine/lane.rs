//! Messages between two ranks: the sender puts pieces into its staging buffer, the receiver copies them from
//! there.
//!
//! Flags synchronize both: `sent` counts the pieces that a sender has put for a receiver, `taken` those that
//! the receiver has copied. A staging buffer has two halves, so a sender is at most two pieces ahead. A
//! message of up to [`INLINE_BYTES`] travels in the cache line of the flag itself. As in RCCE, a send
//! completes when the receiver has taken all of it.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};
use tombolo_onesided::{FLAG_WORDS, FlagReader, FlagWriter, get, put};

use super::PrivateBytes;
use crate::layout::{LaneKind, Layout};

/// Maximum length of a message that travels with its flag, in bytes. The first word of the line is the
/// length.
pub const INLINE_BYTES: usize = (FLAG_WORDS - 1) * 8;

/// State of a rank's messages of one kind: flags shared with each peer, and the staging buffer.
#[derive(Debug)]
pub(super) struct Lane<C: CacheMaintenance> {
    memory: SharedMemory<C>,
    peers: Vec<Peer<C>>,
    staging: usize,
    half_bytes: usize,
    /// Id of the message in the staging buffer.
    staged: Option<u64>,
    /// First rank that a wildcard receive checks: the one after the last sender, for fairness.
    next_source: usize,
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
        Ok(Lane { memory: memory.clone(), peers, staging, half_bytes, staged: None, next_source: 0 })
    }

    /// Returns the length of the message from `source` whose first piece has arrived, if there is one.
    pub(super) fn arrived_length(&self, source: usize) -> Option<u64> {
        let arrived = &self.peers[source].arrived;
        arrived.is_raised().then(|| arrived.word(0))
    }

    fn pieces(&self, length: u64) -> u64 {
        if length <= INLINE_BYTES as u64 { 1 } else { length.div_ceil(self.half_bytes as u64) }
    }
}

/// A message being sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    id: u64,
    pub(super) dest: usize,
    /// Count of the flag before the first piece.
    before: u64,
    /// Number of pieces put so far.
    pub(super) posted: u64,
}

impl Outgoing {
    /// Creates a message; `id` is unique on this rank.
    pub(super) fn new(id: u64, dest: usize) -> Self {
        Outgoing { id, dest, before: 0, posted: 0 }
    }

    /// Puts as many pieces as possible. Returns whether the receiver has taken all. Messages to one rank
    /// advance one after another.
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

/// Message lengths that a receive accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptedLength {
    /// Exactly this length in bytes, as in RCCE, where both sides state the length.
    Exactly(usize),
    /// Any length that fits (`iRCCE_ANY_LENGTH`).
    UpTo(usize),
}

impl core::fmt::Display for AcceptedLength {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            AcceptedLength::Exactly(bytes) => write!(f, "{bytes}"),
            AcceptedLength::UpTo(bytes) => write!(f, "up to {bytes}"),
        }
    }
}

/// Record of a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedMessage {
    /// Rank of the sender.
    pub source: usize,
    /// Length in bytes.
    pub length: usize,
}

/// Error for a message whose length did not match its receive; the message was discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("rank {source_rank} sent {sent_bytes} bytes, and this receive is for {accepted}")]
pub struct WrongLength {
    /// Rank of the sender.
    pub source_rank: usize,
    /// Length in bytes.
    pub sent_bytes: u64,
    /// Lengths that the receive accepts.
    pub accepted: AcceptedLength,
}

/// A message being received, or a receive that still waits for one.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Rank of the sender; `None` for a wildcard receive until a message has arrived.
    pub(super) source: Option<usize>,
    accepted: AcceptedLength,
    /// Length and number of pieces taken, once the first one was.
    progress: Option<(u64, u64)>,
}

/// Sources whose next message is claimed by an earlier receive.
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
    pub(super) fn new(source: Option<usize>, accepted: AcceptedLength) -> Self {
        Incoming { source, accepted, progress: None }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.progress.is_some()
    }

    /// Copies available pieces into `target`. Returns `None` while some are missing.
    pub(super) fn advance<C: CacheMaintenance>(
        &mut self,
        lane: &mut Lane<C>,
        claims: &Claims,
        target: &mut impl PrivateBytes,
    ) -> Option<Result<ReceivedMessage, WrongLength>> {
        // A correct sender is at most two pieces ahead. The bound limits the work per call if a sender
        // claims more.
        for _ in 0..2 {
            if !self.has_begun() {
                self.take_first_piece(lane, claims)?;
            } else if !lane.peers[self.source?].arrived.take() {
                return None;
            }
            let (source, (length, got)) = (self.source?, self.progress?);
            self.get_piece(lane, source, length, got, target);
            lane.peers[source].taken.raise();
            self.progress = Some((length, got + 1));
            if got + 1 == lane.pieces(length) {
                return Some(self.outcome(source, length));
            }
        }
        None
    }

    /// Takes the first piece of a matching message.
    fn take_first_piece<C: CacheMaintenance>(&mut self, lane: &mut Lane<C>, claims: &Claims) -> Option<()> {
        let ranks = lane.peers.len();
        let (first, candidates) = self.source.map_or((lane.next_source, ranks), |source| (source, 1));
        let mut candidates = (0..candidates).map(|index| (first + index) % ranks);
        let peers = &mut lane.peers;
        let source = candidates.find(|source| !claims.has(*source) && peers[*source].arrived.take())?;
        lane.next_source = source + 1;
        self.source = Some(source);
        self.progress = Some((lane.peers[source].arrived.word(0), 0));
        Some(())
    }

    fn accepts_length(&self, length: u64) -> bool {
        match self.accepted {
            AcceptedLength::Exactly(accepted) => length == accepted as u64,
            AcceptedLength::UpTo(room) => length <= room as u64,
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
        if !self.accepts_length(length) {
            return;
        }
        // An accepted length, whose limit is a `usize`.
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

    fn outcome(&self, source: usize, length: u64) -> Result<ReceivedMessage, WrongLength> {
        if self.accepts_length(length) {
            Ok(ReceivedMessage { source, length: length as usize })
        } else {
            Err(WrongLength { source_rank: source, sent_bytes: length, accepted: self.accepted })
        }
    }
}
