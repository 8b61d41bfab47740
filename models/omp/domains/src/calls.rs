//! Calls made on behalf of threads of other processes, each on a thread of its own.
//!
//! A call may block without limit, for example a read from a pipe, and the process's first thread must stay
//! responsive. So an idle thread makes the call, or a new one if there is none.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tombolo_omp_team::primitives::sys;

use crate::request::Request;

/// Threads of this process that make calls.
static CALLS: ThreadPool<&'static Request> = ThreadPool::new();

thread_local!(static END_AFTER_CALL: Cell<bool> = const { Cell::new(false) });

/// Makes the calling thread, which makes a call for another, end after the call: the C library was asked to
/// cancel it, and cancellation cannot be revoked.
pub fn end_thread_after_call() {
    END_AFTER_CALL.set(true);
}

/// Queue of work and the threads that execute it.
struct ThreadPool<T> {
    state: Mutex<State<T>>,
    work_queued: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    idle: usize,
}

impl<T: Send + 'static> ThreadPool<T> {
    const fn new() -> Self {
        Self { state: Mutex::new(State { queue: VecDeque::new(), idle: 0 }), work_queued: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues work for an idle thread, or starts a thread for it.
    ///
    /// # Errors
    /// Returns the work if the system cannot create a thread for it.
    fn execute(&'static self, work: T, function: fn(T)) -> Result<(), T> {
        let mut state = self.state();
        state.queue.push_back(work);
        if state.idle >= state.queue.len() {
            self.work_queued.notify_one();
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("calls".to_owned());
        match thread.spawn(move || self.run(function)) {
            Ok(_) => Ok(()),
            Err(_) => state.queue.pop_back().map_or(Ok(()), Err),
        }
    }

    fn run(&self, function: fn(T)) {
        // The thread needs the program's signal mask: a child that it starts inherits the mask, and signals
        // must interrupt its calls.
        sys::restore_signal_mask();
        let mut state = self.state();
        loop {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                function(work);
                // Queued work always has an idle thread or a new one, so this thread is not needed for it.
                if END_AFTER_CALL.get() {
                    return;
                }
                state = self.state();
            } else {
                state.idle += 1;
                state = self.work_queued.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// Makes a call for a thread of another process, asynchronously.
pub(crate) fn serve(request: &'static Request) {
    if CALLS.execute(request, Request::serve).is_err() {
        crate::fatal(format_args!(
            "a call cannot be made for a thread of another node: the system has no thread for it ({} are making calls)",
            CALLS.state().queue.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    type Call = (Receiver<u32>, Sender<u32>);

    #[test]
    fn work_is_not_lost_when_its_thread_ends() {
        static CALLS: ThreadPool<Sender<std::thread::ThreadId>> = ThreadPool::new();
        fn send_id_and_end(to: Sender<std::thread::ThreadId>) {
            end_thread_after_call();
            to.send(std::thread::current().id()).expect("a receiver");
        }
        let (sender, said) = channel();
        for _ in 0..20 {
            CALLS.execute(sender.clone(), send_id_and_end).expect("a thread");
        }
        let all: std::collections::HashSet<_> = (0..20).map(|_| said.recv().expect("a thread")).collect();
        assert_eq!(all.len(), 20);
    }

    #[test]
    fn long_call_does_not_delay_others() {
        static CALLS: ThreadPool<Call> = ThreadPool::new();
        fn forward((from, to): Call) {
            to.send(from.recv().expect("a number")).expect("a receiver");
        }
        // Each waits for the one that is queued after it.
        let (mut to, last) = channel();
        for _ in 0..5 {
            let (sender, from) = channel();
            CALLS.execute((from, to), forward).expect("a thread");
            to = sender;
        }
        to.send(7).expect("a receiver");
        assert_eq!(last.recv(), Ok(7));
    }
}
