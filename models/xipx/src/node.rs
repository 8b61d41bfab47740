//! Message device of a node: its buffer, its handler, and the open devices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tombolo::region::Region;
use tombolo::waitset::Waker;
use tombolo::{Channel, Domain, Ready, WaitSet};
use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};

pub use crate::engine::{Address, Counters, Message};
use crate::engine::{Inbox, Outbox, Refusal};
use crate::error::XipxError;
use crate::job::{Doorbells, JoinOptions, Joined, Memory, join};
use crate::layout::{CHANNELS, Layout};

/// Poll interval of the handler while other threads poll for messages.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum sleep of the handler without an interrupt.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// Length of each sleep of a wait for room, after polling.
const PAUSE: Duration = Duration::from_micros(50);

/// A node of a job with message devices.
///
/// It receives for all devices that are open on the node, whether their owners wait or not. Open devices keep
/// it alive.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    port: Arc<dyn NodeOps>,
    names: Vec<String>,
    own: u16,
    layout: Layout,
    handler: Option<std::thread::JoinHandle<()>>,
    _region: Option<Region>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("number", &self.number()).field("names", &self.0.names).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.port.stop();
        if let Some(handler) = self.handler.take() {
            // A panic of the handler needs no further handling.
            let _ = handler.join();
        }
    }
}

impl Node {
    /// Joins the job that this program was started in. All of its ranks must do so; rank numbers become node
    /// numbers.
    ///
    /// # Errors
    /// [`XipxError::Refused`], [`XipxError::NoWindow`], [`XipxError::Domain`].
    pub fn join(domain: &Domain, options: &JoinOptions) -> Result<Node, XipxError> {
        let Joined { layout, own, memory, doorbells, names, region } = join(domain, options)?;
        let (outs, set) = split_doorbells(doorbells)?;
        let (port, handler): (Arc<dyn NodeOps>, _) = match memory {
            Memory::Coherent(memory) => {
                start(&memory, layout, own, (names.clone(), outs, set), options.spin)?
            }
            Memory::Flushed(memory) => start(&memory, layout, own, (names.clone(), outs, set), options.spin)?,
        };
        Ok(Node(Arc::new(Inner { port, names, own, layout, handler: Some(handler), _region: region })))
    }

    /// Returns the number of this node.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.0.own
    }

    /// Returns the names of all nodes, by number. A node of the machine has several numbers if several ranks
    /// of the job run on it.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Returns the maximum length of a message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.0.layout.fifo().max_payload_bytes()
    }

    /// Returns the message counters of this node.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.port.counters()
    }

    /// Waits until node 0 has ended, which owns the memory. Returns false on timeout.
    #[must_use]
    pub fn wait_ended(&self, timeout: Duration) -> bool {
        self.0.port.wait_ended(timeout)
    }

    /// Opens a device on a channel, or on the lowest free one if `channel` is `None`.
    ///
    /// # Errors
    /// [`XipxError::ChannelInUse`], [`XipxError::NoSuchChannel`].
    pub fn open(&self, channel: Option<u16>) -> Result<Device, XipxError> {
        let owner = Arc::new(Condvar::new());
        match self.0.port.open(channel, &owner) {
            Ok(channel) => Ok(Device { node: self.clone(), channel, owner }),
            Err(channel) if channel >= CHANNELS => Err(XipxError::NoSuchChannel { channel }),
            Err(channel) => Err(XipxError::ChannelInUse {
                channel,
                node: self.0.own,
                name: self.0.names[usize::from(self.0.own)].clone(),
            }),
        }
    }
}

/// An open device: a channel of this node that sends to and receives from channels of all nodes. Several
/// threads may use it. Closed when dropped.
#[derive(Debug)]
pub struct Device {
    node: Node,
    channel: u16,
    owner: Arc<Condvar>,
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close();
    }
}

impl Device {
    /// Returns the number of its channel.
    #[must_use]
    pub fn channel(&self) -> u16 {
        self.channel
    }

