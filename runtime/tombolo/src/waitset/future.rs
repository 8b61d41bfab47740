//! A wait as a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tombolo_platform::Deadline;
use tombolo_platform::event::Interest;

use super::{Ready, WaitSet, Waited};
use crate::error::Error;
use crate::reactor::Registration;

impl<T: Waited> WaitSet<T> {
    /// [`wait`](Self::wait) as a future. Nothing that is ready is lost with a future that is dropped.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_async(&mut self, timeout: Duration) -> impl Future<Output = Result<Ready, Error>> + Send + '_
    where
        T: Send,
    {
        Waiting { set: self, timeout, deadline: None }
    }

    /// Says what is ready. If nothing is, the task of `context` is woken when something may be, and after
    /// `timeout` at the latest. Of several tasks that poll, the last is woken: for programs that wait for
    /// several things by futures and have one set beneath.
    ///
    /// # Errors
    /// As [`wait`](Self::wait): [`Error::TimedOut`] when nothing is ready and `timeout` is zero.
    pub fn poll_wait(&mut self, context: &mut Context<'_>, timeout: Duration) -> Poll<Result<Ready, Error>> {
        match self.wait(Duration::ZERO) {
            Err(Error::TimedOut { .. }) if !timeout.is_zero() => {}
            result => return Poll::Ready(result),
        }
        let mut registration = match self.registration.take().map_or_else(Registration::new, Ok) {
            Ok(registration) => registration,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        // Everything in the set is armed now: its descriptor tells.
        let sources = [(std::os::fd::AsFd::as_fd(self), Interest::Read)];
        let armed = registration.arm(&sources, Deadline::after(timeout), context.waker());
        self.registration = Some(registration);
        match armed {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

struct Waiting<'a, T> {
    set: &'a mut WaitSet<T>,
    timeout: Duration,
    deadline: Option<Deadline>,
}

impl<T: Waited> Future for Waiting<'_, T> {
    type Output = Result<Ready, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let deadline = *this.deadline.get_or_insert_with(|| Deadline::after(this.timeout));
        match this.set.poll_wait(context, deadline.remaining()) {
            Poll::Ready(Err(Error::TimedOut { what, .. })) => {
                Poll::Ready(Err(Error::TimedOut { what, timeout: this.timeout }))
            }
            polled => polled,
        }
    }
}

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        // With the last of them ends the thread that wakes futures.
        if let Some(registration) = self.set.registration.take() {
            registration.forget(&*self.set);
        }
    }
}
