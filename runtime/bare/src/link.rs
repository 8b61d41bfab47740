//! Connection of the program to the monitors: sends requests, receives replies and events.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use tombolo_base::{ChannelId, SharedMemory, WindowId};
use tombolo_control::{
    Attachment, ClientMessage, Grant, MAX_MESSAGE_BYTES, MAX_ORDER_BYTES, MonitorMessage, Order, Reply,
    Report, Request, Wire,
};
use tombolo_link::end::Announced;
use tombolo_link::wait::{Spin, Waiter, until};
use tombolo_platform_bare::program;

use crate::error::Error;
use crate::time::sleep_until;

/// Timeout for a reply of a monitor.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Objects that arrived with a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedObjects {
    /// Number of its lifeline, if there is one.
    pub(crate) lifeline: ChannelId,
    /// Window that contains its memory, if there is any.
    pub(crate) window: Option<WindowId>,
}

impl GrantedObjects {
    fn new(lifeline: ChannelId, attachments: &[Attachment]) -> GrantedObjects {
        let window = attachments.iter().find_map(|attachment| match attachment {
            Attachment::WindowMemory(number) | Attachment::WindowToRead(number) => {
                Some(WindowId(number.window))
            }
            _ => None,
        });
        GrantedObjects { lifeline, window }
    }
}

/// Messages that arrived and were not taken yet.
#[derive(Default, Debug)]
struct Inbox {
    replies: BTreeMap<u32, (Reply, GrantedObjects)>,
    incoming: BTreeMap<u32, VecDeque<(Grant, GrantedObjects)>>,
    /// Listeners that exist.
    listeners: BTreeSet<u32>,
    hung_up: BTreeSet<ChannelId>,
    /// Requests whose replies are dropped when they arrive.
    abandoned: BTreeSet<u32>,
    mapped: BTreeMap<ChannelId, Mapped>,
}

/// Mapped memory of a region.
#[derive(Debug)]
struct Mapped {
    /// `None` once the program has released it, or the right to it was revoked.
    memory: Option<SharedMemory>,
    /// Refcount of `memory` and its clones.
    users: Arc<()>,
}

/// Wait for orders of the monitor. An order that arrived since the last check ends the sleep immediately.
struct OrderWaiter;

impl Waiter for OrderWaiter {
    type Error = Error;

    fn now_ns(&self) -> u64 {
        program::clock_ns()
    }

    fn announce(&mut self) -> Announced {
        Announced::Complete
    }

    fn barrier(&mut self) {}

    fn may_sleep(&mut self) -> bool {
        true
    }

    fn sleep(&mut self, until_ns: u64) -> Result<(), Error> {
        sleep_until(until_ns);
        Ok(())
    }

