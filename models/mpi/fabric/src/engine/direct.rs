//! Direct access to registered memory of peers: a write is a copy, without work for the owner.
//!
//! The first operation on a key goes by messages, and requests direct access along with it. The owner moves
//! the memory to a place that the requester can map, if there is one, and replies with the location. From
//! then on operations are copies, except while messages of this side to that peer are in flight, which they
//! must not overtake. Memory may lie in several pieces, because parts of it may have been moved into regions
//! by earlier registrations; it is accessible once all pieces are mapped.

use crate::memory::Memory;
use crate::net::{LinkId, MAX_PIECES, Net};
use crate::wire::{Control, ExposedPiece, Malformed};

use super::{Core, Engine};

/// Maximum number of queued requests for direct access.
const MAX_DIRECT_REQUESTS: usize = 4096;

/// Progress of getting direct access to the memory of a key.
#[derive(Debug)]
pub(crate) enum DirectAccess<V> {
    /// Requested from the owner.
    Requested,
    /// Locations are arriving and pieces are being mapped.
    Mapping(Vec<Piece<V>>),
    /// Not possible.
    Unavailable,
    /// Accessible: at least one piece, contiguous in address order, all mapped.
    Ready(Vec<Piece<V>>),
}

/// A piece of a peer's memory, and its view once it is mapped.
#[derive(Debug)]
pub(crate) struct Piece<V> {
    location: ExposedPiece,
    view: Option<V>,
}

impl ExposedPiece {
    /// Returns the address just past the piece.
    fn end(&self) -> Option<u64> {
        self.base.checked_add(self.length)
    }

    /// Returns whether `next` is the piece that directly follows this one.
    fn precedes(&self, next: &ExposedPiece) -> bool {
        let same = (self.read, self.write) == (next.read, next.write);
        same && self.end() == Some(next.base) && self.more.checked_sub(1) == Some(next.more)
    }
}

