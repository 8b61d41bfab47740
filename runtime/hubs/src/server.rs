//! Server of the hubs of a node: a domain with a channel to each task.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use tombolo::names::{Condition, NameFault, NewRecord};
use tombolo::region::{Region, RegionOptions, Rights};
use tombolo::waitset::Waker;
use tombolo::{Channel, ChannelOptions, Domain, Error, Interest, Listener, Ready, Token, WaitSet, Waited};
use tombolo_hub::{
    Answer, Client, Description, Hubs, Kind, Limits, Outcome, Output, Request, RequestKey, wire,
};

use crate::counts::Counts;
use crate::{HubError, tracing};

/// Timeout of the event loop's wait, which is repeated.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Maximum number of requests of one client that are handled before the other clients get a turn.
const BATCH: usize = 64;

/// Maximum number of tasks per server. Further tasks find their channels closed.
const MAX_CLIENTS: usize = 4096;

/// Prefix of the records of hubs among the machine's names.
pub(crate) const RECORD_PREFIX: &str = "hub/";

/// Channel options of both ends.
pub(crate) fn options() -> Result<ChannelOptions, Error> {
    Ok(ChannelOptions::default().slots(1024)?.interface_hash(wire::INTERFACE_HASH))
}

/// Task of a program, with the messages that it has not received yet.
#[derive(Debug)]
struct ClientConnection {
    channel: Channel,
    client: Client,
    /// Messages, each with whether it is about an inherited priority: of consecutive ones only the last is
    /// kept.
    outbox: VecDeque<(bool, Vec<u8>)>,
}

impl Waited for ClientConnection {
    type End = Channel;

    fn end(&self) -> &Channel {
        &self.channel
    }

    fn end_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stopped: Arc<AtomicBool>,
    waker: Waker,
}

