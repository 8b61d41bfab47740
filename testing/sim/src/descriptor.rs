//! Simulated file descriptors: socket ends, memory, files. As in a kernel, the peer can see that an end was
//! dropped.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tombolo_base::SharedMemory;
use tombolo_control::RegionId;

use crate::window::WindowPlace;

/// A party of a simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Actor {
    /// The root monitor with the host's agent.
    Root,
    /// The agent of another node.
    Node(u16),
    /// A process, by its number.
    Process(i32),
}

/// Queue of parties to wake, shared by all socket ends.
pub type Wakes = Rc<RefCell<Vec<Actor>>>;

/// A simulated file descriptor.
#[derive(Debug)]
pub enum Fd {
    /// One end of a socket pair.
    SocketEnd(SocketEnd),
    /// An image file, by its number.
    Image(usize),
    /// A program, by its SHA-256.
    Program([u8; 32]),
    /// The memory of a window.
    Window(WindowPlace),
    /// The memory of a window, read-only.
    WindowToRead(WindowPlace),
    /// The memory of a region.
    Region {
        /// Region that the memory belongs to.
        region: RegionId,
        /// Whether it can be mapped for writing.
        writable: bool,
    },
    /// A file of the host.
    File {
        /// Whether it is opened for writing, too.
        writable: bool,
    },
    /// A doorbell or the registers of a device, without simulated contents.
    Bell,
}

/// A message with its descriptors.
pub type Packet = (Vec<u8>, Vec<Fd>);

#[derive(Debug, Default)]
struct Half {
    /// Set once all descriptors of this end are closed.
    closed: Cell<bool>,
    /// Set if the other side hung up without being closed.
    hung_up: Cell<bool>,
    /// Packets in flight to this end.
    packets: RefCell<VecDeque<Packet>>,
    owner: Cell<Option<Actor>>,
}

#[derive(Debug)]
struct Pair {
    halves: [Half; 2],
    /// Memory shared by both ends.
    memory: RefCell<Option<SharedMemory>>,
    /// Number of the mapping whose lifeline this is; 0 for none.
    number: Cell<u64>,
    wakes: Wakes,
}

/// Observer for the audit: shows whether one end of a pair is still held, or in flight. Keeps no end open.
#[derive(Debug)]
pub struct Watch {
    pair: Rc<Pair>,
    side: usize,
}

impl Watch {
    /// Returns whether all descriptors of the observed end are closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.pair.halves[self.side].closed.get()
    }
}

/// One end of a socket pair.
#[derive(Debug)]
pub struct SocketEnd {
    pair: Rc<Pair>,
    side: usize,
}

impl SocketEnd {
    /// Creates a pair and returns both ends.
    #[must_use]
    pub fn pair(wakes: &Wakes) -> (SocketEnd, SocketEnd) {
        let pair = Rc::new(Pair {
            halves: [Half::default(), Half::default()],
            memory: RefCell::new(None),
            number: Cell::new(0),
            wakes: wakes.clone(),
        });
        (SocketEnd { pair: pair.clone(), side: 0 }, SocketEnd { pair, side: 1 })
    }

    fn own_half(&self) -> &Half {
        &self.pair.halves[self.side]
    }

    fn peer_half(&self) -> &Half {
        &self.pair.halves[1 - self.side]
    }

    /// Marks this end as the lifeline of a mapping. The returned observer shows the audit whether the end is
    /// still held.
    #[must_use]
    pub fn mark_lifeline(&self, number: u64) -> Watch {
        self.pair.number.set(number);
        Watch { pair: self.pair.clone(), side: self.side }
    }

    /// Returns the number of the mapping whose lifeline this is; 0 for none.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.pair.number.get()
    }

    /// Sets the party to wake on events at this end.
    #[must_use]
    pub fn owned_by(self, actor: Actor) -> Self {
        self.own_half().owner.set(Some(actor));
        // Events may have occurred before the owner was set.
        if !self.own_half().packets.borrow().is_empty() || self.is_gone() {
            self.pair.wakes.borrow_mut().push(actor);
        }
        self
    }

    /// Wakes the owner of the other end, as a byte on the socket does.
    pub fn ring(&self) {
        if let Some(actor) = self.peer_half().owner.get() {
            self.pair.wakes.borrow_mut().push(actor);
        }
    }

    /// Sends a packet to the peer. Returns `false` if the other end is closed.
    pub fn send(&self, packet: Packet) -> bool {
        if self.peer_half().closed.get() {
            return false;
        }
        self.peer_half().packets.borrow_mut().push_back(packet);
        self.ring();
        true
    }

    /// Receives the next packet, if one has arrived.
    pub fn receive(&self) -> Option<Packet> {
        self.own_half().packets.borrow_mut().pop_front()
    }

    /// Returns the number of packets that have arrived and were not received.
    #[must_use]
    pub fn pending_packets(&self) -> usize {
        self.own_half().packets.borrow().len()
    }

    /// Returns the number of packets that the other end has not received.
    #[must_use]
    pub fn unreceived_packets(&self) -> usize {
        self.peer_half().packets.borrow().len()
    }

    /// Returns whether the other end is closed or hung up.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.peer_half().closed.get() || self.own_half().hung_up.get()
    }

    /// Makes this end appear closed to the other end.
    pub fn hang_up(&self) {
        self.peer_half().hung_up.set(true);
        self.ring();
    }

    /// Returns the memory shared by both ends, created on first use.
    #[must_use]
    pub fn memory(&self, length_bytes: usize) -> SharedMemory {
        let mut memory = self.pair.memory.borrow_mut();
        memory.get_or_insert_with(|| SharedMemory::zeroed(length_bytes)).clone()
    }
}

impl Drop for SocketEnd {
    fn drop(&mut self) {
        self.own_half().closed.set(true);
        // Packets in flight to this end are dropped, with the descriptors in them.
        let fallen = std::mem::take(&mut *self.own_half().packets.borrow_mut());
        drop(fallen);
        self.ring();
    }
}
