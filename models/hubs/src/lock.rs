//! Resources: locks with an owner.

use std::time::Duration;

use tombolo_hub::{Kind, Operation, Taken};

use crate::HubError;
use crate::chan::wrong_answer;
use crate::task::{Hub, Task};

/// A resource: a lock with an owner, which inherits the highest priority that waits for it.
#[derive(Clone, Debug)]
pub struct Resource {
    task: Task,
    pub(crate) hub: Hub,
}

/// A resource that this task owns, until this is dropped.
#[derive(Debug)]
pub struct Owned {
    task: Task,
    hub: Hub,
    token: u64,
    abandoned: bool,
    released: bool,
}

impl Task {
    /// Opens a resource, waiting for its name up to the deadline of the task.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn resource(&self, name: &str) -> Result<Resource, HubError> {
        Ok(Resource { task: self.clone(), hub: self.open(name, &[Kind::Resource], "")? })
    }
}

impl Resource {
    /// Waits until no other task owns it, and owns it then.
    ///
    /// # Errors
    /// [`Fault::AlreadyHeld`](crate::Fault::AlreadyHeld) when this task owns it,
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::Closed`](crate::Fault::Closed),
    /// [`HubError::Lost`].
    pub fn lock(&self) -> Result<Owned, HubError> {
        self.lock_by(&self.task)
    }

    /// Owns it if no task does.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_lock(&self) -> Result<Owned, HubError> {
        self.lock_by(&self.task.within(Duration::ZERO))
    }

    fn lock_by(&self, task: &Task) -> Result<Owned, HubError> {
        let taken = task.operate(&self.hub, Operation::Get)?;
        self.owned(taken)
    }

    pub(crate) fn owned(&self, taken: Taken) -> Result<Owned, HubError> {
        let Taken::Block { token, abandoned, .. } = taken else {
            return wrong_answer(&self.hub);
        };
        let (task, hub) = (self.task.clone(), self.hub.clone());
        Ok(Owned { task, hub, token, abandoned, released: false })
    }
}

impl Owned {
    /// Larger than that of every earlier owner. What the resource protects can refuse a smaller one: its
    /// owner lost the lock without knowing.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.token
    }

    /// Whether the owner before died while it owned the resource: what it protects may be half-changed.
    #[must_use]
    pub fn was_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Gives it back, and waits until that is done.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn unlock(mut self) -> Result<(), HubError> {
        self.released = true;
        self.task.ask(&self.hub, Operation::GiveBack { token: self.token }).map(drop)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.released {
            self.task.release(&self.hub, self.token);
        }
    }
}