impl Stopper {
    /// Ends [`Server::run`], and with it the hubs.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// Hubs that one domain serves.
#[derive(Debug)]
pub struct Server {
    domain: Domain,
    hubs: Hubs,
    /// Memory of pools, by the number of the hub.
    memory: HashMap<u32, Region>,
    /// Counts of semaphores and events, if there are any.
    counts: Option<Counts>,
    set: WaitSet<ClientConnection>,
    tokens: BTreeMap<Client, Token>,
    last_client: u64,
    accepted: Receiver<Result<Channel, Error>>,
    stopper: Stopper,
    started: Instant,
    message: Vec<u8>,
}

impl Server {
    /// Creates a server of these hubs on the node of `domain`, under their names; [`run`](Self::run) serves
    /// them.
    ///
    /// # Errors
    /// [`HubError::Taken`] if another program serves a hub of the same name, [`HubError::Description`],
    /// [`HubError::Tombolo`].
    pub fn start(domain: &Domain, descriptions: Vec<Description>) -> Result<Server, HubError> {
        let mut hubs = Hubs::new(Limits::default());
        let mut memory = HashMap::new();
        for (index, description) in descriptions.iter().enumerate() {
            if descriptions[..index].iter().any(|earlier| earlier.name == description.name) {
                return Err(HubError::Taken { hub: description.name.clone() });
            }
            let number = hubs.add(description.clone())?;
            if description.kind == Kind::Pool && description.value_bytes > 0 {
                let bytes = u64::from(description.capacity) * u64::from(description.value_bytes);
                memory.insert(number, domain.create_region(&RegionOptions::new(bytes))?);
            }
        }
        let has_count = |description: &Description| description.kind.has_count();
        let counts = if descriptions.iter().any(has_count) { Counts::new(domain, &mut hubs)? } else { None };
        let set = WaitSet::new()?;
        let stopper = Stopper { stopped: Arc::default(), waker: set.waker() };
        let service = format!("hubs/{}", domain.id());
        let (sender, accepted) = mpsc::channel();
        let listener = options()?.export(domain, &service)?;
        let stops = stopper.clone();
        let accept = move || run_acceptor(&listener, &sender, &stops);
        std::thread::Builder::new().name("accept".into()).spawn(accept).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(0);
            Error::Os { operation: "start a thread".into(), errno }
        })?;
        for description in &descriptions {
            publish(domain, description, &service)?;
        }
        let (tokens, started) = (BTreeMap::new(), Instant::now());
        let (domain, message, last_client) = (domain.clone(), Vec::new(), 0);
        Ok(Server {
            domain,
            hubs,
            memory,
            counts,
            set,
            tokens,
            last_client,
            accepted,
            stopper,
            started,
            message,
        })
    }

    /// Returns a handle that stops this server from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped, or the monitor of this node ends.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn run(mut self) -> Result<(), HubError> {
        match self.run_loop() {
            Err(ServeEnd::Stopped) => Ok(()),
            Err(ServeEnd::Failed(error)) => Err(error),
        }
    }

    fn run_loop(&mut self) -> Result<Infallible, ServeEnd> {
        loop {
            // Before the answers are sent, so that a task that has received one finds the count lent.
            if let Some(counts) = &self.counts {
                counts.lend(&mut self.hubs);
            }
            self.send_all();
            match self.set.wait(self.until_tick()) {
                Ok(Ready::Channel(token)) => self.handle_requests(token),
                Ok(Ready::Woken) => self.accept_connections()?,
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(ServeEnd::Failed(error.into())),
            }
            if let Some(at) = self.hubs.next_tick() {
                let now = self.now();
                if at <= now {
                    self.hubs.tick(now);
                }
            }
        }
    }

    fn now(&self) -> u64 {
        elapsed_ns(self.started)
    }

    fn until_tick(&self) -> Duration {
        match self.hubs.next_tick() {
            Some(at) => Duration::from_nanos(at.saturating_sub(self.now())).min(MAX_WAIT),
            None => MAX_WAIT,
        }
    }

    /// Accepts new connections.
    fn accept_connections(&mut self) -> Result<(), ServeEnd> {
        if self.stopper.stopped.load(Ordering::SeqCst) {
            return Err(ServeEnd::Stopped);
        }
        while let Ok(accepted) = self.accepted.try_recv() {
            let channel = accepted.map_err(|error| ServeEnd::Failed(error.into()))?;
            if self.tokens.len() >= MAX_CLIENTS {
                continue;
            }
            self.last_client += 1;
            let (client, domain) = (Client(self.last_client), channel.peer().to_bits());
            // A task that cannot be added to the set sees its channel closed.
            if let Ok(token) = self.set.add(ClientConnection { channel, client, outbox: VecDeque::new() }) {
                self.tokens.insert(client, token);
                self.hubs.add_client(client, domain);
                self.handle_requests(token);
            }
        }
        Ok(())
    }

    /// Handles requests of a client, after sending the messages that found no room before.
    fn handle_requests(&mut self, token: Token) {
        self.flush(token);
        let mut message = std::mem::take(&mut self.message);
        for _ in 0..BATCH {
            let Some(connection) = self.set.get_mut(token) else { break };
            let client = connection.client;
            // A task that does not receive its answers gets no further requests handled, which bounds the
            // outbox.
            if !connection.outbox.is_empty() {
                break;
            }
            let ended = match connection.channel.try_recv_into(&mut message) {
                Ok(Some(_)) => {
                    let request = Request::decode(&message);
                    let handled = request.and_then(|request| {
                        if let Some(counts) = &self.counts {
                            counts.reclaim(&mut self.hubs, request.hub);
                        }
                        let started = self.started;
                        self.hubs.request(&|| elapsed_ns(started), client, &request)?;
                        tracing::depth(&self.hubs, request.hub);
                        Ok(())
                    });
                    handled.is_err()
                }
                Ok(None) => break,
                Err(_) => true,
            };
            if ended {
                self.remove_client(token);
                break;
            }
        }
        self.message = message;
    }

    fn remove_client(&mut self, token: Token) {
        if let Some(connection) = self.set.remove(token) {
            self.tokens.remove(&connection.client);
            if let Some(counts) = &mut self.counts {
                counts.remove_client(connection.client);
            }
            self.hubs.remove_client(self.now(), connection.client);
        }
    }

    fn send_all(&mut self) {
        for output in self.hubs.take_outputs() {
            let (client, answer) = match output {
                Output::Answer(RequestKey { client, number }, outcome) => {
                    (client, Answer::Outcome(number, self.grant_memory(client, outcome)))
                }
                Output::Inherits(client, priority) => (client, Answer::Inherits(priority)),
            };
            let Some(token) = self.tokens.get(&client).copied() else { continue };
            let Some(connection) = self.set.get_mut(token) else { continue };
            self.message.clear();
            answer.encode(&mut self.message);
            if connection.outbox.is_empty() {
                match connection.channel.try_send(&self.message) {
                    Ok(()) => continue,
                    Err(Error::WouldBlock) => {}
                    // The next receive detects the end of the client.
                    Err(_) => continue,
                }
            }
            let inherits = matches!(answer, Answer::Inherits(_));
            if inherits && connection.outbox.back().is_some_and(|(inherits, _)| *inherits) {
                connection.outbox.pop_back();
            }
            connection.outbox.push_back((inherits, self.message.clone()));
            self.set.set_interest(token, Interest::Write);
        }
    }

    fn flush(&mut self, token: Token) {
        let Some(connection) = self.set.get_mut(token) else { return };
        if connection.outbox.is_empty() {
            return;
        }
        while let Some((_, message)) = connection.outbox.front() {
            match connection.channel.try_send(message) {
                Ok(()) => drop(connection.outbox.pop_front()),
                Err(Error::WouldBlock) => return,
                Err(_) => {
                    self.remove_client(token);
                    return;
                }
            }
        }
        self.set.set_interest(token, Interest::Read);
    }

    /// Grants a client that opens a hub the memory of it: the blocks of a pool, or the counts of this server.
    fn grant_memory(&mut self, client: Client, outcome: Outcome) -> Outcome {
        let Outcome::Opened { hub, kind, capacity, value_bytes, .. } = outcome else { return outcome };
        let peer = self.tokens.get(&client).and_then(|token| self.set.get(*token));
        let Some(domain) = peer.map(|peer| peer.channel.peer()) else { return outcome };
        let memory = match (kind, &mut self.counts) {
            (kind, Some(counts)) if kind.has_count() => counts.grant(client, domain),
            // Without the right the client has only the numbers of the blocks, not their memory.
            _ => self.memory.get(&hub).map_or(0, |region| {
                region.grant(domain, Rights::READ | Rights::WRITE).map_or(0, |granted| granted.id.0)
            }),
        };
        Outcome::Opened { hub, kind, capacity, value_bytes, memory }
    }

    /// Domain that serves the hubs.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

