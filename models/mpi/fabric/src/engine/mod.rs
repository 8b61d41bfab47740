//! One endpoint: its operations, their completions, and its peers.

mod direct;
mod incoming;
mod outgoing;
mod peer;
mod peer_loss;
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
use crate::wire::{Control, ExposedPiece};
use peer::{Peer, Pool};
pub use post::{Atomic, Peek, Read, Receive, Send, Write};
pub use remote::{Access, Region};

/// Address vector index that stands for any sender, or for a sender that is not in the vector.
pub const NO_ADDRESS: u64 = u64::MAX;

/// Bytes of unexpected messages that a peer buffers. Messages beyond that stay at the sender until a receive
/// matches them.
pub const CREDIT_BYTES: u64 = 1 << 20;

/// Number of unexpected messages that a peer buffers. Messages beyond that wait at the sender.
pub const CREDIT_MESSAGES: u64 = 1 << 15;

/// Maximum length of an injected message, which is copied and sent when there is room.
pub const INJECT_BYTES: usize = 4096;

/// Maximum length of an atomic operation's operands, in bytes.
pub const MAX_ATOMIC_BYTES: usize = 2048;

/// Maximum length of a message that goes through ring slots although chunks are available.
pub(crate) const INLINE_BYTES: usize = 1536;

/// Length of the parts in which data goes through ring slots while no chunks are available.
pub(crate) const PART_BYTES: usize = 3000;

/// Maximum backlog per peer, in messages; further sends are refused.
const MAX_BACKLOG: usize = 4096;

/// Maximum number of messages taken from a link before the next link is polled.
const BATCH: usize = 16;

/// Maximum number of rounds over all links per call of [`Engine::progress`]: enough to empty a ring.
const MAX_ROUNDS: u32 = 32;

/// Calls of [`Engine::progress`] between two polls for events when none is signaled. These polls check the
/// cold links.
const CALLS_PER_EVENT: u32 = 64;

/// Error of an operation that was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// The backlog is full: make progress and try again.
    #[error("too much waits to be sent already")]
    Again,
    /// The operation cannot succeed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// An operation in flight.
#[derive(Debug)]
pub(crate) enum Op<M> {
    /// A message was offered, or was sent in full and awaits its acknowledgment.
    Sending { peer: u32, payload: Option<Payload<M>>, delivery: bool, completion: PendingCompletion },
    /// The bytes of an accepted message are arriving for a receive.
    Receiving {
        peer: u32,
        peer_op: u64,
        expected: usize,
        arrived: usize,
        memory: M,
        multi: Option<u64>,
        completion: PendingCompletion,
        criteria: MatchCriteria,
    },
    /// The bytes of a remote read or atomic result are arriving.
    Fetching { peer: u32, arrived: usize, memory: M, completion: PendingCompletion },
    /// A request awaits the peer's reply.
    AwaitingReply { peer: u32, completion: PendingCompletion },
    /// The program withdrew the message; the peer has not confirmed that yet.
    Withdrawn { peer: u32 },
}

/// Match criteria of a receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchCriteria {
    pub(crate) tag: u64,
    /// Mask of tag bits to ignore.
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
            | Op::AwaitingReply { peer, .. }
            | Op::Withdrawn { peer } => *peer,
        }
    }
}

/// How to report the end of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCompletion {
    pub(crate) kind: CompletionKind,
    pub(crate) report: bool,
    pub(crate) entry: Completion,
}

impl PendingCompletion {
    #[inline]
    pub(crate) fn new(kind: CompletionKind, report: bool, context: usize, flags: u64) -> PendingCompletion {
        let entry = Completion {
            context,
            flags,
            length: 0,
            buffer: 0,
            data: 0,
            tag: 0,
            source: NO_ADDRESS,
            failure: None,
        };
        PendingCompletion { kind, report, entry }
    }
}

/// A buffer for several messages.
#[derive(Debug)]
pub(crate) struct MultiRecv {
    /// Number of messages still arriving in it.
    pub(crate) arriving: u32,
    /// Whether no further message goes into it.
    pub(crate) full: bool,
}

/// Address and peer of an address vector index.
#[derive(Clone, Copy, Debug)]
struct Route {
    address: Option<Address>,
    peer: u32,
}

pub(crate) const NO_PEER: u32 = u32::MAX;

/// One endpoint of the fabric: its links, its peers and its operations.
///
/// It makes progress only while one of its methods runs, and none of them blocks. It is not shared between
/// threads.
#[derive(Debug)]
pub struct Engine<N: Net, M: Memory> {
    net: N,
    core: Core<N::View, M>,
    calls: u32,
}

