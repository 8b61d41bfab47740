//! Tasks under a model checker.
//!
//! A starter with the real scheduler and two workers of different speeds, with a queue in each direction. The
//! checker explores every order of starts, messages, cancellations and ends, with the death of a worker at
//! every step. It checks in each state that a task runs at most once and ends once, and in each final state
//! that all tasks have ended.

use std::collections::{BTreeMap, VecDeque};

use stateright::{Model, Property};
use tombolo_task::{Bytes, End, Failure, FailureKind, Limits, Origin, Output, Scheduler, WorkerId};

/// Number of simulated workers. The first is three times as fast.
pub const WORKERS: usize = 2;

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct TaskModel {
    /// Tasks that the program starts, each on a given node or on any.
    pub tasks: Vec<Option<u16>>,
    /// Number of tasks that may be started by other tasks, on any node.
    pub nested: u8,
    /// Number of workers that may die.
    pub deaths: u8,
    /// Total number of cancellations.
    pub cancels: u8,
    /// Total number of times that a task may wait.
    pub waits: u8,
    /// Mistake that the checker must find, if any.
    pub mistake: TaskMistake,
}

/// Mistakes that an implementation could make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskMistake {
    /// None.
    None,
    /// The starter does not learn of a death.
    ForgetsTheDead,
    /// A worker drops a cancelled task without reporting it.
    CancelsInSilence,
    /// A worker does not ask for another task while one of its tasks waits.
    HoldsOnWhileWaiting,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ToWorker {
    Start(u32),
    Cancel(u32),
    Ended(u32),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ToStarter {
    Want { more: u32, released: u32 },
    Start(u32),
    Ended(u32, End),
    Died,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct WorkerState {
    dead: bool,
    /// Its running tasks, and whether each has not waited yet.
    lights: BTreeMap<u32, bool>,
    /// Tasks started by its tasks that have not ended.
    children: Vec<u32>,
    next: u32,
}

/// The starter, the workers and the messages between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TaskState {
    scheduler: Scheduler,
    started: usize,
    /// Number of times that each task of the program has ended.
    ended: BTreeMap<u32, u8>,
    /// Tasks that were given to a worker.
    runs: Vec<u32>,
    workers: [WorkerState; WORKERS],
    to_worker: [VecDeque<ToWorker>; WORKERS],
    to_starter: [VecDeque<ToStarter>; WORKERS],
    nested: u8,
    deaths: u8,
    cancels: u8,
    waits: u8,
    broken: Option<&'static str>,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskAction {
    /// The program starts its next task.
    Start,
    /// The program cancels a task.
    Cancel(u32),
    /// The starter handles the next message of a worker.
    DeliverToStarter(usize),
    /// A worker handles its next message.
    Take(usize),
    /// A task ends.
    End(usize, u32),
    /// A task starts to wait.
    Wait(usize, u32),
    /// A task starts another one.
    Nest(usize),
    /// A worker dies.
    Die(usize),
    /// Time advances to the next deadline of the scheduler.
    Tick,
}

impl TaskState {
    fn report_violation(&mut self, what: &'static str) {
        self.broken.get_or_insert(what);
    }

    fn send_outputs(&mut self) {
        for output in self.scheduler.take_outputs() {
            match output {
                Output::Start { worker, task, .. } => {
                    if self.runs.contains(&task) {
                        self.report_violation("a task is given twice");
                    }
                    self.runs.push(task);
                    self.send(worker.0, ToWorker::Start(task));
                }
                Output::Cancel { worker, task } => self.send(worker.0, ToWorker::Cancel(task)),
                Output::Ended { origin: Origin::Local, task, .. } => {
                    *self.ended.entry(task).or_default() += 1;
                    if self.ended[&task] > 1 {
                        self.report_violation("a task ends twice");
                    }
                }
                Output::Ended { origin: Origin::Worker(worker, number), .. } => {
                    self.send(worker.0, ToWorker::Ended(number));
                }
            }
        }
    }

    fn send(&mut self, worker: usize, message: ToWorker) {
        if !self.workers[worker].dead {
            self.to_worker[worker].push_back(message);
        }
    }

    fn deliver_to_starter(&mut self, worker: usize) -> Option<()> {
        let message = self.to_starter[worker].pop_front()?;
        let id = WorkerId(worker);
        let handled = match message {
            ToStarter::Want { more, released } => self.scheduler.handle_want(0, id, more, released),
            ToStarter::Start(number) => {
                self.scheduler.start_for_worker(0, (id, number), None, 1, Bytes::default())
            }
            ToStarter::Ended(task, end) => self.scheduler.handle_ended(0, id, task, end),
            ToStarter::Died => {
                self.scheduler.worker_ended(0, id, "");
                Ok(())
            }
        };
        if handled.is_err() {
            self.report_violation("a worker is taken for one that breaks the protocol");
        }
        self.send_outputs();
        Some(())
    }

    fn take(&mut self, worker: usize, mistake: TaskMistake) -> Option<()> {
        let message = self.to_worker[worker].pop_front()?;
        let state = &mut self.workers[worker];
        match message {
            ToWorker::Start(task) => drop(state.lights.insert(task, true)),
            ToWorker::Cancel(task) => {
                if let Some(fresh) = state.lights.remove(&task)
                    && mistake != TaskMistake::CancelsInSilence
                {
                    let end = End::Failed(Failure::new(FailureKind::Cancelled));
                    self.to_starter[worker].push_back(ToStarter::Ended(task, end));
                    self.release(worker, fresh);
                }
            }
            ToWorker::Ended(number) => match state.children.iter().position(|child| *child == number) {
                Some(child) => drop(state.children.remove(child)),
                None => self.report_violation("a worker hears of a task that it does not have"),
            },
        }
        Some(())
    }

    fn release(&mut self, worker: usize, fresh: bool) {
        if fresh {
            self.to_starter[worker].push_back(ToStarter::Want { more: 1, released: 1 });
        }
    }

    /// Describes the violated invariant, if there is one.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        self.broken
    }

    /// Describes an object left over in a final state, if there is one.
    fn left(&self) -> Option<&'static str> {
        if self.scheduler.resource_counts().iter().any(|(_, count)| *count > 0) {
            return Some("the scheduler keeps a task");
        }
        if self.workers.iter().any(|worker| !worker.dead && !worker.children.is_empty()) {
            return Some("a worker waits for ever");
        }
        None
    }
}

