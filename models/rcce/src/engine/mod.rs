//! Engine of one rank: messages, flags and collectives over the memory of its job.
//!
//! Nothing here blocks by itself. A call that waits calls `idle` repeatedly, which spins or sleeps, and
//! returns an error once waiting is pointless.

mod collective;
mod lane;
mod reduce;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};
use tombolo_onesided::{FlagReader, FlagWriter, History, SymmetricHeap, ValueFlag};

pub use collective::{CollectiveError, Group};
pub use lane::{AcceptedLength, INLINE_BYTES, ReceivedMessage, WrongLength};
pub use reduce::{Element, Operation};

use crate::layout::{LaneKind, Layout};
use lane::{Claims, Incoming, Lane, Outgoing};

/// Private memory of the program that a request uses until it is complete.
pub trait PrivateBytes {
    /// Returns the bytes of a message to send.
    fn bytes(&self) -> &[u8];
    /// Returns the buffer for a received message of `length` bytes, which is at most what the receive allows.
    fn bytes_mut(&mut self, length: usize) -> &mut [u8];
}

impl PrivateBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        &mut self[..length]
    }
}

impl PrivateBytes for &mut [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        &mut self[..length]
    }
}

/// Progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Waits for an earlier request.
    Queued,
    /// In progress, or able to start.
    Pending,
    /// Complete, with the result of a receive.
    Complete(Option<Result<ReceivedMessage, WrongLength>>),
}

/// One rank, with requests whose messages are in `B`.
#[derive(Debug)]
pub struct Engine<C: CacheMaintenance, B> {
    memory: SharedMemory<C>,
    layout: Layout,
    rank: usize,
    messages: Lane<C>,
    collectives: Lane<C>,
    signals_out: Vec<FlagWriter<C>>,
    signals_in: Vec<FlagReader<C>>,
    sends: VecDeque<(u64, Outgoing, B)>,
    receives: VecDeque<(u64, Incoming, B)>,
    /// Results of completed receives, until they are queried.
    received: BTreeMap<u64, Result<ReceivedMessage, WrongLength>>,
    last_request: u64,
    claims: Claims,
    /// Allocator of the message buffer, for `RCCE_malloc`.
    pub heap: SymmetricHeap,
    /// Allocator of the shared memory, for `RCCE_shmalloc`.
    pub shared_heap: SymmetricHeap,
}

impl<C: CacheMaintenance, B: PrivateBytes> Engine<C, B> {
    /// Creates the engine of `rank` over `memory`, which is zeroed before the first rank starts.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory is shorter than the layout.
    pub fn new(memory: SharedMemory<C>, layout: Layout, rank: usize) -> Result<Self, OutOfRange> {
        memory.slice(0, layout.total_bytes())?;
        let ranks = 0..layout.ranks;
        let out = ranks.clone().map(|to| FlagWriter::new(&memory, layout.signal(rank, to)));
        let signals_in = ranks.map(|from| FlagReader::new(&memory, layout.signal(from, rank)));
        Ok(Engine {
            messages: Lane::new(&memory, &layout, LaneKind::Messages, rank)?,
            collectives: Lane::new(&memory, &layout, LaneKind::Collectives, rank)?,
            signals_out: out.collect::<Result<_, _>>()?,
            signals_in: signals_in.collect::<Result<_, _>>()?,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            received: BTreeMap::new(),
            last_request: 0,
            claims: Claims::default(),
            heap: SymmetricHeap::new(layout.buffer_bytes),
            shared_heap: SymmetricHeap::new(layout.shared_bytes),
            memory,
            layout,
            rank,
        })
    }

