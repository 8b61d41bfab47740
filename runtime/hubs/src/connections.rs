//! The connections of a task to the servers of hubs.

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

/// How long after the deadline of a request its answer is waited for.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// How long operations on the counts of a server may succeed after its end.
const END_KNOWN_WITHIN: Duration = Duration::from_millis(1);

/// The most answers to one request that wait to be looked at. Hubs offer and revoke; none does so this often
/// while a task looks at others.
const MAX_ANSWERS: usize = 4096;

/// Answers to other requests that are taken in before a wait for one looks at the clock.
const OTHERS_BETWEEN: usize = 4;

/// What is known of a request.
#[derive(Debug)]
enum State {
    /// Waited for; these are its answers so far. Most requests have one.
    Awaited { first: Option<Outcome>, others: VecDeque<Outcome> },
    /// Not waited for any more. What it still brings is for the next operation on this hub.
    Late(u32),
    /// Its answer says nothing of interest.
    Ignored,
}

/// Requests by number. The numbers are this task's own, one after another, so that they need no hash.
type Requests = HashMap<u32, State, BuildHasherDefault<Sequential>>;

#[derive(Default)]
struct Sequential(u64);

impl Hasher for Sequential {
    fn finish(&self) -> u64 {
        // Tables use the lowest and the highest bits.
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
    /// Its channel in the set.
    token: Token,
    /// Bits of its domain's id.
    domain: u64,
    requests: Requests,
    /// What came too late for the request that asked for it, by hub.
    late: BTreeMap<u32, VecDeque<Taken>>,
    /// Blocks that came too late, to be given back.
    give_back: Vec<(u32, u64)>,
    inherits: u8,
    /// Its counts of semaphores and events, and the number of the capability to them.
    counts: Option<(u64, LentCounts)>,
    /// When its end is looked for again by operations on counts, which send it nothing.
    look_at: Instant,
    /// Its end, once that is known.
    lost: Option<String>,
}

/// A request that waits for its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    service: usize,
    number: u32,
}

#[derive(Debug)]
pub(crate) struct Connections {
    domain: Domain,
    /// One channel to each service that lives.
    set: WaitSet,
    services: Vec<Service>,
    next_number: u32,
    message: Vec<u8>,
    /// Futures that wait for whatever is heard next. The set wakes the last that looked, which wakes the
    /// others.
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

    /// The highest priority that this task inherits of any service.
    pub(crate) fn inherits(&self) -> u8 {
        self.services.iter().map(|service| service.inherits).max().unwrap_or(0)
    }

    /// The index of the connection to a server, which is opened unless it is there.
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

    /// The counts of a server, to which it granted this capability; `None` where they cannot be shared.
    pub(crate) fn counts(&mut self, service: usize, capability: u64) -> Option<LentCounts> {
        let known = &mut self.services[service].counts;
        if known.as_ref().is_none_or(|(number, _)| *number != capability) && capability != 0 {
            *known = LentCounts::map(&self.domain, capability).map(|counts| (capability, counts));
        }
        known.as_ref().map(|(_, counts)| counts.clone())
    }

    /// Whether a server lives, by what is heard of it at least once a millisecond.
    pub(crate) fn is_alive(&mut self, index: usize) -> Result<bool, HubError> {
        let (now, service) = (Instant::now(), &mut self.services[index]);
        if now >= service.look_at {
            service.look_at = now + END_KNOWN_WITHIN;
            while self.services[index].lost.is_none() && self.hear(index, Duration::ZERO)? {}
        }
        Ok(self.services[index].lost.is_none())
    }

    /// The rank of a hub that all tasks agree on.
    pub(crate) fn place(&self, hub: &About) -> (u64, u32) {
        (self.services[hub.service].domain, hub.number)
    }

    /// Sends a request whose answers are waited for.
    pub(crate) fn request(&mut self, hub: &About, mut request: Request<'_>) -> Result<Ticket, HubError> {
        self.next_number = self.next_number.wrapping_add(1);
        request.number = self.next_number;
        self.send(hub, &request)?;
        let awaited = State::Awaited { first: None, others: VecDeque::new() };
        self.services[hub.service].requests.insert(request.number, awaited);
        Ok(Ticket { service: hub.service, number: request.number })
    }

    /// Sends what is about another request.
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

    /// The next answer to a request, if one has come.
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

    /// What came too late for an earlier operation on this hub.
    pub(crate) fn take_late(&mut self, hub: &About) -> Option<Taken> {
        self.services[hub.service].late.get_mut(&hub.number)?.pop_front()
    }

    /// Keeps values for the next operations on this hub, before what is kept already.
    pub(crate) fn keep(&mut self, hub: &About, values: Vec<Taken>) {
        if !values.is_empty() {
            let late = self.services[hub.service].late.entry(hub.number).or_default();
            values.into_iter().rev().for_each(|value| late.push_front(value));
        }
    }

    /// Stops waiting for a request. What it still brings is for the next operation on this hub. Whether it
    /// was waited for.
    pub(crate) fn forget(&mut self, hub: &About, ticket: Ticket) -> bool {
        let requests = &mut self.services[ticket.service].requests;
        let known = requests.get_mut(&ticket.number);
        known.map(|state| *state = State::Late(hub.number)).is_some()
    }

    /// Lets the answer to a request go unread.
    pub(crate) fn ignore(&mut self, ticket: Ticket) {
        self.services[ticket.service].requests.insert(ticket.number, State::Ignored);
    }

    /// The next answer to a request, after a wait of up to `timeout` if none has come, and again after the
    /// first few answers to others.
    ///
    /// # Errors
    /// As [`heard`](Self::heard).
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

    /// Waits for a message of any server, and takes in what came; false when nothing did.
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

    /// The same for a future, which is known by the number that it gets the first time: ready when something
    /// was heard, also by another future.
    pub(crate) fn poll_listen(
        &mut self,
        number: &mut Option<u64>,
        context: &mut Context<'_>,
        deadline: Instant,
    ) -> Poll<Result<bool, HubError>> {
        match number.take() {
            // It was woken for what another one has heard.
            Some(number) if self.waiting.remove(&number).is_none() => return Poll::Ready(Ok(true)),
            _ => {}
        }
        let now = Instant::now();
        // The set wakes one of them, for all.
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

    /// A future does not wait any more. Another one takes its place as that which the set wakes.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        self.waiting.drain().for_each(|(_, (waker, _))| waker.wake());
    }

    /// Takes in what the set told of.
    fn hear_of(&mut self, ready: Ready) -> Result<bool, HubError> {
        let token = ready.token();
        match self.services.iter().position(|service| Some(service.token) == token && service.lost.is_none())
        {
            Some(index) => self.hear(index, Duration::ZERO).map(|_| true),
            None => Ok(true),
        }
    }

    /// Takes in everything that has come, and arms the descriptor of the set. Whether something came.
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

    /// Takes in the next message of a server; false when none came in time.
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
                    // What else it sends is not taken, and would be told of for ever.
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

    /// Notes the end of a server, whose channel goes; the evidence, as text.
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

    /// Tells each server what this task inherits by resources elsewhere.
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

    /// Sends to a server that may have ended, which is heard of when it is received from.
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