impl Model for TaskModel {
    type State = TaskState;
    type Action = TaskAction;

    fn init_states(&self) -> Vec<TaskState> {
        let mut scheduler = Scheduler::new(Limits::default());
        scheduler.add_worker(0, "fast", 3);
        scheduler.add_worker(1, "slow", 1);
        let want = VecDeque::from([ToStarter::Want { more: 1, released: 0 }]);
        vec![TaskState {
            scheduler,
            started: 0,
            ended: BTreeMap::new(),
            runs: Vec::new(),
            workers: Default::default(),
            to_worker: Default::default(),
            to_starter: [want.clone(), want],
            nested: self.nested,
            deaths: self.deaths,
            cancels: self.cancels,
            waits: self.waits,
            broken: None,
        }]
    }

    fn actions(&self, state: &TaskState, actions: &mut Vec<TaskAction>) {
        if state.broken.is_some() {
            return;
        }
        if state.started < self.tasks.len() {
            actions.push(TaskAction::Start);
        }
        if state.cancels > 0 {
            actions.extend(
                state
                    .ended
                    .iter()
                    .filter(|(_, times)| **times == 0)
                    .map(|(task, _)| TaskAction::Cancel(*task)),
            );
        }
        for worker in 0..WORKERS {
            if !state.to_starter[worker].is_empty() {
                actions.push(TaskAction::DeliverToStarter(worker));
            }
            let own = &state.workers[worker];
            if own.dead {
                continue;
            }
            if !state.to_worker[worker].is_empty() {
                actions.push(TaskAction::Take(worker));
            }
            for (task, fresh) in &own.lights {
                actions.push(TaskAction::End(worker, *task));
                if *fresh && state.waits > 0 {
                    actions.push(TaskAction::Wait(worker, *task));
                }
            }
            if state.nested > 0 && !own.lights.is_empty() {
                actions.push(TaskAction::Nest(worker));
            }
            if state.deaths > 0 {
                actions.push(TaskAction::Die(worker));
            }
        }
        if state.scheduler.next_tick().is_some() {
            actions.push(TaskAction::Tick);
        }
    }

    fn next_state(&self, before: &TaskState, action: TaskAction) -> Option<TaskState> {
        let mut state = before.clone();
        match action {
            TaskAction::Start => {
                let node = self.tasks[state.started];
                state.started += 1;
                // Refused if no worker can run it; the program receives the error.
                if let Ok(task) = state.scheduler.start(0, node, 1, Bytes::default()) {
                    state.ended.insert(task, 0);
                }
                state.send_outputs();
            }
            TaskAction::Cancel(task) => {
                state.cancels -= 1;
                state.scheduler.cancel(0, task);
                state.send_outputs();
            }
            TaskAction::DeliverToStarter(worker) => state.deliver_to_starter(worker)?,
            TaskAction::Take(worker) => state.take(worker, self.mistake)?,
            TaskAction::End(worker, task) => {
                let fresh = state.workers[worker].lights.remove(&task)?;
                let ended = ToStarter::Ended(task, End::Done(Bytes::default()));
                state.to_starter[worker].push_back(ended);
                let holds = self.mistake == TaskMistake::HoldsOnWhileWaiting;
                state.release(worker, fresh || holds);
            }
            TaskAction::Wait(worker, task) => {
                state.waits -= 1;
                state.workers[worker].lights.insert(task, false);
                if self.mistake != TaskMistake::HoldsOnWhileWaiting {
                    state.release(worker, true);
                }
            }
            TaskAction::Nest(worker) => {
                state.nested -= 1;
                let own = &mut state.workers[worker];
                let number = own.next;
                own.next += 1;
                own.children.push(number);
                state.to_starter[worker].push_back(ToStarter::Start(number));
            }
            TaskAction::Die(worker) => {
                state.deaths -= 1;
                state.workers[worker] = WorkerState { dead: true, ..WorkerState::default() };
                state.to_worker[worker].clear();
                // The starter reads all earlier messages before it learns of the death.
                if self.mistake != TaskMistake::ForgetsTheDead {
                    state.to_starter[worker].push_back(ToStarter::Died);
                }
            }
            TaskAction::Tick => {
                let at = state.scheduler.next_tick()?;
                state.scheduler.tick(at);
                state.send_outputs();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("tasks end once", |model: &TaskModel, state: &TaskState| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                // A waiting task may wait for a queued one, in which case it cannot end first.
                let only_ends = actions.iter().all(|action| match action {
                    TaskAction::End(worker, task) => state.workers[*worker].lights.get(task) == Some(&false),
                    _ => false,
                });
                let waits_for_queued =
                    !actions.is_empty() && only_ends && state.scheduler.resource_counts()[2].1 > 0;
                let left = if actions.is_empty() { state.left() } else { None };
                state.fault().is_none() && left.is_none() && !waits_for_queued
            }),
            Property::sometimes("a task has ended", |_, state: &TaskState| {
                state.ended.values().any(|times| *times > 0)
            }),
        ]
    }
}
