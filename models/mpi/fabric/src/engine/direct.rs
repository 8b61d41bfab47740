//! Memory of peers that this side reaches by itself: a write is a copy, and the owner does nothing.
//!
//! The first operation on a key goes by messages and asks, beside, whether the memory could be reached. The
//! owner puts it where the asking side can map it, if there is such a place, and says where. From then on
//! operations are copies; unless others of this side are under way to that peer by messages, which they must
//! not overtake. Memory may lie in several pieces, as what was registered before in part lies in regions
//! already; it is reached when all of them are.

use crate::memory::Memory;
use crate::net::{LinkId, MAX_PIECES, Net};
use crate::wire::{Control, Malformed, Reachable};

use super::{Core, Engine};

/// Keys that a peer may ask for before it is answered.
const MAX_ASKED: usize = 4096;

/// How far this side is with reaching memory of a key.
#[derive(Debug)]
pub(crate) enum Reach<V> {
    /// The owner was asked.
    Asked,
    /// It is being said where it is, and mapped.
    Coming(Vec<Piece<V>>),
    /// It cannot be.
    Never,
    /// Here: pieces that lie one behind another, at least one, all of them mapped.
    Ready(Vec<Piece<V>>),
}

/// A piece of a peer's memory, and how it is reached once it is.
#[derive(Debug)]
pub(crate) struct Piece<V> {
    at: Reachable,
    view: Option<V>,
}

impl Reachable {
    /// What its first byte behind it would be called.
    fn end(&self) -> Option<u64> {
        self.base.checked_add(self.length)
    }

    /// Whether a piece is the one behind this.
    fn precedes(&self, next: &Reachable) -> bool {
        let same = (self.read, self.write) == (next.read, next.write);
        same && self.end() == Some(next.base) && self.more.checked_sub(1) == Some(next.more)
    }
}

/// Calls `each` with what of `length` bytes from `address` on is in each of some pieces: how it is reached,
/// where in that it is, and how many bytes it is. Whether all of them belong to the memory, and each said so;
/// if not all do, none is called with.
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
        // No more than `length`.
        if !each(view, start, (to - from) as usize) {
            return false;
        }
        from = to;
    }
    true
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Whether peers may reach memory of this endpoint by themselves, from now on. What they do is not
    /// counted then.
    pub fn set_direct(&mut self, direct: bool) {
        self.core.direct = direct;
    }

    /// Writes into memory of a peer, if it is reached. Whether it was done.
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

    /// Reads memory of a peer, if it is reached. Whether it was done.
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

    /// Memory of a key that can be used now, in one piece or more. The owner is asked, unless that was done.
    #[inline]
    fn reached_at(&mut self, peer: u32, key: u64) -> Option<&[Piece<N::View>]> {
        let state = &mut self.core.peers[peer as usize];
        if state.outstanding > 0 || !state.backlog.is_empty() {
            // What was asked for before comes first.
            return None;
        }
        // Keys are used again for other memory, after the right to the first was taken back.
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

    /// Answers requests, and maps what was answered.
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
        // There are no more than `MAX_PIECES`.
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
    /// A peer wants to reach memory by itself.
    pub(super) fn asked_to_expose(&mut self, peer: u32, link: LinkId, key: u64) -> Result<(), Malformed> {
        if self.to_expose.len() >= MAX_ASKED || self.has_too_much(peer) {
            return Err(Malformed);
        }
        self.to_expose.push((link, key));
        self.activate(peer);
        Ok(())
    }

    /// A peer has said where its memory can be reached.
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
            // One before it could not be mapped.
            Some(Reach::Never) => return Ok(()),
            _ => return Err(Malformed),
        }
        self.to_reach.push((link, key, at));
        self.activate(peer);
        Ok(())
    }
}
