//! Executor of a worker's tasks, which are futures, on its single thread.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tombolo_task::{Bytes, End, Failure, FailureKind, wire};

/// Running task: ends with its encoded result, or with an error.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Vec<u8>, Failure>>>>;

/// Queue of tasks that can run, shared with their wakers.
#[derive(Debug)]
pub(crate) struct Ready {
    queue: Mutex<VecDeque<u32>>,
    /// Set while the worker waits, or is about to: it has to be woken.
    asleep: AtomicBool,
    worker: tombolo::waitset::Waker,
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waker of one task, usable from any thread.
#[derive(Debug)]
struct TaskWaker {
    task: u32,
    /// Whether it is in the queue already.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.ready.lock().push_back(self.task);
            if self.ready.asleep.swap(false, Ordering::SeqCst) {
                self.ready.worker.wake();
            }
        }
    }
}

struct TaskState {
    future: Running,
    signal: Arc<TaskWaker>,
    waker: Waker,
    /// Whether it has neither ended nor waited yet.
    fresh: bool,
}

/// Result of one turn of a task.
pub(crate) struct RunResult {
    pub(crate) task: u32,
    /// How the task ended, if it did.
    pub(crate) end: Option<End>,
    /// Whether it has ended or waits, for the first time.
    pub(crate) released: bool,
    /// Time that it ran.
    pub(crate) ran: Duration,
}

/// Tasks of a worker.
pub(crate) struct Executor {
    tasks: HashMap<u32, TaskState>,
    ready: Arc<Ready>,
    /// Task that is running.
    current: Rc<Cell<Option<u32>>>,
}

impl Executor {
    pub(crate) fn new(worker: tombolo::waitset::Waker) -> Executor {
        let ready = Ready { queue: Mutex::default(), asleep: AtomicBool::new(false), worker };
        Executor { tasks: HashMap::new(), ready: Arc::new(ready), current: Rc::default() }
    }

    /// Returns a cell with the task that is running at any time.
    pub(crate) fn current(&self) -> Rc<Cell<Option<u32>>> {
        Rc::clone(&self.current)
    }

    /// Adds a task, which is ready to run.
    pub(crate) fn add(&mut self, task: u32, future: Running) {
        let signal =
            Arc::new(TaskWaker { task, queued: AtomicBool::new(true), ready: Arc::clone(&self.ready) });
        let waker = Waker::from(Arc::clone(&signal));
        self.tasks.insert(task, TaskState { future, signal, waker, fresh: true });
        self.ready.lock().push_back(task);
    }

    /// Cancels a task. Returns whether it was fresh, if it existed.
    pub(crate) fn cancel(&mut self, task: u32) -> Option<bool> {
        let task_state = self.tasks.remove(&task)?;
        let fresh = task_state.fresh;
        // Dropping its state may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(task_state)));
        Some(fresh)
    }

    /// Prepares to sleep. Returns whether no task is ready; the next one that becomes ready then
    /// wakes the worker.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.ready.asleep.store(true, Ordering::SeqCst);
        let idle = self.ready.lock().is_empty();
        if !idle {
            self.ready.asleep.store(false, Ordering::SeqCst);
        }
        idle
    }

    /// Records that the worker no longer sleeps.
    pub(crate) fn end_sleep(&self) {
        self.ready.asleep.store(false, Ordering::SeqCst);
    }

    /// Runs the next ready task, until it awaits or ends.
    pub(crate) fn run_next(&mut self) -> Option<RunResult> {
        loop {
            let task = self.ready.lock().pop_front()?;
            let Some(task_state) = self.tasks.get_mut(&task) else { continue };
            task_state.signal.queued.store(false, Ordering::SeqCst);
            self.current.set(Some(task));
            let started = Instant::now();
            let polled = catch_unwind(AssertUnwindSafe(|| {
                task_state.future.as_mut().poll(&mut Context::from_waker(&task_state.waker))
            }));
            let ran = started.elapsed();
            self.current.set(None);
            let end = match polled {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(result)) => Some(end_from_result(result)),
                Err(panic) => {
                    let failure = Failure::new(FailureKind::Panicked).with_text(panic_message(&*panic));
                    Some(End::Failed(failure))
                }
            };
            // A task that only yielded is ready again.
            let waits = end.is_some() || !task_state.signal.queued.load(Ordering::SeqCst);
            let released = waits && std::mem::replace(&mut task_state.fresh, false);
            if end.is_some() {
                self.cancel(task);
            }
            return Some(RunResult { task, end, released, ran });
        }
    }
}

/// Converts the result of a task to its end.
pub(crate) fn end_from_result(result: Result<Vec<u8>, Failure>) -> End {
    match result {
        Ok(bytes) if bytes.len() > wire::MAX_VALUE_BYTES => End::Failed(Failure::new(FailureKind::TooLong)),
        Ok(bytes) => End::Done(Bytes::from(bytes)),
        Err(failure) => End::Failed(failure),
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it said nothing".to_owned())
}

/// Yields to other tasks of the worker and to incoming messages: for tasks that compute for long. A cancelled
/// task ends here.
pub async fn yield_now() {
    struct Yield(bool);

    impl Future for Yield {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    Yield(false).await;
}
