//! Service thread of the pages, which handles page faults from the kernel and messages from other ranks.
//!
//! It never accesses the range, because a fault there would deadlock it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tombolo::waitset::Trigger;
use tombolo::{Channel, Interest, Ready, Token, WaitSet};
use tombolo_directory::wire::{self, HEAD_BYTES};
use tombolo_directory::{Counts, Fault, Message, Node, Rank, Ranks};
use tombolo_platform::time::now_ns;
use tombolo_platform::{OsError, lock_unpoisoned};

use crate::error::{Error, LostAccess, LostPage, OnLoss};
use crate::statistics::fault_samples::{FaultSamples, Place};
use crate::statistics::objects::Objects;
use crate::store::{Backing, Content};

/// Maximum number of messages of one rank, or of faults, handled before the next source.
const BATCH: usize = 32;
/// Maximum number of pages mapped after one that this rank owns and uses for the first time (fault-around).
const FAULT_AROUND_PAGES: usize = 15;
/// Maximum length of a sleep. All events wake the thread; this is a safety net.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// First bytes of this crate's messages, distinct from those of the directory. Bytes 8 to 15 hold the number
/// of the barrier.
const BARRIER_ARRIVED: u8 = 0x40;
const DONE: u8 = 0x41;

/// State shared by the program and the service thread.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    /// Signaled on every change that the program may wait for.
    pub(crate) changed: Condvar,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) node: Node<Content>,
    pub(crate) store: Backing,
    /// Names of the nodes, by rank.
    pub(crate) nodes: Vec<String>,
    /// Number of barriers that each rank has reached.
    pub(crate) arrived: Vec<u64>,
    /// Ranks that no longer need the pages.
    pub(crate) done: Ranks,
    /// Messages of this crate to send to all ranks.
    pub(crate) announcements: VecDeque<[u8; HEAD_BYTES]>,
    /// Number of program threads that wait for a change.
    pub(crate) waiter_count: u32,
    /// Pages that the program requests without accessing them.
    pub(crate) acquiring: Vec<u32>,
    /// Ranks admitted later that the service thread has not picked up yet, and their channels.
    pub(crate) admitted: Vec<(Rank, Channel)>,
    /// Places where threads faulted.
    fault_samples: FaultSamples,
    /// Objects named by the program, and variables in the range once they have been looked up.
    pub(crate) named: Objects,
    pub(crate) objects: Option<Objects>,
    pub(crate) stop: bool,
    /// Waiting time and callback for accesses to lost pages, and the end of the current wait.
    on_loss: Option<OnLoss>,
    loss_deadline: Option<Instant>,
    /// Standard error, opened separately because a faulting thread may hold the lock of the usual handle.
    errors: File,
    pub(crate) failure: Option<String>,
}

impl Shared {
    pub(crate) fn new(
        node: Node<Content>,
        store: Backing,
        nodes: Vec<String>,
        on_loss: Option<OnLoss>,
    ) -> Result<Arc<Shared>, OsError> {
        let errors = std::io::stderr().as_fd().try_clone_to_owned();
        let errors =
            File::from(errors.map_err(|error| OsError::from_io("duplicate standard error", &error))?);
        let arrived = vec![0; nodes.len()];
        let state = State {
            node,
            store,
            nodes,
            arrived,
            done: Ranks::NONE,
            announcements: VecDeque::new(),
            waiter_count: 0,
            acquiring: Vec::new(),
            admitted: Vec::new(),
            fault_samples: FaultSamples::default(),
            named: Objects::default(),
            objects: None,
            stop: false,
            on_loss,
            loss_deadline: None,
            errors,
            failure: None,
        };
        Ok(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock_unpoisoned(&self.state)
    }
}

impl State {
    /// Announces that this rank has reached a barrier. Returns the number of the barrier.
    pub(crate) fn announce_barrier(&mut self) -> u64 {
        let me = usize::from(self.node.geometry().me.0);
        self.arrived[me] += 1;
        self.announce(BARRIER_ARRIVED, self.arrived[me]);
        self.arrived[me]
    }

    /// Announces that this rank no longer needs the pages.
    pub(crate) fn announce_done(&mut self) {
        self.done.add(self.node.geometry().me);
        self.announce(DONE, 0);
    }

    fn announce(&mut self, kind: u8, number: u64) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = kind;
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        self.announcements.push_back(bytes);
    }