/// State of an endpoint except the network.
#[derive(Debug)]
pub(crate) struct Core<V, M> {
    own: Address,
    peers: Vec<Peer<V, M>>,
    by_address: HashMap<Address, u32>,
    /// Peer of each link, by link id.
    peer_of_link: Vec<u32>,
    /// Domains of accepted links whose `Hello` has not arrived, so that the endpoint is unknown.
    unidentified: HashMap<LinkId, u64>,
    routes: Vec<Route>,
    sources: HashMap<Address, u64>,
    tagged: Matching<M>,
    untagged: Matching<M>,
    ops: Slab<Op<M>>,
    multi_recvs: Slab<MultiRecv>,
    regions: HashMap<u64, Region<M>>,
    /// Chunks of peers to map: link, capability, length in bytes.
    to_map: Vec<(LinkId, u64, u64)>,
    /// Requests of peers for direct access: link and key.
    to_expose: Vec<(LinkId, u64)>,
    /// Pieces of peers' registered memory to map: link, key, location.
    to_map_direct: Vec<(LinkId, u64, ExposedPiece)>,
    /// Whether peers may get direct access to registered memory.
    direct: bool,
    pools: Vec<Pool>,
    /// Peers that have data waiting to be sent to them.
    active: Vec<u32>,
    /// Sends being withdrawn, and the time when that began.
    withdrawing: Vec<(u64, Instant)>,
    /// Timeout for a peer to confirm a withdrawal.
    withdrawal_timeout: Duration,
    /// Peers without a link for which an accept may still be in progress.
    leaving: Vec<u32>,
    sent: VecDeque<Completion>,
    received: VecDeque<Completion>,
    counts: Counts,
    /// Whether receives match the sender.
    directed: bool,
    /// A buffer for several messages stays posted while it has at least this many bytes of room.
    min_multi_bytes: usize,
}

impl<V, M> Core<V, M> {
    /// Counts an operation of this endpoint as completed, and queues its completion if it is to be reported.
    #[inline]
    pub(crate) fn finish(&mut self, completion: PendingCompletion) {
        let failed = completion.entry.failure.is_some();
        self.counts.record(completion.kind, failed);
        if completion.report || failed {
            let queue =
                if completion.kind == CompletionKind::Receive { &mut self.received } else { &mut self.sent };
            queue.push_back(completion.entry);
        }
    }

    pub(crate) fn fail(&mut self, mut completion: PendingCompletion, failure: Failure) {
        completion.entry.failure = Some(failure);
        self.finish(completion);
    }

    /// Adds a peer to those to which data is to be sent as soon as there is room.
    #[inline]
    pub(crate) fn activate(&mut self, peer: u32) {
        let state = &mut self.peers[peer as usize];
        if !state.active {
            state.active = true;
            self.active.push(peer);
        }
    }

    #[inline]
    pub(crate) fn send_control(&mut self, peer: u32, control: Control) {
        self.peers[peer as usize].control.push_back(control);
        self.activate(peer);
    }
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Creates an endpoint that communicates through `net`.
    pub fn new(net: N) -> Engine<N, M> {
        let core = Core {
            own: net.address(),
            peers: Vec::new(),
            by_address: HashMap::new(),
            peer_of_link: Vec::new(),
            unidentified: HashMap::new(),
            routes: Vec::new(),
            sources: HashMap::new(),
            tagged: Matching::default(),
            untagged: Matching::default(),
            ops: Slab::default(),
            multi_recvs: Slab::default(),
            regions: HashMap::new(),
            to_map: Vec::new(),
            to_expose: Vec::new(),
            to_map_direct: Vec::new(),
            direct: true,
            pools: Vec::new(),
            active: Vec::new(),
            withdrawing: Vec::new(),
            withdrawal_timeout: withdraw::CONFIRM_TIMEOUT,
            leaving: Vec::new(),
            sent: VecDeque::new(),
            received: VecDeque::new(),
            counts: Counts::default(),
            directed: true,
            min_multi_bytes: 64,
        };
        Engine { net, core, calls: 0 }
    }

    /// Returns the address of this endpoint.
    #[must_use]
    pub fn address(&self) -> Address {
        self.core.own
    }

    /// Sets whether receives match the sender. If not, each takes messages from any sender.
    pub fn set_directed(&mut self, directed: bool) {
        self.core.directed = directed;
    }

    /// Sets how many free bytes a buffer for several messages needs to take another one.
    pub fn set_min_multi_bytes(&mut self, bytes: usize) {
        self.core.min_multi_bytes = bytes.max(1);
    }

    /// Returns how many free bytes a buffer for several messages needs to take another one.
    #[must_use]
    pub fn min_multi_bytes(&self) -> usize {
        self.core.min_multi_bytes
    }

