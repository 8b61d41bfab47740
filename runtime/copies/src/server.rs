//! Server of a copy service.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tombolo::interface::{Call, Decline, Malformed, Queued, Response, Served};
use tombolo::region::{Capability, FarEnd, Mapping, Rights};
use tombolo::waitset::Trigger;
use tombolo::{Channel, ChannelOptions, Domain, Error, Interest, Listener, Ready, Token, WaitSet, Waited};
use tombolo_stubs::copies::{
    Copies, CopiesCancelView, CopiesCopyView, CopiesEnded, CopiesFillView, CopiesHandler, CopiesRegister,
    CopiesRegisterReply, CopiesWithdraw, CopiesWithdrawReply, CopyFault, CopyPlaceView, MAX_MEMORIES,
};

use crate::engines::{Engines, Failure, Request, Ticket};
use crate::schedule::{ByteRange, Piece, Schedule, Work};

/// Timeout of a wait that is repeated.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Maximum number of pieces in progress. Each engine accepts more, so none is ever full.
const MAX_RUNNING_PIECES: usize = 16;

/// Number of bytes to copy before clients are polled again, if the serving thread copies them itself.
const BATCH_BYTES: u64 = crate::schedule::PIECE_BYTES;

/// Name of the copy service of a node.
#[must_use]
pub fn service_name(node: &str) -> String {
    format!("copies/{node}")
}

/// Limits of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    max_clients: usize,
}

impl Default for ServerOptions {
    /// Up to 64 clients.
    fn default() -> Self {
        ServerOptions { max_clients: 64 }
    }
}

impl ServerOptions {
    /// Sets the maximum number of clients served at a time. Others find their channels closed.
    #[must_use]
    pub fn max_clients(mut self, clients: usize) -> Self {
        self.max_clients = clients;
        self
    }
}

/// Memory of a client, mapped by the service.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
}

impl Memory {
    /// Returns the range of the region at an offset of the memory.
    fn bytes(&self, offset_bytes: u64, length_bytes: u64) -> Result<ByteRange, CopyFault> {
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= self.mapping.length_bytes() as u64 => {}
            _ => return Err(CopyFault::OUT_OF_RANGE),
        }
        let start = self.mapping.extent().offset_bytes + offset_bytes;
        Ok(ByteRange { region: self.mapping.region().to_bits(), start, length_bytes })
    }
}

/// Payload of a descriptor. It keeps the memory mapped until the descriptor has ended.
#[derive(Clone, Debug)]
enum Operation {
    Copy { source: (Arc<Memory>, u64), target: (Arc<Memory>, u64) },
    Fill { target: (Arc<Memory>, u64), byte: u8 },
}

impl Operation {
    /// Creates the request for a piece; `None` if engines cannot use the memory, which was checked before.
    fn request(&self, piece: &Piece) -> Option<Request> {
        let place = |(memory, offset_bytes): &(Arc<Memory>, u64)| {
            memory.mapping.location(usize::try_from(offset_bytes + piece.at_bytes).ok()?)
        };
        Some(match self {
            Operation::Copy { source, target } => {
                Request::copy(place(source)?, place(target)?, piece.length_bytes)
            }
            Operation::Fill { target, byte } => Request::fill(place(target)?, *byte, piece.length_bytes),
        })
    }

    /// Fails if a right to the memory was revoked.
    fn check(&self) -> Result<(), CopyFault> {
        let (source, target) = match self {
            Operation::Copy { source, target } => (Some(source), target),
            Operation::Fill { target, .. } => (None, target),
        };
        let revoked = source.into_iter().chain([target]).any(|(memory, _)| memory.mapping.is_revoked());
        if revoked { Err(CopyFault::REVOKED) } else { Ok(()) }
    }
}

/// Client, with its channel and its registered memory.
#[derive(Debug)]
struct Client {
    number: u64,
    port: Queued,
    served: Served<Copies>,
    memories: HashMap<u32, Arc<Memory>>,
    last_memory: u32,
}

impl Waited for Client {
    type End = Channel;

