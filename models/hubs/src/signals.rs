//! Hubs without values: events and counting semaphores.

use std::time::Duration;

use tombolo_hub::{Fault, Kind, Operation, Outcome};

use crate::HubError;
use crate::chan::wrong_answer;
use crate::task::{Hub, Task};

/// An event: one bit, which a task raises and another awaits and clears.
#[derive(Clone, Debug)]
pub struct Event {
    task: Task,
    pub(crate) hub: Hub,
}

/// A counting semaphore, from 0 to its capacity.
#[derive(Clone, Debug)]
pub struct Semaphore {
    task: Task,
    pub(crate) hub: Hub,
}

impl Task {
    /// Opens an event, waiting for its name up to the deadline of the task.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn event(&self, name: &str) -> Result<Event, HubError> {
        Ok(Event { task: self.clone(), hub: self.open(name, &[Kind::Event], "")? })
    }

    /// Opens a semaphore, waiting for its name up to the deadline of the task.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn semaphore(&self, name: &str) -> Result<Semaphore, HubError> {
        Ok(Semaphore { task: self.clone(), hub: self.open(name, &[Kind::Semaphore], "")? })
    }
}

fn put(task: &Task, hub: &Hub) -> Result<(), HubError> {
    task.operate(hub, Operation::Put { value: &[] }).map(drop)
}

fn get(task: &Task, hub: &Hub) -> Result<(), HubError> {
    task.operate(hub, Operation::Get).map(drop)
}

fn close(task: &Task, hub: &Hub) -> Result<(), HubError> {
    task.ask(hub, Operation::Close).map(drop)
}

fn depth(task: &Task, hub: &Hub) -> Result<u32, HubError> {
    match task.ask(hub, Operation::Status)? {
        Outcome::Status(status) => Ok(status.depth),
        _ => wrong_answer(hub),
    }
}

impl Event {
    /// Raises it, waiting while it is raised and was not awaited yet.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], [`Fault::Closed`], [`HubError::Lost`].
    pub fn raise(&self) -> Result<(), HubError> {
        put(&self.task, &self.hub)
    }

    /// Raises it, if it was not raised already: whether it was not.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`HubError::Lost`].
    pub fn set(&self) -> Result<bool, HubError> {
        match put(&self.task.within(Duration::ZERO), &self.hub) {
            Ok(()) => Ok(true),
            Err(error) if error.fault() == Some(Fault::WouldBlock) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until it is raised, and clears it.
    ///
    /// # Errors
    /// As [`raise`](Self::raise).
    pub fn wait(&self) -> Result<(), HubError> {
        get(&self.task, &self.hub)
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        close(&self.task, &self.hub)
    }
}

impl Semaphore {
    /// Increases the count by one, waiting while it is as high as it can be.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], [`Fault::Closed`], [`HubError::Lost`].
    pub fn signal(&self) -> Result<(), HubError> {
        put(&self.task, &self.hub)
    }

    /// Waits until the count is positive, and decreases it.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub fn wait(&self) -> Result<(), HubError> {
        get(&self.task, &self.hub)
    }

    /// Decreases the count if it is positive.
    ///
    /// # Errors
    /// As [`signal`](Self::signal), with [`Fault::WouldBlock`].
    pub fn try_wait(&self) -> Result<(), HubError> {
        get(&self.task.within(Duration::ZERO), &self.hub)
    }

    /// The count; a hint, for others change it meanwhile.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn count(&self) -> Result<u32, HubError> {
        depth(&self.task, &self.hub)
    }

    /// Closes it: those that wait learn it when the count is 0.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        close(&self.task, &self.hub)
    }
}
