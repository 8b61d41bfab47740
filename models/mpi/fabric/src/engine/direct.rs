//! Direct access to registered memory of peers: a write is a copy, without work for the owner.
//!
//! The first operation on a key goes by messages, and requests direct access along with it. The owner moves
//! the memory to a place that the requester can map, if there is one, and replies with the location. From
//! then on operations are copies, except while messages of this side to that peer are in flight, which they
//! must not overtake. Memory may lie in several pieces, because parts of it may have been moved into regions
//! by earlier registrations; it is accessible once all pieces are mapped.

use crate::memory::Memory;
use crate::net::{LinkId, MAX_PIECES, Net};
use crate::wire::{Control, Malformed, Reachable};

use super::{Core, Engine};

/// Maximum number of queued requests for direct access.
const MAX_ASKED: usize = 4096;

/// Progress of getting direct access to the memory of a key.
#[derive(Debug)]
pub(crate) enum Reach<V> {
    /// Requested from the owner.
    Asked,
    /// Locations are arriving and pieces are being mapped.
    Coming(Vec<Piece<V>>),
    /// Not possible.
    Never,
    /// Accessible: at least one piece, contiguous in address order, all mapped.
    Ready(Vec<Piece<V>>),
}

/// A piece of a peer's memory, and its view once it is mapped.
#[derive(Debug)]
pub(crate) struct Piece<V> {
    at: Reachable,
    view: Option<V>,
}

impl Reachable {
    /// Returns the address just past the piece.
    fn end(&self) -> Option<u64> {
        self.base.checked_add(self.length)
    }

    /// Returns whether `next` is the piece that directly follows this one.
    fn precedes(&self, next: &Reachable) -> bool {
        let same = (self.read, self.write) == (next.read, next.write);
        same && self.end() == Some(next.base) && self.more.checked_sub(1) == Some(next.more)
    }
}