    pub(crate) fn lost_page(&self, page: u32, owner: Rank) -> LostPage {
        let address = self.store.memory.address() + page as usize * self.store.memory.page_bytes();
        let node = self.nodes.get(usize::from(owner.0)).cloned().unwrap_or_default();
        LostPage { page, address, rank: owner.0.into(), node }
    }

    fn violation(&self, from: Rank, what: &dyn std::fmt::Display) -> Error {
        let node = self.nodes.get(usize::from(from.0)).cloned().unwrap_or_default();
        Error::Violation { rank: from.0.into(), node, what: what.to_string() }
    }

    /// Returns the sums of the counters of all pages.
    pub(crate) fn totals(&self, pages: u32) -> Counts {
        (0..pages).map(|page| self.node.counts(page)).fold(Counts::default(), Counts::saturating_add)
    }

    /// Returns up to `most` pages with the most faults, hottest first.
    pub(crate) fn hottest(&self, pages: u32, most: usize) -> Vec<(u32, Counts)> {
        let counted = (0..pages).map(|page| (page, self.node.counts(page)));
        let mut pages: Vec<(u32, Counts)> = counted.filter(|(_, counts)| counts.faults() > 0).collect();
        pages.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.faults()));
        pages.truncate(most);
        pages
    }

    /// Returns the places of a page that faulted, and the objects there.
    pub(crate) fn places(&self, page: u32) -> Vec<(Place, Option<String>)> {
        let start = (self.store.memory.address() + page as usize * self.store.memory.page_bytes()) as u64;
        let object = |place: Place| {
            let address = start + u64::from(place.offset_bytes);
            let named = self.named.at(address);
            (place, named.or_else(|| self.objects.as_ref()?.at(address)))
        };
        self.fault_samples.of(page).into_iter().map(object).collect()
    }

    /// Returns the error of the first rank that died without being done.
    pub(crate) fn dead_rank_error(&self) -> Option<Error> {
        let rank = Ranks(self.node.dead().0 & !self.done.0).first()?;
        Some(self.rank_ended_error(rank))
    }

    pub(crate) fn rank_ended_error(&self, rank: Rank) -> Error {
        let node = self.nodes.get(usize::from(rank.0)).cloned().unwrap_or_default();
        Error::RankEnded { rank: rank.0.into(), node }
    }
}

/// A channel to another rank.
#[derive(Debug)]
struct Peer {
    token: Token,
    /// Messages that had no room in the channel.
    backlog: VecDeque<Vec<u8>>,
}

/// State of the service thread.
pub(crate) struct Service {
    shared: Arc<Shared>,
    set: WaitSet,
    faults: Token,
    /// Peers, by rank.
    peers: Vec<Option<Peer>>,
    buffer: Vec<u8>,
    page_bytes: usize,
    /// Time when the program closed the range.
    closed_at: Option<Instant>,
}

impl Service {
    pub(crate) fn new(
        shared: Arc<Shared>,
        channels: Vec<Option<Channel>>,
        spin_ns: u64,
    ) -> Result<Service, Error> {
        let mut set = WaitSet::new()?;
        set.set_spin_ns(spin_ns);
        let (faults, page_bytes) = {
            let state = shared.lock();
            let faults = set.add_descriptor(&state.store.memory, Interest::Read, Trigger::Level)?;
            (faults, state.store.memory.page_bytes())
        };
        let mut peers = Vec::new();
        for channel in channels {
            peers.push(match channel {
                Some(channel) => {
                    let token = set.add(channel).map_err(|not_sent| Error::from(not_sent.error))?;
                    Some(Peer { token, backlog: VecDeque::new() })
                }
                None => None,
            });
        }
        Ok(Service { shared, set, faults, peers, buffer: Vec::new(), page_bytes, closed_at: None })
    }

    pub(crate) fn waker(&self) -> tombolo::waitset::Waker {
        self.set.waker()
    }