    /// Returns the node that it belongs to.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Closes the device: a thread that waits for a message gets [`XipxError::NotOpen`].
    pub fn close(&self) {
        self.node.0.port.close(self.channel, &self.owner);
    }

    /// Sends a message. It counts as sent when it is in the buffer of the other node and the open device
    /// there has room for it. Messages between two channels arrive in order.
    ///
    /// # Errors
    /// [`XipxError::TimedOut`] if there was no room within `timeout`. [`XipxError::NotOpen`],
    /// [`XipxError::NodeEnded`], [`XipxError::TooLong`], [`XipxError::NoSuchNode`],
    /// [`XipxError::NoSuchChannel`], [`XipxError::Broken`].
    pub fn send(&self, to: Address, message: &[u8], timeout: Duration) -> Result<(), XipxError> {
        self.node.0.port.send(self.channel, to, message, timeout)
    }

    /// Receives the next message, from any node and channel.
    ///
    /// # Errors
    /// [`XipxError::TimedOut`] if none arrived within `timeout`. [`XipxError::NodeEnded`] if node 0 has
    /// ended.
    pub fn receive(&self, timeout: Duration) -> Result<Message, XipxError> {
        let mut message = Message::default();
        self.receive_into(&mut message, None, timeout)?;
        Ok(message)
    }

    /// Like [`receive`](Self::receive), into a message whose buffer is reused. With `peer` the wait also
    /// fails when that node has ended.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); [`XipxError::NodeEnded`] and [`XipxError::Broken`] also for `peer`.
    /// Messages that have arrived from it are received first.
    pub fn receive_into(
        &self,
        message: &mut Message,
        peer: Option<u16>,
        timeout: Duration,
    ) -> Result<(), XipxError> {
        self.node.0.port.receive(self.channel, &self.owner, message, peer, timeout)
    }
}

/// Operations of a node, independent of the kind of memory.
trait NodeOps: Send + Sync {
    fn open(&self, channel: Option<u16>, owner: &Arc<Condvar>) -> Result<u16, u16>;
    fn close(&self, channel: u16, owner: &Arc<Condvar>);
    fn send(&self, from: u16, to: Address, message: &[u8], timeout: Duration) -> Result<(), XipxError>;
    fn receive(
        &self,
        channel: u16,
        owner: &Condvar,
        message: &mut Message,
        peer: Option<u16>,
        timeout: Duration,
    ) -> Result<(), XipxError>;
    fn wait_ended(&self, timeout: Duration) -> bool;
    fn counters(&self) -> Counters;
    fn stop(&self);
}

struct OutboxState<C: CacheMaintenance> {
    outbox: Outbox<C>,
    /// Interrupt channel; `None` for this node itself.
    doorbell: Option<Channel>,
}

struct InboxState<C: CacheMaintenance> {
    inbox: Inbox<C>,
    owners: BTreeMap<u16, Arc<Condvar>>,
    /// Number of polling threads, and whether one has polled since the handler's last check.
    pollers: usize,
    was_polled: bool,
    /// Whether the handler sleeps until it is interrupted.
    is_handler_asleep: bool,
}

impl<C: CacheMaintenance> InboxState<C> {
    /// Delivers arrived messages, and signals the owners of the devices.
    fn deliver(&mut self) {
        let InboxState { inbox, owners, .. } = self;
        inbox.deliver(|channel| {
            if let Some(owner) = owners.get(&channel) {
                owner.notify_one();
            }
        });
    }

    /// Returns whether the channel is still open by the same owner.
    fn is_open(&self, channel: u16, owner: &Condvar) -> bool {
        self.owners.get(&channel).is_some_and(|current| std::ptr::eq(Arc::as_ptr(current), owner))
    }

    fn take(&mut self, channel: u16, owner: &Condvar, message: &mut Message) -> bool {
        self.is_open(channel, owner) && self.inbox.take(channel, message)
    }

    /// Enables interrupts, and delivers messages that arrived before senders could see that.
    fn arm(&mut self) {
        self.inbox.arm();
        self.deliver();
    }
}

