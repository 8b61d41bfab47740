//! Waiting, during which other Python threads can run.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tombolo::Error;

use crate::failure::Failure;

/// Duration of a wait before Python checks for signals, for example that of Ctrl-C.
pub(crate) const SLICE: Duration = Duration::from_millis(200);

/// Default timeout, in seconds.
pub(crate) const DEFAULT_TIMEOUT: f64 = 30.0;

/// Duration in seconds, as given by Python.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) Duration);

impl Seconds {
    pub(crate) fn new(seconds: f64) -> Result<Seconds, Failure> {
        if seconds.is_nan() || seconds < 0.0 {
            return Err(Failure::invalid(format!(
                "a timeout of {seconds} s: give seconds from 0 to math.inf"
            )));
        }
        // A longer duration is limited to the longest that can be counted, some 584 years.
        let longest = Duration::from_nanos(u64::MAX);
        Ok(Seconds(Duration::try_from_secs_f64(seconds).map_or(longest, |duration| duration.min(longest))))
    }
}

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Seconds> {
        Ok(Seconds::new(object.extract::<f64>()?)?)
    }
}

/// Deadline of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    timeout: Duration,
    end: Option<Instant>,
}

impl Deadline {
    pub(crate) fn new(timeout: Duration) -> Deadline {
        Deadline { timeout, end: Instant::now().checked_add(timeout) }
    }

    /// Reports `timeout` in errors, for a wait that is the rest of a longer one.
    pub(crate) fn of(self, timeout: Duration) -> Deadline {
        Deadline { timeout, ..self }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.end.map_or(self.timeout, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Waits in slices while other Python threads run. `once` waits as long as its argument says, or returns
/// [`Error::TimedOut`].
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    until: Deadline,
    mut once: impl FnMut(Duration) -> Result<T, Error> + Send,
) -> Result<T, Failure> {
    loop {
        let left = until.remaining();
        let slice = left.min(SLICE);
        match py.detach(|| once(slice)) {
            Err(Error::TimedOut { .. } | Error::WouldBlock) if slice < left => py.check_signals()?,
            Err(Error::TimedOut { what, .. }) => {
                return Err(Error::TimedOut { what, timeout: until.timeout }.into());
            }
            result => return Ok(result?),
        }
    }
}

/// Waker for the thread that waits for a future.
struct ThreadWaker(thread::Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future while other Python threads run. If a signal raises an exception, the future is dropped,
/// which cancels its request.
pub(crate) fn wait_on<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Failure> {
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut future = pin!(future);
    loop {
        let polled = py.detach(|| {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                thread::park_timeout(SLICE);
            }
            polled
        });
        match polled {
            Poll::Ready(result) => return Ok(result?),
            Poll::Pending => py.check_signals()?,
        }
    }
}

/// Runs work that is neither a future nor divisible into slices on a separate thread, and waits for it. If a
/// signal raises an exception meanwhile, the result is dropped when it arrives.
pub(crate) fn wait_on_thread<T: Send + 'static, E: Into<Failure> + Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let started = thread::Builder::new().name("tombolo-wait".into()).spawn(move || {
        // The waiting thread may have ended.
        let _ = sender.send(work());
    });
    started.map_err(|error| Failure::new("System", format!("cannot start a thread to wait on: {error}")))?;
    let receiver = Mutex::new(receiver);
    loop {
        let received =
            py.detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE));
        match received {
            Ok(result) => return result.map_err(Into::into),
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("System", "the thread that waited ended without a result"));
            }
        }
    }
}
