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
        Waiting { set: self, timeout, deadline: None, registration: None }
    }
}

struct Waiting<'a, T> {
    set: &'a mut WaitSet<T>,
    timeout: Duration,
    deadline: Option<Deadline>,
    registration: Option<Registration>,
}

impl<T: Waited> Future for Waiting<'_, T> {
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

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            registration.forget(&*self.set);
        }
    }
}
