//! Context of a task: its worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use tombolo::{Domain, Error};
use tombolo_hubs::{HubError, Task, Value};
use tombolo_task::{End, Message};

use crate::TaskError;
use crate::handle::{CancelTask, JoinHandle, Slot};
use crate::signature::{Function, Signature};

/// Timeout of a blocking join of a task started by a task.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Worker of a task: its domain, its hubs, and starting of further tasks.
#[derive(Clone, Debug)]
pub struct Context {
    worker: Arc<Worker>,
    node: Option<u16>,
}

#[derive(Debug)]
struct Worker {
    domain: Domain,
    hubs: OnceLock<Task>,
    /// Nodes of the machine, queried on first use.
    nodes: OnceLock<Vec<tombolo::nodes::NodeInfo>>,
    children: Arc<Children>,
}

/// Tasks started by the tasks of a worker, and the messages to send about them.
#[derive(Debug)]
pub(crate) struct Children {
    state: Mutex<State>,
    thread: ThreadId,
    waker: tombolo::waitset::Waker,
}

#[derive(Debug, Default)]
struct State {
    next_task: u32,
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

    /// Takes the messages to send to the starter.
    pub(crate) fn take_outbox(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().outbox)
    }

    /// Records that a task has ended; returns false for an unknown task.
    pub(crate) fn complete(&self, number: u32, end: End) -> bool {
        let slot = self.lock().slots.remove(&number);
        slot.map(|slot| slot.complete(end)).is_some()
    }

    fn start(&self, node: Option<u16>, function: u64, argument: &[u8]) -> (u32, Arc<Slot>) {
        let mut state = self.lock();
        while state.slots.contains_key(&state.next_task) {
            state.next_task = state.next_task.wrapping_add(1);
        }
        let (task, slot) = (state.next_task, Arc::<Slot>::default());
        state.next_task = state.next_task.wrapping_add(1);
        state.slots.insert(task, Arc::clone(&slot));
        let mut message = Vec::new();
        Message::Start { task, node, function, argument }.encode(&mut message);
        state.outbox.push(message);
        (task, slot)
    }
}

impl CancelTask for Children {
    fn cancel(&self, task: u32) {
        let mut message = Vec::new();
        Message::Cancel(task).encode(&mut message);
        self.lock().outbox.push(message);
        // The worker's own thread checks its outbox after each task.
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

    /// Domain of the worker.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.worker.domain
    }

    /// Name of the node that the worker runs on.
    #[must_use]
    pub fn node_name(&self) -> &str {
        self.worker.domain.node_name()
    }

    /// Returns the hubs, which all tasks of the worker use as one task of `tombolo-hubs`, through futures
    /// that wait independently. A resource is owned by the worker; to exclude other tasks of the same worker,
    /// attach a separate [`Task`].
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

    /// Returns the same context, which starts tasks on this node only.
    ///
    /// # Errors
    /// [`TaskError::Tombolo`] if the node does not exist.
    pub fn on(&self, node: &str) -> Result<Context, TaskError> {
        let worker = &self.worker;
        if worker.nodes.get().is_none() {
            let _ = worker.nodes.set(worker.domain.nodes()?);
        }
        let nodes = worker.nodes.get().map(Vec::as_slice).unwrap_or_default();
        let position = tombolo_placement::position(nodes, node)?;
        Ok(Context { worker: Arc::clone(worker), node: Some(nodes[position].id.0) })
    }

    /// Starts a task on any worker, including this one. If that fails, joining it returns the error.
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

    /// Starts a task of a function identified by its signature, with an encoded argument.
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
        let starter: Arc<dyn CancelTask> = Arc::clone(children) as _;
        JoinHandle::new(name, number, slot, starter, TIMEOUT)
    }
}
