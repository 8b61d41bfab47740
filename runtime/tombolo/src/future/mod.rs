//! Operations as futures, for any executor.
//!
//! None of them needs a particular executor, and all are [`Send`]. One that has to wait announces its sleep to the peer
//! as a blocking operation does, and has itself woken by a thread of this crate, one for the whole program, which is
//! started by the first future that waits and ends with the last channel, waitset or request that did.
//!
//! A future does not spin: that would keep its executor from everything else. So a message that comes soon costs what a
//! sleep and a wake do, where a blocking receive finds it by looking. Programs that count microseconds block on a thread
//! of their own.

mod link;
mod offload;
mod reactor;
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
use tombolo_transport::{ChannelError, Transport};

use crate::channel::{Carrier, Channel};
use crate::error::Error;
use crate::waitset::{Ready, WaitSet};
pub(crate) use link::{Arrival, Watch, ask_names};
pub(crate) use reactor::Registration;

/// Attempts in a row that fail though their peer says that they should not, before others of the executor have a turn.
const ATTEMPTS_IN_A_ROW: u32 = 16;

/// What is done to a channel, once it is possible.
trait Attempt: Unpin {
    /// What comes of it.
    type Output;
    /// What it waits for.
    const AWAITED: (Interest, Awaited);

    /// [`ChannelError::WouldBlock`] when it has to wait.
    fn attempt(&mut self, carrier: &mut Carrier) -> Result<Self::Output, ChannelError>;

    /// The deadline has passed.
    fn give_up(&mut self) -> Result<Self::Output, ChannelError> {
        Err(ChannelError::TimedOut(Self::AWAITED.1))
    }
}

struct Receive<'a> {
    buffer: &'a mut Vec<u8>,
}

impl Attempt for Receive<'_> {
    type Output = usize;
    const AWAITED: (Interest, Awaited) = (Interest::Read, Awaited::Message);

    fn attempt(&mut self, carrier: &mut Carrier) -> Result<usize, ChannelError> {
        carrier.try_recv_into(self.buffer)?.ok_or(ChannelError::WouldBlock)
    }
}

struct Sending<'a> {
    message: &'a [u8],
    /// The channel has it, though the kernel may not.
    accepted: bool,
}

impl Attempt for Sending<'_> {
    type Output = ();
    const AWAITED: (Interest, Awaited) = (Interest::Write, Awaited::Room);

    fn attempt(&mut self, carrier: &mut Carrier) -> Result<(), ChannelError> {
        if !self.accepted {
            carrier.try_send(self.message)?;
            self.accepted = true;
        }
        if carrier.unsent() { Err(ChannelError::WouldBlock) } else { Ok(()) }
    }

    fn give_up(&mut self) -> Result<(), ChannelError> {
        if self.accepted { Ok(()) } else { Err(ChannelError::TimedOut(Self::AWAITED.1)) }
    }
}

/// Announces a sleep of this end and has `waker` woken at its end; false if there is no need to. Either way the end is told
/// that it is awake ([`Transport::woken`]) before it is used again.
pub(crate) fn fall_asleep(
    channel: &mut Channel,
    awaited: Interest,
    deadline: Deadline,
    waker: &Waker,
) -> Result<bool, ChannelError> {
    let carrier = channel.carrier_mut();
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
    channel.carrier().sources(awaited, &mut sources);
    let armed = registration.arm(&sources, deadline, waker);
    channel.registration = Some(registration);
    armed?;
    Ok(true)
}

/// An operation on a channel that may have to wait.
struct Operation<'a, A: Attempt> {
    channel: &'a mut Channel,
    timeout: Duration,
    deadline: Option<Deadline>,
    /// This end has said that it sleeps.
    announced: bool,
    attempt: A,
}

impl<'a, A: Attempt> Operation<'a, A> {
    fn new(channel: &'a mut Channel, timeout: Duration, attempt: A) -> Self {
        Operation { channel, timeout, deadline: None, announced: false, attempt }
    }

    fn sleep(&mut self, deadline: Deadline, context: &mut Context<'_>) -> Result<bool, ChannelError> {
        self.announced = true;
        fall_asleep(self.channel, A::AWAITED.0, deadline, context.waker())
    }

    fn wake_up(&mut self, rung: bool) {
        if std::mem::take(&mut self.announced) {
            self.channel.carrier_mut().woken(rung);
        }
    }
}

impl<A: Attempt> Future for Operation<'_, A> {
    type Output = Result<A::Output, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.wake_up(true);
        for _ in 0..ATTEMPTS_IN_A_ROW {
            let mut result = this.attempt.attempt(this.channel.carrier_mut());
            if matches!(result, Err(ChannelError::WouldBlock)) {
                let deadline = *this.deadline.get_or_insert_with(|| Deadline::after(this.timeout));
                if deadline.passed() {
                    result = this.attempt.give_up();
                } else {
                    match this.sleep(deadline, context) {
                        Ok(true) => return Poll::Pending,
                        Ok(false) => {
                            this.wake_up(false);
                            continue;
                        }
                        Err(error) => result = Err(error),
                    }
                }
            }
            return Poll::Ready(result.map_err(|error| this.channel.error(error, this.timeout)));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<A: Attempt> Drop for Operation<'_, A> {
    fn drop(&mut self) {
        self.wake_up(true);
        if let Some(registration) = &mut self.channel.registration {
            registration.disarm();
        }
    }
}

impl Channel {
    /// [`recv_into`](Self::recv_into) as a future.
    ///
    /// A future that is dropped has received nothing: the message, if there was one, is still there for the next.
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into).
    pub fn recv_into_async<'a>(
        &'a mut self,
        buffer: &'a mut Vec<u8>,
        timeout: Duration,
    ) -> impl Future<Output = Result<usize, Error>> + Send + 'a {
        Operation::new(self, timeout, Receive { buffer })
    }

    /// [`send`](Self::send) as a future.
    ///
    /// A future that is dropped before it is ready has sent nothing over shared memory and windows. Over a byte stream
    /// it may have: what was accepted there is sent on by later operations. What was sent, was sent whole.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_async<'a>(
        &'a mut self,
        message: &'a [u8],
        timeout: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'a {
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

impl WaitSet {
    /// [`wait`](Self::wait) as a future. Nothing that is ready is lost with a future that is dropped.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_async(
        &mut self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Ready, Error>> + Send + '_ {
        Waiting { set: self, timeout, deadline: None, registration: None }
    }
}

struct Waiting<'a> {
    set: &'a mut WaitSet,
    timeout: Duration,
    deadline: Option<Deadline>,
    registration: Option<Registration>,
}

impl Future for Waiting<'_> {
    type Output = Result<Ready, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        use std::os::fd::AsFd;
        let this = self.get_mut();
        let deadline = *this.deadline.get_or_insert_with(|| Deadline::after(this.timeout));
        match this.set.wait(Duration::ZERO) {
            Err(Error::TimedOut { what, .. }) => {
                if deadline.passed() {
                    return Poll::Ready(Err(Error::TimedOut { what, timeout: this.timeout }));
                }
            }
            result => return Poll::Ready(result),
        }
        let mut registration = match this.registration.take().map_or_else(Registration::new, Ok) {
            Ok(registration) => registration,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        // Everything in the set is armed now: its descriptor tells.
        let armed = registration.arm(&[(this.set.as_fd(), Interest::Read)], deadline, context.waker());
        this.registration = Some(registration);
        match armed {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            registration.forget(&*self.set);
        }
    }
}
