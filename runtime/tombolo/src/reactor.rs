//! Reactor: one thread that sleeps for all futures of this program, and wakes those that can continue.
//!
//! The first future that has to wait starts it, and it ends with the last object that may wait. It reads no
//! channels, and runs no code of the program except its wakers.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use tombolo_platform::epoll::{Epoll, Events, Trigger};
use tombolo_platform::event::{Interest, drain, eventfd, signal};
use tombolo_platform::{Deadline, OsError};

/// Key of the event counter that interrupts the thread.
const WAKE_KEY: u64 = 0;

/// Waker registered under a key.
#[derive(Debug)]
struct RegisteredWaker {
    waker: Waker,
    /// Whether it is woken every time, rather than only the next time.
    always: bool,
}

#[derive(Debug, Default)]
struct State {
    registered: HashMap<u64, RegisteredWaker>,
    deadlines: BTreeSet<(u64, u64)>,
    last_key: u64,
    /// Deadline of the thread's current sleep.
    sleeps_until_ns: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Shared {
    epoll: Epoll,
    wake_event: OwnedFd,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs while the lock is held.
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
                // Cannot fail with open descriptors. If it did, deadlines would still have to be handled.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // Outside the lock: a waker can run arbitrary code, for example drop a future.
            self.take_due_wakers(&events).into_iter().for_each(Waker::wake);
        }
    }

    fn take_due_wakers(&self, events: &Events) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut state = self.state();
        for (key, _) in events.iter() {
            if key == WAKE_KEY {
                drain(&self.wake_event);
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
        match self.registered.get(&key) {
            Some(sleeper) if sleeper.always => wakers.push(sleeper.waker.clone()),
            Some(_) => wakers.extend(self.registered.remove(&key).map(|sleeper| sleeper.waker)),
            None => {}
        }
    }
}

/// The reactor's thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reactor {
    shared: Arc<Shared>,
}

static RUNNING: Mutex<Weak<Reactor>> = Mutex::new(Weak::new());

impl Reactor {
    /// Returns the reactor of this program, starting it if necessary.
    ///
    /// # Errors
    /// `EMFILE`, or `EAGAIN` if there are too many threads.
    pub(crate) fn running() -> Result<Arc<Reactor>, OsError> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reactor) = running.upgrade() {
            return Ok(reactor);
        }
        let shared =
            Arc::new(Shared { epoll: Epoll::new()?, wake_event: eventfd()?, state: Mutex::default() });
        shared.epoll.add(&shared.wake_event, Interest::Read, Trigger::Level, WAKE_KEY)?;
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
        // Not joined: the last owner may be dropped on that thread.
        let _ = signal(&self.shared.wake_event);
    }
}

/// Registration with the reactor: descriptors, a deadline, and the waker for them.
#[derive(Debug)]
pub(crate) struct Registration {
    reactor: Arc<Reactor>,
    key: u64,
    known: Vec<RawFd>,
    due_ns: Option<u64>,
}

impl Registration {
    /// # Errors
    /// Same as [`Reactor::running`].
    pub(crate) fn new() -> Result<Registration, OsError> {
        let reactor = Reactor::running()?;
        let key = {
            let mut state = reactor.shared.state();
            state.last_key += 1;
            state.last_key
        };
        Ok(Registration { reactor, key, known: Vec::new(), due_ns: None })
    }

    /// Wakes `waker` once when one of `sources` is ready, immediately if it is ready already, or at
    /// `deadline`. The sources must be the same at every call.
    ///
    /// # Errors
    /// Same as [`Epoll::add`].
    pub(crate) fn arm(
        &mut self,
        sources: &[(BorrowedFd<'_>, Interest)],
        deadline: Deadline,
        waker: &Waker,
    ) -> Result<(), OsError> {
        let shared = &self.reactor.shared;
        let nudge = {
            let mut state = shared.state();
            state.registered.insert(self.key, RegisteredWaker { waker: waker.clone(), always: false });
            if let Some(due_ns) = self.due_ns.replace(deadline.as_ns()) {
                state.deadlines.remove(&(due_ns, self.key));
            }
            state.deadlines.insert((deadline.as_ns(), self.key));
            deadline.as_ns() < state.sleeps_until_ns
        };
        if nudge {
            let _ = signal(&shared.wake_event);
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

    /// Wakes `waker` on every event of `source`, until this is dropped. Drop it before the source.
    ///
    /// # Errors
    /// Same as [`Epoll::add`].
    pub(crate) fn watch(&mut self, source: impl AsFd, waker: Waker) -> Result<(), OsError> {
        let shared = &self.reactor.shared;
        shared.state().registered.insert(self.key, RegisteredWaker { waker, always: true });
        shared.epoll.add(source, Interest::ReadWrite, Trigger::Edge, self.key)
    }

    /// Wakes no task until armed again.
    pub(crate) fn disarm(&mut self) {
        let mut state = self.reactor.shared.state();
        // Dropped after the lock is released: dropping a waker can run arbitrary code.
        let sleeper = state.registered.remove(&self.key);
        if let Some(due_ns) = self.due_ns.take() {
            state.deadlines.remove(&(due_ns, self.key));
        }
        drop(state);
        drop(sleeper);
    }

    /// Removes a source that outlives the registration.
    pub(crate) fn forget(&self, source: impl AsFd) {
        self.reactor.shared.epoll.remove(source);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.disarm();
    }
}