struct Shared<C: CacheMaintenance> {
    own: u16,
    names: Vec<String>,
    outs: Vec<Mutex<OutboxState<C>>>,
    inbox: Mutex<InboxState<C>>,
    /// Flags of ended nodes, and the condition variable signaled on changes.
    ended: Vec<AtomicBool>,
    ended_changed: Condvar,
    waker: Waker,
    stopped: AtomicBool,
    spin: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic can at most lose a message.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names of the nodes, channels that interrupt others, and the wait set of channels that interrupt this node.
type Parts = (Vec<String>, Vec<Option<Channel>>, WaitSet<InterruptChannel>);

struct InterruptChannel {
    channel: Channel,
    node: u16,
}

impl tombolo::Waited for InterruptChannel {
    type End = Channel;

    fn end(&self) -> &Channel {
        &self.channel
    }

    fn end_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

fn split_doorbells(
    doorbells: Vec<Option<Doorbells>>,
) -> Result<(Vec<Option<Channel>>, WaitSet<InterruptChannel>), XipxError> {
    let mut set = WaitSet::new()?;
    // No spinning here: threads that wait for messages poll.
    set.set_spin_ns(0);
    let mut outs = Vec::new();
    for (node, doorbells) in (0..).zip(doorbells) {
        let Some(Doorbells { outgoing, incoming }) = doorbells else {
            outs.push(None);
            continue;
        };
        set.add(InterruptChannel { channel: incoming, node }).map_err(|error| error.error)?;
        outs.push(Some(outgoing));
    }
    Ok((outs, set))
}

fn start<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    layout: Layout,
    own: u16,
    (names, outs, set): Parts,
    spin: Duration,
) -> Result<(Arc<dyn NodeOps>, std::thread::JoinHandle<()>), XipxError> {
    let short = |error: OutOfRange| XipxError::refused(format!("the memory is too short: {error}"));
    let out = |(to, doorbell)| {
        let outbox = Outbox::new(memory, layout, own, to)?;
        Ok(Mutex::new(OutboxState { outbox, doorbell }))
    };
    let outs: Result<Vec<_>, OutOfRange> = (0..).zip(outs).map(out).collect();
    let inbox = Inbox::new(memory, layout, own).map_err(short)?;
    let inbox = InboxState {
        inbox,
        owners: BTreeMap::new(),
        pollers: 0,
        was_polled: false,
        is_handler_asleep: false,
    };
    let shared = Arc::new(Shared {
        own,
        ended: names.iter().map(|_| AtomicBool::new(false)).collect(),
        ended_changed: Condvar::new(),
        names,
        outs: outs.map_err(short)?,
        inbox: Mutex::new(inbox),
        waker: set.waker(),
        stopped: AtomicBool::new(false),
        spin,
    });
    let handler = Arc::clone(&shared);
    let handler = std::thread::Builder::new()
        .name("xipx".into())
        .spawn(move || handler.run_handler(set))
        .map_err(XipxError::socket("start a thread"))?;
    Ok((shared, handler))
}

impl<C: CacheMaintenance> Shared<C> {
    /// Runs the handler thread, which sleeps until a node interrupts this one or ends.
    fn run_handler(&self, mut set: WaitSet<InterruptChannel>) {
        let mut bytes = Vec::new();
        while !self.stopped.load(Ordering::Acquire) {
            let sleep = self.poll_and_arm();
            match set.wait(sleep) {
                Ok(Ready::Channel(token)) => {
                    let Some(back) = set.get_mut(token) else { continue };
                    // Interrupt messages are empty.
                    let ended = loop {
                        match back.channel.try_recv_into(&mut bytes) {
                            Ok(Some(_)) => {}
                            Ok(None) => break None,
                            Err(_) => break Some(back.node),
                        }
                    };
                    if let Some(node) = ended {
                        set.remove(token);
                        self.mark_ended(node);
                    }
                }
                Ok(_) | Err(tombolo::Error::TimedOut { .. }) => {}
                // The monitor has ended, which ends the node.
                Err(_) => return (0..self.ended.len() as u16).for_each(|node| self.mark_ended(node)),
            }
        }
    }

