//! Scheduler of descriptors: selects the next piece to copy, detects conflicts, and determines the order of
//! ends. It is independent of memory, engines and channels.
//!
//! Descriptors of one client start in order. Those of different clients take turns piece by piece, so that a
//! long copy of one client delays the others by at most one piece. A fenced descriptor starts when all
//! earlier ones of the same client have ended.

use std::collections::{BTreeMap, VecDeque};

use tombolo_stubs::copies::{CopyFault, MAX_DESCRIPTORS};

/// Maximum length of a piece, in bytes.
pub(crate) const PIECE_BYTES: u64 = 4 << 20;

/// Byte range of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ByteRange {
    pub(crate) region: u64,
    pub(crate) start: u64,
    pub(crate) length_bytes: u64,
}

impl ByteRange {
    fn overlaps(&self, other: &ByteRange) -> bool {
        let ends = |bytes: &ByteRange| bytes.start.saturating_add(bytes.length_bytes);
        self.region == other.region && self.start < ends(other) && other.start < ends(self)
    }
}

/// Memory accesses of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    pub(crate) reads: Option<ByteRange>,
    pub(crate) writes: ByteRange,
    pub(crate) fence: bool,
}

impl Work {
    fn conflicts(&self, other: &Work) -> bool {
        let reads = |work: &Work, bytes: &ByteRange| work.reads.is_some_and(|reads| reads.overlaps(bytes));
        self.writes.overlaps(&other.writes) || reads(self, &other.writes) || reads(other, &self.writes)
    }
}

/// Piece of a descriptor to be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    client: u64,
    serial: u64,
    /// Offset of the piece in the descriptor's ranges, in bytes.
    pub(crate) at_bytes: u64,
    pub(crate) length_bytes: u64,
}

/// Completion of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Completion {
    pub(crate) client: u64,
    pub(crate) descriptor: u32,
    pub(crate) fault: Option<CopyFault>,
}

#[derive(Debug)]
struct Entry<T> {
    serial: u64,
    descriptor: u32,
    work: Work,
    payload: T,
    issued_bytes: u64,
    running: u32,
    fault: Option<CopyFault>,
}

impl<T> Entry<T> {
    fn is_issued(&self) -> bool {
        self.fault.is_some() || self.issued_bytes >= self.work.writes.length_bytes
    }

    fn is_blocked_by_fence(&self, index: usize) -> bool {
        self.work.fence && self.issued_bytes == 0 && self.fault.is_none() && index > 0
    }
}

#[derive(Debug)]
struct Queue<T> {
    /// Descriptors that have not ended, in the order of submission.
    entries: VecDeque<Entry<T>>,
    /// Set once the client has left: its completions are not reported.
    removed: bool,
}

/// Descriptors of all clients. `T` is what is needed to execute one.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    queues: BTreeMap<u64, Queue<T>>,
    /// Client that was served last.
    last_client: u64,
    last_serial: u64,
    completions: VecDeque<Completion>,
}

impl<T> Schedule<T> {
    pub(crate) fn new() -> Self {
        Schedule { queues: BTreeMap::new(), last_client: 0, last_serial: 0, completions: VecDeque::new() }
    }

    /// Adds a descriptor. If it is refused, nothing has changed.
    pub(crate) fn add(
        &mut self,
        client: u64,
        descriptor: u32,
        work: Work,
        payload: T,
    ) -> Result<(), CopyFault> {
        if work.reads.is_some_and(|reads| reads.overlaps(&work.writes)) {
            return Err(CopyFault::OVERLAP);
        }
        let own = self.queues.get(&client);
        if own.is_some_and(|queue| queue.entries.len() as u64 >= MAX_DESCRIPTORS) {
            return Err(CopyFault::TOO_MANY);
        }
        if own.is_some_and(|queue| queue.entries.iter().any(|entry| entry.descriptor == descriptor)) {
            return Err(CopyFault::NUMBER_IN_USE);
        }
        // A fence orders the descriptors of one client, not those of others.
        let others = self.queues.iter().filter(|(owner, _)| !work.fence || **owner != client);
        if others.flat_map(|(_, queue)| &queue.entries).any(|entry| entry.work.conflicts(&work)) {
            return Err(CopyFault::IN_USE);
        }
        self.last_serial += 1;
        let serial = self.last_serial;
        let queue =
            self.queues.entry(client).or_insert_with(|| Queue { entries: VecDeque::new(), removed: false });
        queue.entries.push_back(Entry {
            serial,
            descriptor,
            work,
            payload,
            issued_bytes: 0,
            running: 0,
            fault: None,
        });
        self.complete_finished(client);
        Ok(())
    }