    fn finish_sleep(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Connection to the monitors.
#[derive(Debug)]
pub(crate) struct Link {
    next_request: Cell<u32>,
    inbox: RefCell<Inbox>,
    buffer: RefCell<Vec<u8>>,
}

impl Link {
    pub(crate) fn new() -> Link {
        Link {
            next_request: Cell::new(1),
            inbox: RefCell::default(),
            buffer: RefCell::new(alloc::vec![0; MAX_ORDER_BYTES]),
        }
    }

    /// Allocates a request number: 24 bits, not 0, and not that of an abandoned request.
    fn next_request(&self) -> u32 {
        loop {
            let request = self.next_request.get();
            self.next_request.set(MonitorMessage::number_of(request.wrapping_add(1)).max(1));
            if !self.inbox.borrow().abandoned.contains(&request) {
                return request;
            }
        }
    }

    /// Sends a request, and waits for its reply.
    pub(crate) fn request(&self, body: Request, timeout: Duration) -> Result<Reply, Error> {
        self.request_with_objects(body, timeout).map(|(reply, _)| reply)
    }

    /// Like [`request`](Self::request), for replies with memory and a lifeline.
    pub(crate) fn request_with_objects(
        &self,
        body: Request,
        timeout: Duration,
    ) -> Result<(Reply, GrantedObjects), Error> {
        let request = self.next_request();
        self.send(request, body)?;
        let answered = self.wait(timeout, "an answer of the monitor", |link| {
            link.inbox.borrow_mut().replies.remove(&request)
        });
        match answered {
            Ok((Reply::Failed { fault }, _)) => Err(fault.into()),
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.inbox.borrow_mut().abandoned.insert(request);
                Err(error)
            }
        }
    }

    /// Sends a request that has no reply.
    pub(crate) fn notify(&self, body: Request) -> Result<(), Error> {
        self.send(0, body)
    }

    fn send(&self, request: u32, body: Request) -> Result<(), Error> {
        let message = ClientMessage { request, body }.to_bytes()?;
        let (length_bytes, max_bytes) = (message.len(), MAX_MESSAGE_BYTES);
        let report = Report::Asked { connection: program::connection(), message };
        if program::report(&report.to_bytes()?) {
            Ok(())
        } else {
            Err(Error::TooLong { length_bytes, max_bytes })
        }
    }

    /// Returns an end of a channel to the monitor.
    pub(crate) fn release(&self, channel: ChannelId) {
        // Refused only if the monitor does not know the channel.
        let _ = Report::Released { channel }.to_bytes().map(|report| program::report(&report));
        self.inbox.borrow_mut().hung_up.remove(&channel);
    }

    /// Keeps mapped memory until [`unmap`](Self::unmap), or until the monitor revokes it.
    pub(crate) fn map(&self, mapping: ChannelId, memory: SharedMemory, users: Arc<()>) {
        let mut inbox = self.inbox.borrow_mut();
        // The right may have been revoked immediately.
        let memory = (!inbox.hung_up.remove(&mapping)).then_some(memory);
        inbox.mapped.insert(mapping, Mapped { memory, users });
    }

    /// Returns the memory of a mapping; `None` once the right to it was revoked.
    pub(crate) fn mapped(&self, mapping: ChannelId) -> Option<SharedMemory> {
        self.inbox.borrow().mapped.get(&mapping)?.memory.clone()
    }

    /// Drops a mapping, except for clones of its memory.
    pub(crate) fn unmap(&self, mapping: ChannelId) {
        if let Some(mapped) = self.inbox.borrow_mut().mapped.get_mut(&mapping) {
            mapped.memory = None;
        }
        self.release_unused();
    }

    /// Returns mappings whose memory the program no longer references to the monitor.
    fn release_unused(&self) {
        let unused = |mapped: &Mapped| mapped.memory.is_none() && Arc::strong_count(&mapped.users) == 1;
        let mut inbox = self.inbox.borrow_mut();
        let unused: Vec<_> = inbox.mapped.extract_if(.., |_, mapped| unused(mapped)).collect();
        drop(inbox);
        unused.into_iter().for_each(|(mapping, _)| self.release(mapping));
    }

    /// Whether the other end of a channel has ended.
    pub(crate) fn is_hung_up(&self, channel: ChannelId) -> bool {
        self.inbox.borrow().hung_up.contains(&channel)
    }

    /// Takes the next connection to a listener.
    pub(crate) fn next_incoming(&self, listener: u32) -> Option<(Grant, GrantedObjects)> {
        self.inbox.borrow_mut().incoming.get_mut(&listener)?.pop_front()
    }

    /// Acknowledges `count` accepted connections, so that the monitor has room for more.
    pub(crate) fn accepted(&self, count: u32) {
        // Refused only if the message were too long.
        let _ = self.notify(Request::Accepted { count });
    }

    /// Removes a listener, and closes the connections to it that were not accepted.
    pub(crate) fn remove_listener(&self, listener: u32) {
        let dropped = {
            let mut inbox = self.inbox.borrow_mut();
            inbox.listeners.remove(&listener);
            inbox.incoming.remove(&listener).unwrap_or_default()
        };
        // If this fails, the name is released with the program.
        let _ = self.notify(Request::Withdraw { listener });
        dropped.into_iter().for_each(|(grant, _)| self.reject(&grant));
    }

    /// Closes a connection that arrived too late: the peer sees its channel end.
    fn reject(&self, grant: &Grant) {
        self.release(grant.hop);
        self.accepted(1);
    }

    /// Waits until `take` finds what it looks for.
    pub(crate) fn wait<T>(
        &self,
        timeout: Duration,
        what: &str,
        mut take: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, Error> {
        let found = until(&mut OrderWaiter, &mut Spin::new(0), timeout, |_| match self.process_messages() {
            Ok(()) => take(self).map(Ok),
            Err(error) => Some(Err(error)),
        });
        found?.unwrap_or_else(|| Err(Error::TimedOut { what: what.to_string(), timeout }))
    }

    /// Handles the messages that have arrived.
    pub(crate) fn process_messages(&self) -> Result<(), Error> {
        let mut buffer = self.buffer.borrow_mut();
        loop {
            let length = program::receive_order(&mut buffer);
            if length == 0 {
                self.release_unused();
                return Ok(());
            }
            self.dispatch(&buffer[..length])?;
        }
    }

    fn dispatch(&self, order: &[u8]) -> Result<(), Error> {
        let protocol_error = |error: &dyn core::fmt::Display| Error::MonitorProtocol(error.to_string());
        let mut inbox = self.inbox.borrow_mut();
        match Order::from_bytes(order).map_err(|error| protocol_error(&error))? {
            Order::HangUp { channel } => match inbox.mapped.get_mut(&channel) {
                Some(mapped) => mapped.memory = None,
                None => drop(inbox.hung_up.insert(channel)),
            },
            // Which channel a doorbell belongs to does not matter: any doorbell ends a sleep.
            Order::Deliver { message, channel, attachments, .. } => {
                let objects = GrantedObjects::new(channel, &attachments);
                let message = MonitorMessage::from_bytes(&message).map_err(|error| protocol_error(&error))?;
                let request = message.number();
                match message.body {
                    Reply::Incoming { listener, grant } if !inbox.listeners.contains(&listener) => {
                        drop(inbox);
                        self.reject(&grant);
                    }
                    Reply::Incoming { listener, grant } => {
                        inbox.incoming.entry(listener).or_default().push_back((grant, objects));
                    }
                    body if request != 0 && !inbox.abandoned.remove(&request) => {
                        if let Reply::Export { listener } = body {
                            // A peer may connect next, before this reply is processed.
                            inbox.listeners.insert(listener);
                        }
                        inbox.replies.insert(request, (body, objects));
                    }
                    // Reply to an abandoned request.
                    Reply::RegionMap { .. } => {
                        drop(inbox);
                        self.release(channel);
                    }
                    _ => {}
                }
            }
            other => return Err(protocol_error(&alloc::format!("{other:?}"))),
        }
        Ok(())
    }
}

/// Error for a reply that does not match the request.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    let text: String = alloc::format!("{reply:?}").chars().take(80).collect();
    Error::MonitorProtocol(text)
}
