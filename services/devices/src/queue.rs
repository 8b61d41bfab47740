//! One end of a channel to a device: outgoing and incoming requests, and the buffers of both.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tombolo::waitset::Waker;
use tombolo::{
    Arrival, Buffer, BulkChannel, BulkOptions, ChannelOptions, Domain, Error, Listener, Pool, PoolOptions,
    Waited,
};
use tombolo_platform::time::now_ns;
use tombolo_virtqueue::{
    BufferArrival, Configuration, Device, Done, Message, Operation, Request, Requester, Server, Status,
    Violation,
};

use crate::failure::Failure;

/// Number of slots for all requests and replies of both directions, with two slots per message: a send finds
/// no room only if the peer violated the protocol.
const SLOTS: u32 = 1024;

/// Maximum number of requests in flight.
pub(crate) const DEPTH: u16 = 64;

/// Timeout for a peer to open its end.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Event of a peer.
pub(crate) enum Event<T> {
    /// A request; the error is set if this device does not support it.
    Request(Request, Result<(), Status>, Buffer),
    /// A reply; with the content of a successful read.
    Reply(Done<T>, Option<Buffer>),
}

/// One end of a queue. `T` is the context of each request of this side.
pub(crate) struct Queue<T> {
    bulk: BulkChannel,
    requester: Requester<T>,
    /// Device of this side, if it has one.
    server: Option<Server>,
    /// Buffers of requests of this side, if it makes any.
    pool: Option<Pool>,
    peer_pool: Option<Pool>,
    metadata: Vec<u8>,
}

/// Returns the channel options common to both ends.
fn options() -> Result<BulkOptions, Error> {
    BulkOptions::default().channel(ChannelOptions::default().slots(SLOTS)?).max_pools(2)
}

/// Returns the full name under which a device is exported.
fn export_name(name: &str) -> String {
    format!("device/{name}")
}

impl<T> Queue<T> {
    /// Connects to a device, waiting up to `timeout` for its name, and requests its configuration. `own` is
    /// the device of this side, if it has one too; requests have buffers of `buffer_bytes`.
    pub(crate) fn connect(
        domain: &Domain,
        name: &str,
        timeout: Duration,
        (own, buffer_bytes): (Option<Configuration>, u64),
        context: T,
    ) -> Result<Queue<T>, Failure> {
        let bulk = options()?.connect(&domain.within(timeout), export_name(name))?;
        Self::open(bulk, own, buffer_bytes)?.fetch_configuration(context)
    }

    fn open(bulk: BulkChannel, own: Option<Configuration>, buffer_bytes: u64) -> Result<Queue<T>, Failure> {
        let mut queue = Queue {
            bulk,
            requester: Requester::new(DEPTH),
            server: own.map(Server::new),
            pool: None,
            peer_pool: None,
            metadata: Vec::new(),
        };
        if buffer_bytes > 0 {
            let options = PoolOptions::new(buffer_bytes, DEPTH.into());
            queue.pool = Some(queue.bulk.within(HANDSHAKE).create_pool(&options)?);
        }
        Ok(queue)
    }

    /// Requests the configuration of the peer's device, and waits for the reply.
    fn fetch_configuration(mut self, context: T) -> Result<Queue<T>, Failure> {
        let deadline = Instant::now() + HANDSHAKE;
        let asked = self.submit((Operation::Configure, false), (0, 0), HANDSHAKE, None, context)?;
        debug_assert!(asked.is_none(), "the first request has room");
        while self.requester.configuration().is_none() {
            match self.next_within(deadline.saturating_duration_since(Instant::now()))? {
                Some(Event::Reply(..)) => {}
                Some(Event::Request(..)) => return Err(Violation::OutOfTurn.into()),
                None => return Err(Failure::ReplyTimeout),
            }
        }
        Ok(self)
    }

    /// Returns the configuration of the peer's device.
    pub(crate) fn configuration(&self) -> Option<Configuration> {
        self.requester.configuration()
    }

