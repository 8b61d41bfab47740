//! A client that many tasks share: calls as futures, several in flight.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tombolo_interface::{Answer, BindError, CallError, Client, Hears, Method, OneWay, Pending, Request};
use tombolo_platform::Deadline;
use tombolo_platform::event::Interest;
use tombolo_transport::{Transport, TransportExt};

use crate::channel::Channel;
use crate::error::Error;
use crate::future::fall_asleep;

/// Looks in a row that find nothing though the channel says that there is something, before others have a
/// turn.
const LOOKS_IN_A_ROW: u32 = 16;

/// The calling end of a channel, for tasks of any executor.
///
/// Clones share the channel. Each call is a future; several are in flight when several are polled, and their
/// answers come in any order. A future that is dropped gives its call up, and the server is told. `E` takes
/// the events, under the lock that the clones share: it must not wait.
///
/// ```no_run
/// # use tombolo::interface::SharedClient;
/// # use tombolo_stubs::kv::{Kv, KvGetRequest};
/// # async fn get(channel: tombolo::Channel) -> Result<(), Box<dyn std::error::Error>> {
/// let client = SharedClient::<Kv>::bind(channel, ())?;
/// let answer = client.call(&KvGetRequest { key: "isle" }).await?;
/// let version = answer.read()?.version()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedClient<I, E = ()> {
    shared: Arc<Mutex<Shared<I, E>>>,
    timeout: Duration,
}

impl<I, E> Clone for SharedClient<I, E> {
    fn clone(&self) -> Self {
        self.within(self.timeout)
    }
}

impl<I, E> SharedClient<I, E> {
    /// The same client, whose calls wait up to `timeout` here: as long as the channel's operations, where
    /// nothing else is said.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        SharedClient { shared: Arc::clone(&self.shared), timeout }
    }
}

#[derive(Debug)]
struct Shared<I, E> {
    client: Client<I, Channel, E>,
    /// There will be nothing more to receive.
    ended: bool,
    /// This end has said that it sleeps.
    announced: bool,
    waiting: Vec<Waiting>,
    last_key: u64,
    /// Who is woken by what happens on the channel, and wakes the others: one of those that wait, if any
    /// does.
    driver: u64,
}

/// A task that waits.
#[derive(Debug)]
struct Waiting {
    key: u64,
    /// For the answer to that call; for room if it is 0.
    call: u32,
    deadline: Deadline,
    waker: Waker,
}

impl<I: Hears<E>, E> Shared<I, E> {
    /// Before the channel is used: it wakes no task, until it is armed again.
    fn awake(&mut self) {
        if std::mem::take(&mut self.announced) {
            self.client.port().carrier.woken(true);
        }
    }

    /// Takes what has arrived, and removes those that can go on. That the channel has ended is found out by
    /// each of them.
    fn look(&mut self, own: u64, woken: &mut Vec<Waker>) {
        self.awake();
        self.ended |= self.client.poll().is_err();
        let ended = self.ended;
        if self.waiting.iter().all(|waiting| waiting.key == own) {
            return;
        }
        let room = ended || self.client.port().carrier.is_ready(Interest::Write);
        let client = &self.client;
        let goes_on = |waiting: &mut Waiting| {
            let ready = if waiting.call == 0 { room } else { !client.is_waiting(waiting.call) };
            waiting.key != own && (ready || ended || waiting.deadline.passed())
        };
        woken.extend(self.waiting.extract_if(.., goes_on).map(|waiting| waiting.waker));
    }

    /// Has this task woken when something happens on the channel. False if something has.
    fn arm(&mut self, key: u64, waker: &Waker) -> Result<bool, Error> {
        let earliest = self.waiting.iter().map(|waiting| waiting.deadline.as_ns()).min();
        let deadline = Deadline::at_ns(earliest.unwrap_or(u64::MAX));
        let room = self.waiting.iter().any(|waiting| waiting.call == 0);
        let channel = self.client.port();
        let awaited = if room || channel.carrier.unsent() { Interest::ReadWrite } else { Interest::Read };
        let asleep = fall_asleep(channel, awaited, deadline, waker);
        self.announced = true;
        self.driver = key;
        asleep.map_err(|error| self.client.port().error(error, Duration::ZERO))
    }

    /// A task does not wait any more. If others do, and it was to wake them, or the channel was used and is
    /// not armed by now, another one is woken to see to that.
    fn leave(&mut self, key: u64, woken: &mut Vec<Waker>) {
        self.waiting.retain(|waiting| waiting.key != key);
        if self.driver != key && self.announced {
            return;
        }
        match self.waiting.first() {
            Some(next) => {
                self.driver = next.key;
                woken.push(next.waker.clone());
            }
            None => {
                self.driver = 0;
                if let Some(registration) = &mut self.client.port().registration {
                    registration.disarm();
                }
            }
        }
    }
}

/// A task's part in a shared client, until it is dropped.
struct Task<'a, I: Hears<E>, E> {
    shared: &'a Mutex<Shared<I, E>>,
    key: u64,
    /// Given up when this is dropped; 0 for none.
    call: u32,
}

