//! Blocking tasks: each has a thread for its stack, and runs when its worker schedules it.
//!
//! The thread of the worker and that of the task take turns; only one of the two runs. So a worker runs one
//! of its tasks at a time, blocking or not, and measures all of them in the same way.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Timeout of a wait that is repeated.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Return value of a function: the encoded result, or an error message.
type Returned = Result<Vec<u8>, String>;

/// Runs a task on a thread; returns how it ended, and the handover to report that to.
type Work = Box<dyn FnOnce() -> (Arc<Handover>, thread::Result<Returned>) + Send>;

/// Error in a task that was cancelled: it should return soon, and its result is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled;

/// Pool of idle threads, kept for further tasks.
#[derive(Debug, Default)]
pub(crate) struct ThreadPool {
    idle: Mutex<Vec<Sender<Option<Work>>>>,
}

impl ThreadPool {
    fn lock(&self) -> MutexGuard<'_, Vec<Sender<Option<Work>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a thread.
    fn run(self: &Arc<Self>, work: Work) -> Result<(), std::io::Error> {
        if let Some(idle) = self.lock().pop() {
            // An idle thread receives until it is told to end.
            let _ = idle.send(Some(work));
            return Ok(());
        }
        let (sender, receiver) = channel::<Option<Work>>();
        let threads = Arc::downgrade(self);
        let of_thread = sender.clone();
        let serve = move || {
            while let Ok(Some(work)) = receiver.recv() {
                let (handover, end) = work();
                // Idle before the worker continues, so that the next task finds this thread.
                if let Some(threads) = threads.upgrade() {
                    threads.lock().push(of_thread.clone());
                }
                handover.finish(end);
            }
        };
        thread::Builder::new().name("task".into()).spawn(serve)?;
        let _ = sender.send(Some(work));
        Ok(())
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        for idle in self.lock().drain(..) {
            let _ = idle.send(None);
        }
    }
}

thread_local! {
    /// Task that this thread runs.
    static CURRENT: RefCell<Option<Arc<Handover>>> = const { RefCell::new(None) };
}

/// Handover between the thread of the worker and that of the task.
#[derive(Debug, Default)]
struct Handover {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    task_runs: bool,
    cancelled: bool,
    /// How the task ended; with the payload if it panicked.
    end: Option<thread::Result<Returned>>,
    waker: Option<Waker>,
}

impl Handover {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_turn<'s>(&self, state: MutexGuard<'s, State>, task_runs: bool) -> MutexGuard<'s, State> {
        let other = |state: &mut State| state.task_runs != task_runs;
        self.changed.wait_while(state, other).unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the worker's thread: lets the task run until it waits or ends.
    fn resume_task<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.task_runs = true;
        self.changed.notify_one();
        self.wait_turn(state, false)
    }

    /// Called by the task's thread: lets the worker run until it resumes the task.
    fn yield_to_worker(&self) {
        let mut state = self.lock();
        state.task_runs = false;
        self.changed.notify_one();
        drop(self.wait_turn(state, true));
    }

    /// Called by the task's thread: ends the task.
    fn finish(&self, end: thread::Result<Returned>) {
        let mut state = self.lock();
        state.end = Some(end);
        state.task_runs = false;
        self.changed.notify_one();
    }
}

/// Future of a blocking task: polling it runs its thread until it waits or ends. Dropping it before it has
/// ended cancels the task and runs it until it returns.
pub(crate) struct Blocking<F> {
    threads: Arc<ThreadPool>,
    body: Option<F>,
    handover: Arc<Handover>,
    /// Set once the task has ended, or its thread could not be started.
    finished: bool,
}

impl<F: FnOnce() -> Returned + Send + Unpin + 'static> Blocking<F> {
    pub(crate) fn new(threads: Arc<ThreadPool>, body: F) -> Blocking<F> {
        Blocking { threads, body: Some(body), handover: Arc::default(), finished: false }
    }
}

impl<F: FnOnce() -> Returned + Send + Unpin + 'static> Future for Blocking<F> {
    type Output = Returned;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Returned> {
        let handover = Arc::clone(&self.handover);
        let mut state = handover.lock();
        state.waker = Some(context.waker().clone());
        if let Some(body) = self.body.take() {
            let of_task = Arc::clone(&handover);
            let work = Box::new(move || {
                drop(of_task.wait_turn(of_task.lock(), true));
                CURRENT.with(|current| *current.borrow_mut() = Some(Arc::clone(&of_task)));
                let end = catch_unwind(AssertUnwindSafe(body));
                CURRENT.with(|current| current.borrow_mut().take());
                (of_task, end)
            });
            if let Err(error) = self.threads.run(work) {
                self.finished = true;
                return Poll::Ready(Err(format!("its worker could not start a thread for it: {error}")));
            }
        }
        let end = handover.resume_task(state).end.take();
        self.finished = end.is_some();
        match end {
            None => Poll::Pending,
            Some(Ok(returned)) => Poll::Ready(returned),
            Some(Err(panic)) => resume_unwind(panic),
        }
    }
}

