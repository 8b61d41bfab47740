//! Operations as futures, for any executor.
//!
//! None of them needs a particular executor, and all are [`Send`]. One that has to wait announces its sleep
//! to the peer as a blocking operation does, and has itself woken by a thread of this crate, one for the
//! whole program, which is started by the first future that waits and ends with the last channel, waitset or
//! request that did.
//!
//! A future does not spin: that would keep its executor from everything else. So a message that comes soon
//! costs what a sleep and a wake do, where a blocking receive finds it by looking. Programs that count
//! microseconds block on a thread of their own.

mod link;
mod offload;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tombolo_platform::event::Interest;
use tombolo_platform::{Deadline, barrier};
use tombolo_transport::contract::Announced;
use tombolo_transport::error::Awaited;
use tombolo_transport::{ChannelError, EndError, Transport, TransportExt};

use crate::channel::{Carrier, Channel};
use crate::error::Error;
pub(crate) use crate::reactor::Registration;
pub(crate) use link::{Arrival, ask_names};
pub(crate) use offload::offload;

/// Attempts in a row that fail though their peer says that they should not, before others of the executor
/// have a turn.
const ATTEMPTS_IN_A_ROW: u32 = 16;

/// What an operation acts on: a channel, or an object with a channel underneath.
pub trait HasChannel: Unpin {
    /// The channel.
    fn channel(&self) -> &Channel;

    /// The channel.
    fn channel_mut(&mut self) -> &mut Channel;
}

impl HasChannel for Channel {
    #[inline]
    fn channel(&self) -> &Channel {
        self
    }

    #[inline]
    fn channel_mut(&mut self) -> &mut Channel {
        self
    }
}

/// One operation on `C`, tried again until it does not have to wait.
pub(crate) trait Attempt<C>: Unpin {
    /// A `Result`, with the error type of the blocking operation.
    type Output;
    /// What it waits for.
    const AWAITED: (Interest, Awaited);

    /// `None` when it has to wait.
    fn attempt(&mut self, target: &mut C) -> Option<Self::Output>;

    /// The deadline has passed, or waiting is impossible: `error` says which.
    fn stop(&mut self, error: Error) -> Self::Output;
}

/// `None` for an operation that has to wait.
fn unless_blocked<T>(
    result: Result<T, EndError>,
    channel: &Channel,
    length_bytes: usize,
) -> Option<Result<T, Error>> {
    match result {
        Err(EndError::Full) => None,
        result => Some(result.map_err(|error| channel.refused(error, length_bytes))),
    }
}

struct Receive<'a> {
    buffer: &'a mut Vec<u8>,
}

impl Attempt<Channel> for Receive<'_> {
    type Output = Result<usize, Error>;
    const AWAITED: (Interest, Awaited) = (Interest::Read, Awaited::Message);

    fn attempt(&mut self, channel: &mut Channel) -> Option<Self::Output> {
        let received = channel.carrier.try_recv_into(self.buffer);
        let received = received.and_then(|length| length.ok_or(EndError::Full));
        unless_blocked(received, channel, 0)
    }

    fn stop(&mut self, error: Error) -> Self::Output {
        Err(error)
    }
}

struct Sending<'a> {
    message: &'a [u8],
    /// The channel has it, though the kernel may not.
    accepted: bool,
}

impl Sending<'_> {
    fn send(&mut self, carrier: &mut Carrier) -> Result<(), EndError> {
        if !self.accepted {
            carrier.try_send(self.message)?;
            self.accepted = true;
        }
        if carrier.unsent() { Err(EndError::Full) } else { Ok(()) }
    }
}

impl Attempt<Channel> for Sending<'_> {
    type Output = Result<(), Error>;
    const AWAITED: (Interest, Awaited) = (Interest::Write, Awaited::Room);

    fn attempt(&mut self, channel: &mut Channel) -> Option<Self::Output> {
        let sent = self.send(&mut channel.carrier);
        unless_blocked(sent, channel, self.message.len())
    }

    fn stop(&mut self, error: Error) -> Self::Output {
        if self.accepted && matches!(error, Error::TimedOut { .. }) { Ok(()) } else { Err(error) }
    }
}