fn locked<I, E>(shared: &Mutex<Shared<I, E>>) -> MutexGuard<'_, Shared<I, E>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, I: Hears<E>, E> Task<'a, I, E> {
    fn new(shared: &'a Mutex<Shared<I, E>>) -> Self {
        Task { shared, key: 0, call: 0 }
    }

    /// Tries until `attempt` gives something; before each time what has arrived is taken. It is told whether
    /// there is nothing more to wait for, since the deadline has passed or the channel ended.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Client<I, Channel, E>, &mut u32, bool) -> Option<Result<T, CallError<Error>>>,
    ) -> Poll<Result<T, CallError<Error>>> {
        let mut woken = Vec::new();
        let polled = {
            let mut shared = locked(self.shared);
            if self.key == 0 {
                shared.last_key += 1;
                self.key = shared.last_key;
            }
            self.poll_locked(&mut shared, context, deadline, &mut attempt, &mut woken)
        };
        // Outside of the lock: a waker may do anything.
        woken.into_iter().for_each(Waker::wake);
        polled
    }

    fn poll_locked<T>(
        &mut self,
        shared: &mut Shared<I, E>,
        context: &mut Context<'_>,
        deadline: Deadline,
        attempt: &mut impl FnMut(
            &mut Client<I, Channel, E>,
            &mut u32,
            bool,
        ) -> Option<Result<T, CallError<Error>>>,
        woken: &mut Vec<Waker>,
    ) -> Poll<Result<T, CallError<Error>>> {
        for _ in 0..LOOKS_IN_A_ROW {
            shared.look(self.key, woken);
            let over = deadline.passed() || shared.ended;
            if let Some(result) = attempt(&mut shared.client, &mut self.call, over) {
                self.call = 0;
                shared.leave(self.key, woken);
                return Poll::Ready(result);
            }
            let waker = context.waker();
            shared.waiting.retain(|waiting| waiting.key != self.key);
            let (key, call) = (self.key, self.call);
            shared.waiting.push(Waiting { key, call, deadline, waker: waker.clone() });
            match shared.arm(self.key, waker) {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(error) => {
                    shared.leave(self.key, woken);
                    return Poll::Ready(Err(CallError::Ended { error, may_repeat: false }));
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<I: Hears<E>, E> Drop for Task<'_, I, E> {
    fn drop(&mut self) {
        let mut woken = Vec::new();
        {
            let mut shared = locked(self.shared);
            if self.call != 0 {
                shared.awake();
                shared.client.give_up(self.call);
            }
            shared.leave(self.key, &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<I: Hears<E>, E> SharedClient<I, E> {
    /// A client over a channel that was opened with the hash of the interface.
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(channel: Channel, events: E) -> Result<Self, BindError> {
        let timeout = channel.timeout();
        let client = Client::bind(channel, events)?;
        let shared =
            Shared { client, ended: false, announced: false, waiting: Vec::new(), last_key: 0, driver: 0 };
        Ok(SharedClient { shared: Arc::new(Mutex::new(shared)), timeout })
    }

    /// Makes a call, waiting for room and for the answer.
    ///
    /// # Errors
    /// [`CallError`]; what the server declined is in the [`Answer`].
    pub fn call<'a, Q>(
        &'a self,
        request: &'a Q,
    ) -> impl Future<Output = Result<Answer<Q::Method, Error>, CallError<Error>>> + Send + 'a
    where
        I: 'a,
        E: Send + 'a,
        Q: Request<Method: Method<Interface = I>> + Sync,
    {
        let timeout = self.timeout;
        let mut task = Task::new(&self.shared);
        let (mut pending, mut deadline) = (None::<Pending<Q::Method>>, None);
        poll_fn(move |context| {
            let deadline = *deadline.get_or_insert_with(|| Deadline::after(timeout));
            task.poll(context, deadline, |client, call, over| {
                if pending.is_none() {
                    match client.within(deadline.remaining()).try_start(request) {
                        Ok(started) => {
                            *call = started.number();
                            pending = Some(started);
                        }
                        Err(CallError::NoRoom) if !over => return None,
                        Err(error) => return Some(Err(error)),
                    }
                }
                let started = pending.take()?;
                if !over && !client.is_ready(&started) {
                    pending = Some(started);
                    return None;
                }
                // Does not wait: the answer is here, or the time is up.
                Some(client.wait_for_answer(started))
            })
        })
    }

    /// Sends a one-way message, waiting for room.
    ///
    /// # Errors
    /// [`CallError`]: it was not sent.
    pub fn tell<'a, B>(
        &'a self,
        message: &'a B,
    ) -> impl Future<Output = Result<(), CallError<Error>>> + Send + 'a
    where
        E: Send,
        B: OneWay<Interface = I> + Sync,
    {
        let timeout = self.timeout;
        let mut task = Task::new(&self.shared);
        let mut deadline = None;
        poll_fn(move |context| {
            let deadline = *deadline.get_or_insert_with(|| Deadline::after(timeout));
            task.poll(context, deadline, |client, _, over| {
                match client.within(Duration::ZERO).tell(message) {
                    Err(CallError::NoRoom) if !over => None,
                    result => Some(result),
                }
            })
        })
    }

    /// Has `with` use the client as one that blocks: for counts, events and the channel.
    pub fn with<R>(&self, with: impl FnOnce(&mut Client<I, Channel, E>) -> R) -> R {
        let mut woken = Vec::new();
        let result = {
            let mut shared = locked(&self.shared);
            shared.awake();
            let result = with(&mut shared.client);
            shared.leave(0, &mut woken);
            result
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }
}
