//! One end of a channel to a device: requests out, requests in, and the buffers of both.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tombolo::waitset::Waker;
use tombolo::{
    Arrival, Buffer, BulkChannel, BulkOptions, ChannelOptions, Domain, Error, Listener, Pool, PoolOptions,
    Waited,
};
use tombolo_platform::time::now_ns;
use tombolo_virtqueue::{
    Brought, Configuration, Device, Done, Message, Operation, Request, Requester, Server, Status, Violation,
};

use crate::failure::Failure;

/// Room for all requests and answers of both directions, in slots of two to a message: a send finds no room
/// only where the peer broke the protocol.
const SLOTS: u32 = 1024;

/// The most requests under way.
pub(crate) const DEPTH: u16 = 64;

/// How long a peer may take to open its end.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What a peer did.
pub(crate) enum Event<T> {
    /// It asked for something that this device does or, with an error, does not do.
    Asked(Request, Result<(), Status>, Buffer),
    /// It answered; a read that was done brought its content.
    Answered(Done<T>, Option<Buffer>),
}

/// One end of a queue. `T` is what is remembered with each request of this side.
pub(crate) struct Queue<T> {
    bulk: BulkChannel,
    requester: Requester<T>,
    /// The device of this side, if it has one.
    server: Option<Server>,
    /// The buffers of requests of this side, if it has any.
    pool: Option<Pool>,
    theirs: Option<Pool>,
    metadata: Vec<u8>,
}

/// What both ends say of the channel.
fn options() -> Result<BulkOptions, Error> {
    BulkOptions::default().channel(ChannelOptions::default().slots(SLOTS)?).max_pools(2)
}

/// Under what name a device is found.
fn full_name(name: &str) -> String {
    format!("device/{name}")
}

impl<T> Queue<T> {
    /// Connects to a device, waiting up to `timeout` for its name, and asks what it is. `own` is the device
    /// of this side, if it has one too; requests have buffers of `buffer_bytes`.
    pub(crate) fn connect(
        domain: &Domain,
        name: &str,
        timeout: Duration,
        (own, buffer_bytes): (Option<Configuration>, u64),
        context: T,
    ) -> Result<Queue<T>, Failure> {
        let bulk = options()?.connect(&domain.within(timeout), full_name(name))?;
        Self::open(bulk, own, buffer_bytes)?.configured(context)
    }

    fn open(bulk: BulkChannel, own: Option<Configuration>, buffer_bytes: u64) -> Result<Queue<T>, Failure> {
        let mut queue = Queue {
            bulk,
            requester: Requester::new(DEPTH),
            server: own.map(Server::new),
            pool: None,
            theirs: None,
            metadata: Vec::new(),
        };
        if buffer_bytes > 0 {
            let options = PoolOptions::new(buffer_bytes, DEPTH.into());
            queue.pool = Some(queue.bulk.within(HANDSHAKE).create_pool(&options)?);
        }
        Ok(queue)
    }

    /// Asks the peer what its device is, and waits for the answer.
    fn configured(mut self, context: T) -> Result<Queue<T>, Failure> {
        let deadline = Instant::now() + HANDSHAKE;
        let asked = self.ask((Operation::Configure, false), (0, 0), HANDSHAKE, None, context)?;
        debug_assert!(asked.is_none(), "the first request has room");
        while self.requester.configuration().is_none() {
            match self.next_within(deadline.saturating_duration_since(Instant::now()))? {
                Some(Event::Answered(..)) => {}
                Some(Event::Asked(..)) => return Err(Violation::OutOfTurn.into()),
                None => return Err(Failure::Overdue),
            }
        }
        Ok(self)
    }

    /// What the peer's device is.
    pub(crate) fn configuration(&self) -> Option<Configuration> {
        self.requester.configuration()
    }

    /// Who has the device.
    pub(crate) fn peer_node(&self) -> &str {
        self.bulk.channel().peer_node()
    }

    /// Returns whether a request can be made now.
    pub(crate) fn has_room(&self) -> bool {
        self.requester.has_room()
    }

    /// Asks for something, with `content` if it brings any. What the caller gave comes back when there is no
    /// room.
    pub(crate) fn ask(
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
        // The channel ends, and with it all requests; this one is among those.
        sent.inspect_err(|_| drop(self.requester.withdraw(tag)))?;
        Ok(None)
    }

