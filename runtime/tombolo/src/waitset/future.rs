//! Async waits of a waitset.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tombolo_platform::Deadline;
use tombolo_platform::event::Interest;

use super::{HasChannel, Ready, WaitSet, Waited};
use crate::error::Error;
use crate::reactor::Registration;

impl<T: Waited<End: HasChannel>> WaitSet<T> {
    /// Async [`wait`](Self::wait). Dropping the future loses no event.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub fn wait_async(&mut self, timeout: Duration) -> impl Future<Output = Result<Ready, Error>> + Send + '_
    where
        T: Send,
    {
        Waiting { set: self, timeout, deadline: None }
    }

    /// Returns a ready member. If there is none, the task of `context` is woken when there may be one, and
    /// after `timeout` at the latest. If several tasks poll, only the last one is woken. For programs that
    /// build their own futures on a set.
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait); [`Error::TimedOut`] if nothing is ready and `timeout` is zero.
    pub fn poll_wait(&mut self, context: &mut Context<'_>, timeout: Duration) -> Poll<Result<Ready, Error>> {
        match self.wait(Duration::ZERO) {
            Err(Error::TimedOut { .. }) if !timeout.is_zero() => {}
            result => return Poll::Ready(result),
        }
        let mut registration = match self.registration.take().map_or_else(Registration::new, Ok) {
            Ok(registration) => registration,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        // Every member is armed now, so the set's descriptor signals the next event.
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

impl<T: Waited<End: HasChannel>> Future for Waiting<'_, T> {
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
        // When the last registration is dropped, the thread that wakes futures ends.
        if let Some(registration) = self.set.registration.take() {
            registration.forget(&*self.set);
        }
    }
}
