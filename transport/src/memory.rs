//! A channel over two rings in memory that both sides map.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::SharedMemory;
use tombolo_link::handshake::{Handshake, Progress};
use tombolo_link::hello::Agreed;
use tombolo_link::{ChannelLayout, Ends, Hello, Side, TransportKind};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::guest::pci::Registers;
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, barrier, event, socket};
use tombolo_ring::{Message, RecvError, SendError, WakeOrder};

use crate::contract::{Limits, Stats, Transport};
use crate::error::{Awaited, ChannelError};

/// Fruitless polls between two looks at the lifeline, for programs that poll and never sleep. A look is a system
/// call, so this makes it a small part of the cost of polling.
const POLLS_PER_LOOK: u32 = 4096;

/// What wakes a side that sleeps.
#[derive(Debug)]
pub(crate) enum Bell {
    /// The socket between the two processes, which is also the lifeline.
    Socket,
    /// An event counter to sleep on, and what rings the peer.
    Window {
        /// Signalled by the peer.
        incoming: OwnedFd,
        /// Rings the peer.
        outgoing: Ring,
    },
}

/// What rings a peer across a window.
#[derive(Debug)]
pub(crate) enum Ring {
    /// An event counter that becomes an interrupt over there.
    Counter(OwnedFd),
    /// The doorbell register of the window's device.
    Register {
        /// The device.
        registers: Registers,
        /// The peer's number on the device.
        peer: u16,
        /// Its vector.
        vector: u16,
    },
}

/// How this side and its peer reach each other besides the rings: bell and lifeline.
#[derive(Debug)]
pub(crate) struct Connection {
    bell: Bell,
    /// Hangs up when the peer is gone: the socket to it, or one to the monitor, which watches it.
    lifeline: OwnedFd,
    /// The lifeline has hung up: evidence, not suspicion.
    peer_gone: bool,
}

impl Connection {
    pub(crate) fn new(bell: Bell, lifeline: OwnedFd) -> Self {
        Connection { bell, lifeline, peer_gone: false }
    }

    /// Wakes the peer. That it is gone shows when this side listens.
    fn ring(&mut self) {
        match &self.bell {
            Bell::Socket => match socket::send(&self.lifeline, &[1], &[]) {
                // A full socket holds wake-ups enough.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(_) => self.peer_gone = true,
            },
            Bell::Window { outgoing: Ring::Counter(counter), .. } => {
                // An event counter of ours cannot fail but by being full, which wakes as well.
                let _ = event::signal(counter);
            }
            Bell::Window { outgoing: Ring::Register { registers, peer, vector }, .. } => {
                registers.ring(*peer, *vector);
            }
        }
    }

    /// Takes note of what bell and lifeline say.
    fn listen(&mut self) {
        if let Bell::Window { incoming, .. } = &self.bell {
            event::drain(incoming);
        }
        let mut bytes = [0; 256];
        while !self.peer_gone {
            match socket::receive(&self.lifeline, &mut bytes) {
                Err(Errno::AGAIN) => return,
                Ok(received) if received.length == bytes.len() => {}
                Ok(received) if received.length > 0 => return,
                Ok(_) | Err(_) => self.peer_gone = true,
            }
        }
    }

    fn sources<'a>(&'a self, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.push((self.lifeline.as_fd(), Interest::Read));
        if let Bell::Window { incoming, .. } = &self.bell {
            sources.push((incoming.as_fd(), Interest::Read));
        }
    }

    /// Takes a handshake to its end.
    fn shake_hands(&mut self, mut handshake: Handshake, deadline: Deadline) -> Result<Agreed, ChannelError> {
        self.ring();
        loop {
            match handshake.step() {
                Ok(Progress::Open(agreed)) => return Ok(agreed),
                Ok(Progress::Changed) => self.ring(),
                Ok(Progress::Waiting) if self.peer_gone => return Err(ChannelError::PeerDied),
                Ok(Progress::Waiting) if deadline.passed() => {
                    return Err(ChannelError::TimedOut(Awaited::Handshake));
                }
                Ok(Progress::Waiting) => {
                    let mut sources = Vec::with_capacity(2);
                    self.sources(&mut sources);
                    poll(&sources, Some(deadline))?;
                    self.listen();
                }
                Err(error) => {
                    self.ring();
                    return Err(error.into());
                }
            }
        }
    }
}

