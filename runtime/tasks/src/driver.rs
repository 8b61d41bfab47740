//! Thread of a starter: assigns tasks to workers and receives their results.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tombolo::{Channel, Child, Domain, Error, Listener, Ready, SpawnOptions, Token, WaitSet};
use tombolo_task::{
    Bytes, End, Failure, FailureKind, Limits, Message, Origin, Output, Refusal, Scheduler, WorkerId,
    WorkerUsage,
};

use crate::handle::{CancelTask, Slot};
use crate::restart::{MAX_RESTARTS, Place, Restarter};
use crate::starter::kill_all;
use crate::worker_connection::{Link, flush, send};

/// Timeout of a wait that is repeated.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Maximum number of messages of one worker that are handled before the others get a turn.
const BATCH: usize = 64;

/// Timeout for the exit of a worker whose channel has ended, which tells how it died.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);

/// Timeout for all workers to end after they were asked to.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Worker that has connected.
#[derive(Debug)]
pub(crate) struct ConnectedWorker {
    pub(crate) child: Child,
    pub(crate) channel: Channel,
    pub(crate) node: u16,
    pub(crate) name: String,
    pub(crate) speed: u32,
}

/// State shared by the threads of the program and the driver.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    waker: tombolo::waitset::Waker,
    started_at: Instant,
}

#[derive(Debug)]
struct State {
    scheduler: Scheduler,
    /// Tasks of this program that have not ended.
    slots: HashMap<u32, Arc<Slot>>,
    /// Set while the driver waits, or is about to: it has to be woken.
    idle: bool,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn start_task(
        &self,
        node: Option<u16>,
        function: u64,
        argument: Bytes,
    ) -> Result<(u32, Arc<Slot>), Refusal> {
        let (now, slot) = (self.now(), Arc::<Slot>::default());
        let mut state = self.lock();
        if state.stopped {
            return Err(Refusal::NoWorker);
        }
        let task = state.scheduler.start(now, node, function, argument)?;
        state.slots.insert(task, Arc::clone(&slot));
        self.wake_driver(state);
        Ok((task, slot))
    }

    fn wake_driver(&self, mut state: MutexGuard<'_, State>) {
        let idle = std::mem::replace(&mut state.idle, false);
        drop(state);
        if idle {
            self.waker.wake();
        }
    }

    pub(crate) fn workers(&self) -> Vec<WorkerUsage> {
        self.lock().scheduler.workers().collect()
    }

    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        self.wake_driver(state);
    }
}

impl CancelTask for Shared {
    fn cancel(&self, task: u32) {
        let now = self.now();
        let mut state = self.lock();
        state.scheduler.cancel(now, task);
        self.wake_driver(state);
    }
}

pub(crate) struct Driver {
    shared: Arc<Shared>,
    set: WaitSet<Link<WorkerId>>,
    /// Channel of each worker that is alive.
    tokens: Vec<Option<Token>>,
    /// All workers so far, each with the index of its place.
    children: Vec<(Child, usize)>,
    places: Vec<Place>,
    restarter: Restarter,
    message: Vec<u8>,
}

