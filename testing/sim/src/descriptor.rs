//! What stands for descriptors: ends of sockets, memory, files. As in a kernel, an end that is dropped shows
//! at the other.

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

/// The parties to be woken. Shared by all ends.
pub type Wakes = Rc<RefCell<Vec<Actor>>>;

/// A simulated file descriptor.
#[derive(Debug)]
pub enum Fd {
    /// An end of a socket.
    SocketEnd(SocketEnd),
    /// An image file, by its number.
    Image(usize),
    /// A program, by its SHA-256.
    Program([u8; 32]),
    /// The memory of a window.
    Window(WindowPlace),
    /// The same without the right to write.
    WindowToRead(WindowPlace),
    /// The memory of a region.
    Region {
        /// The identity of the memory.
        region: RegionId,
        /// Whether it can be mapped for writing.
        writable: bool,
    },
    /// A file of the host.
    File {
        /// Opened for writing too.
        writable: bool,
    },
    /// A doorbell or a device's registers: only counted.
    Bell,
}

/// A message with its descriptors.
pub type Packet = (Vec<u8>, Vec<Fd>);

#[derive(Debug, Default)]
struct Half {
    /// All descriptors of this end are closed.
    closed: Cell<bool>,
    /// The other side shows that it is gone, though it is not.
    hung_up: Cell<bool>,
    /// On their way to this end.
    packets: RefCell<VecDeque<Packet>>,
    owner: Cell<Option<Actor>>,
}

#[derive(Debug)]
struct Pair {
    halves: [Half; 2],
    /// The memory that the two share.
    memory: RefCell<Option<SharedMemory>>,
    /// The number of what it is the lifeline of; 0 for what has no number.
    number: Cell<u64>,
    wakes: Wakes,
}

/// Sees whether anybody holds one end of a pair, on its way included. For checkers: it is no end.
#[derive(Debug)]
pub struct Watch {
    pair: Rc<Pair>,
    side: usize,
}

impl Watch {
    /// All descriptors of it are closed.
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
    /// Both ends of a new pair.
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

    fn here(&self) -> &Half {
        &self.pair.halves[self.side]
    }

    fn there(&self) -> &Half {
        &self.pair.halves[1 - self.side]
    }

    /// Marks this as the lifeline of a mapping, for the audit, and lets the audit see whether this end is
    /// held.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Watch {
        self.pair.number.set(number);
        Watch { pair: self.pair.clone(), side: self.side }
    }

    /// The mapping that it is the lifeline of.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.pair.number.get()
    }

    /// Sets the party that is woken by events at this end.
    #[must_use]
    pub fn owned_by(self, actor: Actor) -> Self {
        self.here().owner.set(Some(actor));
        // Something may have happened before.
        if !self.here().packets.borrow().is_empty() || self.is_gone() {
            self.pair.wakes.borrow_mut().push(actor);
        }
        self
    }

    /// Wakes the other side, as a byte does.
    pub fn ring(&self) {
        if let Some(actor) = self.there().owner.get() {
            self.pair.wakes.borrow_mut().push(actor);
        }
    }

    /// Sends; returns `false` when all descriptors of the other end are closed.
    pub fn send(&self, packet: Packet) -> bool {
        if self.there().closed.get() {
            return false;
        }
        self.there().packets.borrow_mut().push_back(packet);
        self.ring();
        true
    }

    /// The next packet that arrived.
    pub fn receive(&self) -> Option<Packet> {
        self.here().packets.borrow_mut().pop_front()
    }

    /// Packets that arrived and were not received.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.here().packets.borrow().len()
    }

    /// Packets on their way to the other end.
    #[must_use]
    pub fn waiting_there(&self) -> usize {
        self.there().packets.borrow().len()
    }

    /// The other end is closed or shows to be.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.there().closed.get() || self.here().hung_up.get()
    }

    /// Closes this end, which the other end shows.
    pub fn hang_up(&self) {
        self.there().hung_up.set(true);
        self.ring();
    }

    /// The memory that the two share, made by the first that asks for it.
    #[must_use]
    pub fn memory(&self, length_bytes: usize) -> SharedMemory {
        let mut memory = self.pair.memory.borrow_mut();
        memory.get_or_insert_with(|| SharedMemory::zeroed(length_bytes)).clone()
    }
}

impl Drop for SocketEnd {
    fn drop(&mut self) {
        self.here().closed.set(true);
        // What was on its way to this end falls, and the descriptors in it.
        let fallen = std::mem::take(&mut *self.here().packets.borrow_mut());
        drop(fallen);
        self.ring();
    }
}
