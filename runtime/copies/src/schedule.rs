//! Which piece of which descriptor is copied next, which descriptors conflict, and in which order they end.
//! It knows no memory, no engine and no channel.
//!
//! Descriptors of a client start in order. Those of several clients take turns by pieces, so that a long copy
//! of one delays others by a piece at most. A fenced descriptor starts when all before it of the same client
//! have ended.

use std::collections::{BTreeMap, VecDeque};

use tombolo_stubs::copies::{CopyFault, MAX_DESCRIPTORS};

/// The longest piece, in bytes.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;

/// Bytes of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bytes {
    pub(crate) region: u64,
    pub(crate) start: u64,
    pub(crate) length_bytes: u64,
}

impl Bytes {
    fn meets(&self, other: &Bytes) -> bool {
        let ends = |bytes: &Bytes| bytes.start.saturating_add(bytes.length_bytes);
        self.region == other.region && self.start < ends(other) && other.start < ends(self)
    }
}

/// What a descriptor does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    pub(crate) reads: Option<Bytes>,
    pub(crate) writes: Bytes,
    pub(crate) fence: bool,
}

impl Work {
    fn conflicts(&self, other: &Work) -> bool {
        let reads = |work: &Work, bytes: &Bytes| work.reads.is_some_and(|reads| reads.meets(bytes));
        self.writes.meets(&other.writes) || reads(self, &other.writes) || reads(other, &self.writes)
    }
}

/// A piece of a descriptor that is to be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    client: u64,
    serial: u64,
    /// From where on, in bytes from the start of the descriptor's ranges.
    pub(crate) at_bytes: u64,
    pub(crate) length_bytes: u64,
}

/// The end of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) client: u64,
    pub(crate) descriptor: u32,
    pub(crate) fault: Option<CopyFault>,
}

#[derive(Debug)]
struct Entry<T> {
    serial: u64,
    descriptor: u32,
    work: Work,
    what: T,
    issued_bytes: u64,
    running: u32,
    fault: Option<CopyFault>,
}

impl<T> Entry<T> {
    fn is_issued(&self) -> bool {
        self.fault.is_some() || self.issued_bytes >= self.work.writes.length_bytes
    }

    fn waits(&self, index: usize) -> bool {
        self.work.fence && self.issued_bytes == 0 && self.fault.is_none() && index > 0
    }
}

#[derive(Debug)]
struct Queue<T> {
    /// What has not ended, in the order of submission.
    entries: VecDeque<Entry<T>>,
    /// Its client has left: its ends are told to none.
    gone: bool,
}

/// The descriptors of all clients. `T` is what each takes to be done.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    queues: BTreeMap<u64, Queue<T>>,
    /// The client that was served last.
    turn: u64,
    last_serial: u64,
    ends: VecDeque<End>,
}

impl<T> Schedule<T> {
    pub(crate) fn new() -> Self {
        Schedule { queues: BTreeMap::new(), turn: 0, last_serial: 0, ends: VecDeque::new() }
    }

    /// Accepts a descriptor, or says why not: then nothing has changed.
    pub(crate) fn add(&mut self, client: u64, descriptor: u32, work: Work, what: T) -> Result<(), CopyFault> {
        if work.reads.is_some_and(|reads| reads.meets(&work.writes)) {
            return Err(CopyFault::OVERLAP);
        }
        let own = self.queues.get(&client);
        if own.is_some_and(|queue| queue.entries.len() as u64 >= MAX_DESCRIPTORS) {
            return Err(CopyFault::TOO_MANY);
        }
        if own.is_some_and(|queue| queue.entries.iter().any(|entry| entry.descriptor == descriptor)) {
            return Err(CopyFault::NUMBER_IN_USE);
        }
        // A fence orders what one client does; it says nothing of others.
        let others = self.queues.iter().filter(|(of, _)| !work.fence || **of != client);
        if others.flat_map(|(_, queue)| &queue.entries).any(|entry| entry.work.conflicts(&work)) {
            return Err(CopyFault::IN_USE);
        }
        self.last_serial += 1;
        let serial = self.last_serial;
        let queue =
            self.queues.entry(client).or_insert_with(|| Queue { entries: VecDeque::new(), gone: false });
        queue.entries.push_back(Entry {
            serial,
            descriptor,
            work,
            what,
            issued_bytes: 0,
            running: 0,
            fault: None,
        });
        self.settle(client);
        Ok(())
    }

