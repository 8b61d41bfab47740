//! One endpoint: what it was asked for, what became of it, and its peers.

mod direct;
mod ending;
mod incoming;
mod outgoing;
mod peer;
mod post;
mod remote;
#[cfg(test)]
mod tests;
mod withdraw;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tombolo::WaitSet;

use crate::address::Address;
use crate::completion::{Completion, CompletionKind, Counts, Failure};
use crate::matching::Matching;
use crate::memory::{Memory, Payload};
use crate::net::{Event, LinkEnd, LinkId, Net};
use crate::slab::Slab;
use crate::wire::{Control, Reachable};
use peer::{Peer, Pool};
pub use post::{Atomic, Peek, Read, Receive, Send, Write};
pub use remote::{Access, Region};

/// Not an index of the address vector: any sender, or one that is not in it.
pub const NO_ADDRESS: u64 = u64::MAX;

/// Bytes that a peer keeps of messages that no receive has matched; what is sent beyond that stays at the
/// sender until one does.
pub const CREDIT_BYTES: u64 = 1 << 20;

/// Messages that a peer keeps until a receive matches them. What is sent beyond that waits at the sender.
pub const CREDIT_MESSAGES: u64 = 1 << 15;

/// The longest message that is taken over at once, to be sent when there is room.
pub const INJECT_BYTES: usize = 4096;

/// The longest operand of an atomic operation, in bytes.
pub const MAX_ATOMIC_BYTES: usize = 2048;

/// Bytes up to which a message goes through the slots of a ring, where chunks could be had as well.
pub(crate) const INLINE_BYTES: usize = 1536;

/// Bytes of a part of what goes through slots for want of chunks.
pub(crate) const PART_BYTES: usize = 3000;

/// Messages that wait to be sent to one peer, from which on more are refused.
const MAX_BACKLOG: usize = 4096;

/// Messages taken from a link before the others have their turn.
const BATCH: usize = 16;

/// Turns of all links in one call of [`Engine::progress`], at most: enough for what the ring of a link holds.
const MAX_TURNS: u32 = 32;

/// Calls of [`Engine::progress`] between two looks at what happens beside links while there is no event:
/// links on which nothing happens are found then.
const CALLS_PER_EVENT: u32 = 64;

/// Why an operation was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Busy {
    /// Too much waits already: make progress and try again.
    #[error("too much waits to be sent already")]
    Again,
    /// It cannot be.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Operations that are under way.
#[derive(Debug)]
pub(crate) enum Op<M> {
    /// A message was offered; or its bytes have gone, and are to be acknowledged.
    Sending { peer: u32, payload: Option<Payload<M>>, delivery: bool, done: Done },
    /// Bytes come for a receive.
    Receiving {
        peer: u32,
        theirs: u64,
        expected: usize,
        arrived: usize,
        memory: M,
        multi: Option<u64>,
        done: Done,
        wanted: Wanted,
    },
    /// Bytes come that were asked for.
    Fetching { peer: u32, arrived: usize, memory: M, done: Done },
    /// A peer has been asked to do something, and says when it has.
    Asked { peer: u32, done: Done },
    /// A message that its program has taken back, and which the peer has not let go of yet.
    Withdrawn { peer: u32 },
}

/// What a receive takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) tag: u64,
    /// Bits of the tag that do not matter.
    pub(crate) ignore: u64,
    /// The sender, or [`NO_ADDRESS`] for any.
    pub(crate) source: u64,
}

impl<M> Op<M> {
    pub(crate) fn peer(&self) -> u32 {
        match self {
            Op::Sending { peer, .. }
            | Op::Receiving { peer, .. }
            | Op::Fetching { peer, .. }
            | Op::Asked { peer, .. }
            | Op::Withdrawn { peer } => *peer,
        }
    }
}

/// How the end of an operation is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) kind: CompletionKind,
    pub(crate) report: bool,
    pub(crate) completion: Completion,
}

impl Done {
    #[inline]
    pub(crate) fn new(kind: CompletionKind, report: bool, context: usize, flags: u64) -> Done {
        let completion = Completion {
            context,
            flags,
            length: 0,
            buffer: 0,
            data: 0,
            tag: 0,
            source: NO_ADDRESS,
            failure: None,
        };
        Done { kind, report, completion }
    }
}

/// A buffer for several messages.
#[derive(Debug)]
pub(crate) struct Multi {
    /// Messages that are still coming into it.
    pub(crate) coming: u32,
    /// Nothing more is put in.
    pub(crate) full: bool,
}

/// Where an index of the address vector leads.
#[derive(Clone, Copy, Debug)]
struct Route {
    address: Option<Address>,
    peer: u32,
}

pub(crate) const NO_PEER: u32 = u32::MAX;

/// One endpoint of the fabric: its links, its peers and its operations.
///
/// It works only while one of its functions is called, and none of them waits. It is not shared between
/// threads.
#[derive(Debug)]
pub struct Engine<N: Net, M: Memory> {
    net: N,
    core: Core<N::View, M>,
    calls: u32,
}

