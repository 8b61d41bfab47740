//! Resources: locks with an owner.

use tombolo_hub::{Kind, Taken};

use crate::HubError;
use crate::hub::Hub;
use crate::task::Task;

/// Resource: a lock whose owner inherits the highest priority of the tasks that wait for it.
#[derive(Clone, Debug)]
pub struct Resource {
    pub(crate) hub: Hub,
}

/// Resource owned by this task, until this is dropped.
#[derive(Debug)]
pub struct Owned {
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
        Ok(Resource { hub: self.hub(name, &[Kind::Resource], "")? })
    }
}

impl Resource {
    /// Returns the hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Locks the resource, waiting until no other task owns it.
    ///
    /// # Errors
    /// [`Fault::AlreadyHeld`](crate::Fault::AlreadyHeld) if this task owns it,
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::Closed`](crate::Fault::Closed),
    /// [`HubError::Lost`].
    pub fn lock(&self) -> Result<Owned, HubError> {
        self.owned(self.hub.get()?)
    }

    /// Async version of [`lock`](Self::lock).
    ///
    /// # Errors
    /// Same as [`lock`](Self::lock).
    pub async fn lock_async(&self) -> Result<Owned, HubError> {
        self.owned(self.hub.start_get()?.wait_async().await?)
    }

    /// Locks the resource if no task owns it.
    ///
    /// # Errors
    /// Same as [`lock`](Self::lock), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_lock(&self) -> Result<Owned, HubError> {
        self.owned(self.hub.nonblocking().get()?)
    }

    pub(crate) fn owned(&self, taken: Taken) -> Result<Owned, HubError> {
        let Taken::Block { token, abandoned, .. } = taken else {
            return Err(self.hub.info.unexpected_answer());
        };
        Ok(Owned { hub: self.hub.clone(), token, abandoned, released: false })
    }
}

impl Owned {
    /// Fencing token: larger than that of every earlier owner. The protected object can refuse a smaller one,
    /// whose owner has lost the lock without noticing.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.token
    }

    /// Whether the previous owner died while it owned the resource: the protected object may be inconsistent.
    #[must_use]
    pub fn was_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Unlocks the resource, and waits for the confirmation.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn unlock(mut self) -> Result<(), HubError> {
        self.released = true;
        self.hub.give_back(self.token)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.released {
            self.hub.release(self.token);
        }
    }
}
