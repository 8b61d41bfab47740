//! Operations of a node on its buffer and those of others: without I/O, for coherent and non-coherent memory.
//!
//! A message goes through the sender's FIFO in the receiver's buffer into the buffer of the open device,
//! where it waits for the device's owner. For each node a device has as much room as the FIFO, and publishes
//! in a table per sender how much its owner has taken. So a sender knows that its message fits before it
//! sends it, the handler can always empty a FIFO, and a device whose owner does not read blocks only its own
//! senders.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};
use tombolo_notification::Broken;
use tombolo_notification::payload::{HEADER_BYTES, Receiver, SendError, Sender, lines_of};
use tombolo_ring::doorbell::{Sleeper, WakeOrder, Waker};

use crate::layout::{CHANNELS, Layout};

/// Maximum number of messages taken from each FIFO per poll, so that a fast sender does not starve others.
const MESSAGES_PER_POLL: usize = 64;

/// Maximum number of spare buffers kept for new messages.
const SPARE_BUFFERS: usize = 64;

/// A channel of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Address {
    /// Number of the node.
    pub node: u16,
    /// Number of the channel.
    pub channel: u16,
}

/// A message that a device has received.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// Channel that sent it.
    pub source: Address,
    /// Payload of the message.
    pub bytes: Vec<u8>,
}

/// Header of a message: source node, source channel, target channel, and generation of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tag {
    source: Address,
    channel: u16,
    generation: u16,
}

impl Tag {
    fn to_word(self) -> u64 {
        [self.source.node, self.source.channel, self.channel, self.generation]
            .iter()
            .rev()
            .fold(0, |word, part| word << 16 | u64::from(*part))
    }

    fn from_word(word: u64) -> Tag {
        let part = |index: u32| (word >> (16 * index)) as u16;
        Tag { source: Address { node: part(0), channel: part(1) }, channel: part(2), generation: part(3) }
    }
}

/// Entry of the device table, one word: how often the channel was opened and closed, and how many lines its
/// owner has taken since it was last opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Entry {
    generation: u16,
    taken_lines: u64,
}

impl Entry {
    const LINE_BITS: u32 = 48;

    fn to_word(self) -> u64 {
        u64::from(self.generation) << Self::LINE_BITS | self.taken_lines & ((1 << Self::LINE_BITS) - 1)
    }

    fn from_word(word: u64) -> Entry {
        let generation = (word >> Self::LINE_BITS) as u16;
        Entry { generation, taken_lines: word & ((1 << Self::LINE_BITS) - 1) }
    }

    fn is_open(self) -> bool {
        self.generation % 2 == 1
    }
}

/// Reason why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The FIFO is full: the node has not taken earlier messages yet.
    FifoFull,
    /// The device is full: its owner has not read earlier messages yet.
    DeviceFull,
    /// No device is open on the channel.
    NotOpen,
    /// The message exceeds the maximum length.
    TooLong {
        /// Maximum length of a message, in bytes.
        max_bytes: usize,
    },
    /// The node violated the protocol.
    Broken(Broken),
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Refusal {
        match error {
            SendError::Full => Refusal::FifoFull,
            SendError::TooLong { max_bytes, .. } => Refusal::TooLong { max_bytes },
            SendError::Broken(broken) => Refusal::Broken(broken),
        }
    }
}

/// Sender's state of a channel of another node.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    entry: Entry,
    sent_lines: u64,
}

/// Sending side from a node to another, or to itself.
#[derive(Debug)]
pub struct Outbox<C: CacheMaintenance> {
    own: u16,
    fifo: Sender<C>,
    waker: Waker<C>,
    devices: SharedMemory<C>,
    targets: Vec<Target>,
    device_lines: u64,
}

impl<C: CacheMaintenance> Outbox<C> {
    /// Creates the sending side from node `own` to node `to`.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory is shorter than the layout.
    pub fn new(memory: &SharedMemory<C>, layout: Layout, own: u16, to: u16) -> Result<Self, OutOfRange> {
        let (from, to) = (usize::from(own), usize::from(to));
        let fifo = memory.slice(layout.fifo_at(to, from), layout.fifo().total_bytes())?;
        let sleep = memory.slice(layout.sleep(to), tombolo_base::LINE_BYTES)?;
        Ok(Outbox {
            own,
            fifo: Sender::new(&fifo, layout.fifo())?,
            // A whole line is long enough.
            waker: Waker::new(sleep, WakeOrder::Fence).map_err(|_| too_short(memory, layout))?,
            devices: memory.slice(layout.devices(to, from), Layout::DEVICES_BYTES)?,
            targets: vec![Target::default(); usize::from(CHANNELS)],
            device_lines: lines_of(layout.fifo().fifo_bytes() - HEADER_BYTES),
        })
    }