    /// Delivers arrived messages. Returns how long the handler may sleep.
    fn poll_and_arm(&self) -> Duration {
        let mut inbox = lock(&self.inbox);
        inbox.deliver();
        let polled = std::mem::take(&mut inbox.was_polled) || inbox.pollers > 0;
        if !polled {
            inbox.arm();
        }
        inbox.is_handler_asleep = !polled;
        if polled { POLL_INTERVAL } else { MAX_SLEEP }
    }

    /// Notes that a node has ended, and wakes all threads that may wait for it.
    fn mark_ended(&self, node: u16) {
        self.ended[usize::from(node)].store(true, Ordering::Release);
        let inbox = lock(&self.inbox);
        inbox.owners.values().for_each(|owner| owner.notify_all());
        self.ended_changed.notify_all();
    }

    fn name(&self, node: u16) -> String {
        self.names[usize::from(node)].clone()
    }

    /// Returns an error if node 0, which owns the memory, or the peer has ended.
    fn check(&self, peer: Option<u16>) -> Result<(), XipxError> {
        for node in [0].into_iter().chain(peer) {
            if self.ended[usize::from(node)].load(Ordering::Acquire) {
                return Err(XipxError::NodeEnded { node, name: self.name(node) });
            }
        }
        Ok(())
    }

    /// Interrupts a node.
    fn interrupt(&self, out: &mut OutboxState<C>) {
        match &mut out.doorbell {
            // If the channel is full, an interrupt is pending; if the node has ended, the handler notices.
            Some(doorbell) => drop(doorbell.try_send(&[])),
            None => self.waker.wake(),
        }
    }

    fn refusal_error(&self, to: Address, length_bytes: usize, refusal: Refusal) -> XipxError {
        let (node, name) = (to.node, self.name(to.node));
        match refusal {
            Refusal::TooLong { max_bytes } => XipxError::TooLong { length_bytes, max_bytes },
            Refusal::Broken(broken) => XipxError::Broken { node, name, broken },
            Refusal::NotOpen | Refusal::FifoFull | Refusal::DeviceFull => {
                XipxError::NotOpen { channel: to.channel, node, name }
            }
        }
    }

    /// Polls for a message until `until`. Returns whether it took one.
    fn poll(&self, (channel, owner): (u16, &Condvar), message: &mut Message, until: Instant) -> bool {
        let yields_from = until.checked_sub(self.spin - self.spin / 4).unwrap_or(until);
        let mut inbox = lock(&self.inbox);
        inbox.pollers += 1;
        inbox.was_polled = true;
        inbox.inbox.disarm();
        let mut polls = 0_u32;
        let found = loop {
            inbox.deliver();
            if inbox.take(channel, owner, message) {
                break true;
            }
            polls += 1;
            let now = if polls.is_multiple_of(32) { Instant::now() } else { yields_from };
            if polls.is_multiple_of(32) && now >= until {
                break false;
            }
            drop(inbox);
            if now > yields_from {
                // The sender may be waiting for this processor.
                std::thread::yield_now();
            } else {
                tombolo_base::sync::spin_hint();
            }
            inbox = lock(&self.inbox);
        };
        inbox.pollers -= 1;
        if inbox.pollers == 0 && !found {
            inbox.arm();
            return inbox.take(channel, owner, message);
        }
        if found && inbox.is_handler_asleep {
            // No thread polls now, and interrupts are off: wake the handler so that it takes over.
            inbox.is_handler_asleep = false;
            self.waker.wake();
        }
        found
    }
}

impl<C: CacheMaintenance> NodeOps for Shared<C> {
    fn open(&self, channel: Option<u16>, owner: &Arc<Condvar>) -> Result<u16, u16> {
        let mut inbox = lock(&self.inbox);
        let channel = channel.or_else(|| inbox.inbox.free_channel()).unwrap_or(CHANNELS - 1);
        if !inbox.inbox.open(channel) {
            return Err(channel);
        }
        inbox.owners.insert(channel, Arc::clone(owner));
        Ok(channel)
    }