/// Splits the `length` bytes at `address` by pieces, and calls `each` with view, offset and length of each
/// part. Returns whether the whole range is within the pieces and each call returned true; calls nothing if
/// the range is out of bounds.
#[inline]
fn each_part<V>(
    pieces: &[Piece<V>],
    address: u64,
    length: usize,
    mut each: impl FnMut(&V, usize, usize) -> bool,
) -> bool {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return false };
    let Some(end) = address.checked_add(length as u64) else { return false };
    if address < first.at.base || last.at.end().is_none_or(|last| last < end) {
        return false;
    }
    let mut from = address;
    for piece in pieces {
        let Some(to) = piece.at.end().map(|stop| stop.min(end)).filter(|to| from < *to) else { continue };
        let Some(view) = &piece.view else { return false };
        let Some(start) = piece.at.offset.checked_add(from - piece.at.base) else { return false };
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
        let Some(pieces) =
            self.reached_at(peer, key).filter(|pieces| pieces.first().is_some_and(|first| first.at.write))
        else {
            return false;
        };
        let mut from = 0;
        each_part(pieces, address, memory.len(), |view, start, length| {
            let (mut offset, mut there) = (start, true);
            memory.each_source(from, length, |bytes| {
                there &= N::write_there(view, offset, bytes);
                offset += bytes.len();
            });
            from += length;
            there
        })
    }

    /// Reads memory of a peer if it is directly accessible. Returns whether it did.
    #[inline]
    pub(super) fn read_directly(&mut self, peer: u32, key: u64, address: u64, memory: &mut M) -> bool {
        let Some(pieces) =
            self.reached_at(peer, key).filter(|pieces| pieces.first().is_some_and(|first| first.at.read))
        else {
            return false;
        };
        let mut from = 0;
        each_part(pieces, address, memory.len(), |view, start, length| {
            let (mut offset, mut there) = (start, true);
            memory.each_target(from, length, |bytes| {
                there &= N::read_chunk(view, offset, bytes);
                offset += bytes.len();
            });
            from += length;
            there
        })
    }

    /// Returns the pieces of a key's memory if it can be accessed directly now. Requests access on first use.
    #[inline]
    fn reached_at(&mut self, peer: u32, key: u64) -> Option<&[Piece<N::View>]> {
        let state = &mut self.core.peers[peer as usize];
        if state.outstanding > 0 || !state.backlog.is_empty() {
            // Direct accesses must not overtake earlier operations.
            return None;
        }
        // Keys are reused for other memory after the first access right was revoked.
        let there = |piece: &Piece<N::View>| piece.view.as_ref().is_some_and(|view| N::is_there(view));
        if let Some(Reach::Ready(pieces)) = state.reach.get(&key)
            && !pieces.iter().all(there)
        {
            state.reach.remove(&key);
        }
        if !state.reach.contains_key(&key) {
            self.ask_for(peer, key);
            return None;
        }
        match self.core.peers[peer as usize].reach.get(&key) {
            Some(Reach::Ready(pieces)) => Some(pieces),
            _ => None,
        }
    }

    #[inline(never)]
    fn ask_for(&mut self, peer: u32, key: u64) {
        let state = &mut self.core.peers[peer as usize];
        if state.gone.is_none() {
            state.reach.insert(key, Reach::Asked);
            self.core.tell(peer, Control::Reach { key });
        }
    }

    /// Answers peers' requests for direct access, and maps memory that peers have exposed.
    #[inline]
    pub(super) fn expose_and_reach(&mut self) {
        if !self.core.to_expose.is_empty() || !self.core.to_reach.is_empty() {
            self.expose_all();
        }
    }

    #[inline(never)]
    fn expose_all(&mut self) {
        for (link, key, at) in std::mem::take(&mut self.core.to_reach) {
            self.net.reach(link, key, at.capability, at.region_bytes, at.write);
        }
        let domains: Vec<u64> =
            self.core.routes.iter().filter_map(|route| route.address.map(|address| address.domain)).collect();
        for (link, key) in std::mem::take(&mut self.core.to_expose) {
            let Some(peer) = self.core.peer_of(link) else { continue };
            match self.expose(link, key, &domains) {
                None => self.core.tell(peer, Control::Reachable { key, at: None }),
                Some(pieces) => {
                    for at in pieces {
                        self.core.tell(peer, Control::Reachable { key, at: Some(at) });
                    }
                }
            }
        }
    }

    fn expose(&mut self, link: LinkId, key: u64, domains: &[u64]) -> Option<Vec<Reachable>> {
        let region = self.core.regions.get(&key).filter(|_| self.core.direct)?;
        let (base, access) = (region.base, region.access);
        let memory = region.memory.in_one_piece().filter(|(_, length)| *length > 0)?;
        let exposed = self.net.expose(link, key, memory, access.write, domains)?;
        // At most `MAX_PIECES`, so it fits.
        let mut more = exposed.len() as u32;
        let mut next = base;
        let reachable = exposed.into_iter().map(|piece| {
            let base = next;
            next = base.wrapping_add(piece.length);
            more -= 1;
            Reachable {
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

    pub(super) fn reached(&mut self, link: LinkId, key: u64, capability: u64, view: Option<N::View>) {
        let Some(peer) = self.core.peer_of(link) else { return };
        let reach = &mut self.core.peers[peer as usize].reach;
        let Some(Reach::Coming(pieces)) = reach.get_mut(&key) else { return };
        let such = |piece: &&mut Piece<N::View>| piece.at.capability == capability && piece.view.is_none();
        let Some(piece) = pieces.iter_mut().find(such) else { return };
        match view {
            None => {
                reach.insert(key, Reach::Never);
            }
            Some(view) => {
                piece.view = Some(view);
                let whole = pieces.last().is_some_and(|last| last.at.more == 0);
                if whole && pieces.iter().all(|piece| piece.view.is_some()) {
                    let pieces = std::mem::take(pieces);
                    reach.insert(key, Reach::Ready(pieces));
                }
            }
        }
    }
}

impl<V, M: Memory> Core<V, M> {
    /// Queues a peer's request for direct access.
    pub(super) fn asked_to_expose(&mut self, peer: u32, link: LinkId, key: u64) -> Result<(), Malformed> {
        if self.to_expose.len() >= MAX_ASKED || self.has_too_much(peer) {
            return Err(Malformed);
        }
        self.to_expose.push((link, key));
        self.activate(peer);
        Ok(())
    }

    /// Handles a peer's reply to a request for direct access.
    pub(super) fn told_where(
        &mut self,
        peer: u32,
        link: LinkId,
        key: u64,
        at: Option<Reachable>,
    ) -> Result<(), Malformed> {
        let reach = &mut self.peers[peer as usize].reach;
        let Some(at) = at else {
            if !matches!(reach.get(&key), Some(Reach::Asked)) {
                return Err(Malformed);
            }
            reach.insert(key, Reach::Never);
            return Ok(());
        };
        let piece = Piece { at, view: None };
        match reach.get_mut(&key) {
            Some(Reach::Asked) if (at.more as usize) < MAX_PIECES && at.end().is_some() => {
                reach.insert(key, Reach::Coming(vec![piece]));
            }
            Some(Reach::Coming(pieces)) if pieces.last().is_some_and(|last| last.at.precedes(&at)) => {
                if at.end().is_none() {
                    return Err(Malformed);
                }
                pieces.push(piece);
            }
            // An earlier piece could not be mapped.
            Some(Reach::Never) => return Ok(()),
            _ => return Err(Malformed),
        }
        self.to_reach.push((link, key, at));
        self.activate(peer);
        Ok(())
    }
}
