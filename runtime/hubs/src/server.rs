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
use tombolo_hub::{Answer, Client, Description, Hubs, Key, Kind, Limits, Outcome, Output, Request, wire};

use crate::counts::Counts;
use crate::{HubError, traced};

/// Timeout of the event loop's wait, which is repeated.
const AWHILE: Duration = Duration::from_secs(3600);

/// Maximum number of requests of one client that are handled before the other clients get a turn.
const TURN: usize = 64;

/// Maximum number of tasks per server. Further tasks find their channels closed.
const MAX_CLIENTS: usize = 4096;

/// Prefix of the records of hubs among the machine's names.
pub(crate) const RECORDS: &str = "hub/";

/// Channel options of both ends.
pub(crate) fn options() -> Result<ChannelOptions, Error> {
    Ok(ChannelOptions::default().slots(1024)?.interface_hash(wire::INTERFACE_HASH))
}

/// Task of a program, with the messages that it has not received yet.
#[derive(Debug)]
struct Served {
    channel: Channel,
    client: Client,
    /// Messages, each with whether it is about an inherited priority: of consecutive ones only the last is
    /// kept.
    outbox: VecDeque<(bool, Vec<u8>)>,
}

impl Waited for Served {
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
    set: WaitSet<Served>,
    tokens: BTreeMap<Client, Token>,
    joined: u64,
    accepted: Receiver<Result<Channel, Error>>,
    stopper: Stopper,
    begun: Instant,
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
        let accept = move || accept_all(&listener, &sender, &stops);
        std::thread::Builder::new().name("accept".into()).spawn(accept).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(0);
            Error::Os { operation: "start a thread".into(), errno }
        })?;
        for description in &descriptions {
            publish(domain, description, &service)?;
        }
        let (tokens, begun) = (BTreeMap::new(), Instant::now());
        let (domain, message, joined) = (domain.clone(), Vec::new(), 0);
        Ok(Server { domain, hubs, memory, counts, set, tokens, joined, accepted, stopper, begun, message })
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
        match self.serve() {
            Err(End::Stopped) => Ok(()),
            Err(End::Failed(error)) => Err(error),
        }
    }

    fn serve(&mut self) -> Result<Infallible, End> {
        loop {
            // Before the answers are sent, so that a task that has received one finds the count lent.
            if let Some(counts) = &self.counts {
                counts.lend(&mut self.hubs);
            }
            self.send_all();
            match self.set.wait(self.until_tick()) {
                Ok(Ready::Channel(token)) => self.hear(token),
                Ok(Ready::Woken) => self.take_in()?,
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(End::Failed(error.into())),
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
        since(self.begun)
    }

    fn until_tick(&self) -> Duration {
        match self.hubs.next_tick() {
            Some(at) => Duration::from_nanos(at.saturating_sub(self.now())).min(AWHILE),
            None => AWHILE,
        }
    }

    /// Accepts new connections.
    fn take_in(&mut self) -> Result<(), End> {
        if self.stopper.stopped.load(Ordering::SeqCst) {
            return Err(End::Stopped);
        }
        while let Ok(accepted) = self.accepted.try_recv() {
            let channel = accepted.map_err(|error| End::Failed(error.into()))?;
            if self.tokens.len() >= MAX_CLIENTS {
                continue;
            }
            self.joined += 1;
            let (client, domain) = (Client(self.joined), channel.peer().to_bits());
            // A task that cannot be added to the set sees its channel closed.
            if let Ok(token) = self.set.add(Served { channel, client, outbox: VecDeque::new() }) {
                self.tokens.insert(client, token);
                self.hubs.joined(client, domain);
                self.hear(token);
            }
        }
        Ok(())
    }

    /// Handles requests of a client, after sending the messages that found no room before.
    fn hear(&mut self, token: Token) {
        self.flush(token);
        let mut message = std::mem::take(&mut self.message);
        for _ in 0..TURN {
            let Some(served) = self.set.get_mut(token) else { break };
            let client = served.client;
            // A task that does not receive its answers gets no further requests handled, which bounds the
            // outbox.
            if !served.outbox.is_empty() {
                break;
            }
            let ended = match served.channel.try_recv_into(&mut message) {
                Ok(Some(_)) => {
                    let request = Request::decode(&message);
                    let handled = request.and_then(|request| {
                        if let Some(counts) = &self.counts {
                            counts.take_back(&mut self.hubs, request.hub);
                        }
                        let begun = self.begun;
                        self.hubs.request(&|| since(begun), client, &request)?;
                        traced::depth(&self.hubs, request.hub);
                        Ok(())
                    });
                    handled.is_err()
                }
                Ok(None) => break,
                Err(_) => true,
            };
            if ended {
                self.end(token);
                break;
            }
        }
        self.message = message;
    }

    fn end(&mut self, token: Token) {
        if let Some(served) = self.set.remove(token) {
            self.tokens.remove(&served.client);
            if let Some(counts) = &mut self.counts {
                counts.ended(served.client);
            }
            self.hubs.ended(self.now(), served.client);
        }
    }

    fn send_all(&mut self) {
        for output in self.hubs.take_outputs() {
            let (client, answer) = match output {
                Output::Answer(Key { client, number }, outcome) => {
                    (client, Answer::Outcome(number, self.with_memory(client, outcome)))
                }
                Output::Inherits(client, priority) => (client, Answer::Inherits(priority)),
            };
            let Some(token) = self.tokens.get(&client).copied() else { continue };
            let Some(served) = self.set.get_mut(token) else { continue };
            self.message.clear();
            answer.encode(&mut self.message);
            if served.outbox.is_empty() {
                match served.channel.try_send(&self.message) {
                    Ok(()) => continue,
                    Err(Error::WouldBlock) => {}
                    // The next receive detects the end of the client.
                    Err(_) => continue,
                }
            }
            let inherits = matches!(answer, Answer::Inherits(_));
            if inherits && served.outbox.back().is_some_and(|(inherits, _)| *inherits) {
                served.outbox.pop_back();
            }
            served.outbox.push_back((inherits, self.message.clone()));
            self.set.set_interest(token, Interest::Write);
        }
    }

    fn flush(&mut self, token: Token) {
        let Some(served) = self.set.get_mut(token) else { return };
        if served.outbox.is_empty() {
            return;
        }
        while let Some((_, message)) = served.outbox.front() {
            match served.channel.try_send(message) {
                Ok(()) => drop(served.outbox.pop_front()),
                Err(Error::WouldBlock) => return,
                Err(_) => {
                    self.end(token);
                    return;
                }
            }
        }
        self.set.set_interest(token, Interest::Read);
    }

    /// Grants a client that opens a hub the memory of it: the blocks of a pool, or the counts of this server.
    fn with_memory(&mut self, client: Client, outcome: Outcome) -> Outcome {
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

fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Reason for the end of a server.
enum End {
    Stopped,
    Failed(HubError),
}

/// Publishes the location of a hub to the machine.
fn publish(domain: &Domain, description: &Description, service: &str) -> Result<(), HubError> {
    let record = NewRecord::new(&format!("{RECORDS}{}", description.name))
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
fn accept_all(listener: &Listener, accepted: &Sender<Result<Channel, Error>>, stopper: &Stopper) {
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
