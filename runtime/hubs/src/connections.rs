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
use crate::hub::HubInfo;
use crate::server::options;
use crate::tracing;

/// Time after the deadline of a request for which its answer is awaited.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Time for which operations on the counts of a server may still succeed after it has ended.
const LIVENESS_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum number of queued answers to one request. Hubs offer and revoke, but never this often while the
/// task handles other messages.
const MAX_ANSWERS: usize = 4096;

/// Number of answers to other requests that are handled before a wait checks the clock.
const OTHER_ANSWERS_PER_WAIT: usize = 4;

/// State of a request.
#[derive(Debug)]
enum State {
    /// Awaited, with the answers so far. Most requests have one.
    Awaited { first: Option<Outcome>, others: VecDeque<Outcome> },
    /// Not awaited any more. What it still obtains is kept for the next operation on this hub.
    Abandoned(u32),
    /// Its answer is ignored.
    Ignored,
}

/// Requests by number. The numbers of a task are sequential, so they need no hash.
type Requests = HashMap<u32, State, BuildHasherDefault<SequentialHasher>>;

#[derive(Default)]
struct SequentialHasher(u64);

impl Hasher for SequentialHasher {
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
    late_values: BTreeMap<u32, VecDeque<Taken>>,
    /// Blocks that arrived after their request was abandoned, to be returned.
    blocks_to_return: Vec<(u32, u64)>,
    inherited_priority: u8,
    /// Its counts of semaphores and events, with the number of the capability to them.
    counts: Option<(u64, LentCounts)>,
    /// Next time at which operations on counts, which send no message, check whether the server has ended.
    next_check: Instant,
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
    waiters: HashMap<u64, (Waker, Instant)>,
    last_waiter: u64,
}

