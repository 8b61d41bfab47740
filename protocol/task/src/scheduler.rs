//! Starter's side: assigns tasks to workers and tracks their ends.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Bytes, End, Failure, FailureKind, Message, Refusal, Violation};

/// Point in time, in nanoseconds from an arbitrary origin.
pub type Nanos = u64;

/// Number of a task at its scheduler.
pub type TaskId = u32;

/// Worker, numbered in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub usize);

/// Program or task that started a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// The starter's own program.
    Local,
    /// A task on this worker, which chose this number.
    Worker(WorkerId, u32),
}

/// Action for the caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Starts a task on a worker.
    Start {
        /// Worker that must run it.
        worker: WorkerId,
        /// Id of the task.
        task: TaskId,
        /// Number of its function.
        function: u64,
        /// Encoded argument.
        argument: Bytes,
    },
    /// Cancels a task on a worker.
    Cancel {
        /// Worker that has the task.
        worker: WorkerId,
        /// Id of the task.
        task: TaskId,
    },
    /// Reports the end of a task.
    Ended {
        /// Origin of the task. A worker gets the number that it chose.
        origin: Origin,
        /// Id of the task; 0 if a worker's start was refused.
        task: TaskId,
        /// Result or failure.
        end: End,
    },
}

/// Limits of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Maximum number of tasks that have not ended.
    pub tasks: u32,
    /// Maximum number of tasks that a worker may want.
    pub wanted: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { tasks: 1 << 20, wanted: 1024 }
    }
}

/// State of a worker.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkerUsage {
    /// Name of its node.
    pub node: String,
    /// Whether it is alive.
    pub alive: bool,
    /// Number of tasks that it has, including waiting ones.
    pub tasks: u32,
    /// Number of tasks that it has ended.
    pub ended: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Worker {
    /// Number of its node, and its name.
    pub(crate) node: u16,
    name: String,
    /// Speed in any unit that all workers share; at least 1.
    pub(crate) speed: u64,
    pub(crate) alive: bool,
    /// Number of further tasks that it can take.
    pub(crate) wanted: u32,
    tasks: BTreeSet<TaskId>,
    /// Number of assigned tasks that have neither ended nor waited since.
    pub(crate) busy: u32,
    ended: u64,
    /// Time since which it could have had a task that was left to faster workers.
    pub(crate) skipped_since: Option<Nanos>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Task {
    /// `None` if its origin has died.
    origin: Option<Origin>,
    node: Option<u16>,
    function: u64,
    argument: Bytes,
    worker: Option<WorkerId>,
    /// Time at which it was assigned to the worker.
    assigned_at: Nanos,
    cancelled: bool,
}

/// Tasks of one program, and its workers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scheduler {
    pub(crate) workers: Vec<Worker>,
    tasks: BTreeMap<TaskId, Task>,
    /// Tasks started by workers, by the worker's number for them.
    started_by_worker: BTreeMap<(WorkerId, u32), TaskId>,
    /// Queued tasks for any node, in order.
    pub(crate) shared: VecDeque<TaskId>,
    /// Queued tasks for one node, in order.
    pinned: BTreeMap<u16, VecDeque<TaskId>>,
    /// Number of workers being started on each node, in place of others: tasks wait for them.
    announced: BTreeMap<u16, u32>,
    /// Cost of a task of each function: its time in nanoseconds, times the speed of its worker.
    pub(crate) work: BTreeMap<u64, u64>,
    next: TaskId,
    outputs: Vec<Output>,
    limits: Limits,
}

impl Scheduler {
    /// Creates a scheduler without workers.
    #[must_use]
    pub fn new(limits: Limits) -> Scheduler {
        Scheduler {
            workers: Vec::new(),
            tasks: BTreeMap::new(),
            started_by_worker: BTreeMap::new(),
            shared: VecDeque::new(),
            pinned: BTreeMap::new(),
            announced: BTreeMap::new(),
            work: BTreeMap::new(),
            next: 0,
            outputs: Vec::new(),
            limits,
        }
    }