    /// Answers a request. Its buffer goes back, with its content if a read was done.
    pub(crate) fn answer(
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

    /// What the peer did next, if it did something.
    pub(crate) fn next(&mut self) -> Result<Option<Event<T>>, Failure> {
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
                Arrival::Pool(pool) if self.theirs.is_none() && self.server.is_some() => {
                    self.theirs = Some(pool);
                    continue;
                }
                Arrival::Moved(received) if received.pieces() == 1 => Some(received.into_first()),
                Arrival::Passed(1) => None,
                _ => return Err(Violation::Direction.into()),
            };
            if let Some(event) = self.message(moved)? {
                return Ok(Some(event));
            }
        }
    }

    /// Handles the message that came with a buffer. What asks for the configuration is answered here.
    fn message(&mut self, moved: Option<Buffer>) -> Result<Option<Event<T>>, Failure> {
        let message = Message::decode(&self.metadata)?;
        let brought = moved.as_ref().map_or(Brought::Empty, |buffer| Brought::Content(buffer.len_bytes()));
        let is_request = matches!(message, Message::Request(_));
        let pool = if is_request { &self.theirs } else { &self.pool };
        // A peer has buffers of both pools, and a message is about one of them.
        let (Some(pool), true) =
            (pool, moved.as_ref().is_none_or(|buffer| Some(&buffer.pool()) == pool.as_ref()))
        else {
            return Err(Violation::Direction.into());
        };
        if !is_request {
            return Ok(Some(Event::Answered(self.requester.answered(message, brought)?, moved)));
        }
        let Some(server) = &mut self.server else { return Err(Violation::Direction.into()) };
        // What was passed is free here, and any buffer that is will do.
        let buffer = match moved {
            Some(buffer) => buffer,
            None => pool.take()?,
        };
        let (request, allowed) = server.asked(message, brought, pool.buffer_bytes())?;
        if request.operation == Operation::Configure {
            self.answer(&request, Status::Done, buffer)?;
            return Ok(None);
        }
        Ok(Some(Event::Asked(request, allowed, buffer)))
    }

    /// Returns whether an answer is overdue.
    pub(crate) fn is_overdue(&self) -> bool {
        self.requester.overdue(now_ns())
    }

    /// Closes the channel: what was remembered with each request under way.
    pub(crate) fn close(mut self) -> Vec<T> {
        self.requester.lost()
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

/// Accepts connections to a device on a thread of its own, so that a peer that is slow to open its end delays
/// only others that connect.
pub(crate) struct Acceptor<T> {
    accepted: Receiver<Result<Queue<T>, Failure>>,
}

impl<T: Clone + Send + 'static> Acceptor<T> {
    /// Serves `own` under `name`. `waker` wakes the waitset of the caller at each connection. Where
    /// `buffer_bytes` is not 0, this side has requests, too, and asks the peer with `context` what its device
    /// is.
    pub(crate) fn start(
        domain: &Domain,
        name: &str,
        (own, buffer_bytes): (Configuration, u64),
        waker: Waker,
        context: T,
    ) -> Result<Acceptor<T>, Failure> {
        let listener = options()?.export(domain, &full_name(name))?;
        let (sender, accepted) = mpsc::channel();
        let accept = move || {
            loop {
                let queue = Self::accept(&listener, (own, buffer_bytes), &context);
                let ended = queue.as_ref().is_err_and(Failure::is_final);
                // One that did not come about is the peer's affair.
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
        if buffer_bytes == 0 { Ok(queue) } else { queue.configured(context.clone()) }
    }

    /// Returns the next connection, if there is one.
    pub(crate) fn next(&self) -> Result<Option<Queue<T>>, Failure> {
        self.accepted.try_recv().ok().transpose()
    }
}

/// Returns the configuration that this side announces to peers.
pub(crate) fn device(
    device: Device,
    capacity_bytes: u64,
    block_bytes: u32,
    features: tombolo_virtqueue::Features,
) -> Configuration {
    Configuration { device, features, depth: DEPTH, block_bytes, capacity_bytes }
}