    fn close(&self, channel: u16, owner: &Arc<Condvar>) {
        let mut inbox = lock(&self.inbox);
        if inbox.is_open(channel, owner) {
            inbox.owners.remove(&channel);
            inbox.inbox.close(channel);
            owner.notify_all();
        }
    }

    fn send(&self, from: u16, to: Address, message: &[u8], timeout: Duration) -> Result<(), XipxError> {
        let nodes = self.names.len() as u16;
        let Some(out) = self.outs.get(usize::from(to.node)) else {
            return Err(XipxError::NoSuchNode { node: to.node, nodes });
        };
        if to.channel >= CHANNELS {
            return Err(XipxError::NoSuchChannel { channel: to.channel });
        }
        let start = Instant::now();
        loop {
            self.check(Some(to.node))?;
            let refusal = {
                let mut out = lock(out);
                match out.outbox.try_send(from, to.channel, message) {
                    Ok(sleeps) => {
                        if sleeps {
                            self.interrupt(&mut out);
                        }
                        return Ok(());
                    }
                    Err(refusal) => refusal,
                }
            };
            let what = match refusal {
                Refusal::FifoFull => "did not take from its buffer",
                Refusal::DeviceFull => "did not read what was sent before",
                other => return Err(self.refusal_error(to, message.len(), other)),
            };
            let elapsed = start.elapsed();
            if elapsed >= timeout {
                let Address { node, channel } = to;
                let name = self.name(node);
                let what = format!("channel {channel} of node {node} ({name}) {what}");
                return Err(XipxError::TimedOut { what, timeout });
            }
            if elapsed < self.spin { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
        }
    }

    fn receive(
        &self,
        channel: u16,
        owner: &Condvar,
        message: &mut Message,
        peer: Option<u16>,
        timeout: Duration,
    ) -> Result<(), XipxError> {
        let nodes = self.names.len() as u16;
        if let Some(node) = peer.filter(|peer| *peer >= nodes) {
            return Err(XipxError::NoSuchNode { node, nodes });
        }
        let deadline = Instant::now() + timeout;
        loop {
            if self.poll((channel, owner), message, deadline.min(Instant::now() + self.spin)) {
                return Ok(());
            }
            let mut inbox = lock(&self.inbox);
            // The handler delivers and signals under the lock, so no wake-up is missed from here on.
            if inbox.take(channel, owner, message) {
                return Ok(());
            }
            if !inbox.is_open(channel, owner) {
                return Err(XipxError::NotOpen { channel, node: self.own, name: self.name(self.own) });
            }
            if let Some((node, broken)) = peer.and_then(|peer| Some((peer, inbox.inbox.violation(peer)?))) {
                return Err(XipxError::Broken { node, name: self.name(node), broken });
            }
            if let Err(ended) = self.check(peer) {
                // Messages that it sent before it ended are in the FIFO.
                inbox.deliver();
                return if inbox.take(channel, owner, message) { Ok(()) } else { Err(ended) };
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let what = format!("no message came for channel {channel} of node {}", self.own);
                return Err(XipxError::TimedOut { what, timeout });
            }
            let waited = owner.wait_timeout(inbox, left);
            let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if inbox.take(channel, owner, message) {
                return Ok(());
            }
        }
    }

    fn wait_ended(&self, timeout: Duration) -> bool {
        let inbox = lock(&self.inbox);
        let ended = self.ended_changed.wait_timeout_while(inbox, timeout, |_| self.check(None).is_ok());
        drop(ended.unwrap_or_else(PoisonError::into_inner));
        self.check(None).is_err()
    }

    fn counters(&self) -> Counters {
        lock(&self.inbox).inbox.counters
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
    }
}