    /// Returns the node of the device.
    pub(crate) fn peer_node(&self) -> &str {
        self.bulk.channel().peer_node()
    }

    /// Returns whether there is room for a request.
    pub(crate) fn has_room(&self) -> bool {
        self.requester.has_room()
    }

    /// Sends a request, with `content` if it has any. Returns the caller's context if there is no room.
    pub(crate) fn submit(
        &mut self,
        what: (Operation, bool),
        range: (u64, u64),
        timeout: Duration,
        content: Option<&[u8]>,
        context: T,
    ) -> Result<Option<T>, Failure> {
        let Some(pool) = self.pool.as_ref().filter(|_| self.requester.has_room()) else {
            return Ok(Some(context));
        };
        let mut buffer = match pool.take() {
            Ok(buffer) => buffer,
            Err(Error::Bulk(tombolo::error::BulkError::NoBuffer { .. })) => return Ok(Some(context)),
            Err(error) => return Err(error.into()),
        };
        if let Some(content) = content {
            buffer.set_part(0, content.len() as u64)?;
            buffer.write(0, content)?;
        }
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = now_ns().saturating_add(timeout_ns);
        let (tag, message) = match self.requester.request(what, range, deadline_ns, context) {
            Ok(request) => request,
            Err((_, context)) => return Ok(Some(context)),
        };
        let bulk = self.bulk.within(Duration::ZERO);
        let sent = match content {
            Some(_) => bulk.move_to(buffer, &message),
            None => bulk.pass(buffer, &message),
        };
        // The channel ends with all its requests; this one is among them.
        sent.inspect_err(|_| drop(self.requester.withdraw(tag)))?;
        Ok(None)
    }

    /// Replies to a request. Returns its buffer to the peer, with the content of a successful read.
    pub(crate) fn reply(
        &mut self,
        request: &Request,
        status: Status,
        mut buffer: Buffer,
    ) -> Result<(), Failure> {
        let Some(server) = &mut self.server else { return Err(Violation::Direction.into()) };
        let message = server.answer(request, status)?;
        let bulk = self.bulk.within(Duration::ZERO);
        if request.operation == Operation::Read && status == Status::Done {
            buffer.set_part(0, request.length_bytes)?;
            bulk.move_to(buffer, &message)?;
        } else {
            bulk.pass(buffer, &message)?;
        }
        Ok(())
    }

    /// Returns the next event of the peer, if any.
    pub(crate) fn try_next(&mut self) -> Result<Option<Event<T>>, Failure> {
        self.next_within(Duration::ZERO)
    }