    /// Sets or clears the address of an address vector index.
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
            self.set_peer_source(before, NO_ADDRESS);
        }
        if let Some(address) = address {
            self.core.sources.insert(address, index);
            self.set_peer_source(address, index);
        }
    }

    fn set_peer_source(&mut self, address: Address, source: u64) {
        if let Some(&peer) = self.core.by_address.get(&address) {
            self.core.peers[peer as usize].source = source;
        }
    }

    /// Takes the oldest completion of a send, read, write or atomic operation.
    #[inline]
    pub fn next_sent(&mut self) -> Option<Completion> {
        self.core.sent.pop_front()
    }

    /// Takes the oldest completion of a receive, or of a peer's write with data.
    #[inline]
    pub fn next_received(&mut self) -> Option<Completion> {
        self.core.received.pop_front()
    }

    /// Returns the completion that [`next_sent`](Self::next_sent) would take.
    #[inline]
    #[must_use]
    pub fn peek_sent(&self) -> Option<&Completion> {
        self.core.sent.front()
    }

    /// Returns the completion that [`next_received`](Self::next_received) would take.
    #[inline]
    #[must_use]
    pub fn peek_received(&self) -> Option<&Completion> {
        self.core.received.front()
    }

    /// Returns the counts of completed operations.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.core.counts
    }

    /// Makes progress: processes arrived messages and sends what had no room before. Returns whether anything
    /// arrived.
    ///
    /// Requests of peers for memory of this endpoint produce no completion here. While only such requests
    /// arrive, this keeps serving them: the caller may yield the processor before its next call, and the
    /// peers would wait for that long.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let any_progress = self.poll_once();
        if any_progress && self.has_no_completions() {
            for _ in 1..MAX_ROUNDS {
                if !(self.poll_once() && self.has_no_completions()) {
                    break;
                }
            }
        }
        any_progress
    }

    #[inline]
    fn has_no_completions(&self) -> bool {
        self.core.sent.is_empty() && self.core.received.is_empty()
    }

    #[inline]
    fn poll_once(&mut self) -> bool {
        let mut any_progress = false;
        // Events first: they can turn links hot that have messages.
        self.calls = self.calls.wrapping_add(1);
        if self.net.has_event() || self.calls.is_multiple_of(CALLS_PER_EVENT) {
            any_progress = self.process_events();
        }
        let mut index = 0;
        while let Some(link) = self.net.hot_link(index) {
            for _ in 0..BATCH {
                let core = &mut self.core;
                match self.net.receive(link, |message| core.handle::<N>(link, message)) {
                    Ok(Some(Ok(()))) => any_progress = true,
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
            self.drop_leaving_peers();
        }
        if !self.core.withdrawing.is_empty() {
            self.core.expire_withdrawals(Instant::now());
        }
        any_progress
    }

    /// Processes pending network events. Returns whether there were any.
    #[inline(never)]
    pub fn process_events(&mut self) -> bool {
        let mut any_progress = false;
        while let Some(event) = self.net.next_event() {
            any_progress = true;
            self.handle_event(event);
        }
        any_progress
    }

    #[inline(never)]
    fn pump_all(&mut self) {
        for (link, capability, length_bytes) in std::mem::take(&mut self.core.to_map) {
            self.net.map(link, capability, length_bytes);
        }
        self.process_direct_queues();
        let active = std::mem::take(&mut self.core.active);
        for peer in active {
            self.core.peers[peer as usize].active = false;
            if self.pump(peer) {
                self.core.activate(peer);
            }
        }
    }

    fn handle_event(&mut self, event: Event<N::View>) {
        match event {
            Event::Connected { to, link } => self.on_connected(to, link),
            Event::NotConnected { to } => {
                if let Some(&peer) = self.core.by_address.get(&to) {
                    self.core.peers[peer as usize].connecting = false;
                    if self.core.peers[peer as usize].links.is_empty() {
                        self.core.mark_leaving(peer, Failure::Unreachable);
                    }
                }
            }
            Event::Accepted { link, domain } => self.on_accepted(link, domain),
            Event::Staged { link, capability } => self.on_staged(link, capability),
            Event::Mapped { link, view } => self.on_mapped(link, view),
            Event::DirectMapped { link, key, capability, view } => {
                self.on_direct_mapped(link, key, capability, view);
            }
        }
    }

    /// Returns the wait set to block on until something may have happened, once
    /// [`progress`](Self::progress) has found nothing; `None` if the caller should not block.
    pub fn prepare_wait(&mut self) -> Option<&mut WaitSet> {
        if self.process_events() || self.progress() {
            return None;
        }
        let sending: Vec<LinkId> =
            self.core.active.iter().filter_map(|&peer| self.core.peers[peer as usize].link).collect();
        self.net.prepare_wait(&sending)
    }

    /// Returns the numbers of peers, of operations in flight, and of messages in the backlogs.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        let backlog = self.core.peers.iter().map(|peer| peer.backlog.len()).sum();
        (self.core.peers.len(), self.core.ops.len(), backlog)
    }
}