/// All of an endpoint but what joins it to others.
#[derive(Debug)]
pub(crate) struct Core<V, M> {
    own: Address,
    peers: Vec<Peer<V, M>>,
    by_address: HashMap<Address, u32>,
    /// Whose a link is, by its id.
    peer_of_link: Vec<u32>,
    /// Domains that have connected and not said yet which of their endpoints they are.
    strangers: HashMap<LinkId, u64>,
    routes: Vec<Route>,
    sources: HashMap<Address, u64>,
    tagged: Matching<M>,
    untagged: Matching<M>,
    ops: Slab<Op<M>>,
    multis: Slab<Multi>,
    regions: HashMap<u64, Region<M>>,
    /// Chunks of peers to be mapped: over which link, under what name, how long.
    to_map: Vec<(LinkId, u64, u64)>,
    /// Keys that peers want to reach, and over which link they asked.
    to_expose: Vec<(LinkId, u64)>,
    /// Memory of peers to be mapped: over which link, of which key, where.
    to_reach: Vec<(LinkId, u64, Reachable)>,
    /// Peers may be let reach memory by themselves.
    direct: bool,
    pools: Vec<Pool>,
    /// Peers with something to send.
    active: Vec<u32>,
    /// Sends that are being taken back, and since when.
    withdrawing: Vec<(u64, Instant)>,
    /// How long their peers may take to let go of them.
    withdrawal_patience: Duration,
    /// Peers without a link, until it is certain that none is on its way.
    leaving: Vec<u32>,
    sent: VecDeque<Completion>,
    received: VecDeque<Completion>,
    counts: Counts,
    /// Receives name the sender.
    directed: bool,
    /// A buffer for several messages stays posted while it has at least this many bytes of room.
    min_multi_bytes: usize,
}

impl<V, M> Core<V, M> {
    /// Tells of the end of an operation that began here.
    #[inline]
    pub(crate) fn finish(&mut self, done: Done) {
        let failed = done.completion.failure.is_some();
        self.counts.note(done.kind, failed);
        if done.report || failed {
            let queue =
                if done.kind == CompletionKind::Receive { &mut self.received } else { &mut self.sent };
            queue.push_back(done.completion);
        }
    }

    pub(crate) fn fail(&mut self, mut done: Done, failure: Failure) {
        done.completion.failure = Some(failure);
        self.finish(done);
    }

    /// Something is to be sent to a peer as soon as there is room.
    #[inline]
    pub(crate) fn activate(&mut self, peer: u32) {
        let state = &mut self.peers[peer as usize];
        if !state.active {
            state.active = true;
            self.active.push(peer);
        }
    }

    #[inline]
    pub(crate) fn tell(&mut self, peer: u32, control: Control) {
        self.peers[peer as usize].control.push_back(control);
        self.activate(peer);
    }
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// An endpoint, joined to others by `net`.
    pub fn new(net: N) -> Engine<N, M> {
        let core = Core {
            own: net.address(),
            peers: Vec::new(),
            by_address: HashMap::new(),
            peer_of_link: Vec::new(),
            strangers: HashMap::new(),
            routes: Vec::new(),
            sources: HashMap::new(),
            tagged: Matching::default(),
            untagged: Matching::default(),
            ops: Slab::default(),
            multis: Slab::default(),
            regions: HashMap::new(),
            to_map: Vec::new(),
            to_expose: Vec::new(),
            to_reach: Vec::new(),
            direct: true,
            pools: Vec::new(),
            active: Vec::new(),
            withdrawing: Vec::new(),
            withdrawal_patience: withdraw::PATIENCE,
            leaving: Vec::new(),
            sent: VecDeque::new(),
            received: VecDeque::new(),
            counts: Counts::default(),
            directed: true,
            min_multi_bytes: 64,
        };
        Engine { net, core, calls: 0 }
    }

    /// Where it can be reached.
    #[must_use]
    pub fn address(&self) -> Address {
        self.core.own
    }

    /// Whether receives match the sender. If not, each takes messages from any.
    pub fn set_directed(&mut self, directed: bool) {
        self.core.directed = directed;
    }

    /// From how many bytes of room on a buffer for several messages takes another.
    pub fn set_min_multi_bytes(&mut self, bytes: usize) {
        self.core.min_multi_bytes = bytes.max(1);
    }

    /// From how many bytes of room on a buffer for several messages takes another.
    #[must_use]
    pub fn min_multi_bytes(&self) -> usize {
        self.core.min_multi_bytes
    }

    /// Takes note that `index` of the address vector is this address, or none any more.
    pub fn set_route(&mut self, index: u64, address: Option<Address>) {
        let Ok(at) = usize::try_from(index) else { return };
        if at >= self.core.routes.len() {
            self.core.routes.resize(at + 1, Route { address: None, peer: NO_PEER });
        }
        let before = std::mem::replace(&mut self.core.routes[at], Route { address, peer: NO_PEER });
        if let Some(before) = before.address
            && self.core.sources.get(&before) == Some(&index)
        {
            self.core.sources.remove(&before);
            self.name_peer(before, NO_ADDRESS);
        }
        if let Some(address) = address {
            self.core.sources.insert(address, index);
            self.name_peer(address, index);
        }
    }

