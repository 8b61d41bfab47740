//! State of each peer, and setup of links to it.

use std::collections::{HashMap, VecDeque};

use crate::address::Address;
use crate::completion::Failure;
use crate::memory::Memory;
use crate::net::{LinkEnd, LinkId, Net};
use crate::wire::Control;

use super::direct::DirectAccess;
use super::outgoing::{Pending, Stream};
use super::{CREDIT_BYTES, CREDIT_MESSAGES, Core, Engine, NO_ADDRESS, NO_PEER};

/// Progress of making this endpoint's chunks readable for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Staging {
    /// Not needed so far.
    NotRequested,
    /// Being created here or mapped by the peer.
    InProgress,
    Ready,
    /// Not possible with this peer.
    Unavailable,
}

/// State of a peer.
#[derive(Debug)]
pub(crate) struct Peer<V, M> {
    pub(crate) address: Address,
    /// Address vector index of the peer, or [`NO_ADDRESS`].
    pub(crate) source: u64,
    /// Link for sending, fixed by the first message. One link keeps the order.
    pub(crate) link: Option<LinkId>,
    /// All links to it.
    pub(crate) links: Vec<LinkId>,
    pub(crate) connecting: bool,
    /// Whether the sending link has ended; messages may still arrive over other links.
    pub(crate) send_ended: bool,
    /// Why the last link ended. The peer is lost unless another link is being accepted.
    pub(crate) leaving: Option<Failure>,
    pub(crate) lost: Option<Failure>,
    /// Whether it is in the list of active peers.
    pub(crate) active: bool,
    /// Remaining credit: how much more of unexpected messages the peer buffers.
    pub(crate) credit_bytes: u64,
    pub(crate) credit_messages: u64,
    /// Unexpected messages of the peer buffered here, and credit that has not been returned to it yet.
    pub(crate) unexpected_bytes: u64,
    pub(crate) unexpected_messages: u64,
    pub(crate) unreturned_bytes: u64,
    pub(crate) unreturned_messages: u64,
    pub(crate) control: VecDeque<Control>,
    pub(crate) backlog: VecDeque<Pending<M>>,
    pub(crate) streams: VecDeque<Stream>,
    pub(crate) staging: Staging,
    /// Place from which it reads chunks of this endpoint.
    pub(crate) place: Option<usize>,
    /// The peer's chunks as mapped here, and their number and length.
    pub(crate) view: Option<V>,
    pub(crate) view_chunks: (u16, u32),
    /// Direct access to the peer's registered memory, by key.
    pub(crate) direct_access: HashMap<u64, DirectAccess<V>>,
    /// Number of requests that it has not answered.
    pub(crate) outstanding: u32,
    /// Why the peer's write that is arriving in parts has failed.
    pub(crate) write_failed: Option<crate::wire::Status>,
}

impl<V, M> Peer<V, M> {
    fn new(address: Address, source: u64) -> Self {
        Peer {
            address,
            source,
            link: None,
            links: Vec::new(),
            connecting: false,
            send_ended: false,
            leaving: None,
            lost: None,
            active: false,
            credit_bytes: CREDIT_BYTES,
            credit_messages: CREDIT_MESSAGES,
            unexpected_bytes: 0,
            unexpected_messages: 0,
            unreturned_bytes: 0,
            unreturned_messages: 0,
            control: VecDeque::new(),
            backlog: VecDeque::new(),
            streams: VecDeque::new(),
            staging: Staging::NotRequested,
            place: None,
            view: None,
            view_chunks: (0, 0),
            direct_access: HashMap::new(),
            outstanding: 0,
            write_failed: None,
        }
    }
}

/// Allocator of the chunks of a place, which peers read.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Free chunks, used last in, first out: the last one freed is likely to be in the cache.
    free: Vec<u16>,
    /// Peer that holds each chunk, by chunk number.
    holders: Vec<u32>,
    pub(crate) chunk_bytes: usize,
}

impl Pool {
    fn new((chunks, chunk_bytes): (u16, u32)) -> Pool {
        Pool {
            free: (0..chunks).rev().collect(),
            holders: vec![NO_PEER; usize::from(chunks)],
            chunk_bytes: chunk_bytes as usize,
        }
    }

    /// Returns how many chunks a peer holds.
    pub(crate) fn held_by(&self, peer: u32) -> usize {
        self.holders.iter().filter(|holder| **holder == peer).count()
    }

    /// Returns the next free chunk without taking it.
    #[inline]
    pub(crate) fn next_free(&self) -> Option<u16> {
        self.free.last().copied()
    }

    /// Assigns the next free chunk to a peer.
    #[inline]
    pub(crate) fn assign_next(&mut self, peer: u32) {
        if let Some(chunk) = self.free.pop() {
            self.holders[usize::from(chunk)] = peer;
        }
    }

    /// Frees a chunk that a peer has read. Returns false if the peer did not hold it.
    #[inline]
    pub(crate) fn free(&mut self, chunk: u16, peer: u32) -> bool {
        match self.holders.get_mut(usize::from(chunk)) {
            Some(holder) if *holder == peer => {
                *holder = NO_PEER;
                self.free.push(chunk);
                true
            }
            _ => false,
        }
    }