/// Splits the `length` bytes at `address` by pieces, and calls `each` with view, offset and length of each
/// part. Returns whether the whole range is within the pieces and each call returned true; calls nothing if
/// the range is out of bounds.
#[inline]
fn for_each_part<V>(
    pieces: &[Piece<V>],
    address: u64,
    length: usize,
    mut each: impl FnMut(&V, usize, usize) -> bool,
) -> bool {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return false };
    let Some(end) = address.checked_add(length as u64) else { return false };
    if address < first.location.base || last.location.end().is_none_or(|last| last < end) {
        return false;
    }
    let mut from = address;
    for piece in pieces {
        let Some(to) = piece.location.end().map(|stop| stop.min(end)).filter(|to| from < *to) else {
            continue;
        };
        let Some(view) = &piece.view else { return false };
        let Some(start) = piece.location.offset.checked_add(from - piece.location.base) else { return false };
        let Ok(start) = usize::try_from(start) else { return false };
        // At most `length`, so it fits.
        if !each(view, start, (to - from) as usize) {
            return false;
        }
        from = to;
    }
    true
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Sets whether peers may get direct access to memory of this endpoint. Direct accesses are not counted.
    pub fn set_direct(&mut self, direct: bool) {
        self.core.direct = direct;
    }

    /// Writes to memory of a peer if it is directly accessible. Returns whether it did.
    #[inline]
    pub(super) fn write_directly(&mut self, peer: u32, key: u64, address: u64, memory: &M) -> bool {
        let Some(pieces) = self
            .direct_pieces(peer, key)
            .filter(|pieces| pieces.first().is_some_and(|first| first.location.write))
        else {
            return false;
        };
        let mut from = 0;
        for_each_part(pieces, address, memory.len(), |view, start, length| {
            let (mut offset, mut valid) = (start, true);
            memory.for_each_source(from, length, |bytes| {
                valid &= N::write_view(view, offset, bytes);
                offset += bytes.len();
            });
            from += length;
            valid
        })
    }

    /// Reads memory of a peer if it is directly accessible. Returns whether it did.
    #[inline]
    pub(super) fn read_directly(&mut self, peer: u32, key: u64, address: u64, memory: &mut M) -> bool {
        let Some(pieces) = self
            .direct_pieces(peer, key)
            .filter(|pieces| pieces.first().is_some_and(|first| first.location.read))
        else {
            return false;
        };
        let mut from = 0;
        for_each_part(pieces, address, memory.len(), |view, start, length| {
            let (mut offset, mut valid) = (start, true);
            memory.for_each_target(from, length, |bytes| {
                valid &= N::read_view(view, offset, bytes);
                offset += bytes.len();
            });
            from += length;
            valid
        })
    }

    /// Returns the pieces of a key's memory if it can be accessed directly now. Requests access on first use.
    #[inline]
    fn direct_pieces(&mut self, peer: u32, key: u64) -> Option<&[Piece<N::View>]> {
        let state = &mut self.core.peers[peer as usize];
        if state.outstanding > 0 || !state.backlog.is_empty() {
            // Direct accesses must not overtake earlier operations.
            return None;
        }
        // Keys are reused for other memory after the first access right was revoked.
        let valid = |piece: &Piece<N::View>| piece.view.as_ref().is_some_and(|view| N::is_view_valid(view));
        if let Some(DirectAccess::Ready(pieces)) = state.direct_access.get(&key)
            && !pieces.iter().all(valid)
        {
            state.direct_access.remove(&key);
        }
        if !state.direct_access.contains_key(&key) {
            self.request_direct_access(peer, key);
            return None;
        }
        match self.core.peers[peer as usize].direct_access.get(&key) {
            Some(DirectAccess::Ready(pieces)) => Some(pieces),
            _ => None,
        }
    }

    #[inline(never)]
    fn request_direct_access(&mut self, peer: u32, key: u64) {
        let state = &mut self.core.peers[peer as usize];
        if state.lost.is_none() {
            state.direct_access.insert(key, DirectAccess::Requested);
            self.core.send_control(peer, Control::DirectRequest { key });
        }
    }

    /// Answers peers' requests for direct access, and maps memory that peers have exposed.
    #[inline]
    pub(super) fn process_direct_queues(&mut self) {
        if !self.core.to_expose.is_empty() || !self.core.to_map_direct.is_empty() {
            self.expose_and_map_all();
        }
    }

    #[inline(never)]
    fn expose_and_map_all(&mut self) {
        for (link, key, at) in std::mem::take(&mut self.core.to_map_direct) {
            self.net.map_direct(link, key, at.capability, at.region_bytes, at.write);
        }
        let domains: Vec<u64> =
            self.core.routes.iter().filter_map(|route| route.address.map(|address| address.domain)).collect();
        for (link, key) in std::mem::take(&mut self.core.to_expose) {
            let Some(peer) = self.core.peer_of(link) else { continue };
            match self.expose(link, key, &domains) {
                None => self.core.send_control(peer, Control::DirectReply { key, at: None }),
                Some(pieces) => {
                    for at in pieces {
                        self.core.send_control(peer, Control::DirectReply { key, at: Some(at) });
                    }
                }
            }
        }
    }

    fn expose(&mut self, link: LinkId, key: u64, domains: &[u64]) -> Option<Vec<ExposedPiece>> {
        let region = self.core.regions.get(&key).filter(|_| self.core.direct)?;
        let (base, access) = (region.base, region.access);
        let memory = region.memory.as_contiguous().filter(|(_, length)| *length > 0)?;
        let exposed = self.net.expose(link, key, memory, access.write, domains)?;
        // At most `MAX_PIECES`, so it fits.
        let mut more = exposed.len() as u32;
        let mut next = base;
        let reachable = exposed.into_iter().map(|piece| {
            let base = next;
            next = base.wrapping_add(piece.length);
            more -= 1;
            ExposedPiece {
                capability: piece.capability,
                region_bytes: piece.region_bytes,
                offset: piece.offset,
                base,
                length: piece.length,
                read: access.read,
                write: access.write,
                more,
            }
        });
        Some(reachable.collect())
    }

    pub(super) fn on_direct_mapped(
        &mut self,
        link: LinkId,
        key: u64,
        capability: u64,
        view: Option<N::View>,
    ) {
        let Some(peer) = self.core.peer_of(link) else { return };
        let direct_access = &mut self.core.peers[peer as usize].direct_access;
        let Some(DirectAccess::Mapping(pieces)) = direct_access.get_mut(&key) else { return };
        let is_unmapped =
            |piece: &&mut Piece<N::View>| piece.location.capability == capability && piece.view.is_none();
        let Some(piece) = pieces.iter_mut().find(is_unmapped) else { return };
        match view {
            None => {
                direct_access.insert(key, DirectAccess::Unavailable);
            }
            Some(view) => {
                piece.view = Some(view);
                let whole = pieces.last().is_some_and(|last| last.location.more == 0);
                if whole && pieces.iter().all(|piece| piece.view.is_some()) {
                    let pieces = std::mem::take(pieces);
                    direct_access.insert(key, DirectAccess::Ready(pieces));
                }
            }
        }
    }
}

impl<V, M: Memory> Core<V, M> {
    /// Queues a peer's request for direct access.
    pub(super) fn handle_direct_request(
        &mut self,
        peer: u32,
        link: LinkId,
        key: u64,
    ) -> Result<(), Malformed> {
        if self.to_expose.len() >= MAX_DIRECT_REQUESTS || self.is_reply_queue_full(peer) {
            return Err(Malformed);
        }
        self.to_expose.push((link, key));
        self.activate(peer);
        Ok(())
    }

    /// Handles a peer's reply to a request for direct access.
    pub(super) fn handle_direct_reply(
        &mut self,
        peer: u32,
        link: LinkId,
        key: u64,
        at: Option<ExposedPiece>,
    ) -> Result<(), Malformed> {
        let direct_access = &mut self.peers[peer as usize].direct_access;
        let Some(at) = at else {
            if !matches!(direct_access.get(&key), Some(DirectAccess::Requested)) {
                return Err(Malformed);
            }
            direct_access.insert(key, DirectAccess::Unavailable);
            return Ok(());
        };
        let piece = Piece { location: at, view: None };
        match direct_access.get_mut(&key) {
            Some(DirectAccess::Requested) if (at.more as usize) < MAX_PIECES && at.end().is_some() => {
                direct_access.insert(key, DirectAccess::Mapping(vec![piece]));
            }
            Some(DirectAccess::Mapping(pieces))
                if pieces.last().is_some_and(|last| last.location.precedes(&at)) =>
            {
                if at.end().is_none() {
                    return Err(Malformed);
                }
                pieces.push(piece);
            }
            // An earlier piece could not be mapped.
            Some(DirectAccess::Unavailable) => return Ok(()),
            _ => return Err(Malformed),
        }
        self.to_map_direct.push((link, key, at));
        self.activate(peer);
        Ok(())
    }
}
