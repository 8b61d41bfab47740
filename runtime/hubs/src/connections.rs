//! Connections of a task to the servers of hubs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tombolo::waitset::Token;
use tombolo::{Domain, Error, Ready, WaitSet};
use tombolo_hub::{Answer, Operation, Outcome, Request, Taken};

use crate::HubError;
use crate::counts::LentCounts;
use crate::hub::About;
use crate::server::options;
use crate::traced;

/// Time after the deadline of a request for which its answer is awaited.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Time for which operations on the counts of a server may still succeed after it has ended.
const END_KNOWN_WITHIN: Duration = Duration::from_millis(1);

/// Maximum number of queued answers to one request. Hubs offer and revoke, but never this often while the
/// task handles other messages.
const MAX_ANSWERS: usize = 4096;

/// Number of answers to other requests that are handled before a wait checks the clock.
const OTHERS_BETWEEN: usize = 4;

/// State of a request.
#[derive(Debug)]
enum State {
    /// Awaited, with the answers so far. Most requests have one.
    Awaited { first: Option<Outcome>, others: VecDeque<Outcome> },
    /// Not awaited any more. What it still obtains is kept for the next operation on this hub.
    Late(u32),
    /// Its answer is ignored.
    Ignored,
}

/// Requests by number. The numbers of a task are sequential, so they need no hash.
type Requests = HashMap<u32, State, BuildHasherDefault<Sequential>>;

#[derive(Default)]
struct Sequential(u64);

impl Hasher for Sequential {
    fn finish(&self) -> u64 {
        // The hash table uses the lowest and the highest bits.
        self.0 | self.0 << 57
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = number.into();
    }
}

#[derive(Debug)]
struct Service {
    name: String,
    node: String,
    /// Token of its channel in the set.
    token: Token,
    /// Id of its domain, as bits.
    domain: u64,
    requests: Requests,
    /// Values that arrived after their request was abandoned, by hub.
    late: BTreeMap<u32, VecDeque<Taken>>,
    /// Blocks that arrived after their request was abandoned, to be returned.
    give_back: Vec<(u32, u64)>,
    inherits: u8,
    /// Its counts of semaphores and events, with the number of the capability to them.
    counts: Option<(u64, LentCounts)>,
    /// Next time at which operations on counts, which send no message, check whether the server has ended.
    look_at: Instant,
    /// Reason of its end, once that is known.
    lost: Option<String>,
}

/// Handle of a request that waits for its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    service: usize,
    number: u32,
}

#[derive(Debug)]
pub(crate) struct Connections {
    domain: Domain,
    /// One channel to each service that is alive.
    set: WaitSet,
    services: Vec<Service>,
    next_number: u32,
    message: Vec<u8>,
    /// Futures that wait for the next message of any server. The set wakes the last one that polled, which
    /// wakes the others.
    waiting: HashMap<u64, (Waker, Instant)>,
    last_waiting: u64,
}

