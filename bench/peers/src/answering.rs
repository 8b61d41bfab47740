//! The far side of a library that answers calls on its own thread.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tombolo_bench::suite::{End, Error};

/// Timeout of either side for the other.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Number of answered calls, and the number for which a thread waits.
#[derive(Default)]
struct Count {
    answered: u64,
    wanted: u64,
}

/// Counter of calls, shared with the code that answers them.
#[derive(Clone, Default)]
pub(crate) struct AnswerCounter(Arc<(Mutex<Count>, Condvar)>);

impl AnswerCounter {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts another answer. Only the last one wakes the waiting thread, so that counting does not disturb
    /// the calls.
    pub(crate) fn one(&self) {
        let mut count = self.count();
        count.answered += 1;
        if count.answered == count.wanted {
            self.0.1.notify_all();
        }
    }

    fn wait(&self, wanted: u64) -> Result<(), Error> {
        let mut count = self.count();
        count.wanted = wanted;
        while count.answered < wanted {
            let before = count.answered;
            let waited = self.0.1.wait_timeout(count, TIMEOUT);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
            if count.answered == before {
                return Err(Error::Stalled { waited: TIMEOUT });
            }
        }
        Ok(())
    }
}

/// Thread with its own runtime, on which a library serves one connection. It inherits the processor affinity
/// of its creator.
pub(crate) struct ServerThread {
    answered: AnswerCounter,
    wanted: u64,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts `serve` with the connection and the counter; it ends when it is signalled.
    pub(crate) fn start(
        peer: &str,
        stream: UnixStream,
        serve: impl FnOnce(UnixStream, AnswerCounter, oneshot::Receiver<()>) + Send + 'static,
    ) -> Result<ServerThread, Error> {
        let (stop, stopped) = oneshot::channel();
        let answered = AnswerCounter::default();
        let counting = answered.clone();
        let thread = std::thread::Builder::new().name("answering".into());
        let thread = thread
            .spawn(move || serve(stream, counting, stopped))
            .map_err(|error| Error::of_peer(peer, format!("start a thread: {error}")))?;
        Ok(ServerThread { answered, wanted: 0, stop: Some(stop), thread: Some(thread) })
    }

    /// Waits for `calls` more answers.
    fn wait(&mut self, calls: u64) -> Result<(), Error> {
        self.wanted += calls;
        self.answered.wait(self.wanted)
    }
}

impl End for ServerThread {
    /// Does nothing: the library sends the answer.
    fn send<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn recv<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        self.wait(1)
    }

    fn answer<const N: usize>(&mut self, rounds: u64) -> Result<(), Error> {
        self.wait(rounds)
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended with the connection.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // Failures in that thread appear as unanswered calls.
            let _ = thread.join();
        }
    }
}