/// One end of a channel whose two rings lie in memory.
#[derive(Debug)]
pub struct MemoryChannel {
    kind: TransportKind,
    ends: Ends,
    connection: Connection,
    /// A violation is final.
    broken: Option<String>,
    /// Length of the message that last found no room: what a sleep for room waits for.
    refused_bytes: usize,
    /// How often credit had been given back when the peer was last told.
    credit_stores: u64,
    fruitless_polls: u32,
    stats: Stats,
    memory: SharedMemory,
}

impl MemoryChannel {
    /// Opens one side of a channel in `memory`: handshake, then rings.
    pub(crate) fn open(
        kind: TransportKind,
        memory: SharedMemory,
        side: Side,
        hello: Hello,
        mut connection: Connection,
        deadline: Deadline,
    ) -> Result<Self, ChannelError> {
        let violation = |error: &dyn std::fmt::Display| ChannelError::Violation(error.to_string());
        let handshake = Handshake::start(&memory, side, hello).map_err(|error| violation(&error))?;
        let agreed = connection.shake_hands(handshake, deadline)?;
        let order = if agreed.expedited_barrier { WakeOrder::Asymmetric } else { WakeOrder::Fence };
        let layout = ChannelLayout::new(hello.config);
        let ends = layout.attach(&memory, side, order).map_err(|error| violation(&error))?;
        Ok(MemoryChannel {
            kind,
            ends,
            connection,
            broken: None,
            refused_bytes: 0,
            credit_stores: 0,
            fruitless_polls: 0,
            stats: Stats::default(),
            memory,
        })
    }

    /// Declines a channel that a peer proposes in `memory`, so that it learns of it.
    pub(crate) fn decline(
        memory: &SharedMemory,
        side: Side,
        hello: Hello,
        reason: u32,
        mut connection: Connection,
    ) -> Result<(), ChannelError> {
        Handshake::start(memory, side, hello)
            .map_err(|error| ChannelError::Violation(error.to_string()))?
            .decline(reason);
        connection.ring();
        Ok(())
    }

    /// The memory of the channel, header and rings, for measuring the bare memory under it. What is written there
    /// from now on is between the two programs: the rings are of no use any more.
    #[must_use]
    pub fn into_raw_memory(self) -> RawMemory {
        RawMemory { memory: self.memory.clone(), _channel: self }
    }

    /// Looks at the lifeline now and then, for programs that poll and never sleep.
    #[inline]
    fn look_now_and_then(&mut self) {
        self.fruitless_polls += 1;
        if self.fruitless_polls >= POLLS_PER_LOOK {
            self.fruitless_polls = 0;
            self.connection.listen();
        }
    }

    /// To be called after everything that the peer may sleep for.
    #[inline]
    fn wake_peer(&mut self) {
        if self.ends.waker.must_ring() {
            self.stats.rings += 1;
            self.connection.ring();
        }
    }

    /// A peer that sleeps for room must hear of credit that was given back.
    #[inline]
    fn wake_peer_for_credit(&mut self) {
        let stores = self.ends.consumer.counters().credit_stores;
        if stores != self.credit_stores {
            self.credit_stores = stores;
            self.wake_peer();
        }
    }

    /// Notes that the peer broke the protocol; every later operation says so.
    #[cold]
    fn violated(&mut self, what: String) -> ChannelError {
        self.broken.get_or_insert(what.clone());
        self.close();
        ChannelError::Violation(what)
    }

    /// Whether the channel has come to an end other than by closing, now that nothing is left to receive.
    #[cold]
    fn ended(&self) -> Option<ChannelError> {
        match &self.broken {
            Some(what) => Some(ChannelError::Violation(what.clone())),
            None => self.connection.peer_gone.then_some(ChannelError::PeerDied),
        }
    }

