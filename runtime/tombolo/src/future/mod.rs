//! Operations as futures, for any executor.
//!
//! The futures need no particular executor, and all are [`Send`]. A future that has to wait announces its
//! sleep to the peer like a blocking operation, and is woken by a thread of this crate. There is one such
//! thread per program: the first future that waits starts it, and it ends with the last channel, waitset or
//! request that waited.
//!
//! A future does not spin, because that would block its executor. A message that arrives soon therefore costs
//! a sleep and a wake-up, where a blocking receive finds it by polling. Programs for which microseconds
//! matter should block on a thread of their own.

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
pub(crate) use link::{MonitorWait, ask_names};
pub(crate) use offload::offload;

/// Failed attempts in a row, although the peer reports readiness, before the future yields to its executor.
const MAX_ATTEMPTS_BEFORE_YIELD: u32 = 16;

/// Channel that a waitset waits for and operations act on: a [`Channel`] or a
/// [`BulkChannel`](crate::BulkChannel).
pub trait HasChannel: Unpin + sealed::Sealed {
    /// Returns the channel underneath.
    fn channel(&self) -> &Channel;

    /// Returns the channel underneath, mutably.
    fn channel_mut(&mut self) -> &mut Channel;
}

pub(crate) mod sealed {
    /// Keeps other crates from implementing [`HasChannel`](super::HasChannel).
    pub trait Sealed {}
    impl Sealed for crate::channel::Channel {}
    impl Sealed for crate::bulk::BulkChannel {}
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

/// Operation on `C` that is attempted until it does not have to wait.
pub(crate) trait Attempt<C>: Unpin {
    /// A `Result` with the error type of the blocking operation.
    type Output;
    /// Event that the operation waits for.
    const AWAITED: (Interest, Awaited);

    /// Attempts the operation; returns `None` if it has to wait.
    fn attempt(&mut self, target: &mut C) -> Option<Self::Output>;

    /// Ends the operation with `error`: the deadline has passed, or waiting failed.
    fn stop(&mut self, error: Error) -> Self::Output;
}

/// Returns `None` if the operation has to wait.
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
    /// Whether the channel has accepted the message, though the kernel may not have yet.
    accepted: bool,
}

impl Sending<'_> {
    fn send(&mut self, carrier: &mut Carrier) -> Result<(), EndError> {
        if !self.accepted {
            carrier.try_send(self.message)?;
            self.accepted = true;
        }
        if carrier.has_unsent() { Err(EndError::Full) } else { Ok(()) }
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

/// Announces that this end sleeps, and registers `waker`; returns false if there is no need to sleep. In both
/// cases, [`Transport::finish_sleep`] must be called before this end is used again.
pub(crate) fn announce_sleep_with_waker(
    channel: &mut Channel,
    awaited: Interest,
    deadline: Deadline,
    waker: &Waker,
) -> Result<bool, ChannelError> {
    let carrier = &mut channel.carrier;
    if carrier.announce_sleep(awaited) == Announced::NeedsBarrier {
        barrier::global();
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

/// Future of an operation that may have to wait.
pub(crate) struct Operation<'a, C: HasChannel, A> {
    target: &'a mut C,
    timeout: Duration,
    deadline: Option<Deadline>,
    /// Whether this end has announced that it sleeps.
    announced: bool,
    attempt: A,
}

impl<'a, C: HasChannel, A: Attempt<C>> Operation<'a, C, A> {
    pub(crate) fn new(target: &'a mut C, timeout: Duration, attempt: A) -> Self {
        Operation { target, timeout, deadline: None, announced: false, attempt }
    }

    /// Goes to sleep. Returns false if there is no need to, and an error if the operation has to end.
    fn sleep(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let deadline = *self.deadline.get_or_insert_with(|| Deadline::after(self.timeout));
        let channel = self.target.channel_mut();
        if deadline.passed() {
            return Err(channel.error(ChannelError::TimedOut(A::AWAITED.1), self.timeout));
        }
        self.announced = true;
        let asleep = announce_sleep_with_waker(channel, A::AWAITED.0, deadline, context.waker());
        asleep.map_err(|error| channel.error(error, self.timeout))
    }
}

impl<C: HasChannel, A> Operation<'_, C, A> {
    fn end_sleep(&mut self, rung: bool) {
        if std::mem::take(&mut self.announced) {
            self.target.channel_mut().carrier.finish_sleep(rung);
        }
    }
}

impl<C: HasChannel, A: Attempt<C>> Future for Operation<'_, C, A> {
    type Output = A::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.end_sleep(true);
        for _ in 0..MAX_ATTEMPTS_BEFORE_YIELD {
            if let Some(output) = this.attempt.attempt(this.target) {
                return Poll::Ready(output);
            }
            match this.sleep(context) {
                Ok(true) => return Poll::Pending,
                Ok(false) => this.end_sleep(false),
                Err(error) => return Poll::Ready(this.attempt.stop(error)),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<C: HasChannel, A> Drop for Operation<'_, C, A> {
    fn drop(&mut self) {
        self.end_sleep(true);
        if let Some(registration) = &mut self.target.channel_mut().registration {
            registration.disarm();
        }
    }
}

impl Channel {
    /// Async version of [`recv_into`](Self::recv_into).
    ///
    /// Dropping the future loses no message: one that has arrived remains for the next receive.
    ///
    /// # Errors
    /// Same as [`recv_into`](Self::recv_into).
    pub fn recv_into_async<'a>(
        &'a mut self,
        buffer: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<usize, Error>> + Send + 'a {
        let timeout = self.timeout.take();
        Operation::new(self, timeout, Receive { buffer })
    }

    /// Async version of [`send`](Self::send).
    ///
    /// Over shared memory and windows, a future that is dropped before it is ready has sent nothing. Over a
    /// byte stream it may have sent the message: later operations flush what the stream has accepted. A
    /// message is always sent whole.
    ///
    /// # Errors
    /// Same as [`send`](Self::send).
    pub fn send_async<'a>(
        &'a mut self,
        message: &'a [u8],
    ) -> impl Future<Output = Result<(), Error>> + Send + 'a {
        let timeout = self.timeout.take();
        Operation::new(self, timeout, Sending { message, accepted: false })
    }
}

/// Returns a future that is ready once `duration` has passed.
///
/// # Errors
/// [`Error::Os`] if the thread that wakes futures cannot be started.
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