    /// Sends a message from a channel of this node to one of the other. Returns whether the other node sleeps
    /// and has to be interrupted.
    ///
    /// # Errors
    /// [`Refusal`] if nothing was sent.
    pub fn try_send(&mut self, from: u16, to: u16, payload: &[u8]) -> Result<bool, Refusal> {
        let target = self.targets.get_mut(usize::from(to)).ok_or(Refusal::NotOpen)?;
        let entry = Entry::from_word(self.devices.load_current_le(usize::from(to), Ordering::Acquire));
        if entry.generation != target.entry.generation {
            let generation = entry.generation;
            *target = Target { entry: Entry { generation, taken_lines: 0 }, sent_lines: 0 };
        }
        let before = target.entry.taken_lines;
        if entry.taken_lines < before || entry.taken_lines > target.sent_lines {
            let (taken, sent) = (entry.taken_lines, target.sent_lines);
            return Err(Refusal::Broken(Broken::Taken { taken, sent, before }));
        }
        target.entry = entry;
        if !entry.is_open() {
            return Err(Refusal::NotOpen);
        }
        let lines = lines_of(payload.len());
        if lines <= self.device_lines && target.sent_lines - entry.taken_lines + lines > self.device_lines {
            return Err(Refusal::DeviceFull);
        }
        let source = Address { node: self.own, channel: from };
        let tag = Tag { source, channel: to, generation: entry.generation };
        self.fifo.try_send(tag.to_word(), payload)?;
        target.sent_lines += lines;
        Ok(self.waker.must_ring())
    }
}

fn too_short<C: CacheMaintenance>(memory: &SharedMemory<C>, layout: Layout) -> OutOfRange {
    let (length_bytes, available_bytes) = (layout.total_bytes(), memory.len_bytes());
    OutOfRange { offset_bytes: 0, length_bytes, available_bytes }
}

/// Receiving side from one node.
#[derive(Debug)]
struct Source<C: CacheMaintenance> {
    fifo: Receiver<C>,
    devices: SharedMemory<C>,
    violation: Option<Broken>,
}

/// Flow control of an open device for one node, in lines.
#[derive(Clone, Copy, Debug, Default)]
struct FlowControl {
    received: u64,
    taken: u64,
    acknowledged: u64,
}

#[derive(Debug)]
struct OpenDevice {
    generation: u16,
    /// Buffered messages, each with its length in lines.
    messages: VecDeque<(u64, Message)>,
    flows: Vec<FlowControl>,
}

/// Message counters of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Messages delivered to devices.
    pub delivered: u64,
    /// Messages that arrived after their device was closed.
    pub late: u64,
    /// Messages that violate the protocol: to a channel that does not exist, with a forged source, or beyond
    /// the room of the device.
    pub invalid: u64,
}

/// Receiving side of a node.
#[derive(Debug)]
pub struct Inbox<C: CacheMaintenance> {
    sources: Vec<Source<C>>,
    sleeper: Sleeper<C>,
    devices: BTreeMap<u16, OpenDevice>,
    generations: Vec<u16>,
    device_lines: u64,
    spare_buffers: Vec<Vec<u8>>,
    /// Message counters so far.
    pub counters: Counters,
}