fn elapsed_ns(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Reason for the end of a server.
enum ServeEnd {
    Stopped,
    Failed(HubError),
}

/// Publishes the location of a hub to the machine.
fn publish(domain: &Domain, description: &Description, service: &str) -> Result<(), HubError> {
    let record = NewRecord::new(&format!("{RECORD_PREFIX}{}", description.name))
        .with("service", service)
        .with("node", domain.node_name())
        .with("kind", description.kind.name())
        .only_if(Condition::Absent);
    match domain.names().set(&record) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.name_fault(), Some(NameFault::Exists { .. })) => {
            Err(HubError::Taken { hub: description.name.clone() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Accepts connections on a separate thread, so that a task that opens its end slowly delays only others that
/// connect.
fn run_acceptor(listener: &Listener, accepted: &Sender<Result<Channel, Error>>, stopper: &Stopper) {
    let listener = listener.within(Duration::from_secs(1));
    while !stopper.stopped.load(Ordering::SeqCst) {
        let channel = match listener.accept() {
            Ok(channel) => Ok(channel),
            Err(error @ Error::MonitorLost { .. }) => Err(error),
            // Failed connections are ignored: they concern only their client.
            Err(_) => continue,
        };
        let ended = channel.is_err();
        if accepted.send(channel).is_err() {
            return;
        }
        stopper.waker.wake();
        if ended {
            return;
        }
    }
}
