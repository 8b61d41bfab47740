//! Handles of tasks, with which their results are awaited.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tombolo_hubs::Value;
use tombolo_task::End;

use crate::TaskError;

/// Result of a task, once it has ended, and the waker of the thread that waits for it.
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

    /// Stores the result of the task and wakes the waiters.
    pub(crate) fn complete(&self, end: End) {
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
        let started = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(end) = state.end.take() {
                return Some(end);
            }
            let left = timeout.checked_sub(started.elapsed()).filter(|left| !left.is_zero())?;
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

/// Starter of a task, which can cancel it.
pub(crate) trait CancelTask: Send + Sync + std::fmt::Debug {
    fn cancel(&self, task: u32);
}

/// Cancels a task, usable from any thread.
#[derive(Clone, Debug)]
pub struct Canceller {
    number: u32,
    starter: Arc<dyn CancelTask>,
}

impl Canceller {
    /// Cancels the task like [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.starter.cancel(self.number);
    }
}

/// Handle of a task. As a future it returns the result of [`join`](Self::join); tasks on workers use that,
/// because a blocking join would block all other tasks of the worker.
///
/// Dropping it detaches the task: it continues, and its result is ignored.
#[derive(Debug)]
#[must_use = "dropped, the task goes on, and a panic of it is not heard of"]
pub struct JoinHandle<R> {
    name: Arc<str>,
    number: u32,
    slot: Arc<Slot>,
    starter: Arc<dyn CancelTask>,
    timeout: Duration,
    result: PhantomData<fn() -> R>,
}

impl<R> JoinHandle<R> {
    /// Cancels the task: immediately if it has not started, otherwise at its next await point.
    /// [`join`](Self::join) then returns [`TaskError::Cancelled`], or the result if the task ended before.
    /// Tasks that it has started continue.
    pub fn cancel(&self) {
        self.canceller().cancel();
    }

    /// Returns a separate handle that only cancels the task.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { number: self.number, starter: Arc::clone(&self.starter) }
    }

    /// Name of the task's function.
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
        starter: Arc<dyn CancelTask>,
        timeout: Duration,
    ) -> JoinHandle<R> {
        JoinHandle { name: name.into(), number, slot, starter, timeout, result: PhantomData }
    }

    /// Waits for the result, up to the timeout of the [`Tasks`](crate::Tasks) that started the task.
    ///
    /// # Errors
    /// [`TaskError::Panicked`], [`TaskError::Lost`], [`TaskError::Cancelled`], [`TaskError::TimedOut`] and
    /// others; each contains the name of the task, and its node if it had one.
    pub fn join(mut self) -> Result<R, TaskError> {
        let timeout = self.timeout;
        match self.join_within(timeout)? {
            Some(result) => Ok(result),
            None => Err(TaskError::TimedOut { task: self.name.to_string(), timeout }),
        }
    }

    /// Like [`join`](Self::join), with a timeout; `None` if the task has not ended by then, and can be
    /// awaited again. After a result or an error there is nothing left to wait for.
    ///
    /// # Errors
    /// Same as [`join`](Self::join).
    pub fn join_within(&mut self, timeout: Duration) -> Result<Option<R>, TaskError> {
        self.slot.wait(timeout).map(|end| self.result(end)).transpose()
    }

    /// Async version of [`join_within`](Self::join_within).
    ///
    /// # Errors
    /// Same as [`join`](Self::join).
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
    fn maximum_timeout_is_accepted() {
        let slot = Arc::new(Slot::default());
        let settles = Arc::clone(&slot);
        let thread = std::thread::spawn(move || settles.complete(End::Done(Default::default())));
        assert_eq!(slot.wait(Duration::MAX), Some(End::Done(Default::default())));
        thread.join().expect("it does not panic");
        assert_eq!(slot.wait(Duration::ZERO), None);
    }
}