impl<C: CacheMaintenance> Inbox<C> {
    /// Creates the receiving side of node `own`.
    ///
    /// # Errors
    /// [`OutOfRange`] if the memory is shorter than the layout.
    pub fn new(memory: &SharedMemory<C>, layout: Layout, own: u16) -> Result<Self, OutOfRange> {
        let own = usize::from(own);
        let source = |from: usize| {
            let fifo = memory.slice(layout.fifo_at(own, from), layout.fifo().total_bytes())?;
            let devices = memory.slice(layout.devices(own, from), Layout::DEVICES_BYTES)?;
            Ok(Source { fifo: Receiver::new(&fifo, layout.fifo())?, devices, violation: None })
        };
        let sleep = memory.slice(layout.sleep(own), tombolo_base::LINE_BYTES)?;
        Ok(Inbox {
            sources: (0..layout.nodes()).map(source).collect::<Result<_, OutOfRange>>()?,
            sleeper: Sleeper::new(sleep, WakeOrder::Fence).map_err(|_| too_short(memory, layout))?,
            devices: BTreeMap::new(),
            generations: vec![0; usize::from(CHANNELS)],
            device_lines: lines_of(layout.fifo().fifo_bytes() - HEADER_BYTES),
            spare_buffers: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Opens a device on a channel. Returns false if one is open there, or the channel does not exist.
    pub fn open(&mut self, channel: u16) -> bool {
        let Some(generation) = self.generations.get_mut(usize::from(channel)) else { return false };
        if self.devices.contains_key(&channel) {
            return false;
        }
        *generation = generation.wrapping_add(1);
        let flows = vec![FlowControl::default(); self.sources.len()];
        let open = OpenDevice { generation: *generation, messages: VecDeque::new(), flows };
        let entry = Entry { generation: open.generation, taken_lines: 0 };
        self.devices.insert(channel, open);
        self.publish_entry(channel, entry);
        true
    }

    /// Returns the lowest channel without an open device.
    #[must_use]
    pub fn free_channel(&self) -> Option<u16> {
        (0..CHANNELS).find(|channel| !self.devices.contains_key(channel))
    }

    /// Closes the device on a channel. Undelivered messages are dropped.
    pub fn close(&mut self, channel: u16) {
        if self.devices.remove(&channel).is_some() {
            let generation = &mut self.generations[usize::from(channel)];
            *generation = generation.wrapping_add(1);
            let entry = Entry { generation: *generation, taken_lines: 0 };
            self.publish_entry(channel, entry);
        }
    }

    fn publish_entry(&self, channel: u16, entry: Entry) {
        for source in &self.sources {
            source.devices.store_through_le(usize::from(channel), entry.to_word(), Ordering::Release);
        }
    }

    /// Runs the handler: takes messages from the FIFOs, and calls `arrived` with the channel of each. Returns
    /// whether there may be more.
    pub fn deliver(&mut self, mut arrived: impl FnMut(u16)) -> bool {
        let mut is_more = false;
        for from in 0..self.sources.len() {
            let mut taken = 0;
            while taken < MESSAGES_PER_POLL {
                let mut bytes = self.spare_buffers.pop().unwrap_or_default();
                let source = &mut self.sources[from];
                if source.violation.is_some() {
                    break;
                }
                match source.fifo.try_receive(&mut bytes) {
                    Ok(Some(received)) => {
                        taken += 1;
                        let tag = Tag::from_word(received.tag);
                        match self.deliver_one(from, tag, bytes) {
                            Ok(()) => arrived(tag.channel),
                            Err(bytes) => self.recycle(bytes),
                        }
                    }
                    Ok(None) => {
                        source.fifo.release();
                        self.recycle(bytes);
                        break;
                    }
                    Err(broken) => source.violation = Some(broken),
                }
            }
            is_more |= taken == MESSAGES_PER_POLL;
        }
        is_more
    }

    /// Puts a message into the buffer of its device. Returns the bytes if it cannot be delivered.
    fn deliver_one(&mut self, from: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        if usize::from(tag.source.node) != from || tag.source.channel >= CHANNELS || tag.channel >= CHANNELS {
            self.counters.invalid += 1;
            return Err(bytes);
        }
        let open = self.devices.get_mut(&tag.channel).filter(|open| open.generation == tag.generation);
        let Some(open) = open else {
            self.counters.late += 1;
            return Err(bytes);
        };
        let (flow, lines) = (&mut open.flows[from], lines_of(bytes.len()));
        if flow.received - flow.taken + lines > self.device_lines {
            self.counters.invalid += 1;
            return Err(bytes);
        }
        flow.received += lines;
        open.messages.push_back((lines, Message { source: tag.source, bytes }));
        self.counters.delivered += 1;
        Ok(())
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare_buffers.len() < SPARE_BUFFERS {
            self.spare_buffers.push(bytes);
        }
    }

    /// Takes the next message of a device into `message`, whose old buffer is reused. Returns whether there
    /// was one.
    pub fn take(&mut self, channel: u16, message: &mut Message) -> bool {
        let Some(open) = self.devices.get_mut(&channel) else { return false };
        let Some((lines, next)) = open.messages.pop_front() else { return false };
        let bytes = std::mem::replace(message, next).bytes;
        let node = usize::from(message.source.node);
        let flow = &mut open.flows[node];
        flow.taken += lines;
        // A message takes at most half of the room, so one always fits once everything was taken.
        if flow.taken - flow.acknowledged >= self.device_lines / 2 {
            flow.acknowledged = flow.taken;
            let entry = Entry { generation: open.generation, taken_lines: flow.acknowledged };
            let devices = &self.sources[node].devices;
            devices.store_through_le(usize::from(channel), entry.to_word(), Ordering::Release);
        }
        self.recycle(bytes);
        true
    }

    /// Returns the protocol violation of a node, if there was one. Nothing more is taken from such a node.
    #[must_use]
    pub fn violation(&self, node: u16) -> Option<Broken> {
        self.sources.get(usize::from(node)).and_then(|source| source.violation)
    }

    /// Announces that this node is about to sleep. [`deliver`](Self::deliver) must follow.
    pub fn arm(&mut self) {
        let armed = self.sleeper.arm(|| Ok::<(), std::convert::Infallible>(()));
        debug_assert!(armed.is_ok());
    }

    /// Announces that this node is awake.
    pub fn disarm(&mut self) {
        self.sleeper.disarm();
    }

    /// Returns whether senders interrupt this node.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.sleeper.is_armed()
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