    fn next_within(&mut self, timeout: Duration) -> Result<Option<Event<T>>, Failure> {
        loop {
            let arrival = match self.bulk.within(timeout).recv(&mut self.metadata) {
                Ok(arrival) => arrival,
                Err(Error::WouldBlock | Error::TimedOut { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let moved = match arrival {
                Arrival::Pool(pool) if self.peer_pool.is_none() && self.server.is_some() => {
                    self.peer_pool = Some(pool);
                    continue;
                }
                Arrival::Moved(received) if received.pieces() == 1 => Some(received.into_first()),
                Arrival::Passed(1) => None,
                _ => return Err(Violation::Direction.into()),
            };
            if let Some(event) = self.handle_message(moved)? {
                return Ok(Some(event));
            }
        }
    }

    /// Handles the message that arrived with a buffer. Requests for the configuration are answered here.
    fn handle_message(&mut self, moved: Option<Buffer>) -> Result<Option<Event<T>>, Failure> {
        let message = Message::decode(&self.metadata)?;
        let buffer_arrival =
            moved.as_ref().map_or(BufferArrival::Empty, |buffer| BufferArrival::Content(buffer.len_bytes()));
        let is_request = matches!(message, Message::Request(_));
        let pool = if is_request { &self.peer_pool } else { &self.pool };
        // A peer has buffers of both pools, and a message refers to one of them.
        let (Some(pool), true) =
            (pool, moved.as_ref().is_none_or(|buffer| Some(&buffer.pool()) == pool.as_ref()))
        else {
            return Err(Violation::Direction.into());
        };
        if !is_request {
            return Ok(Some(Event::Reply(self.requester.handle_answer(message, buffer_arrival)?, moved)));
        }
        let Some(server) = &mut self.server else { return Err(Violation::Direction.into()) };
        // A passed buffer is free here, and any free one is as good.
        let buffer = match moved {
            Some(buffer) => buffer,
            None => pool.take()?,
        };
        let (request, allowed) = server.handle_request(message, buffer_arrival, pool.buffer_bytes())?;
        if request.operation == Operation::Configure {
            self.reply(&request, Status::Done, buffer)?;
            return Ok(None);
        }
        Ok(Some(Event::Request(request, allowed, buffer)))
    }

    /// Returns whether a reply is overdue.
    pub(crate) fn is_overdue(&self) -> bool {
        self.requester.has_overdue(now_ns())
    }

    /// Closes the channel and returns the contexts of all requests in flight.
    pub(crate) fn close(mut self) -> Vec<T> {
        self.requester.reset()
    }
}

impl<T> Waited for Queue<T> {
    type End = BulkChannel;

    fn end(&self) -> &BulkChannel {
        &self.bulk
    }

    fn end_mut(&mut self) -> &mut BulkChannel {
        &mut self.bulk
    }
}

/// Accepts connections to a device on a separate thread, so that a peer that is slow to open its end delays
/// only other new connections.
pub(crate) struct Acceptor<T> {
    accepted: Receiver<Result<Queue<T>, Failure>>,
}

impl<T: Clone + Send + 'static> Acceptor<T> {
    /// Serves `own` under `name`. `waker` wakes the caller's waitset on each connection. If `buffer_bytes` is
    /// not 0, this side makes requests, too, and requests the peer's configuration with `context`.
    pub(crate) fn start(
        domain: &Domain,
        name: &str,
        (own, buffer_bytes): (Configuration, u64),
        waker: Waker,
        context: T,
    ) -> Result<Acceptor<T>, Failure> {
        let listener = options()?.export(domain, &export_name(name))?;
        let (sender, accepted) = mpsc::channel();
        let accept = move || {
            loop {
                let queue = Self::accept(&listener, (own, buffer_bytes), &context);
                let ended = queue.as_ref().is_err_and(Failure::is_monitor_lost);
                // A failed connection is ignored.
                if (queue.is_ok() || ended) && sender.send(queue).is_err() {
                    return;
                }
                waker.wake();
                if ended {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("accept".into()).spawn(accept);
        started.map_err(|error| tombolo_platform::OsError::from_io("start a thread", &error))?;
        Ok(Acceptor { accepted })
    }

    fn accept(
        listener: &Listener<BulkChannel>,
        (own, buffer_bytes): (Configuration, u64),
        context: &T,
    ) -> Result<Queue<T>, Failure> {
        let bulk = loop {
            match listener.within(Duration::from_secs(3600)).accept() {
                Err(Error::TimedOut { .. }) => {}
                bulk => break bulk?,
            }
        };
        let queue = Queue::open(bulk, Some(own), buffer_bytes)?;
        if buffer_bytes == 0 { Ok(queue) } else { queue.fetch_configuration(context.clone()) }
    }

    /// Returns the next connection, if there is one.
    pub(crate) fn try_next(&self) -> Result<Option<Queue<T>>, Failure> {
        self.accepted.try_recv().ok().transpose()
    }
}

/// Returns the configuration that this side announces to peers.
pub(crate) fn device_configuration(
    device: Device,
    capacity_bytes: u64,
    block_bytes: u32,
    features: tombolo_virtqueue::Features,
) -> Configuration {
    Configuration { device, features, depth: DEPTH, block_bytes, capacity_bytes }
}