    /// Returns the next piece, with clients in turn. The piece is in progress until
    /// [`piece_ended`](Self::piece_ended).
    pub(crate) fn next(&mut self) -> Option<(Piece, &T)> {
        let after = self.queues.range(self.last_client.saturating_add(1)..);
        let all = after.chain(self.queues.range(..=self.last_client));
        let (client, index) =
            all.filter_map(|(client, queue)| Some((*client, next_startable(&queue.entries)?))).next()?;
        self.last_client = client;
        let entry = self.queues.get_mut(&client)?.entries.get_mut(index)?;
        let at_bytes = entry.issued_bytes;
        let length_bytes = (entry.work.writes.length_bytes - at_bytes).min(PIECE_BYTES);
        entry.issued_bytes += length_bytes;
        entry.running += 1;
        Some((Piece { client, serial: entry.serial, at_bytes, length_bytes }, &entry.payload))
    }

    /// Whether [`next`](Self::next) would return a piece.
    pub(crate) fn is_ready(&self) -> bool {
        self.queues.values().any(|queue| next_startable(&queue.entries).is_some())
    }

    /// Returns the payload of the descriptor of a piece in progress.
    pub(crate) fn payload(&self, piece: &Piece) -> Option<&T> {
        let queue = self.queues.get(&piece.client)?;
        queue.entries.iter().find(|entry| entry.serial == piece.serial).map(|entry| &entry.payload)
    }

    /// Records that a piece has ended.
    pub(crate) fn piece_ended(&mut self, piece: &Piece, fault: Option<CopyFault>) {
        let Some(queue) = self.queues.get_mut(&piece.client) else { return };
        if let Some(entry) = queue.entries.iter_mut().find(|entry| entry.serial == piece.serial) {
            entry.running = entry.running.saturating_sub(1);
            entry.fault = entry.fault.or(fault);
        }
        self.complete_finished(piece.client);
    }

    /// Starts no more pieces of a descriptor. It ends when those in progress have ended.
    pub(crate) fn cancel(&mut self, client: u64, descriptor: u32) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        if let Some(entry) = queue.entries.iter_mut().find(|entry| entry.descriptor == descriptor)
            && !entry.is_issued()
        {
            entry.fault = Some(CopyFault::CANCELLED);
        }
        self.complete_finished(client);
    }

    /// Removes a client. Descriptors in progress remain until their pieces have ended.
    pub(crate) fn remove_client(&mut self, client: u64) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        queue.removed = true;
        for entry in &mut queue.entries {
            entry.fault = entry.fault.or(Some(CopyFault::CANCELLED));
        }
        self.completions.retain(|end| end.client != client);
        self.complete_finished(client);
    }

    /// Takes the next descriptor that has ended.
    pub(crate) fn take_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Ends the descriptors of a client that have nothing left to do.
    fn complete_finished(&mut self, client: u64) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        let is_complete = |(index, entry): (usize, &Entry<T>)| {
            entry.running == 0 && entry.is_issued() && !entry.is_blocked_by_fence(index)
        };
        while let Some(index) = queue.entries.iter().enumerate().position(is_complete) {
            let Some(entry) = queue.entries.remove(index) else { break };
            if entry.fault.is_some() {
                for later in queue.entries.iter_mut().skip(index).filter(|later| later.work.fence) {
                    later.fault = later.fault.or(Some(CopyFault::EARLIER));
                }
            }
            if !queue.removed {
                self.completions.push_back(Completion {
                    client,
                    descriptor: entry.descriptor,
                    fault: entry.fault,
                });
            }
        }
        if queue.entries.is_empty() {
            self.queues.remove(&client);
        }
    }
}

/// Returns the index of the entry with a client's next piece.
fn next_startable<T>(entries: &VecDeque<Entry<T>>) -> Option<usize> {
    for (index, entry) in entries.iter().enumerate() {
        if entry.is_blocked_by_fence(index) {
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