    fn end(&self) -> &Channel {
        self.port.channel()
    }

    fn end_mut(&mut self) -> &mut Channel {
        self.port.channel_mut()
    }
}

/// Place in registered memory, with its range in the region.
type Located = ((Arc<Memory>, u64), ByteRange);

/// Handler for the messages of one client.
struct Handler<'a> {
    domain: &'a Domain,
    schedule: &'a mut Schedule<Operation>,
    /// Descriptors that were refused, with the reasons.
    refused: Vec<(u32, CopyFault)>,
    client: u64,
    from: FarEnd,
    memories: &'a mut HashMap<u32, Arc<Memory>>,
    last_memory: &'a mut u32,
}

/// Copy service: a domain that copies for its clients with the engines of its node.
pub struct Server {
    domain: Domain,
    engines: Engines,
    listener: Listener,
    options: ServerOptions,
    set: WaitSet<Client>,
    tokens: HashMap<u64, Token>,
    last_client: u64,
    schedule: Schedule<Operation>,
    running: HashMap<Ticket, Piece>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({} clients, {:?})", self.tokens.len(), self.engines)
    }
}

impl Server {
    /// Creates a server and exports [the name of the service on the domain's node](service_name);
    /// [`run`](Self::run) serves it.
    ///
    /// # Errors
    /// An error if the node already has a service, or no thread or descriptor can be created.
    pub fn start(domain: &Domain, options: ServerOptions) -> Result<Server, Error> {
        let mut engines = Engines::new(domain)?;
        let hash = ChannelOptions::default().slots(1024)?.interface_hash(Copies::HASH);
        let listener = hash.export(domain, &service_name(domain.node_name()))?;
        let mut set = WaitSet::new()?;
        set.add_listener(&listener)?;
        set.add_descriptor(engines.descriptor()?, Interest::Read, Trigger::Level)?;
        let domain = domain.clone();
        let (tokens, running, schedule) = (HashMap::new(), HashMap::new(), Schedule::new());
        Ok(Server { domain, engines, listener, options, set, tokens, last_client: 0, schedule, running })
    }

    /// Returns a capability to connect to the service, for clients that do not use its name.
    ///
    /// # Errors
    /// Same as [`Listener::capability`].
    pub fn capability(&self) -> Result<Capability, Error> {
        self.listener.capability()
    }