impl Connections {
    pub(crate) fn new(domain: &Domain) -> Result<Connections, HubError> {
        Ok(Connections {
            domain: domain.clone(),
            set: WaitSet::new()?,
            services: Vec::new(),
            next_number: 0,
            message: Vec::new(),
            waiters: HashMap::new(),
            last_waiter: 0,
        })
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Highest priority that this task inherits from any service.
    pub(crate) fn inherited_priority(&self) -> u8 {
        self.services.iter().map(|service| service.inherited_priority).max().unwrap_or(0)
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
            late_values: BTreeMap::new(),
            blocks_to_return: Vec::new(),
            inherited_priority: 0,
            counts: None,
            next_check: Instant::now(),
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
        if now >= service.next_check {
            service.next_check = now + LIVENESS_CHECK_INTERVAL;
            while self.services[index].lost.is_none() && self.receive_answer(index, Duration::ZERO)? {}
        }
        Ok(self.services[index].lost.is_none())
    }

    /// Position of a hub in a total order that all tasks agree on.
    pub(crate) fn order_key(&self, hub: &HubInfo) -> (u64, u32) {
        (self.services[hub.service].domain, hub.number)
    }

    /// Sends a request whose answers are awaited.
    pub(crate) fn request(&mut self, hub: &HubInfo, mut request: Request<'_>) -> Result<Ticket, HubError> {
        self.next_number = self.next_number.wrapping_add(1);
        request.number = self.next_number;
        self.send(hub, &request)?;
        let awaited = State::Awaited { first: None, others: VecDeque::new() };
        self.services[hub.service].requests.insert(request.number, awaited);
        Ok(Ticket { service: hub.service, number: request.number })
    }

    /// Sends a message about an earlier request.
    pub(crate) fn send_follow_up(
        &mut self,
        hub: &HubInfo,
        ticket: Ticket,
        mut request: Request<'_>,
    ) -> Result<(), HubError> {
        request.number = ticket.number;
        self.send(hub, &request)
    }

    fn send(&mut self, hub: &HubInfo, request: &Request<'_>) -> Result<(), HubError> {
        if let Some(why) = &self.services[hub.service].lost {
            return Err(hub.lost_error(why.clone()));
        }
        match self.write(hub.service, request) {
            Ok(()) => Ok(()),
            Err(Error::TimedOut { .. }) => Err(hub.no_answer_error()),
            Err(error @ Error::TooLong { .. }) => Err(error.into()),
            Err(error) => Err(hub.lost_error(self.mark_lost(hub.service, &error))),
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
    pub(crate) fn next_answer(&mut self, hub: &HubInfo, ticket: Ticket) -> Result<Option<Outcome>, HubError> {
        let service = &mut self.services[ticket.service];
        let outcome = match service.requests.get_mut(&ticket.number) {
            Some(State::Awaited { first, others }) => first.take().or_else(|| others.pop_front()),
            _ => None,
        };
        if outcome.as_ref().is_some_and(Outcome::is_final) {
            service.requests.remove(&ticket.number);
        }
        match (outcome, &service.lost) {
            (None, Some(why)) => Err(hub.lost_error(why.clone())),
            (outcome, _) => Ok(outcome),
        }
    }

    /// Returns a value that arrived after an earlier operation on this hub was abandoned.
    pub(crate) fn take_late_value(&mut self, hub: &HubInfo) -> Option<Taken> {
        self.services[hub.service].late_values.get_mut(&hub.number)?.pop_front()
    }

    /// Keeps values for the next operations on this hub, in front of those kept already.
    pub(crate) fn keep_values(&mut self, hub: &HubInfo, values: Vec<Taken>) {
        if !values.is_empty() {
            let late = self.services[hub.service].late_values.entry(hub.number).or_default();
            values.into_iter().rev().for_each(|value| late.push_front(value));
        }
    }

    /// Stops waiting for a request. What it still obtains is kept for the next operation on this hub. Returns
    /// whether the request was awaited.
    pub(crate) fn abandon(&mut self, hub: &HubInfo, ticket: Ticket) -> bool {
        let requests = &mut self.services[ticket.service].requests;
        let known = requests.get_mut(&ticket.number);
        known.map(|state| *state = State::Abandoned(hub.number)).is_some()
    }

    /// Ignores the answer to a request.
    pub(crate) fn ignore(&mut self, ticket: Ticket) {
        self.services[ticket.service].requests.insert(ticket.number, State::Ignored);
    }

    /// Returns the next answer to a request. Waits up to `timeout` if there is none, and again after each of
    /// the first few answers to other requests.
    ///
    /// # Errors
    /// Same as [`next_answer`](Self::next_answer).
    pub(crate) fn next_answer_within(
        &mut self,
        hub: &HubInfo,
        ticket: Ticket,
        timeout: Duration,
    ) -> Result<Option<Outcome>, HubError> {
        for _ in 0..OTHER_ANSWERS_PER_WAIT {
            let answer = self.next_answer(hub, ticket)?;
            if answer.is_some() || !self.wait_for_message(timeout)? {
                return Ok(answer);
            }
        }
        self.next_answer(hub, ticket)
    }

    /// Waits for a message of any server and handles it; returns false if there was none.
    pub(crate) fn wait_for_message(&mut self, timeout: Duration) -> Result<bool, HubError> {
        let mut alive = (0..self.services.len()).filter(|index| self.services[*index].lost.is_none());
        match (alive.next(), alive.next()) {
            (None, _) => Ok(true),
            (Some(only), None) => self.receive_answer(only, timeout),
            _ => match self.set.wait(timeout) {
                Ok(ready) => self.handle_ready(ready),
                Err(Error::TimedOut { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Async version of [`wait_for_message`](Self::wait_for_message). A future is identified by the number
    /// that it gets at its first poll. It is ready when a message was handled, even by another future.
    pub(crate) fn poll_message(
        &mut self,
        number: &mut Option<u64>,
        context: &mut Context<'_>,
        deadline: Instant,
    ) -> Poll<Result<bool, HubError>> {
        match number.take() {
            // Woken because another future has handled a message.
            Some(number) if self.waiters.remove(&number).is_none() => return Poll::Ready(Ok(true)),
            _ => {}
        }
        let now = Instant::now();
        // The set wakes only the last of the futures, so this one wakes those whose deadlines have passed.
        self.waiters.retain(|_, (waker, deadline)| {
            let waits = *deadline > now;
            if !waits {
                waker.wake_by_ref();
            }
            waits
        });
        let first = self.waiters.values().map(|(_, deadline)| *deadline).fold(deadline, Instant::min);
        match self.set.poll_wait(context, first.saturating_duration_since(now)) {
            Poll::Ready(Ok(ready)) => Poll::Ready(self.handle_ready(ready)),
            Poll::Ready(Err(Error::TimedOut { .. })) => Poll::Ready(Ok(false)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => {
                self.last_waiter += 1;
                self.waiters.insert(self.last_waiter, (context.waker().clone(), deadline));
                *number = Some(self.last_waiter);
                Poll::Pending
            }
        }
    }

    /// Removes a future that no longer waits. Another one takes its place as the one that the set wakes.
    pub(crate) fn remove_waiter(&mut self, number: u64) {
        self.waiters.remove(&number);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        self.waiters.drain().for_each(|(_, (waker, _))| waker.wake());
    }

    /// Handles the message that the set reported.
    fn handle_ready(&mut self, ready: Ready) -> Result<bool, HubError> {
        let token = ready.token();
        match self.services.iter().position(|service| Some(service.token) == token && service.lost.is_none())
        {
            Some(index) => self.receive_answer(index, Duration::ZERO).map(|_| true),
            None => Ok(true),
        }
    }

    /// Handles all messages that have arrived, and arms the descriptor of the set. Returns whether there were
    /// any.
    pub(crate) fn process_pending(&mut self) -> Result<bool, HubError> {
        let mut any = false;
        loop {
            match self.set.wait(Duration::ZERO) {
                Ok(ready) => any |= self.handle_ready(ready)?,
                Err(Error::TimedOut { .. }) => return Ok(any),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.set.as_fd().as_raw_fd()
    }

    /// Handles the next message of a server; returns false if none arrived in time.
    fn receive_answer(&mut self, index: usize, timeout: Duration) -> Result<bool, HubError> {
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
                self.mark_lost(index, &error);
                return Ok(true);
            }
        }
        let service = &mut self.services[index];
        let answer = Answer::decode(&self.message)
            .map_err(|violation| HubError::Violation { node: service.node.clone(), violation })?;
        match answer {
            Answer::Outcome(number, outcome) => {
                service.store_outcome(number, outcome);
                if service.lost.is_some() {
                    // Its further messages would not be taken, and would be reported forever.
                    self.set.remove(service.token);
                }
            }
            Answer::Inherits(priority) => {
                service.inherited_priority = priority;
                self.propagate_priority();
                tracing::inherited_priority(self.inherited_priority());
            }
        }
        self.return_blocks();
        self.wake_all();
        Ok(true)
    }

    /// Records the end of a server and removes its channel. Returns the evidence, as text.
    fn mark_lost(&mut self, index: usize, error: &Error) -> String {
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
    fn propagate_priority(&mut self) {
        for index in 0..self.services.len() {
            let others = self.services.iter().enumerate().filter(|(other, _)| *other != index);
            let priority = others.map(|(_, service)| service.inherited_priority).max().unwrap_or(0);
            let operation = Operation::Raise;
            let request = Request { number: 0, hub: 0, priority, tentative: false, timeout_us: 0, operation };
            self.send_unchecked(index, &request);
        }
    }

    fn return_blocks(&mut self) {
        for index in 0..self.services.len() {
            if self.services[index].blocks_to_return.is_empty() {
                continue;
            }
            for (hub, token) in std::mem::take(&mut self.services[index].blocks_to_return) {
                self.next_number = self.next_number.wrapping_add(1);
                let (number, operation) = (self.next_number, Operation::GiveBack { token });
                let request =
                    Request { number, hub, priority: 0, tentative: false, timeout_us: 0, operation };
                self.services[index].requests.insert(number, State::Ignored);
                self.send_unchecked(index, &request);
            }
        }
    }

    /// Sends to a server that may have ended; the next receive detects that.
    fn send_unchecked(&mut self, index: usize, request: &Request<'_>) {
        if self.services[index].lost.is_none() {
            let _ = self.write(index, request);
        }
    }
}

impl Service {
    fn store_outcome(&mut self, number: u32, outcome: Outcome) {
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
            Some(State::Abandoned(hub)) => match outcome {
                Outcome::Done(Taken::Block { token, .. }) => self.blocks_to_return.push((*hub, token)),
                Outcome::Done(taken @ (Taken::Value(_) | Taken::Unit)) => {
                    self.late_values.entry(*hub).or_default().push_back(taken);
                }
                Outcome::Done(Taken::Values(values)) => {
                    let late = self.late_values.entry(*hub).or_default();
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
