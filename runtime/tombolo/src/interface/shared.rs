//! Client that many tasks share: calls are futures, and several can be in flight.

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
use crate::future::announce_sleep_with_waker;

/// Polls in a row that find no message, although the channel reports one, before the task yields.
const MAX_POLLS_BEFORE_YIELD: u32 = 16;

/// Calling end of a channel, for tasks of any executor.
///
/// Clones share the channel. Each call is a future; several calls are in flight when several futures are
/// polled, and their answers arrive in any order. Dropping a future cancels its call and notifies the server.
/// `E` handles events while it holds the lock that the clones share, so it must not block.
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
    /// Returns a handle for the same client, whose calls wait up to `timeout`. The default is the channel's
    /// timeout.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        SharedClient { shared: Arc::clone(&self.shared), timeout }
    }
}

#[derive(Debug)]
struct Shared<I, E> {
    client: Client<I, Channel, E>,
    /// Set once the channel has ended and nothing more will arrive.
    ended: bool,
    /// Whether this end has announced that it sleeps.
    announced: bool,
    waiting: Vec<Waiting>,
    last_key: u64,
    /// Key of the task that the channel wakes, and that wakes the others; one of the waiting tasks, if there
    /// are any.
    driver: u64,
}

/// Waiting task.
#[derive(Debug)]
struct Waiting {
    key: u64,
    /// Call whose answer the task waits for; 0 if it waits for room.
    call: u32,
    deadline: Deadline,
    waker: Waker,
}

impl<I: Hears<E>, E> Shared<I, E> {
    /// Must be called before the channel is used. The channel wakes no task until it is armed again.
    fn end_sleep(&mut self) {
        if std::mem::take(&mut self.announced) {
            self.client.port_mut().carrier.finish_sleep(true);
        }
    }

    /// Receives what has arrived, and removes the tasks that can continue. Each of them detects the end of
    /// the channel itself.
    fn process_events(&mut self, own: u64, woken: &mut Vec<Waker>) {
        self.end_sleep();
        self.ended |= self.client.poll().is_err();
        let ended = self.ended;
        if self.waiting.iter().all(|waiting| waiting.key == own) {
            return;
        }
        let room = ended || self.client.port_mut().carrier.is_ready(Interest::Write);
        let client = &self.client;
        let can_continue = |waiting: &mut Waiting| {
            let ready = if waiting.call == 0 { room } else { !client.is_waiting(waiting.call) };
            waiting.key != own && (ready || ended || waiting.deadline.passed())
        };
        woken.extend(self.waiting.extract_if(.., can_continue).map(|waiting| waiting.waker));
    }

    /// Arms the channel to wake this task at the next event. Returns false if one has happened already.
    fn arm(&mut self, key: u64, waker: &Waker) -> Result<bool, Error> {
        let earliest = self.waiting.iter().map(|waiting| waiting.deadline.as_ns()).min();
        let deadline = Deadline::at_ns(earliest.unwrap_or(u64::MAX));
        let room = self.waiting.iter().any(|waiting| waiting.call == 0);
        let channel = self.client.port_mut();
        let awaited = if room || channel.carrier.has_unsent() { Interest::ReadWrite } else { Interest::Read };
        let asleep = announce_sleep_with_waker(channel, awaited, deadline, waker);
        self.announced = true;
        self.driver = key;
        asleep.map_err(|error| self.client.port_mut().error(error, Duration::ZERO))
    }

    /// Removes a task that no longer waits. If other tasks wait, and this one was the driver or the channel
    /// was used and not armed again, wakes another one to become the driver.
    fn remove_task(&mut self, key: u64, woken: &mut Vec<Waker>) {
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
                if let Some(registration) = &mut self.client.port_mut().registration {
                    registration.disarm();
                }
            }
        }
    }
}

/// Part of a task in a shared client, until it is dropped.
struct Task<'a, I: Hears<E>, E> {
    shared: &'a Mutex<Shared<I, E>>,
    key: u64,
    /// Call to cancel on drop; 0 for none.
    call: u32,
}

fn lock<I, E>(shared: &Mutex<Shared<I, E>>) -> MutexGuard<'_, Shared<I, E>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, I: Hears<E>, E> Task<'a, I, E> {
    fn new(shared: &'a Mutex<Shared<I, E>>) -> Self {
        Task { shared, key: 0, call: 0 }
    }

    /// Polls until `attempt` returns a result; handles incoming messages before each attempt. The last
    /// argument of `attempt` is true once waiting is over, because the deadline has passed or the channel
    /// ended.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Client<I, Channel, E>, &mut u32, bool) -> Option<Result<T, CallError<Error>>>,
    ) -> Poll<Result<T, CallError<Error>>> {
        let mut woken = Vec::new();
        let polled = {
            let mut shared = lock(self.shared);
            if self.key == 0 {
                shared.last_key += 1;
                self.key = shared.last_key;
            }
            self.poll_locked(&mut shared, context, deadline, &mut attempt, &mut woken)
        };
        // Outside the lock: a waker can run arbitrary code.
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
        for _ in 0..MAX_POLLS_BEFORE_YIELD {
            shared.process_events(self.key, woken);
            let over = deadline.passed() || shared.ended;
            if let Some(result) = attempt(&mut shared.client, &mut self.call, over) {
                self.call = 0;
                shared.remove_task(self.key, woken);
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
                    shared.remove_task(self.key, woken);
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
            let mut shared = lock(self.shared);
            if self.call != 0 {
                shared.end_sleep();
                shared.client.give_up(self.call);
            }
            shared.remove_task(self.key, &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<I: Hears<E>, E> SharedClient<I, E> {
    /// Creates a client over a channel that was opened with the hash of the interface.
    ///
    /// # Errors
    /// An error if the link lacks a feature that the interface needs.
    pub fn bind(channel: Channel, events: E) -> Result<Self, BindError> {
        let timeout = channel.timeout();
        let client = Client::bind(channel, events)?;
        let shared =
            Shared { client, ended: false, announced: false, waiting: Vec::new(), last_key: 0, driver: 0 };
        Ok(SharedClient { shared: Arc::new(Mutex::new(shared)), timeout })
    }

    /// Makes a call; waits for room and for the answer.
    ///
    /// # Errors
    /// [`CallError`]; an error with which the server declined is part of the [`Answer`].
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
                // Does not block: the answer has arrived, or the deadline has passed.
                Some(client.wait_for_answer(started))
            })
        })
    }

    /// Sends a one-way message, waiting for room.
    ///
    /// # Errors
    /// [`CallError`] if the message was not sent.
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

    /// Runs `with` on the underlying blocking client, for counters, events and the channel.
    pub fn with<R>(&self, with: impl FnOnce(&mut Client<I, Channel, E>) -> R) -> R {
        let mut woken = Vec::new();
        let result = {
            let mut shared = lock(&self.shared);
            shared.end_sleep();
            let result = with(&mut shared.client);
            shared.remove_task(0, &mut woken);
            result
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }
}