/// Announces a sleep of this end and has `waker` woken at its end; false if there is no need to. Either way
/// the end is told that it is awake ([`Transport::woken`]) before it is used again.
pub(crate) fn fall_asleep(
    channel: &mut Channel,
    awaited: Interest,
    deadline: Deadline,
    waker: &Waker,
) -> Result<bool, ChannelError> {
    let carrier = &mut channel.carrier;
    if carrier.announce_sleep(awaited) == Announced::NeedsBarrier {
        barrier::everywhere();
    }
    if !carrier.may_sleep(awaited) {
        return Ok(false);
    }
    let mut registration = match channel.registration.take() {
        Some(registration) => registration,
        None => Registration::new()?,
    };
    let mut sources = Vec::with_capacity(2);
    channel.carrier.sources(awaited, &mut sources);
    let armed = registration.arm(&sources, deadline, waker);
    channel.registration = Some(registration);
    armed?;
    Ok(true)
}

/// An operation that may have to wait, as a future.
pub(crate) struct Operation<'a, C: HasChannel, A> {
    target: &'a mut C,
    timeout: Duration,
    deadline: Option<Deadline>,
    /// This end has said that it sleeps.
    announced: bool,
    attempt: A,
}

impl<'a, C: HasChannel, A: Attempt<C>> Operation<'a, C, A> {
    pub(crate) fn new(target: &'a mut C, timeout: Duration, attempt: A) -> Self {
        Operation { target, timeout, deadline: None, announced: false, attempt }
    }

    /// Whether it sleeps now, or why it does not have to wait any longer.
    fn sleep(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let deadline = *self.deadline.get_or_insert_with(|| Deadline::after(self.timeout));
        let channel = self.target.channel_mut();
        if deadline.passed() {
            return Err(channel.error(ChannelError::TimedOut(A::AWAITED.1), self.timeout));
        }
        self.announced = true;
        let asleep = fall_asleep(channel, A::AWAITED.0, deadline, context.waker());
        asleep.map_err(|error| channel.error(error, self.timeout))
    }
}

impl<C: HasChannel, A> Operation<'_, C, A> {
    fn wake_up(&mut self, rung: bool) {
        if std::mem::take(&mut self.announced) {
            self.target.channel_mut().carrier.woken(rung);
        }
    }
}

impl<C: HasChannel, A: Attempt<C>> Future for Operation<'_, C, A> {
    type Output = A::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.wake_up(true);
        for _ in 0..ATTEMPTS_IN_A_ROW {
            if let Some(output) = this.attempt.attempt(this.target) {
                return Poll::Ready(output);
            }
            match this.sleep(context) {
                Ok(true) => return Poll::Pending,
                Ok(false) => this.wake_up(false),
                Err(error) => return Poll::Ready(this.attempt.stop(error)),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<C: HasChannel, A> Drop for Operation<'_, C, A> {
    fn drop(&mut self) {
        self.wake_up(true);
        if let Some(registration) = &mut self.target.channel_mut().registration {
            registration.disarm();
        }
    }
}

impl Channel {
    /// [`recv_into`](Self::recv_into) as a future.
    ///
    /// A future that is dropped has received nothing: the message, if there was one, is still there for the
    /// next.
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into).
    pub fn recv_into_async<'a>(
        &'a mut self,
        buffer: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<usize, Error>> + Send + 'a {
        let timeout = self.timeout.take();
        Operation::new(self, timeout, Receive { buffer })
    }

    /// [`send`](Self::send) as a future.
    ///
    /// A future that is dropped before it is ready has sent nothing over shared memory and windows. Over a
    /// byte stream it may have: what was accepted there is sent on by later operations. What was sent, was
    /// sent whole.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_async<'a>(
        &'a mut self,
        message: &'a [u8],
    ) -> impl Future<Output = Result<(), Error>> + Send + 'a {
        let timeout = self.timeout.take();
        Operation::new(self, timeout, Sending { message, accepted: false })
    }
}

/// A timer: ready once `duration` has passed.
///
/// # Errors
/// [`Error::Os`] when the thread that wakes futures cannot be started.
pub fn sleep(duration: Duration) -> impl Future<Output = Result<(), Error>> + Send {
    let deadline = Deadline::after(duration);
    let mut registration: Option<Registration> = None;
    std::future::poll_fn(move |context| {
        if deadline.passed() {
            registration = None;
            return Poll::Ready(Ok(()));
        }
        let armed = registration.take().map_or_else(Registration::new, Ok).and_then(|mut fresh| {
            fresh.arm(&[], deadline, context.waker())?;
            registration = Some(fresh);
            Ok(())
        });
        match armed {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    })
}