    /// Adds a worker on the node with this number and name. Its speed is in a unit that all workers share; 0
    /// is treated as 1. It gets no task until it [wants](Self::handle_want) one.
    pub fn add_worker(&mut self, node: u16, name: &str, speed: u32) -> WorkerId {
        let worker = WorkerId(self.workers.len());
        self.workers.push(Worker {
            node,
            name: name.into(),
            speed: speed.max(1).into(),
            alive: true,
            wanted: 0,
            tasks: BTreeSet::new(),
            busy: 0,
            ended: 0,
            skipped_since: None,
        });
        worker
    }

    /// Announces a worker that is being started on this node. Until it is [there](Self::add_announced_worker)
    /// or [does not come](Self::announced_worker_failed), tasks that no other worker can run wait for it.
    pub fn announce_worker(&mut self, node: u16) {
        *self.announced.entry(node).or_default() += 1;
    }

    /// Adds a worker that was announced, like [`add_worker`](Self::add_worker).
    pub fn add_announced_worker(&mut self, node: u16, name: &str, speed: u32) -> WorkerId {
        self.remove_announcement(node);
        self.add_worker(node, name, speed)
    }

    /// Reports that an announced worker on the node with this number and name does not come, and why.
    pub fn announced_worker_failed(&mut self, node: u16, name: &str, why: &str) {
        self.remove_announcement(node);
        self.fail_stranded(node, name, why);
    }