    fn name_peer(&mut self, address: Address, source: u64) {
        if let Some(&peer) = self.core.by_address.get(&address) {
            self.core.peers[peer as usize].source = source;
        }
    }

    /// What is over of sends, reads, writes and atomic operations, the oldest first.
    #[inline]
    pub fn next_sent(&mut self) -> Option<Completion> {
        self.core.sent.pop_front()
    }

    /// What is over of receives, and what peers wrote with data, the oldest first.
    #[inline]
    pub fn next_received(&mut self) -> Option<Completion> {
        self.core.received.pop_front()
    }

    /// The next that [`next_sent`](Self::next_sent) returns.
    #[inline]
    #[must_use]
    pub fn peek_sent(&self) -> Option<&Completion> {
        self.core.sent.front()
    }

    /// The next that [`next_received`](Self::next_received) returns.
    #[inline]
    #[must_use]
    pub fn peek_received(&self) -> Option<&Completion> {
        self.core.received.front()
    }

    /// How many operations are over.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.core.counts
    }

    /// Does what can be done now: takes what has come, and sends what found no room before. Says whether
    /// anything came.
    ///
    /// What peers ask of memory here produces no completion for the caller. While only such requests arrive,
    /// this goes on serving them: the caller may give up the processor before its next call, and the peers
    /// would wait for as long as that takes.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let came = self.turn();
        if came && self.has_nothing_to_tell() {
            for _ in 1..MAX_TURNS {
                if !(self.turn() && self.has_nothing_to_tell()) {
                    break;
                }
            }
        }
        came
    }

    #[inline]
    fn has_nothing_to_tell(&self) -> bool {
        self.core.sent.is_empty() && self.core.received.is_empty()
    }

    #[inline]
    fn turn(&mut self) -> bool {
        let mut came = false;
        // First, since a link that is looked at from now on has a message.
        self.calls = self.calls.wrapping_add(1);
        if self.net.has_event() || self.calls.is_multiple_of(CALLS_PER_EVENT) {
            came = self.look_aside();
        }
        let mut index = 0;
        while let Some(link) = self.net.hot_link(index) {
            for _ in 0..BATCH {
                let core = &mut self.core;
                match self.net.receive(link, |message| core.handle::<N>(link, message)) {
                    Ok(Some(Ok(()))) => came = true,
                    Ok(None) => break,
                    Ok(Some(Err(_))) => {
                        self.end_link(link, LinkEnd::Violation);
                        break;
                    }
                    Err(end) => {
                        self.end_link(link, end);
                        break;
                    }
                }
            }
            index += 1;
        }
        if !self.core.active.is_empty() {
            self.pump_all();
        }
        if !self.core.leaving.is_empty() {
            self.part_from_leaving();
        }
        if !self.core.withdrawing.is_empty() {
            self.core.give_up_withdrawing(Instant::now());
        }
        came
    }

    /// Looks at what happens beside links. Says whether anything did.
    #[inline(never)]
    pub fn look_aside(&mut self) -> bool {
        let mut came = false;
        while let Some(event) = self.net.next_event() {
            came = true;
            self.note(event);
        }
        came
    }

    #[inline(never)]
    fn pump_all(&mut self) {
        for (link, capability, length_bytes) in std::mem::take(&mut self.core.to_map) {
            self.net.map(link, capability, length_bytes);
        }
        self.expose_and_reach();
        let active = std::mem::take(&mut self.core.active);
        for peer in active {
            self.core.peers[peer as usize].active = false;
            if self.pump(peer) {
                self.core.activate(peer);
            }
        }
    }

    fn note(&mut self, event: Event<N::View>) {
        match event {
            Event::Connected { to, link } => self.connected(to, link),
            Event::NotConnected { to } => {
                if let Some(&peer) = self.core.by_address.get(&to) {
                    self.core.peers[peer as usize].connecting = false;
                    if self.core.peers[peer as usize].links.is_empty() {
                        self.core.leaves(peer, Failure::Unreachable);
                    }
                }
            }
            Event::Accepted { link, domain } => self.accepted(link, domain),
            Event::Staged { link, capability } => self.staged(link, capability),
            Event::Mapped { link, view } => self.mapped(link, view),
            Event::Reached { link, key, capability, view } => self.reached(link, key, capability, view),
        }
    }

    /// What to wait on until something may have happened, once [`progress`](Self::progress) says that nothing
    /// came; `None` while there is no use in waiting.
    pub fn park(&mut self) -> Option<&mut WaitSet> {
        if self.look_aside() || self.progress() {
            return None;
        }
        let sending: Vec<LinkId> =
            self.core.active.iter().filter_map(|&peer| self.core.peers[peer as usize].link).collect();
        self.net.park(&sending)
    }

    /// What waits and is under way: peers, operations, and messages that wait to be sent.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        let backlog = self.core.peers.iter().map(|peer| peer.backlog.len()).sum();
        (self.core.peers.len(), self.core.ops.len(), backlog)
    }
}
