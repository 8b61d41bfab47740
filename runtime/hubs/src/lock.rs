//! Resources: locks with an owner.

use tombolo_hub::{Kind, Taken};

use crate::HubError;
use crate::hub::Hub;
use crate::task::Task;

/// A resource: a lock with an owner, which inherits the highest priority that waits for it.
#[derive(Clone, Debug)]
pub struct Resource {
    pub(crate) hub: Hub,
}

/// A resource that this task owns, until this is dropped.
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
    /// The hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Waits until no other task owns it, and owns it then.
    ///
    /// # Errors
    /// [`Fault::AlreadyHeld`](crate::Fault::AlreadyHeld) when this task owns it,
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::Closed`](crate::Fault::Closed),
    /// [`HubError::Lost`].
    pub fn lock(&self) -> Result<Owned, HubError> {
        self.owned(self.hub.get()?)
    }

    /// [`lock`](Self::lock) as a future.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub async fn lock_async(&self) -> Result<Owned, HubError> {
        self.owned(self.hub.start_get()?.wait_async().await?)
    }

    /// Owns it if no task does.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_lock(&self) -> Result<Owned, HubError> {
        self.owned(self.hub.trying().get()?)
    }

    pub(crate) fn owned(&self, taken: Taken) -> Result<Owned, HubError> {
        let Taken::Block { token, abandoned, .. } = taken else {
            return Err(self.hub.about.wrong_answer());
        };
        Ok(Owned { hub: self.hub.clone(), token, abandoned, released: false })
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
