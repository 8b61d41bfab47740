//! Memory of peers that this side reaches by itself: a write is a copy, and the owner does nothing.
//!
//! The first operation on a key goes by messages and asks, beside, whether the memory could be reached. The owner puts it where the
//! asking side can map it, if there is such a place, and says where. From then on operations are copies; unless others of
//! this side are under way to that peer by messages, which they must not overtake.

use crate::memory::Memory;
use crate::net::{Exposed, LinkId, Net};
use crate::wire::{Control, Malformed, Reachable};

use super::{Core, Engine};

/// Keys that a peer may ask for before it is answered.
const MAX_ASKED: usize = 4096;

/// How far this side is with reaching memory of a key.
#[derive(Debug)]
pub(crate) enum Reach<V> {
    /// The owner was asked.
    Asked,
    /// It is being mapped.
    Coming(Reachable),
    /// It cannot be.
    Never,
    /// Here.
    Ready { view: V, at: Reachable },
}

impl Reachable {
    /// Where in what is mapped `length` bytes from `address` on are, if they all belong to the memory.
    #[inline]
    fn locate(&self, address: u64, length: usize) -> Option<usize> {
        let within = address.checked_sub(self.base)?;
        let end = within.checked_add(length as u64)?;
        if end > self.length {
            return None;
        }
        usize::try_from(self.offset.checked_add(within)?).ok()
    }
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Whether peers may reach memory of this endpoint by themselves, from now on. What they do is then counted by nobody.
    pub fn set_direct(&mut self, direct: bool) {
        self.core.direct = direct;
    }

    /// Writes into memory of a peer, if it is reached. Whether it was done.
    #[inline]
    pub(super) fn write_directly(&mut self, peer: u32, key: u64, address: u64, memory: &M) -> bool {
        let Some((view, at)) = self.reached_at(peer, key) else { return false };
        let Some(start) = at.locate(address, memory.len()).filter(|_| at.write) else { return false };
        let (mut offset, mut there) = (start, true);
        memory.each_source(0, memory.len(), |piece| {
            there &= N::write_there(view, offset, piece);
            offset += piece.len();
        });
        there
    }

    /// Reads memory of a peer, if it is reached. Whether it was done.
    #[inline]
    pub(super) fn read_directly(&mut self, peer: u32, key: u64, address: u64, memory: &mut M) -> bool {
        let Some((view, at)) = self.reached_at(peer, key) else { return false };
        let length = memory.len();
        let Some(start) = at.locate(address, length).filter(|_| at.read) else { return false };
        let (mut offset, mut there) = (start, true);
        memory.each_target(0, length, |piece| {
            there &= N::read_chunk(view, offset, piece);
            offset += piece.len();
        });
        there
    }

    /// Memory of a key that can be used now. The owner is asked, if nobody has.
    #[inline]
    fn reached_at(&mut self, peer: u32, key: u64) -> Option<(&N::View, Reachable)> {
        let state = &mut self.core.peers[peer as usize];
        if state.outstanding > 0 || !state.backlog.is_empty() {
            // What was asked for before comes first.
            return None;
        }
        // Keys are used again for other memory, after the right to the first was taken back.
        if let Some(Reach::Ready { view, .. }) = state.reach.get(&key)
            && !N::is_there(view)
        {
            state.reach.remove(&key);
        }
        if !state.reach.contains_key(&key) {
            self.ask_for(peer, key);
            return None;
        }
        match self.core.peers[peer as usize].reach.get(&key) {
            Some(Reach::Ready { view, at }) => Some((view, *at)),
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

    /// Answers who asked, and maps what was answered.
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
            let at = self.expose(link, key, &domains);
            self.core.tell(peer, Control::Reachable { key, at });
        }
    }

    fn expose(&mut self, link: LinkId, key: u64, domains: &[u64]) -> Option<Reachable> {
        let region = self.core.regions.get(&key).filter(|_| self.core.direct)?;
        let (base, access) = (region.base, region.access);
        let memory = region.memory.in_one_piece().filter(|(_, length)| *length > 0)?;
        let exposed = self.net.expose(link, key, memory, access.write, domains)?;
        let Exposed { capability, region_bytes, offset } = exposed;
        let (read, write, length) = (access.read, access.write, memory.1 as u64);
        Some(Reachable { capability, region_bytes, offset, base, length, read, write })
    }

    pub(super) fn reached(&mut self, link: LinkId, key: u64, view: Option<N::View>) {
        let Some(peer) = self.core.peer_of(link) else { return };
        let reach = &mut self.core.peers[peer as usize].reach;
        let Some(Reach::Coming(at)) = reach.get(&key) else { return };
        let at = *at;
        reach.insert(key, view.map_or(Reach::Never, |view| Reach::Ready { view, at }));
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
        if !matches!(reach.get(&key), Some(Reach::Asked)) {
            return Err(Malformed);
        }
        match at {
            None => {
                reach.insert(key, Reach::Never);
            }
            Some(at) => {
                reach.insert(key, Reach::Coming(at));
                self.to_reach.push((link, key, at));
                self.activate(peer);
            }
        }
        Ok(())
    }
}