    fn remove_announcement(&mut self, node: u16) {
        if let Some(count) = self.announced.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.announced.remove(&node);
            }
        }
    }

    /// Returns the state of each worker.
    pub fn workers(&self) -> impl Iterator<Item = WorkerUsage> {
        self.workers.iter().map(|worker| WorkerUsage {
            node: worker.name.clone(),
            alive: worker.alive,
            tasks: u32::try_from(worker.tasks.len()).unwrap_or(u32::MAX),
            ended: worker.ended,
        })
    }

    /// Returns the number of tasks that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether all tasks have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the sizes of all tables, by content, for leak checks.
    #[must_use]
    pub fn resource_counts(&self) -> [(&'static str, usize); 4] {
        [
            ("tasks", self.tasks.len()),
            ("tasks that workers began", self.started_by_worker.len()),
            ("queued", self.shared.len() + self.pinned.values().map(VecDeque::len).sum::<usize>()),
            ("with workers", self.workers.iter().map(|worker| worker.tasks.len()).sum()),
        ]
    }

    /// Returns the pending actions, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.outputs)
    }

    /// Starts a task of this program, on a given node or on any.
    ///
    /// # Errors
    /// [`Refusal`]; the task has not run.
    pub fn start(
        &mut self,
        now: Nanos,
        node: Option<u16>,
        function: u64,
        argument: Bytes,
    ) -> Result<TaskId, Refusal> {
        self.enqueue(now, Origin::Local, node, function, argument)
    }

    /// Starts a task on behalf of a task of a worker, which chose `number`. A refusal is reported as the
    /// task's end.
    ///
    /// # Errors
    /// The worker violated the protocol. Close its channel and call [`worker_ended`](Self::worker_ended).
    /// called.
    pub fn start_for_worker(
        &mut self,
        now: Nanos,
        (worker, number): (WorkerId, u32),
        node: Option<u16>,
        function: u64,
        argument: Bytes,
    ) -> Result<(), Violation> {
        if self.started_by_worker.contains_key(&(worker, number)) {
            return Err(Violation::DuplicateNumber(number));
        }
        let origin = Origin::Worker(worker, number);
        match self.enqueue(now, origin, node, function, argument) {
            Ok(task) => drop(self.started_by_worker.insert((worker, number), task)),
            Err(refusal) => {
                let kind = match refusal {
                    Refusal::NoWorker => FailureKind::NoWorker,
                    Refusal::TooMany(_) => FailureKind::TooMany,
                };
                let end = End::Failed(Failure::new(kind));
                self.outputs.push(Output::Ended { origin, task: 0, end });
            }
        }
        // Even if it was assigned to a worker, it cannot have ended: that takes a message.
        Ok(())
    }

    fn enqueue(
        &mut self,
        now: Nanos,
        origin: Origin,
        node: Option<u16>,
        function: u64,
        argument: Bytes,
    ) -> Result<TaskId, Refusal> {
        if !self.can_run(node) {
            return Err(Refusal::NoWorker);
        }
        if self.tasks.len() >= self.limits.tasks as usize {
            return Err(Refusal::TooMany(self.limits.tasks));
        }
        // Numbers are reused after 2^32 tasks; one that is still in use is skipped.
        while self.tasks.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let origin = Some(origin);
        let task =
            Task { origin, node, function, argument, worker: None, assigned_at: now, cancelled: false };
        self.tasks.insert(id, task);
        match node {
            None => self.shared.push_back(id),
            Some(node) => self.pinned.entry(node).or_default().push_back(id),
        }
        self.assign(now);
        Ok(id)
    }

    /// Handles a [`Message`] of a worker.
    ///
    /// # Errors
    /// Same as [`start_for_worker`](Self::start_for_worker), or a malformed message.
    pub fn receive(&mut self, now: Nanos, worker: WorkerId, message: &[u8]) -> Result<(), Violation> {
        match Message::decode(message)? {
            Message::Want { more, released } => self.handle_want(now, worker, more, released),
            Message::Start { task, node, function, argument } => {
                self.start_for_worker(now, (worker, task), node, function, argument.into())
            }
            Message::Cancel(number) => {
                self.cancel_for_worker(now, worker, number);
                Ok(())
            }
            Message::Ended(task, end) => self.handle_ended(now, worker, task, end),
        }
    }

    /// Records that a worker can take `more` tasks, and that `released` of its tasks have ended, or wait for
    /// something for the first time.
    ///
    /// # Errors
    /// Same as [`start_for_worker`](Self::start_for_worker).
    pub fn handle_want(
        &mut self,
        now: Nanos,
        worker: WorkerId,
        more: u32,
        released: u32,
    ) -> Result<(), Violation> {
        let Some(state) = self.workers.get_mut(worker.0) else { return Ok(()) };
        state.wanted = state.wanted.saturating_add(more);
        state.busy = state.busy.saturating_sub(released);
        if state.wanted > self.limits.wanted {
            return Err(Violation::TooManyWanted(state.wanted));
        }
        self.assign(now);
        Ok(())
    }

    /// Cancels a task of this program: at once while it is queued, otherwise where it waits next. Has no
    /// effect on a task that has ended.
    pub fn cancel(&mut self, now: Nanos, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        match task.worker {
            Some(worker) => {
                if !core::mem::replace(&mut task.cancelled, true) {
                    self.outputs.push(Output::Cancel { worker, task: id });
                }
            }
            None => {
                let queue = match task.node {
                    None => Some(&mut self.shared),
                    Some(node) => self.pinned.get_mut(&node),
                };
                if let Some(queue) = queue {
                    queue.retain(|queued| *queued != id);
                }
                self.finish(id, End::Failed(Failure::new(FailureKind::Cancelled)));
            }
        }
        self.assign(now);
    }

    /// Cancels a task that a worker started. Has no effect on a task that has ended.
    pub fn cancel_for_worker(&mut self, now: Nanos, worker: WorkerId, number: u32) {
        if let Some(id) = self.started_by_worker.get(&(worker, number)) {
            self.cancel(now, *id);
        }
    }

    /// Handles the end of a task at a worker.
    ///
    /// # Errors
    /// Same as [`start_for_worker`](Self::start_for_worker).
    pub fn handle_ended(
        &mut self,
        now: Nanos,
        worker: WorkerId,
        id: TaskId,
        end: End,
    ) -> Result<(), Violation> {
        let state = self.workers.get_mut(worker.0).ok_or(Violation::NotAssigned(id))?;
        if !state.tasks.remove(&id) {
            return Err(Violation::NotAssigned(id));
        }
        state.ended += 1;
        let speed = state.speed;
        let end = match end {
            End::Failed(failure) => End::Failed(Failure { node: state.name.clone(), ..failure }),
            done => {
                self.record_cost(now, id, speed);
                done
            }
        };
        self.finish(id, end);
        Ok(())
    }

    /// Updates the measured cost of the task's function.
    fn record_cost(&mut self, now: Nanos, id: TaskId, speed: u64) {
        let Some(task) = self.tasks.get(&id) else { return };
        let work = now.saturating_sub(task.assigned_at).saturating_mul(speed);
        let known = self.work.entry(task.function).or_insert(work);
        *known = *known / 4 * 3 + work / 4;
    }

    /// Handles the end of a worker, with all its tasks; `why` is the evidence.
    pub fn worker_ended(&mut self, now: Nanos, worker: WorkerId, why: &str) {
        let Some(state) = self.workers.get_mut(worker.0).filter(|state| state.alive) else { return };
        (state.alive, state.wanted, state.busy) = (false, 0, 0);
        let (node, name) = (state.node, state.name.clone());
        let lost = core::mem::take(&mut state.tasks);
        // Tasks that were started by its tasks continue, but their results are no longer needed.
        let started_by_worker: Vec<(WorkerId, u32)> =
            self.started_by_worker.range((worker, 0)..=(worker, u32::MAX)).map(|(key, _)| *key).collect();
        for key in started_by_worker {
            if let Some(task) = self.started_by_worker.remove(&key).and_then(|id| self.tasks.get_mut(&id)) {
                task.origin = None;
            }
        }
        let failure = |kind| Failure { kind, node: name.clone(), text: why.into() };
        for id in lost {
            self.finish(id, End::Failed(failure(FailureKind::Lost)));
        }
        self.fail_stranded(node, &name, why);
        self.assign(now);
    }

    /// Whether a worker on this node, or on any, is alive or announced.
    fn can_run(&self, node: Option<u16>) -> bool {
        let fits = |worker: &Worker| worker.alive && node.is_none_or(|node| node == worker.node);
        let comes = node.map_or(!self.announced.is_empty(), |node| self.announced.contains_key(&node));
        comes || self.workers.iter().any(fits)
    }

    /// Fails the tasks that no worker can run any more, after one on this node has ended.
    fn fail_stranded(&mut self, node: u16, name: &str, why: &str) {
        let mut stranded = Vec::new();
        if !self.can_run(Some(node)) {
            stranded.extend(self.pinned.remove(&node).into_iter().flatten());
        }
        if !self.can_run(None) {
            stranded.extend(core::mem::take(&mut self.shared));
        }
        let failure = Failure { kind: FailureKind::NoWorker, node: name.into(), text: why.into() };
        for id in stranded {
            self.finish(id, End::Failed(failure.clone()));
        }
    }

    /// Returns when [`tick`](Self::tick) is due.
    #[must_use]
    pub fn next_tick(&self) -> Option<Nanos> {
        // The worker that the next task would go to; no other is considered before it.
        let first = self.first_free(|_| true)?;
        self.wait_deadline(&self.workers[first.0])
    }

    /// Assigns tasks to slower workers that faster ones have left for too long.
    pub fn tick(&mut self, now: Nanos) {
        self.assign(now);
    }

    pub(crate) fn function_of(&self, id: TaskId) -> Option<u64> {
        self.tasks.get(&id).map(|task| task.function)
    }

    fn finish(&mut self, id: TaskId, end: End) {
        let Some(task) = self.tasks.remove(&id) else { return };
        let Some(origin) = task.origin else { return };
        if let Origin::Worker(worker, number) = origin {
            self.started_by_worker.remove(&(worker, number));
        }
        self.outputs.push(Output::Ended { origin, task: id, end });
    }

    /// Assigns tasks to workers that want some.
    fn assign(&mut self, now: Nanos) {
        if !self.pinned.is_empty() {
            let nodes: Vec<u16> = self.pinned.keys().copied().collect();
            for node in nodes {
                while let Some(worker) = self.first_free(|worker| worker.node == node) {
                    let Some(id) = self.pinned.get_mut(&node).and_then(VecDeque::pop_front) else { break };
                    self.assign_to(now, worker, id);
                }
            }
            self.pinned.retain(|_, queue| !queue.is_empty());
        }
        while !self.shared.is_empty() {
            let Some(worker) = self.first_free(|_| true) else { return };
            let Some(id) = self.take_shared(now, worker) else { return };
            self.assign_to(now, worker, id);
        }
    }

    fn assign_to(&mut self, now: Nanos, worker: WorkerId, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        (task.worker, task.assigned_at) = (Some(worker), now);
        let argument = core::mem::take(&mut task.argument);
        let state = &mut self.workers[worker.0];
        state.wanted -= 1;
        state.busy += 1;
        state.tasks.insert(id);
        let function = task.function;
        self.outputs.push(Output::Start { worker, task: id, function, argument });
    }
}