    /// Serves until the program closes the range.
    pub(crate) fn run(mut self) {
        let failure = loop {
            match self.process_next_event() {
                Ok(true) => {}
                Ok(false) => break "they were closed".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        let mut state = self.shared.lock();
        let was_stopped = state.stop;
        if !was_stopped {
            let what = "the pages that this program has in common with others cannot be served";
            let _ = writeln!(&mut state.errors, "error: {what}: {failure}; accesses end this program");
            // Threads that wait for pages would wait forever.
            let _ = state.store.memory.revoke();
        }
        state.failure = Some(failure);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits for an event and handles it. Returns false once the program has closed the range.
    fn process_next_event(&mut self) -> Result<bool, Error> {
        let due_ns = self.shared.lock().node.due_ns();
        let sleep = due_ns
            .map_or(MAX_SLEEP, |due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns())).min(MAX_SLEEP));
        match self.set.wait(sleep) {
            Ok(Ready::Descriptor(token, _)) if token == self.faults => self.handle_faults()?,
            Ok(Ready::Channel(token)) => self.receive_messages(token)?,
            Ok(_) | Err(tombolo::Error::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let State { node, store, .. } = &mut *state;
        if node.due_ns().is_some() {
            let _ = node.tick(store, now_ns());
        }
        while let Some((rank, channel)) = state.admitted.pop() {
            let token = self.set.add(channel).map_err(|not_sent| Error::from(not_sent.error))?;
            self.peers[usize::from(rank.0)] = Some(Peer { token, backlog: VecDeque::new() });
        }
        self.send(&mut state);
        if let Some(failure) = state.store.failure.take() {
            return Err(failure.into());
        }
        fail_lost_accesses(&mut state)?;
        let (wake, stop) = (state.waiter_count > 0, state.stop);
        drop(state);
        if wake {
            shared.changed.notify_all();
        }
        Ok(!stop || self.is_sending())
    }

    /// Returns whether there is something left to send, and time for it, after the range was closed.
    fn is_sending(&mut self) -> bool {
        let since = *self.closed_at.get_or_insert_with(Instant::now);
        let waits = self.peers.iter().flatten().any(|peer| !peer.backlog.is_empty());
        waits && since.elapsed() < MAX_SLEEP
    }

    fn handle_faults(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let State { node, store, fault_samples, .. } = &mut *state;
        for _ in 0..BATCH {
            let Some(fault) = store.memory.next_fault()? else { return Ok(()) };
            fault_samples.record(fault.page, fault.offset_bytes, fault.writes);
            let access =
                if fault.writes { tombolo_directory::Access::Write } else { tombolo_directory::Access::Read };
            match node.fault(store, now_ns(), fault.page, access) {
                Ok(Fault::Resolved) => {
                    store.resolve(fault.page, node.access(fault.page));
                    // Pages that were not used before are often used in sequence.
                    for next in (fault.page + 1..node.geometry().pages).take(FAULT_AROUND_PAGES) {
                        if node.access(next) < tombolo_directory::Access::Write || store.is_mapped(next) {
                            break;
                        }
                        store.resolve(next, tombolo_directory::Access::Write);
                    }
                }
                Ok(Fault::Lost(owner)) => store.lost.push((fault.page, owner)),
                // An error is possible only for pages outside the range, where nothing is registered.
                Ok(Fault::Requested) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Receives messages from a rank.
    fn receive_messages(&mut self, token: Token) -> Result<(), Error> {
        let Some(index) =
            self.peers.iter().position(|peer| peer.as_ref().is_some_and(|peer| peer.token == token))
        else {
            return Ok(());
        };
        let from = Rank(index as u8);
        self.flush(index);
        for _ in 0..BATCH {
            let Some(channel) = self.set.get_mut(token) else { return Ok(()) };
            match channel.try_recv_into(&mut self.buffer) {
                Ok(Some(_)) => self.handle_message(from)?,
                Ok(None) => return Ok(()),
                // Also if a relay died: the peer may be alive, and other ranks would not consider it dead.
                Err(error)
                    if !matches!(error, tombolo::Error::PeerDied { .. } | tombolo::Error::Closed { .. }) =>
                {
                    return Err(error.into());
                }
                Err(_) => {
                    self.handle_channel_end(from);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Handles a message. A protocol violation ends the pages for this rank, which the others see as its
    /// death. If only this rank considered the sender dead, it could wait forever for pages that the others
    /// still expect from the sender.
    fn handle_message(&mut self, from: Rank) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let own = self.buffer.first().copied().filter(|kind| *kind == BARRIER_ARRIVED || *kind == DONE);
        if let (Some(kind), Some((_, number))) = (own, self.buffer.split_at_checked(8)) {
            let Ok(number) = number.try_into().map(u64::from_le_bytes) else {
                return Err(state.violation(from, &wire::Malformed(self.buffer.len())));
            };
            if kind == DONE {
                state.done.add(from);
            } else {
                state.arrived[usize::from(from.0)] = number;
            }
            return Ok(());
        }
        let message = match wire::decode(&self.buffer, self.page_bytes) {
            Ok(message) => message.map(|_| ()),
            Err(malformed) => return Err(state.violation(from, &malformed)),
        };
        let State { node, store, .. } = &mut *state;
        let message = message.map(|()| {
            let next = store.buffer();
            Content(std::mem::replace(&mut self.buffer, next))
        });
        node.receive(store, now_ns(), from, message).map_err(|violation| state.violation(from, &violation))
    }

    /// Handles the end of the channel to a rank.
    fn handle_channel_end(&mut self, rank: Rank) {
        let Some(peer) = self.peers[usize::from(rank.0)].take() else { return };
        drop(self.set.remove(peer.token));
        let mut state = self.shared.lock();
        let State { node, store, .. } = &mut *state;
        let _ = node.handle_death(store, now_ns(), rank);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Sends the outgoing messages of the protocol and the announcements of the program.
    fn send(&mut self, state: &mut State) {
        while let Some((to, message)) = state.node.take_outgoing() {
            let head = wire::head(&message);
            let bytes = match message {
                Message::Yield { content: Some(Content(mut bytes)), .. }
                | Message::Grant { content: Some(Content(mut bytes)), .. }
                | Message::Difference { content: Content(mut bytes), .. } => {
                    bytes[..HEAD_BYTES].copy_from_slice(&head);
                    bytes
                }
                _ => {
                    let mut bytes = state.store.buffer();
                    bytes.clear();
                    bytes.extend_from_slice(&head);
                    bytes
                }
            };
            if let Some(bytes) = self.send_or_queue(usize::from(to.0), bytes) {
                state.store.recycle(bytes);
            }
        }
        while let Some(bytes) = state.announcements.pop_front() {
            for rank in 0..self.peers.len() {
                let _ = self.send_or_queue(rank, bytes.to_vec());
            }
        }
    }

    /// Sends a message at once or queues it. Returns its buffer if it was sent. Errors are ignored, as the
    /// end of a channel is detected on receive.
    fn send_or_queue(&mut self, rank: usize, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let peer = self.peers.get_mut(rank)?.as_mut()?;
        if !peer.backlog.is_empty() {
            peer.backlog.push_back(bytes);
            return None;
        }
        match self.set.get_mut(peer.token)?.try_send(&bytes) {
            Err(tombolo::Error::WouldBlock) => {
                peer.backlog.push_back(bytes);
                self.set.set_interest(peer.token, Interest::ReadWrite);
                None
            }
            Ok(()) | Err(_) => Some(bytes),
        }
    }

    /// Sends messages from the backlog.
    fn flush(&mut self, rank: usize) {
        let Some(Some(peer)) = self.peers.get_mut(rank) else { return };
        if peer.backlog.is_empty() {
            return;
        }
        let Some(channel) = self.set.get_mut(peer.token) else { return };
        while let Some(bytes) = peer.backlog.front() {
            match channel.try_send(bytes) {
                Err(tombolo::Error::WouldBlock) => return,
                Ok(()) | Err(_) => drop(peer.backlog.pop_front()),
            }
        }
        self.set.set_interest(peer.token, Interest::Read);
    }
}

/// Fails accesses to lost pages, and prints the reason first, as the failure ends the program.
fn fail_lost_accesses(state: &mut State) -> Result<(), OsError> {
    if state.store.lost.is_empty() {
        return Ok(());
    }
    let on_loss = state.on_loss;
    if let Some((after, _)) = on_loss
        && Instant::now() < *state.loss_deadline.get_or_insert_with(|| Instant::now() + after)
    {
        return Ok(());
    }
    let mut lost = std::mem::take(&mut state.store.lost);
    lost.sort_unstable();
    lost.dedup();
    for (page, owner) in lost {
        if state.acquiring.contains(&page) {
            // The caller of `acquire` gets an error; a thread that faulted there faults again.
            state.store.memory.wake(page)?;
            continue;
        }
        let page_lost = state.lost_page(page, owner);
        if let Some((after, call)) = on_loss
            && call(&page_lost) == LostAccess::Waits
        {
            state.store.lost.push((page, owner));
            state.loss_deadline = Some(Instant::now() + after);
            continue;
        }
        let _ = writeln!(&mut state.errors, "error: {page_lost}; this program accesses it, which ends it");
        state.store.memory.poison(page)?;
    }
    Ok(())
}