    /// Serves until the monitor of this node ends.
    ///
    /// # Errors
    /// [`Error::MonitorLost`]; an error if memory or descriptors are exhausted.
    pub fn run(mut self) -> Result<Infallible, Error> {
        loop {
            let copies = self.running.len() < MAX_RUNNING_PIECES && self.schedule.is_ready();
            match self.set.wait(if copies { Duration::ZERO } else { MAX_WAIT }) {
                Ok(Ready::Listener(_)) => self.accept_client()?,
                Ok(Ready::Channel(token)) => self.handle_message(token),
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error),
            }
            self.submit_pieces();
            self.report_completions();
        }
    }

    /// Accepts a client that connected.
    fn accept_client(&mut self) -> Result<(), Error> {
        let channel = match self.listener.within(Duration::ZERO).accept() {
            Ok(channel) => channel,
            Err(error @ Error::MonitorLost { .. }) => return Err(error),
            // A failed connection is ignored: it concerns only its client.
            Err(_) => return Ok(()),
        };
        if self.tokens.len() >= self.options.max_clients {
            return Ok(());
        }
        let mut port = Queued::new(channel);
        let Ok(served) = Served::bind(&mut port) else { return Ok(()) };
        self.last_client += 1;
        let number = self.last_client;
        let client = Client { number, port, served, memories: HashMap::new(), last_memory: 0 };
        if let Ok(token) = self.set.add(client) {
            self.tokens.insert(number, token);
        }
        Ok(())
    }

    /// Handles one message of a client, after sending the messages that found no room before.
    fn handle_message(&mut self, token: Token) {
        let Some(client) = self.set.get_mut(token) else { return };
        let before = client.port.interest();
        let from = FarEnd::from(client.port.channel());
        let Client { number, port, served, memories, last_memory } = client;
        let mut handler = Handler {
            domain: &self.domain,
            schedule: &mut self.schedule,
            refused: Vec::new(),
            client: *number,
            from,
            memories,
            last_memory,
        };
        let mut handled = port.flush();
        if handled.is_ok() && port.takes_calls() {
            handled = served.serve_one(port, &mut handler, Duration::ZERO).map(|_| ()).map_err(Error::from);
        }
        for (descriptor, fault) in handler.refused {
            let fault = Some(fault);
            handled = handled
                .and_then(|()| Ok(served.tell(port, &CopiesEnded { descriptor, fault }, Duration::ZERO)?));
        }
        let after = port.interest();
        match handled {
            Ok(()) if before == after => {}
            Ok(()) => drop(self.set.set_interest(token, after)),
            Err(_) => self.remove_client(token),
        }
    }

    /// Removes a client that has ended or failed: its memory is unmapped once no piece uses it.
    fn remove_client(&mut self, token: Token) {
        if let Some(client) = self.set.remove(token) {
            self.tokens.remove(&client.number);
            self.schedule.remove_client(client.number);
        }
    }

    /// Submits pieces to engines, and takes completions.
    fn submit_pieces(&mut self) {
        let mut bytes = 0;
        while self.running.len() < MAX_RUNNING_PIECES && bytes < BATCH_BYTES {
            let Some((piece, operation)) = self.schedule.next() else { break };
            bytes += piece.length_bytes;
            let request = operation.check().ok().and_then(|()| operation.request(&piece));
            match request.and_then(|request| self.engines.submit(&request).ok()) {
                Some(ticket) => drop(self.running.insert(ticket, piece)),
                None => {
                    let fault = operation.check().err().unwrap_or(CopyFault::FAILED);
                    self.schedule.piece_ended(&piece, Some(fault));
                }
            }
            // Take the completions of synchronous engines, which can hold only few.
            self.take_completions();
        }
        self.take_completions();
    }

    fn take_completions(&mut self) {
        while let Some((ticket, completion)) = self.engines.take() {
            let Some(piece) = self.running.remove(&ticket) else { continue };
            // After a revocation, engines have copied zeros, or into private memory.
            let revoked = self.schedule.payload(&piece).and_then(|operation| operation.check().err());
            let failed = completion.result.err().map(|failure| fault_of(&failure));
            self.schedule.piece_ended(&piece, revoked.or(failed));
        }
    }

    /// Reports completions to the clients.
    fn report_completions(&mut self) {
        while let Some(end) = self.schedule.take_completion() {
            let Some(token) = self.tokens.get(&end.client).copied() else { continue };
            let Some(Client { port, served, .. }) = self.set.get_mut(token) else { continue };
            let before = port.interest();
            let ended = CopiesEnded { descriptor: end.descriptor, fault: end.fault };
            let sent = served.tell(port, &ended, Duration::ZERO);
            let after = port.interest();
            match sent {
                Ok(()) if before == after => {}
                Ok(()) => drop(self.set.set_interest(token, after)),
                Err(_) => self.remove_client(token),
            }
        }
    }
}

fn fault_of(failure: &Failure) -> CopyFault {
    match failure {
        Failure::Cancelled => CopyFault::CANCELLED,
        _ => CopyFault::FAILED,
    }
}

