//! What a task knows of its worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use tombolo::{Domain, Error};
use tombolo_hubs::{HubError, Task, Value};
use tombolo_task::{End, Message};

use crate::TaskError;
use crate::handle::{JoinHandle, Slot, Starts};
use crate::signature::{Function, Signature};

/// How long a blocking join of a task that a task has started waits.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The worker of a task: its domain, its hubs, and how it starts other tasks.
#[derive(Clone, Debug)]
pub struct Context {
    worker: Arc<Worker>,
    node: Option<u16>,
}

#[derive(Debug)]
struct Worker {
    domain: Domain,
    hubs: OnceLock<Task>,
    /// Names and numbers of nodes.
    nodes: OnceLock<Vec<tombolo::nodes::NodeInfo>>,
    children: Arc<Children>,
}

/// The tasks that the tasks of a worker have started, and what is to be sent about them.
#[derive(Debug)]
pub(crate) struct Children {
    state: Mutex<State>,
    thread: ThreadId,
    waker: tombolo::waitset::Waker,
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    slots: HashMap<u32, Arc<Slot>>,
    outbox: Vec<Vec<u8>>,
}

impl Children {
    pub(crate) fn new(waker: tombolo::waitset::Waker) -> Children {
        Children { state: Mutex::default(), thread: std::thread::current().id(), waker }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be sent to the starter.
    pub(crate) fn take_outbox(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().outbox)
    }

    /// One of them has ended; false when it was not one.
    pub(crate) fn ended(&self, number: u32, end: End) -> bool {
        let slot = self.lock().slots.remove(&number);
        slot.map(|slot| slot.settle(end)).is_some()
    }

    fn start(&self, node: Option<u16>, function: u64, argument: &[u8]) -> (u32, Arc<Slot>) {
        let mut state = self.lock();
        while state.slots.contains_key(&state.next) {
            state.next = state.next.wrapping_add(1);
        }
        let (task, slot) = (state.next, Arc::<Slot>::default());
        state.next = state.next.wrapping_add(1);
        state.slots.insert(task, Arc::clone(&slot));
        let mut message = Vec::new();
        Message::Start { task, node, function, argument }.encode(&mut message);
        state.outbox.push(message);
        (task, slot)
    }
}

impl Starts for Children {
    fn cancel(&self, task: u32) {
        let mut message = Vec::new();
        Message::Cancel(task).encode(&mut message);
        self.lock().outbox.push(message);
        // The worker's own thread looks at its outbox after each task.
        if std::thread::current().id() != self.thread {
            self.waker.wake();
        }
    }
}

impl Context {
    pub(crate) fn new(domain: Domain, children: Arc<Children>) -> Context {
        let (hubs, nodes) = (OnceLock::new(), OnceLock::new());
        Context { worker: Arc::new(Worker { domain, hubs, nodes, children }), node: None }
    }

    /// The domain of the worker.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.worker.domain
    }

    /// The node of the worker.
    #[must_use]
    pub fn node_name(&self) -> &str {
        self.worker.domain.node_name()
    }

    /// Hubs, which all tasks of the worker use as one task of `tombolo-hubs`: by futures, each of which waits
    /// for itself. A resource is owned by the worker; a task that locks one against others of its worker
    /// attaches a [`Task`] of its own.
    ///
    /// # Errors
    /// [`HubError::Tombolo`].
    pub fn hubs(&self) -> Result<&Task, HubError> {
        if self.worker.hubs.get().is_none() {
            let task = Task::attach(&self.worker.domain)?;
            let _ = self.worker.hubs.set(task);
        }
        self.worker.hubs.get().ok_or_else(|| HubError::from(Error::WouldBlock))
    }

    /// The same, which starts tasks on this node.
    ///
    /// # Errors
    /// [`TaskError::Tombolo`]: no such node.
    pub fn on(&self, node: &str) -> Result<Context, TaskError> {
        let worker = &self.worker;
        if worker.nodes.get().is_none() {
            let _ = worker.nodes.set(worker.domain.nodes()?);
        }
        let nodes = worker.nodes.get().map(Vec::as_slice).unwrap_or_default();
        let position = tombolo_placement::position(nodes, node)?;
        Ok(Context { worker: Arc::clone(worker), node: Some(nodes[position].id.0) })
    }

    /// Starts a task on any worker, this one included. When it cannot be, its end says so.
    ///
    /// # Errors
    /// [`TaskError::TooLong`].
    pub fn go<A: Value, R: Value>(
        &self,
        function: Function<A, R>,
        argument: A,
    ) -> Result<JoinHandle<R>, TaskError> {
        let argument = function.argument(&argument)?;
        Ok(self.start(function.name(), function.number(), &argument))
    }

    /// Starts a task of a function that is known by its signature, with the bytes of its argument.
    ///
    /// # Errors
    /// [`TaskError::TooLong`], [`TaskError::BadValue`].
    pub fn go_bytes(&self, signature: &Signature, argument: &[u8]) -> Result<JoinHandle<Vec<u8>>, TaskError> {
        signature.check_argument(argument)?;
        Ok(self.start(signature.name(), signature.number(), argument))
    }

    fn start<R: Value>(&self, name: &str, function: u64, argument: &[u8]) -> JoinHandle<R> {
        let children = &self.worker.children;
        let (number, slot) = children.start(self.node, function, argument);
        let starter: Arc<dyn Starts> = Arc::clone(children) as _;
        JoinHandle::new(name, number, slot, starter, TIMEOUT)
    }
}
