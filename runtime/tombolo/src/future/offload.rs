//! Runs rare operations that block for a moment on threads.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use tombolo_platform::OsError;

use crate::error::Error;

/// Maximum number of threads; further jobs are queued.
const MAX_THREADS: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Threads {
    running: usize,
    waiting: VecDeque<Job>,
}

static THREADS: Mutex<Option<Threads>> = Mutex::new(None);

fn with_threads<R>(change: impl FnOnce(&mut Threads) -> R) -> R {
    change(THREADS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Runs jobs until the queue is empty.
fn run_jobs(mut job: Job) {
    loop {
        job();
        let next = with_threads(|threads| {
            let next = threads.waiting.pop_front();
            threads.running -= usize::from(next.is_none());
            next
        });
        match next {
            Some(next) => job = next,
            None => return,
        }
    }
}

fn start(job: Job) -> Result<(), Error> {
    let job = with_threads(|threads| {
        if threads.running >= MAX_THREADS {
            threads.waiting.push_back(job);
            return None;
        }
        threads.running += 1;
        Some(job)
    });
    let Some(job) = job else { return Ok(()) };
    let started = std::thread::Builder::new().name("tombolo-open".into()).spawn(move || run_jobs(job));
    started.map(|_| ()).map_err(|error| {
        with_threads(|threads| threads.running -= 1);
        OsError::from_io("start a thread that opens a channel", &error).into()
    })
}

struct Outcome<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// Runs `job` on a thread. If the future is dropped, the result is dropped as well.
pub(crate) fn offload<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, Error>> + Send {
    let outcome = Arc::new(Mutex::new(Outcome { value: None, waker: None }));
    let mut job = Some(job);
    std::future::poll_fn(move |context| {
        if let Some(job) = job.take() {
            let to = Arc::clone(&outcome);
            let started = start(Box::new(move || {
                let value = job();
                let waker = {
                    let mut outcome = to.lock().unwrap_or_else(PoisonError::into_inner);
                    outcome.value = Some(value);
                    outcome.waker.take()
                };
                waker.into_iter().for_each(Waker::wake);
            }));
            if let Err(error) = started {
                return Poll::Ready(Err(error));
            }
        }
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None => {
                outcome.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
}