    /// The next piece, of the clients in turn. It is in progress until [`ended`](Self::ended).
    pub(crate) fn next(&mut self) -> Option<(Piece, &T)> {
        let after = self.queues.range(self.turn.saturating_add(1)..);
        let all = after.chain(self.queues.range(..=self.turn));
        let (client, index) =
            all.filter_map(|(client, queue)| Some((*client, startable(&queue.entries)?))).next()?;
        self.turn = client;
        let entry = self.queues.get_mut(&client)?.entries.get_mut(index)?;
        let at_bytes = entry.issued_bytes;
        let length_bytes = (entry.work.writes.length_bytes - at_bytes).min(PIECE_BYTES);
        entry.issued_bytes += length_bytes;
        entry.running += 1;
        Some((Piece { client, serial: entry.serial, at_bytes, length_bytes }, &entry.what))
    }

    /// Whether [`next`](Self::next) has a piece.
    pub(crate) fn is_ready(&self) -> bool {
        self.queues.values().any(|queue| startable(&queue.entries).is_some())
    }

    /// What a descriptor takes, of a piece in progress.
    pub(crate) fn what(&self, piece: &Piece) -> Option<&T> {
        let queue = self.queues.get(&piece.client)?;
        queue.entries.iter().find(|entry| entry.serial == piece.serial).map(|entry| &entry.what)
    }

    /// A piece has ended.
    pub(crate) fn ended(&mut self, piece: &Piece, fault: Option<CopyFault>) {
        let Some(queue) = self.queues.get_mut(&piece.client) else { return };
        if let Some(entry) = queue.entries.iter_mut().find(|entry| entry.serial == piece.serial) {
            entry.running = entry.running.saturating_sub(1);
            entry.fault = entry.fault.or(fault);
        }
        self.settle(piece.client);
    }

    /// Starts no more pieces of a descriptor. It ends when those in progress have.
    pub(crate) fn cancel(&mut self, client: u64, descriptor: u32) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        if let Some(entry) = queue.entries.iter_mut().find(|entry| entry.descriptor == descriptor)
            && !entry.is_issued()
        {
            entry.fault = Some(CopyFault::CANCELLED);
        }
        self.settle(client);
    }

    /// A client has left. What of its descriptors is in progress stays until it has ended.
    pub(crate) fn leave(&mut self, client: u64) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        queue.gone = true;
        for entry in &mut queue.entries {
            entry.fault = entry.fault.or(Some(CopyFault::CANCELLED));
        }
        self.ends.retain(|end| end.client != client);
        self.settle(client);
    }

    /// The next descriptor that has ended.
    pub(crate) fn take_end(&mut self) -> Option<End> {
        self.ends.pop_front()
    }

    /// Ends what has nothing left to do.
    fn settle(&mut self, client: u64) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        let is_over = |(index, entry): (usize, &Entry<T>)| {
            entry.running == 0 && entry.is_issued() && !entry.waits(index)
        };
        while let Some(index) = queue.entries.iter().enumerate().position(is_over) {
            let Some(entry) = queue.entries.remove(index) else { break };
            if entry.fault.is_some() {
                for later in queue.entries.iter_mut().skip(index).filter(|later| later.work.fence) {
                    later.fault = later.fault.or(Some(CopyFault::EARLIER));
                }
            }
            if !queue.gone {
                self.ends.push_back(End { client, descriptor: entry.descriptor, fault: entry.fault });
            }
        }
        if queue.entries.is_empty() {
            self.queues.remove(&client);
        }
    }
}

/// The entry of a client that has the next piece.
fn startable<T>(entries: &VecDeque<Entry<T>>) -> Option<usize> {
    for (index, entry) in entries.iter().enumerate() {
        if entry.waits(index) {
            return None;
        }
        if !entry.is_issued() {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests;