    /// Receives the next message, if there is one, in place: `read` sees it where it lies.
    ///
    /// # Errors
    /// As [`Transport::try_recv_into`].
    #[inline]
    pub fn try_recv_in_place<R>(
        &mut self,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, ChannelError> {
        // Looked at before the ring: whoever is gone by now has sent everything it ever will.
        let may_have_ended = self.connection.peer_gone || self.broken.is_some();
        let mut failed = None;
        let received = match self.ends.consumer.try_recv() {
            Ok(Some(message)) => {
                self.stats.messages_received += 1;
                self.stats.bytes_received += message.len() as u64;
                Some(read(&message))
            }
            Ok(None) => None,
            Err(error) => {
                // In a copy, for the message that might have been borrows the ring to the end of the match.
                failed = Some(error);
                None
            }
        };
        if let Some(error) = failed {
            return Err(self.not_received(error));
        }
        self.wake_peer_for_credit();
        if received.is_none() {
            self.look_now_and_then();
            return if may_have_ended { self.ended().map_or(Ok(None), Err) } else { Ok(None) };
        }
        self.fruitless_polls = 0;
        match self.ends.producer.observe_credit(self.ends.consumer.reverse_credit()) {
            Ok(()) | Err(SendError::Closed) => Ok(received),
            Err(violation) => Err(self.violated(violation.to_string())),
        }
    }

    #[cold]
    fn not_received(&mut self, error: RecvError) -> ChannelError {
        match error {
            RecvError::Closed => self.ended_by_violation().unwrap_or(ChannelError::Closed),
            RecvError::Violation(violation) => self.violated(violation.to_string()),
        }
    }

    #[cold]
    fn ended_by_violation(&self) -> Option<ChannelError> {
        self.broken.clone().map(ChannelError::Violation)
    }
}

impl Transport for MemoryChannel {
    fn kind(&self) -> TransportKind {
        self.kind
    }

    fn limits(&self) -> Limits {
        Limits { max_message_bytes: self.ends.producer.max_message_bytes() }
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    #[inline]
    fn try_send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        self.ends.producer.set_reverse_credit(self.ends.consumer.credit_to_piggyback());
        match self.ends.producer.try_send(message) {
            Ok(()) => {
                self.stats.messages_sent += 1;
                self.stats.bytes_sent += message.len() as u64;
                self.wake_peer();
                Ok(())
            }
            Err(error) => Err(self.not_sent(error, message.len())),
        }
    }

    #[inline]
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, ChannelError> {
        self.try_recv_in_place(|message| {
            buffer.resize(message.len(), 0);
            // The buffer has just been given the message's length.
            message.copy_to(buffer).unwrap_or(0)
        })
    }

    fn readable(&mut self) -> bool {
        let ready = self.ends.consumer.poll();
        self.wake_peer_for_credit();
        if ready || self.ended().is_some() {
            return true;
        }
        self.look_now_and_then();
        false
    }

    fn about_to_sleep(&mut self, awaited: Interest) -> bool {
        self.stats.sleeps += 1;
        // Cannot fail: the barrier has a form that no kernel refuses.
        let Ok(()) = self.ends.sleeper.arm(|| {
            barrier::everywhere();
            Ok::<(), std::convert::Infallible>(())
        });
        // From here on whatever the peer does rings; so look once more.
        let nothing_to_read = !self.ends.consumer.poll();
        self.wake_peer_for_credit();
        let no_room = matches!(self.ends.producer.claim(self.refused_bytes), Err(SendError::Full));
        let nothing_new = match awaited {
            Interest::Read => nothing_to_read,
            Interest::Write => no_room,
            Interest::ReadWrite => nothing_to_read && no_room,
        };
        nothing_new && self.ended().is_none()
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.connection.sources(sources);
    }

    fn wake_up(&mut self) {
        self.ends.sleeper.disarm();
        self.connection.listen();
    }

    fn close(&mut self) {
        self.ends.producer.close();
        self.ends.consumer.close();
        // Whether it sleeps or not: closing is rare, and the last thing said.
        self.connection.ring();
    }
}

impl MemoryChannel {
    #[cold]
    fn not_sent(&mut self, error: SendError, length_bytes: usize) -> ChannelError {
        match error {
            SendError::Full => {
                self.refused_bytes = length_bytes;
                self.look_now_and_then();
                self.ended().unwrap_or(ChannelError::WouldBlock)
            }
            SendError::TooLong { len_bytes, max_bytes } => {
                ChannelError::TooLong { length_bytes: len_bytes, max_bytes }
            }
            SendError::Closed => self.ended_by_violation().unwrap_or(ChannelError::Closed),
            SendError::Violation(violation) => self.violated(violation.to_string()),
        }
    }
}

impl Drop for MemoryChannel {
    fn drop(&mut self) {
        self.close();
    }
}

/// The bare memory of what was a channel.
#[derive(Debug)]
pub struct RawMemory {
    /// Header, then rings.
    pub memory: SharedMemory,
    /// Keeps the lifeline, so that the peer's end stays open as long as the memory is used.
    _channel: MemoryChannel,
}