    /// Frees all chunks held by a lost peer.
    pub(crate) fn release_chunks_of(&mut self, peer: u32) {
        for (chunk, holder) in self.holders.iter_mut().enumerate() {
            if *holder == peer {
                *holder = NO_PEER;
                // Chunks are numbered with 16 bits, so the index fits.
                self.free.push(chunk as u16);
            }
        }
    }
}

impl<V, M> Core<V, M> {
    #[inline]
    pub(crate) fn peer_of(&self, link: LinkId) -> Option<u32> {
        self.peer_of_link.get(link.0 as usize).copied().filter(|peer| *peer != NO_PEER)
    }

    pub(crate) fn set_peer_of(&mut self, link: LinkId, peer: u32) {
        let at = link.0 as usize;
        if at >= self.peer_of_link.len() {
            self.peer_of_link.resize(at + 1, NO_PEER);
        }
        self.peer_of_link[at] = peer;
    }

    /// Returns the peer at an address, creating it on first use.
    pub(crate) fn peer_at(&mut self, address: Address) -> u32 {
        if let Some(&peer) = self.by_address.get(&address) {
            return peer;
        }
        let peer = self.peers.len() as u32;
        let source = self.sources.get(&address).copied().unwrap_or(NO_ADDRESS);
        self.peers.push(Peer::new(address, source));
        self.by_address.insert(address, peer);
        peer
    }

    pub(crate) fn add_link(&mut self, peer: u32, link: LinkId) {
        self.set_peer_of(link, peer);
        let state = &mut self.peers[peer as usize];
        state.links.push(link);
        state.leaving = None;
        if state.link.is_none() && !state.send_ended {
            state.link = Some(link);
        }
        self.activate(peer);
    }
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Returns the peer at an address vector index.
    #[inline]
    pub(crate) fn peer_to(&mut self, index: u64) -> Result<u32, Failure> {
        let route = usize::try_from(index).ok().and_then(|at| self.core.routes.get(at));
        match route {
            Some(route) if route.peer != NO_PEER => Ok(route.peer),
            Some(route) => {
                let address = route.address.ok_or(Failure::Unreachable)?;
                let peer = self.core.peer_at(address);
                self.core.routes[index as usize].peer = peer;
                Ok(peer)
            }
            None => Err(Failure::Unreachable),
        }
    }

    pub(crate) fn request_link(&mut self, peer: u32) {
        let state = &mut self.core.peers[peer as usize];
        let can_be = state.lost.is_none() && state.leaving.is_none() && !state.send_ended;
        if state.link.is_none() && !state.connecting && can_be {
            state.connecting = true;
            // The address vector includes this endpoint.
            self.net.connect(state.address, self.core.sources.len().saturating_sub(1));
        }
    }

    /// Cancels the pending connect to a peer that connected itself meanwhile, unless work on it has begun.
    #[inline(never)]
    pub(super) fn cancel_connect(&mut self, peer: u32) {
        let state = &mut self.core.peers[peer as usize];
        if self.net.cancel_connect(state.address) {
            state.connecting = false;
        }
    }

    pub(super) fn on_connected(&mut self, to: Address, link: LinkId) {
        let peer = self.core.peer_at(to);
        self.core.peers[peer as usize].connecting = false;
        let Address { endpoint, domain } = self.core.own;
        let hello = Control::Hello { endpoint, domain };
        // The ring of a new link is empty.
        match self.net.send(link, hello.bytes(), |draft, _| hello.write(draft)) {
            Ok(true) => self.core.add_link(peer, link),
            Ok(false) => {
                self.core.set_peer_of(link, peer);
                self.end_link(link, LinkEnd::Violation);
            }
            Err(end) => {
                self.core.set_peer_of(link, peer);
                self.end_link(link, end);
            }
        }
    }

    /// Registers an accepted link. The first message on it will identify the peer.
    pub(super) fn on_accepted(&mut self, link: LinkId, domain: u64) {
        self.core.set_peer_of(link, NO_PEER);
        self.core.unidentified.insert(link, domain);
    }

    /// Starts to make chunks readable for a peer, on first use.
    pub(crate) fn request_staging(&mut self, peer: u32, link: LinkId) {
        let state = &mut self.core.peers[peer as usize];
        if state.staging == Staging::NotRequested {
            state.place = self.net.place(link);
            if let Some(place) = state.place {
                state.staging = Staging::InProgress;
                let chunks = self.net.chunks();
                while self.core.pools.len() <= place {
                    self.core.pools.push(Pool::new(chunks));
                }
                self.net.stage(link);
            } else {
                state.staging = Staging::Unavailable;
            }
        }
    }

    pub(super) fn on_staged(&mut self, link: LinkId, capability: Option<u64>) {
        let Some(peer) = self.core.peer_of(link) else { return };
        match capability {
            Some(capability) => {
                let (chunks, chunk_bytes) = self.net.chunks();
                self.core.send_control(peer, Control::Stage { capability, chunk_bytes, chunks });
            }
            None => self.core.peers[peer as usize].staging = Staging::Unavailable,
        }
    }

    pub(super) fn on_mapped(&mut self, link: LinkId, view: Option<N::View>) {
        let Some(peer) = self.core.peer_of(link) else { return };
        let ready = view.is_some();
        self.core.peers[peer as usize].view = view;
        self.core.send_control(peer, Control::StageReady { ready });
    }
}