impl Handler<'_> {
    fn memory(&self, number: u32) -> Result<&Arc<Memory>, CopyFault> {
        self.memories.get(&number).ok_or(CopyFault::UNKNOWN_MEMORY)
    }

    /// Returns the memory of a place to read, with its range.
    fn source(
        &self,
        place: &CopyPlaceView<'_>,
        length_bytes: u64,
    ) -> Result<Result<Located, CopyFault>, Malformed> {
        let (memory, offset_bytes) = (place.memory()?, place.offset_bytes()?);
        Ok(self.memory(memory).and_then(|memory| {
            Ok(((Arc::clone(memory), offset_bytes), memory.bytes(offset_bytes, length_bytes)?))
        }))
    }

    /// Like [`source`](Self::source), for a place to write.
    fn target(
        &self,
        place: &CopyPlaceView<'_>,
        length_bytes: u64,
    ) -> Result<Result<Located, CopyFault>, Malformed> {
        Ok(self.source(place, length_bytes)?.and_then(|located| {
            let writable = located.0.0.mapping.is_writable();
            if writable { Ok(located) } else { Err(CopyFault::READ_ONLY) }
        }))
    }

    fn add(&mut self, descriptor: u32, work: Result<(Work, Operation), CopyFault>) {
        let added = work.and_then(|(work, operation)| {
            operation.check()?;
            self.schedule.add(self.client, descriptor, work, operation)
        });
        if let Err(fault) = added {
            self.refused.push((descriptor, fault));
        }
    }

    fn map(&mut self, capability: &Capability) -> Result<Arc<Memory>, CopyFault> {
        if self.memories.len() as u64 >= MAX_MEMORIES {
            return Err(CopyFault::TOO_MANY);
        }
        let writable = capability.rights().contains(Rights::WRITE);
        let rights = if writable { Rights::READ_WRITE } else { Rights::READ };
        // Fails for a service, for memory that a program keeps private, and for memory that this node cannot
        // reach.
        let mapping = capability.map_to_copy(rights).map_err(|_| CopyFault::NOT_COPIED)?;
        if mapping.location(0).is_none() {
            return Err(CopyFault::NOT_COPIED);
        }
        Ok(Arc::new(Memory { mapping }))
    }
}

impl CopiesHandler for Handler<'_> {
    fn register(
        &mut self,
        call: Call<'_, CopiesRegister>,
    ) -> Result<Response<CopiesRegisterReply>, Decline<CopyFault>> {
        let capability = self.domain.accept(self.from, call.memory()?)?;
        let memory = self.map(&capability).map_err(Decline::Error)?;
        let number = loop {
            *self.last_memory = self.last_memory.wrapping_add(1);
            if !self.memories.contains_key(self.last_memory) {
                break *self.last_memory;
            }
        };
        let (length_bytes, writable) = (memory.mapping.length_bytes() as u64, memory.mapping.is_writable());
        self.memories.insert(number, memory);
        Ok(CopiesRegisterReply { memory: number, length_bytes, writable }.into())
    }

    fn withdraw(
        &mut self,
        call: Call<'_, CopiesWithdraw>,
    ) -> Result<Response<CopiesWithdrawReply>, Decline<CopyFault>> {
        let number = call.memory()?;
        let memory = self.memory(number).map_err(Decline::Error)?;
        // Descriptors that have not ended hold references as well.
        if Arc::strong_count(memory) > 1 {
            return Err(Decline::Error(CopyFault::IN_USE));
        }
        self.memories.remove(&number);
        Ok(CopiesWithdrawReply {}.into())
    }

    fn copy(&mut self, message: CopiesCopyView<'_>) -> Result<(), Malformed> {
        let (length_bytes, fence) = (message.length_bytes()?, message.fence()?);
        let source = self.source(&message.source()?, length_bytes)?;
        let target = self.target(&message.target()?, length_bytes)?;
        let work = source.and_then(|(source, reads)| {
            let (target, writes) = target?;
            Ok((Work { reads: Some(reads), writes, fence }, Operation::Copy { source, target }))
        });
        self.add(message.descriptor()?, work);
        Ok(())
    }

    fn fill(&mut self, message: CopiesFillView<'_>) -> Result<(), Malformed> {
        let (length_bytes, fence, byte) = (message.length_bytes()?, message.fence()?, message.byte()?);
        let target = self.target(&message.target()?, length_bytes)?;
        let work = target
            .map(|(target, writes)| (Work { reads: None, writes, fence }, Operation::Fill { target, byte }));
        self.add(message.descriptor()?, work);
        Ok(())
    }

    fn cancel(&mut self, message: CopiesCancelView<'_>) -> Result<(), Malformed> {
        self.schedule.cancel(self.client, message.descriptor()?);
        Ok(())
    }
}