impl Connections {
    pub(crate) fn new(domain: &Domain) -> Result<Connections, HubError> {
        Ok(Connections {
            domain: domain.clone(),
            set: WaitSet::new()?,
            services: Vec::new(),
            next_number: 0,
            message: Vec::new(),
            waiting: HashMap::new(),
            last_waiting: 0,
        })
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Highest priority that this task inherits from any service.
    pub(crate) fn inherits(&self) -> u8 {
        self.services.iter().map(|service| service.inherits).max().unwrap_or(0)
    }

    /// Returns the index of the connection to a server, opening it if necessary.
    pub(crate) fn connect(&mut self, name: &str, node: &str, hub: &str) -> Result<usize, HubError> {
        let known = |service: &Service| service.name == name && service.lost.is_none();
        if let Some(known) = self.services.iter().position(known) {
            return Ok(known);
        }
        let channel = match options()?.connect(&self.domain, name) {
            Err(Error::TimedOut { .. }) => return Err(HubError::Unknown { hub: hub.to_owned() }),
            channel => channel?,
        };
        let domain = channel.peer().to_bits();
        self.services.push(Service {
            name: name.to_owned(),
            node: node.to_owned(),
            token: self.set.add(channel).map_err(Error::from)?,
            domain,
            requests: Requests::default(),
            late: BTreeMap::new(),
            give_back: Vec::new(),
            inherits: 0,
            counts: None,
            look_at: Instant::now(),
            lost: None,
        });
        Ok(self.services.len() - 1)
    }

    /// Returns the counts of a server, to which it granted this capability; `None` if they cannot be shared.
    pub(crate) fn counts(&mut self, service: usize, capability: u64) -> Option<LentCounts> {
        let known = &mut self.services[service].counts;
        if known.as_ref().is_none_or(|(number, _)| *number != capability) && capability != 0 {
            *known = LentCounts::map(&self.domain, capability).map(|counts| (capability, counts));
        }
        known.as_ref().map(|(_, counts)| counts.clone())
    }

    /// Whether a server is alive, by messages that are checked at least once a millisecond.
    pub(crate) fn is_alive(&mut self, index: usize) -> Result<bool, HubError> {
        let (now, service) = (Instant::now(), &mut self.services[index]);
        if now >= service.look_at {
            service.look_at = now + END_KNOWN_WITHIN;
            while self.services[index].lost.is_none() && self.hear(index, Duration::ZERO)? {}
        }
        Ok(self.services[index].lost.is_none())
    }

    /// Position of a hub in a total order that all tasks agree on.
    pub(crate) fn place(&self, hub: &About) -> (u64, u32) {
        (self.services[hub.service].domain, hub.number)
    }

    /// Sends a request whose answers are awaited.
    pub(crate) fn request(&mut self, hub: &About, mut request: Request<'_>) -> Result<Ticket, HubError> {
        self.next_number = self.next_number.wrapping_add(1);
        request.number = self.next_number;
        self.send(hub, &request)?;
        let awaited = State::Awaited { first: None, others: VecDeque::new() };
        self.services[hub.service].requests.insert(request.number, awaited);
        Ok(Ticket { service: hub.service, number: request.number })
    }

    /// Sends a message about an earlier request.
    pub(crate) fn send_about(
        &mut self,
        hub: &About,
        ticket: Ticket,
        mut request: Request<'_>,
    ) -> Result<(), HubError> {
        request.number = ticket.number;
        self.send(hub, &request)
    }

    fn send(&mut self, hub: &About, request: &Request<'_>) -> Result<(), HubError> {
        if let Some(why) = &self.services[hub.service].lost {
            return Err(hub.lost(why.clone()));
        }
        match self.write(hub.service, request) {
            Ok(()) => Ok(()),
            Err(Error::TimedOut { .. }) => Err(hub.no_answer()),
            Err(error @ Error::TooLong { .. }) => Err(error.into()),
            Err(error) => Err(hub.lost(self.end(hub.service, &error))),
        }
    }

    /// Sends to a service that has not ended.
    fn write(&mut self, index: usize, request: &Request<'_>) -> Result<(), Error> {
        self.message.clear();
        request.encode(&mut self.message);
        self.set[self.services[index].token].within(GRACE).send(&self.message)
    }

    /// Returns the next answer to a request, if one has arrived.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub(crate) fn heard(&mut self, hub: &About, ticket: Ticket) -> Result<Option<Outcome>, HubError> {
        let service = &mut self.services[ticket.service];
        let outcome = match service.requests.get_mut(&ticket.number) {
            Some(State::Awaited { first, others }) => first.take().or_else(|| others.pop_front()),
            _ => None,
        };
        if outcome.as_ref().is_some_and(Outcome::is_final) {
            service.requests.remove(&ticket.number);
        }
        match (outcome, &service.lost) {
            (None, Some(why)) => Err(hub.lost(why.clone())),
            (outcome, _) => Ok(outcome),
        }
    }

    /// Returns a value that arrived after an earlier operation on this hub was abandoned.
    pub(crate) fn take_late(&mut self, hub: &About) -> Option<Taken> {
        self.services[hub.service].late.get_mut(&hub.number)?.pop_front()
    }

    /// Keeps values for the next operations on this hub, in front of those kept already.
    pub(crate) fn keep(&mut self, hub: &About, values: Vec<Taken>) {
        if !values.is_empty() {
            let late = self.services[hub.service].late.entry(hub.number).or_default();
            values.into_iter().rev().for_each(|value| late.push_front(value));
        }
    }