    /// Returns the number of this rank in its job.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the layout of the memory.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the memory of the job.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory<C> {
        &self.memory
    }

    /// Returns the flag at an offset in the message buffer of `rank`.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not a line of the buffer.
    pub fn flag(&self, offset_bytes: usize, rank: usize) -> Result<ValueFlag<C>, OutOfRange> {
        let length_bytes = self.layout.buffer_bytes;
        let buffer = self.memory.slice(self.layout.buffer(rank), length_bytes)?;
        ValueFlag::new(&buffer, offset_bytes)
    }

    /// Returns the allocation history of this rank.
    #[must_use]
    pub fn history(&self) -> History {
        let (buffer, shared) = (self.heap.history(), self.shared_heap.history());
        History {
            operations: buffer.operations + shared.operations,
            digest: buffer.digest ^ shared.digest.rotate_left(32),
        }
    }

    /// Sends `message` and waits until it has been received.
    ///
    /// # Errors
    /// Those of `idle`.
    pub fn send<E>(
        &mut self,
        dest: usize,
        message: &[u8],
        idle: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut outgoing = Outgoing::new(self.next_request(), dest);
        loop {
            self.push();
            let is_next = !self.sends.iter().any(|(_, other, _)| other.dest == dest);
            if is_next && outgoing.advance(&mut self.messages, message) {
                return Ok(());
            }
            idle()?;
        }
    }

    /// Receives a message from `source`, or from any rank, into `target`, which must have room for
    /// `accepted`.
    ///
    /// # Errors
    /// Those of `idle`. The inner error reports a message of another length.
    pub fn receive<E>(
        &mut self,
        source: Option<usize>,
        accepted: AcceptedLength,
        target: &mut impl PrivateBytes,
        idle: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Result<ReceivedMessage, WrongLength>, E> {
        let mut incoming = Incoming::new(source, accepted);
        loop {
            // Also updates the claims of the pending requests.
            self.push();
            if let Some(outcome) = incoming.advance(&mut self.messages, &self.claims, target) {
                return Ok(outcome);
            }
            idle()?;
        }
    }

    /// Returns sender and length in bytes of the message that a receive from `source`, or from any rank,
    /// would get now.
    #[must_use]
    pub fn probe(&mut self, source: Option<usize>) -> Option<(usize, u64)> {
        self.push();
        let ranks = match source {
            Some(source) => source..source + 1,
            None => 0..self.layout.ranks,
        };
        ranks.into_iter().find_map(|rank| Some((rank, self.messages.arrived_length(rank)?)))
    }

    /// Starts to send `message`, and returns the number of the request.
    pub fn start_send(&mut self, dest: usize, message: B) -> u64 {
        let request = self.next_request();
        self.sends.push_back((request, Outgoing::new(request, dest), message));
        self.push();
        request
    }

    /// Starts to receive into `target`, and returns the number of the request.
    pub fn start_receive(&mut self, source: Option<usize>, accepted: AcceptedLength, target: B) -> u64 {
        let request = self.next_request();
        self.receives.push_back((request, Incoming::new(source, accepted), target));
        self.push();
        request
    }

    fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    /// Advances all requests as far as they can.
    pub fn push(&mut self) {
        self.push_sends();
        self.push_receives();
    }

    /// Advances sends. Messages to one rank go one after another; those to other ranks wait only for the
    /// staging buffer.
    fn push_sends(&mut self) {
        let mut index = 0;
        while index < self.sends.len() {
            let dest = self.sends[index].1.dest;
            let is_next = !self.sends.iter().take(index).any(|(_, earlier, _)| earlier.dest == dest);
            let (_, outgoing, message) = &mut self.sends[index];
            if is_next && outgoing.advance(&mut self.messages, message.bytes()) {
                self.sends.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Advances receives. A message goes to the earliest matching receive, so each receive claims its source,
    /// and a wildcard claims all.
    fn push_receives(&mut self) {
        self.claims.clear();
        let mut index = 0;
        while index < self.receives.len() && !self.claims.all {
            let (request, incoming, target) = &mut self.receives[index];
            let no_claims = Claims::default();
            let claims = if incoming.has_begun() { &no_claims } else { &self.claims };
            match incoming.advance(&mut self.messages, claims, target) {
                Some(outcome) => {
                    self.received.insert(*request, outcome);
                    self.receives.remove(index);
                }
                None => {
                    self.claims.claim(incoming.source, self.layout.ranks);
                    index += 1;
                }
            }
        }
    }

    /// Returns the progress of a request. The result of a receive is returned once.
    pub fn progress(&mut self, request: u64) -> Progress {
        self.push();
        let send = self.sends.iter().find(|(number, ..)| *number == request);
        let receive = self.receives.iter().find(|(number, ..)| *number == request);
        match (send, receive) {
            (Some((_, outgoing, _)), _) if outgoing.posted == 0 => Progress::Queued,
            (Some(_), _) => Progress::Pending,
            (_, Some(_)) => Progress::Pending,
            (None, None) => Progress::Complete(self.received.remove(&request)),
        }
    }

    /// Returns the numbers of incomplete sends and receives.
    #[must_use]
    pub fn pending(&self) -> (usize, usize) {
        (self.sends.len(), self.receives.len())
    }

    /// Withdraws a request that has not transferred anything yet. Returns whether it was withdrawn.
    pub fn cancel(&mut self, request: u64) -> bool {
        let before = self.sends.len() + self.receives.len();
        self.sends.retain(|(number, outgoing, _)| *number != request || outgoing.posted > 0);
        self.receives.retain(|(number, incoming, _)| *number != request || incoming.has_begun());
        self.sends.len() + self.receives.len() < before
    }
}
