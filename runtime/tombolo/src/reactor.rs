//! One thread that sleeps for all futures of this program and wakes those that can go on.
//!
//! It is started by the first future that has to wait and ends with the last thing that may. It reads no
//! channel and runs nothing of the program's but its wakers.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use tombolo_platform::epoll::{Epoll, Events, Trigger};
use tombolo_platform::event::{Interest, drain, eventfd, signal};
use tombolo_platform::{Deadline, OsError};

/// The key of the counter that interrupts the thread.
const BELL: u64 = 0;

/// Whom to wake for a key.
#[derive(Debug)]
struct Sleeper {
    waker: Waker,
    /// Not only the next time.
    always: bool,
}

#[derive(Debug, Default)]
struct State {
    sleepers: HashMap<u64, Sleeper>,
    deadlines: BTreeSet<(u64, u64)>,
    last_key: u64,
    /// Until when the thread sleeps, if nothing happens.
    sleeps_until_ns: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Shared {
    epoll: Epoll,
    bell: OwnedFd,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut events = Events::new();
        loop {
            let deadline = {
                let mut state = self.state();
                if state.stopped {
                    return;
                }
                let next_ns = state.deadlines.first().map(|(due_ns, _)| *due_ns);
                state.sleeps_until_ns = next_ns.unwrap_or(u64::MAX);
                next_ns.map(Deadline::at_ns)
            };
            if self.epoll.wait(&mut events, deadline).is_err() {
                // It cannot fail with descriptors that are open. Were it to, the deadlines must still be
                // kept.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // Outside the lock: a waker may do anything, such as drop a future.
            self.happened(&events).into_iter().for_each(Waker::wake);
        }
    }

    fn happened(&self, events: &Events) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut state = self.state();
        for (key, _) in events.iter() {
            if key == BELL {
                drain(&self.bell);
            }
            state.take(key, &mut wakers);
        }
        let now_ns = Deadline::after(std::time::Duration::ZERO).as_ns();
        while let Some((due_ns, key)) = state.deadlines.first().copied()
            && due_ns <= now_ns
        {
            state.deadlines.pop_first();
            state.take(key, &mut wakers);
        }
        wakers
    }
}

impl State {
    fn take(&mut self, key: u64, wakers: &mut Vec<Waker>) {
        match self.sleepers.get(&key) {
            Some(sleeper) if sleeper.always => wakers.push(sleeper.waker.clone()),
            Some(_) => wakers.extend(self.sleepers.remove(&key).map(|sleeper| sleeper.waker)),
            None => {}
        }
    }
}

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reactor {
    shared: Arc<Shared>,
}

static RUNNING: Mutex<Weak<Reactor>> = Mutex::new(Weak::new());

impl Reactor {
    /// The one of this program.
    ///
    /// # Errors
    /// `EMFILE`, or `EAGAIN` when there are too many threads.
    pub(crate) fn running() -> Result<Arc<Reactor>, OsError> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reactor) = running.upgrade() {
            return Ok(reactor);
        }
        let shared = Arc::new(Shared { epoll: Epoll::new()?, bell: eventfd()?, state: Mutex::default() });
        shared.epoll.add(&shared.bell, Interest::Read, Trigger::Level, BELL)?;
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("tombolo-reactor".into())
            .spawn(move || of_thread.run())
            .map_err(|error| OsError::from_io("start the thread that wakes futures", &error))?;
        let reactor = Arc::new(Reactor { shared });
        *running = Arc::downgrade(&reactor);
        Ok(reactor)
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        // Not joined: what drops it may run on that thread.
        let _ = signal(&self.shared.bell);
    }
}

/// A place in the reactor: some descriptors, a deadline, and whom to wake for them.
#[derive(Debug)]
pub(crate) struct Registration {
    reactor: Arc<Reactor>,
    key: u64,
    known: Vec<RawFd>,
    due_ns: Option<u64>,
}

impl Registration {
    /// # Errors
    /// As [`Reactor::running`].
    pub(crate) fn new() -> Result<Registration, OsError> {
        let reactor = Reactor::running()?;
        let key = {
            let mut state = reactor.shared.state();
            state.last_key += 1;
            state.last_key
        };
        Ok(Registration { reactor, key, known: Vec::new(), due_ns: None })
    }

    /// Wakes `waker` once, when one of `sources` is ready, also if it is by now, or at `deadline`. The
    /// sources are the same ones at every call.
    ///
    /// # Errors
    /// As [`Epoll::add`].
    pub(crate) fn arm(
        &mut self,
        sources: &[(BorrowedFd<'_>, Interest)],
        deadline: Deadline,
        waker: &Waker,
    ) -> Result<(), OsError> {
        let shared = &self.reactor.shared;
        let nudge = {
            let mut state = shared.state();
            state.sleepers.insert(self.key, Sleeper { waker: waker.clone(), always: false });
            if let Some(due_ns) = self.due_ns.replace(deadline.as_ns()) {
                state.deadlines.remove(&(due_ns, self.key));
            }
            state.deadlines.insert((deadline.as_ns(), self.key));
            deadline.as_ns() < state.sleeps_until_ns
        };
        if nudge {
            let _ = signal(&shared.bell);
        }
        for (fd, interest) in sources {
            if self.known.contains(&fd.as_raw_fd()) {
                shared.epoll.change(fd, *interest, Trigger::Once, self.key)?;
            } else {
                shared.epoll.add(fd, *interest, Trigger::Once, self.key)?;
                self.known.push(fd.as_raw_fd());
            }
        }
        Ok(())
    }

    /// Wakes `waker` whenever something happens on `source`, until this is dropped, and before the source is.
    ///
    /// # Errors
    /// As [`Epoll::add`].
    pub(crate) fn watch(&mut self, source: impl AsFd, waker: Waker) -> Result<(), OsError> {
        let shared = &self.reactor.shared;
        shared.state().sleepers.insert(self.key, Sleeper { waker, always: true });
        shared.epoll.add(source, Interest::ReadWrite, Trigger::Edge, self.key)
    }

    /// Wakes no task any more, until armed again.
    pub(crate) fn disarm(&mut self) {
        let mut state = self.reactor.shared.state();
        // Dropped after the lock: what belongs to a waker may do anything.
        let sleeper = state.sleepers.remove(&self.key);
        if let Some(due_ns) = self.due_ns.take() {
            state.deadlines.remove(&(due_ns, self.key));
        }
        drop(state);
        drop(sleeper);
    }

    /// Forgets a source that goes on without it.
    pub(crate) fn forget(&self, source: impl AsFd) {
        self.reactor.shared.epoll.remove(source);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.disarm();
    }
}