    /// Stops waiting for a request. What it still obtains is kept for the next operation on this hub. Returns
    /// whether the request was awaited.
    pub(crate) fn forget(&mut self, hub: &About, ticket: Ticket) -> bool {
        let requests = &mut self.services[ticket.service].requests;
        let known = requests.get_mut(&ticket.number);
        known.map(|state| *state = State::Late(hub.number)).is_some()
    }

    /// Ignores the answer to a request.
    pub(crate) fn ignore(&mut self, ticket: Ticket) {
        self.services[ticket.service].requests.insert(ticket.number, State::Ignored);
    }

    /// Returns the next answer to a request. Waits up to `timeout` if there is none, and again after each of
    /// the first few answers to other requests.
    ///
    /// # Errors
    /// Same as [`heard`](Self::heard).
    pub(crate) fn heard_within(
        &mut self,
        hub: &About,
        ticket: Ticket,
        timeout: Duration,
    ) -> Result<Option<Outcome>, HubError> {
        for _ in 0..OTHERS_BETWEEN {
            let heard = self.heard(hub, ticket)?;
            if heard.is_some() || !self.listen(timeout)? {
                return Ok(heard);
            }
        }
        self.heard(hub, ticket)
    }

    /// Waits for a message of any server and handles it; returns false if there was none.
    pub(crate) fn listen(&mut self, timeout: Duration) -> Result<bool, HubError> {
        let mut alive = (0..self.services.len()).filter(|index| self.services[*index].lost.is_none());
        match (alive.next(), alive.next()) {
            (None, _) => Ok(true),
            (Some(only), None) => self.hear(only, timeout),
            _ => match self.set.wait(timeout) {
                Ok(ready) => self.hear_of(ready),
                Err(Error::TimedOut { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Async version of [`listen`](Self::listen). A future is identified by the number that it gets at its
    /// first poll. It is ready when a message was handled, even by another future.
    pub(crate) fn poll_listen(
        &mut self,
        number: &mut Option<u64>,
        context: &mut Context<'_>,
        deadline: Instant,
    ) -> Poll<Result<bool, HubError>> {
        match number.take() {
            // Woken because another future has handled a message.
            Some(number) if self.waiting.remove(&number).is_none() => return Poll::Ready(Ok(true)),
            _ => {}
        }
        let now = Instant::now();
        // The set wakes only the last of the futures, so this one wakes those whose deadlines have passed.
        self.waiting.retain(|_, (waker, deadline)| {
            let waits = *deadline > now;
            if !waits {
                waker.wake_by_ref();
            }
            waits
        });
        let first = self.waiting.values().map(|(_, deadline)| *deadline).fold(deadline, Instant::min);
        match self.set.poll_wait(context, first.saturating_duration_since(now)) {
            Poll::Ready(Ok(ready)) => Poll::Ready(self.hear_of(ready)),
            Poll::Ready(Err(Error::TimedOut { .. })) => Poll::Ready(Ok(false)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => {
                self.last_waiting += 1;
                self.waiting.insert(self.last_waiting, (context.waker().clone(), deadline));
                *number = Some(self.last_waiting);
                Poll::Pending
            }
        }
    }

    /// Removes a future that no longer waits. Another one takes its place as the one that the set wakes.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        self.waiting.drain().for_each(|(_, (waker, _))| waker.wake());
    }

    /// Handles the message that the set reported.
    fn hear_of(&mut self, ready: Ready) -> Result<bool, HubError> {
        let token = ready.token();
        match self.services.iter().position(|service| Some(service.token) == token && service.lost.is_none())
        {
            Some(index) => self.hear(index, Duration::ZERO).map(|_| true),
            None => Ok(true),
        }
    }

    /// Handles all messages that have arrived, and arms the descriptor of the set. Returns whether there were
    /// any.
    pub(crate) fn hear_all(&mut self) -> Result<bool, HubError> {
        let mut heard = false;
        loop {
            match self.set.wait(Duration::ZERO) {
                Ok(ready) => heard |= self.hear_of(ready)?,
                Err(Error::TimedOut { .. }) => return Ok(heard),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.set.as_fd().as_raw_fd()
    }

    /// Handles the next message of a server; returns false if none arrived in time.
    fn hear(&mut self, index: usize, timeout: Duration) -> Result<bool, HubError> {
        let channel = &mut self.set[self.services[index].token];
        let received = if timeout.is_zero() {
            channel.try_recv_into(&mut self.message).map(|received| received.is_some())
        } else {
            channel.within(timeout).recv_into(&mut self.message).map(|_| true)
        };
        match received {
            Ok(true) => {}
            Ok(false) | Err(Error::TimedOut { .. }) => return Ok(false),
            Err(error) => {
                self.end(index, &error);
                return Ok(true);
            }
        }
        let service = &mut self.services[index];
        let answer = Answer::decode(&self.message)
            .map_err(|violation| HubError::Violation { node: service.node.clone(), violation })?;
        match answer {
            Answer::Outcome(number, outcome) => {
                service.take_in(number, outcome);
                if service.lost.is_some() {
                    // Its further messages would not be taken, and would be reported forever.
                    self.set.remove(service.token);
                }
            }
            Answer::Inherits(priority) => {
                service.inherits = priority;
                self.pass_on();
                traced::inherits(self.inherits());
            }
        }
        self.return_blocks();
        self.wake_all();
        Ok(true)
    }

    /// Records the end of a server and removes its channel. Returns the evidence, as text.
    fn end(&mut self, index: usize, error: &Error) -> String {
        let why = match error {
            Error::PeerDied { .. } => "it died".to_owned(),
            Error::Closed { .. } => "it closed the channel".to_owned(),
            error => error.to_string(),
        };
        self.set.remove(self.services[index].token);
        self.wake_all();
        self.services[index].lost.get_or_insert(why).clone()
    }

    /// Informs each server about the priority that this task inherits through resources on other servers.
    fn pass_on(&mut self) {
        for index in 0..self.services.len() {
            let others = self.services.iter().enumerate().filter(|(other, _)| *other != index);
            let priority = others.map(|(_, service)| service.inherits).max().unwrap_or(0);
            let operation = Operation::Raise;
            let request = Request { number: 0, hub: 0, priority, tentative: false, timeout_us: 0, operation };
            self.tell(index, &request);
        }
    }

    fn return_blocks(&mut self) {
        for index in 0..self.services.len() {
            if self.services[index].give_back.is_empty() {
                continue;
            }
            for (hub, token) in std::mem::take(&mut self.services[index].give_back) {
                self.next_number = self.next_number.wrapping_add(1);
                let (number, operation) = (self.next_number, Operation::GiveBack { token });
                let request =
                    Request { number, hub, priority: 0, tentative: false, timeout_us: 0, operation };
                self.services[index].requests.insert(number, State::Ignored);
                self.tell(index, &request);
            }
        }
    }

    /// Sends to a server that may have ended; the next receive detects that.
    fn tell(&mut self, index: usize, request: &Request<'_>) {
        if self.services[index].lost.is_none() {
            let _ = self.write(index, request);
        }
    }
}

impl Service {
    fn take_in(&mut self, number: u32, outcome: Outcome) {
        let is_final = outcome.is_final();
        match self.requests.get_mut(&number) {
            Some(State::Awaited { first, others }) if others.len() < MAX_ANSWERS => {
                if first.is_none() && others.is_empty() {
                    *first = Some(outcome);
                } else {
                    others.push_back(outcome);
                }
                return;
            }
            Some(State::Awaited { .. }) => self.lost = Some("it broke the protocol".to_owned()),
            Some(State::Late(hub)) => match outcome {
                Outcome::Done(Taken::Block { token, .. }) => self.give_back.push((*hub, token)),
                Outcome::Done(taken @ (Taken::Value(_) | Taken::Unit)) => {
                    self.late.entry(*hub).or_default().push_back(taken);
                }
                Outcome::Done(Taken::Values(values)) => {
                    let late = self.late.entry(*hub).or_default();
                    late.extend(values.iter().map(|value| Taken::Value(value.into())));
                }
                _ => {}
            },
            Some(State::Ignored) | None => {}
        }
        if is_final {
            self.requests.remove(&number);
        }
    }
}