impl<F> Drop for Blocking<F> {
    fn drop(&mut self) {
        if self.body.is_none() && !self.finished {
            let mut state = self.handover.lock();
            state.cancelled = true;
            drop(self.handover.resume_task(state));
        }
    }
}

/// Waits for a future. On the thread of a task, other tasks of the worker run meanwhile; on any other thread
/// it blocks.
///
/// # Errors
/// [`Cancelled`] if the task of this thread was cancelled.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Cancelled> {
    let mut future = pin!(future);
    let current = CURRENT.with(|current| current.borrow().clone());
    let Some(handover) = current else { return Ok(block_thread_on(future)) };
    loop {
        let waker = {
            let state = handover.lock();
            if state.cancelled {
                return Err(Cancelled);
            }
            state.waker.clone().unwrap_or_else(|| Waker::noop().clone())
        };
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return Ok(output),
            Poll::Pending => handover.yield_to_worker(),
        }
    }
}

/// Whether this thread runs a task of a worker, for which [`block_on`] lets other tasks run.
#[must_use]
pub fn is_task() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

fn block_thread_on<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            // The future has a deadline of its own.
            Poll::Pending => thread::park_timeout(MAX_WAIT),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::yield_now;

    fn task<F: FnOnce() -> Returned + Send + Unpin + 'static>(
        threads: &Arc<ThreadPool>,
        body: F,
    ) -> Blocking<F> {
        Blocking::new(Arc::clone(threads), body)
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn blocking_tasks_of_a_worker_take_turns() {
        let threads = Arc::<ThreadPool>::default();
        let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut tasks: Vec<_> = (0..20_u8)
            .map(|number| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                Box::pin(task(&threads, move || {
                    for _ in 0..number {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        running.fetch_sub(1, Ordering::SeqCst);
                        block_on(yield_now()).expect("it is not cancelled");
                    }
                    Ok(vec![number])
                }))
            })
            .collect();
        for round in 0..20_u8 {
            for (number, task) in (0_u8..).zip(&mut tasks) {
                match number.cmp(&round) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => assert_eq!(poll(task), Poll::Ready(Ok(vec![number]))),
                    std::cmp::Ordering::Greater => assert_eq!(poll(task), Poll::Pending),
                }
            }
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
        // Later tasks reuse the threads of tasks that have ended.
        let before = threads.lock().len();
        // The first task had ended before the second began.
        assert_eq!(before, 19);
        assert_eq!(poll(&mut Box::pin(task(&threads, || Ok(vec![])))), Poll::Ready(Ok(vec![])));
        assert_eq!(threads.lock().len(), before);
    }

    #[test]
    fn cancelled_task_returns_before_it_is_dropped() {
        let threads = Arc::<ThreadPool>::default();
        let returned = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&returned);
        let mut waits = Box::pin(task(&threads, move || {
            let cancelled = block_on(std::future::pending::<()>());
            let again = block_on(yield_now());
            assert_eq!((cancelled, again), (Err(Cancelled), Err(Cancelled)));
            counts.fetch_add(1, Ordering::SeqCst);
            Ok(vec![])
        }));
        assert_eq!(poll(&mut waits), Poll::Pending);
        drop(waits);
        assert_eq!(returned.load(Ordering::SeqCst), 1);
        // A task that has not begun never runs.
        let counts = Arc::clone(&returned);
        drop(task(&threads, move || {
            counts.fetch_add(1, Ordering::SeqCst);
            Ok(vec![])
        }));
        assert_eq!((returned.load(Ordering::SeqCst), threads.lock().len()), (1, 1));
    }

    #[test]
    fn panic_of_a_task_is_propagated() {
        let threads = Arc::<ThreadPool>::default();
        let mut panics = Box::pin(task(&threads, || panic!("on purpose")));
        let panic = catch_unwind(AssertUnwindSafe(|| poll(&mut panics))).expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        drop(panics);
        assert_eq!(poll(&mut Box::pin(task(&threads, || Err("no".into())))), Poll::Ready(Err("no".into())));
    }

    #[test]
    fn block_on_outside_a_task_blocks_the_thread() {
        assert!(!is_task());
        assert_eq!(block_on(async { yield_now().await }), Ok(()));
    }
}
