//! What a task is waited for with.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tombolo_hubs::Value;
use tombolo_task::End;

use crate::TaskError;

/// How a task ended, once it has, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    end: Option<End>,
    waker: Option<Waker>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task has ended.
    pub(crate) fn settle(&self, end: End) {
        let mut state = self.lock();
        state.end = Some(end);
        let waker = state.waker.take();
        drop(state);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self, timeout: Duration) -> Option<End> {
        let begun = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(end) = state.end.take() {
                return Some(end);
            }
            let left = timeout.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<End> {
        let mut state = self.lock();
        match state.end.take() {
            Some(end) => Poll::Ready(end),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Where a task was started, and can be cancelled.
pub(crate) trait Starts: Send + Sync + std::fmt::Debug {
    fn cancel(&self, task: u32);
}

/// Cancels a task, also from other threads than the one that waits for it.
#[derive(Clone, Debug)]
pub struct Canceller {
    number: u32,
    starter: Arc<dyn Starts>,
}

impl Canceller {
    /// As [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.starter.cancel(self.number);
    }
}

/// A task that was started. As a future it ends as [`join`](Self::join) does; tasks on workers use that,
/// since one that blocks holds all others of its worker.
///
/// Dropped, the task goes on, and its result is of no interest.
#[derive(Debug)]
#[must_use = "dropped, the task goes on, and a panic of it is not heard of"]
pub struct JoinHandle<R> {
    name: Arc<str>,
    number: u32,
    slot: Arc<Slot>,
    starter: Arc<dyn Starts>,
    timeout: Duration,
    result: PhantomData<fn() -> R>,
}

impl<R> JoinHandle<R> {
    /// Ends the task: at once, where it has not begun, and otherwise where it awaits something next.
    /// [`join`](Self::join) then returns [`TaskError::Cancelled`], or the result that it had before. What it
    /// has started itself goes on.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// What cancels it, apart from what waits for it.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { number: self.number, starter: Arc::clone(&self.starter) }
    }

    /// The name of its function.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<R: Value> JoinHandle<R> {
    pub(crate) fn new(
        name: &str,
        number: u32,
        slot: Arc<Slot>,
        starter: Arc<dyn Starts>,
        timeout: Duration,
    ) -> JoinHandle<R> {
        JoinHandle { name: name.into(), number, slot, starter, timeout, result: PhantomData }
    }

    /// Waits for its result, up to the deadline of the [`Tasks`](crate::Tasks) that started it.
    ///
    /// # Errors
    /// [`TaskError::Panicked`], [`TaskError::Lost`], [`TaskError::Cancelled`], [`TaskError::TimedOut`] and
    /// others; each names the task, and its node where it had one.
    pub fn join(mut self) -> Result<R, TaskError> {
        let timeout = self.timeout;
        match self.join_within(timeout)? {
            Some(result) => Ok(result),
            None => Err(TaskError::TimedOut { task: self.name.to_string(), timeout }),
        }
    }

    /// The same with a deadline of its own; `None` when it has not ended by then, and can be waited for
    /// again. After a result or an error there is nothing more to wait for.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_within(&mut self, timeout: Duration) -> Result<Option<R>, TaskError> {
        self.slot.wait(timeout).map(|end| self.result(end)).transpose()
    }

    /// The same as a future.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub async fn join_within_async(&mut self, timeout: Duration) -> Result<Option<R>, TaskError> {
        let mut late = pin!(tombolo::sleep(timeout));
        let ended = poll_fn(|context| match self.slot.poll(context) {
            Poll::Ready(end) => Poll::Ready(Ok(Some(end))),
            Poll::Pending => late.as_mut().poll(context).map(|slept| slept.map(|()| None)),
        });
        ended.await?.map(|end| self.result(end)).transpose()
    }

    fn result(&self, end: End) -> Result<R, TaskError> {
        match end {
            End::Done(bytes) => R::decode(&bytes).ok_or_else(|| TaskError::BadValue {
                task: self.name.to_string(),
                node: String::new(),
                what: "result",
            }),
            End::Failed(failure) => Err(TaskError::of(&self.name, failure)),
        }
    }
}

impl<R: Value> Future for JoinHandle<R> {
    type Output = Result<R, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(context).map(|end| self.result(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_timeout_is_one() {
        let slot = Arc::new(Slot::default());
        let settles = Arc::clone(&slot);
        let thread = std::thread::spawn(move || settles.settle(End::Done(Default::default())));
        assert_eq!(slot.wait(Duration::MAX), Some(End::Done(Default::default())));
        thread.join().expect("it does not panic");
        assert_eq!(slot.wait(Duration::ZERO), None);
    }
}