impl Driver {
    /// Starts a driver with these workers. When one dies, a new one that connects to `listener` takes its
    /// place.
    pub(crate) fn start(
        workers: Vec<ConnectedWorker>,
        domain: &Domain,
        listener: Listener,
        service: String,
        program: SpawnOptions,
    ) -> Result<(Arc<Shared>, thread::JoinHandle<()>), Error> {
        let mut set = WaitSet::new()?;
        let mut scheduler = Scheduler::new(Limits::default());
        let (mut tokens, mut children, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for ConnectedWorker { child, channel, node, name, speed } in workers {
            let peer = scheduler.add_worker(node, &name, speed);
            let link = Link { channel, peer, outbox: VecDeque::new() };
            tokens.push(Some(set.add(link).map_err(Error::from)?));
            children.push((child, places.len()));
            places.push(Place { node, name, speed, restarts_left: MAX_RESTARTS });
        }
        let state = State { scheduler, slots: HashMap::new(), idle: false, stopped: false };
        let shared = Shared { state: Mutex::new(state), waker: set.waker(), started_at: Instant::now() };
        let shared = Arc::new(shared);
        let stops = Arc::clone(&shared);
        let stopped = move || stops.lock().stopped;
        let restarter = Restarter::start(domain, listener, (service, program), set.waker(), stopped)?;
        let (of_driver, message) = (Arc::clone(&shared), Vec::new());
        let driver = Driver { shared: of_driver, set, tokens, children, places, restarter, message };
        let thread = thread::Builder::new().name("tasks".into()).spawn(move || driver.run());
        let thread = thread.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(0);
            Error::Os { operation: "start a thread".into(), errno }
        })?;
        Ok((shared, thread))
    }

    fn run(mut self) {
        let why = match self.run_loop() {
            Ok(()) => "its program has ended its tasks".to_owned(),
            Err(error) => error.to_string(),
        };
        let slots = {
            let mut state = self.shared.lock();
            state.stopped = true;
            std::mem::take(&mut state.slots)
        };
        for slot in slots.into_values() {
            slot.complete(End::Failed(Failure::new(FailureKind::Lost).with_text(why.clone())));
        }
        // Workers end with their channels; one that is computing is killed.
        drop(self.set);
        kill_all(self.children.iter().map(|(child, _)| child));
        self.restarter.end();
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        for (child, _) in &self.children {
            let _ = child.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Runs until it is stopped.
    fn run_loop(&mut self) -> Result<(), Error> {
        loop {
            let (now, mut ended) = (self.shared.now(), Vec::new());
            let (outputs, timeout) = {
                let mut state = self.shared.lock();
                if state.stopped {
                    return Ok(());
                }
                if state.scheduler.next_tick().is_some_and(|at| at <= now) {
                    state.scheduler.tick(now);
                }
                let outputs = state.scheduler.take_outputs();
                for output in &outputs {
                    if let Output::Ended { origin: Origin::Local, task, end } = output {
                        ended.extend(state.slots.remove(task).map(|slot| (slot, end.clone())));
                    }
                }
                state.idle = outputs.is_empty();
                let until = |at: u64| Duration::from_nanos(at.saturating_sub(now)).min(MAX_WAIT);
                (outputs, state.scheduler.next_tick().map_or(MAX_WAIT, until))
            };
            for (slot, end) in ended {
                slot.complete(end);
            }
            if !outputs.is_empty() {
                for output in outputs {
                    self.dispatch(output);
                }
                continue;
            }
            let waited = self.set.wait(timeout);
            self.shared.lock().idle = false;
            match waited {
                Ok(Ready::Channel(token)) => self.receive_messages(token),
                Ok(Ready::Woken) => self.add_restarted_workers()?,
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn dispatch(&mut self, output: Output) {
        let (worker, message) = match &output {
            Output::Start { worker, task, function, argument } => {
                (*worker, Message::Start { task: *task, node: None, function: *function, argument })
            }
            Output::Cancel { worker, task } => (*worker, Message::Cancel(*task)),
            Output::Ended { origin: Origin::Worker(worker, number), end, .. } => {
                (*worker, Message::Ended(*number, end.clone()))
            }
            Output::Ended { origin: Origin::Local, .. } => return,
        };
        let Some(token) = self.tokens[worker.0] else { return };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if let Err(error) = send(&mut self.set, token, bytes) {
            self.handle_worker_end(token, &error);
        }
    }

    /// Handles messages of a worker.
    fn receive_messages(&mut self, token: Token) {
        if let Err(error) = flush(&mut self.set, token) {
            return self.handle_worker_end(token, &error);
        }
        let mut message = std::mem::take(&mut self.message);
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        for _ in 0..BATCH {
            let Some(link) = self.set.get_mut(token) else { break };
            let worker = link.peer;
            let received = link.channel.try_recv_into(&mut message);
            let handled = match &received {
                Ok(None) => break,
                Ok(Some(_)) => state.scheduler.receive(shared.now(), worker, &message),
                Err(_) => Ok(()),
            };
            let why: &dyn std::fmt::Display = match (&received, &handled) {
                (Err(error), _) => error,
                (_, Err(violation)) => violation,
                _ => continue,
            };
            drop(state);
            self.message = message;
            return self.handle_worker_end(token, why);
        }
        self.message = message;
    }

    /// Adds the workers that were restarted.
    fn add_restarted_workers(&mut self) -> Result<(), Error> {
        while let Some((index, started)) = self.restarter.take() {
            let shared = Arc::clone(&self.shared);
            let mut state = shared.lock();
            match started {
                Ok(ConnectedWorker { child, channel, node, name, speed }) => {
                    let peer = state.scheduler.add_announced_worker(node, &name, speed);
                    self.children.push((child, index));
                    let link = Link { channel, peer, outbox: VecDeque::new() };
                    let token = self.set.add(link).map_err(Error::from)?;
                    self.tokens.push(Some(token));
                    drop(state);
                    self.receive_messages(token);
                }
                Err(why) => {
                    let Place { node, name, .. } = &self.places[index];
                    state.scheduler.announced_worker_failed(*node, name, &why);
                }
            }
        }
        Ok(())
    }

    /// Handles the end of a worker, or drops one that misbehaves. A new one is started in its place, unless
    /// the limit of restarts is reached.
    fn handle_worker_end(&mut self, token: Token, why: &dyn std::fmt::Display) {
        let Some(link) = self.set.remove(token) else { return };
        let worker = link.peer;
        self.tokens[worker.0] = None;
        drop(link);
        let (child, index) = &self.children[worker.0];
        let why = match child.wait(EXIT_TIMEOUT) {
            Ok(exit) => format!("domain {}: {exit}", child.id()),
            Err(_) => {
                // It is alive but broke the protocol, or its node is lost.
                let _ = child.kill();
                format!("domain {}: {why}", child.id())
            }
        };
        let (now, place) = (self.shared.now(), &mut self.places[*index]);
        let is_restarting = place.restarts_left > 0 && self.restarter.request(*index, place);
        let mut state = self.shared.lock();
        if is_restarting {
            place.restarts_left -= 1;
            state.scheduler.announce_worker(place.node);
        }
        state.scheduler.worker_ended(now, worker, &why);
    }
}
