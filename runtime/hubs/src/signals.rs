//! Hubs without values: events and counting semaphores.

use tombolo_hub::{Fault, Kind};

use crate::HubError;
use crate::hub::{Hub, Pending};
use crate::task::Task;

/// Event: one bit that a task raises, and another task awaits and clears.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) hub: Hub,
}

/// Counting semaphore, from 0 to its capacity.
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(crate) hub: Hub,
}

impl Task {
    /// Opens an event, waiting for its name up to the deadline of the task.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn event(&self, name: &str) -> Result<Event, HubError> {
        Ok(Event { hub: self.hub(name, &[Kind::Event], "")? })
    }

    /// Opens a semaphore, waiting for its name up to the deadline of the task.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`].
    pub fn semaphore(&self, name: &str) -> Result<Semaphore, HubError> {
        Ok(Semaphore { hub: self.hub(name, &[Kind::Semaphore], "")? })
    }
}

impl Event {
    /// Returns the hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Raises the event; waits while it is raised and was not cleared yet.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], [`Fault::Closed`], [`HubError::Lost`].
    pub fn raise(&self) -> Result<(), HubError> {
        self.hub.put(&[])
    }

    /// Async version of [`raise`](Self::raise).
    ///
    /// # Errors
    /// Same as [`raise`](Self::raise).
    pub async fn raise_async(&self) -> Result<(), HubError> {
        self.hub.start_put(&[])?.wait_async().await.map(drop)
    }

    /// Raises the event if it is not raised. Returns whether it did.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`HubError::Lost`].
    pub fn set(&self) -> Result<bool, HubError> {
        match self.hub.nonblocking().put(&[]) {
            Ok(()) => Ok(true),
            Err(error) if error.fault() == Some(Fault::WouldBlock) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the event is raised, and clears it.
    ///
    /// # Errors
    /// Same as [`raise`](Self::raise).
    pub fn wait(&self) -> Result<(), HubError> {
        self.hub.get().map(drop)
    }

    /// Async version of [`wait`](Self::wait).
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub async fn wait_async(&self) -> Result<(), HubError> {
        self.hub.start_get()?.wait_async().await.map(drop)
    }

    /// Closes the event: raises fail from now on, and waits fail once it is cleared.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        self.hub.close()
    }
}

impl Semaphore {
    /// Returns the hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Increases the count by one; waits while it is at its maximum.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], [`Fault::Closed`], [`HubError::Lost`].
    pub fn signal(&self) -> Result<(), HubError> {
        self.hub.put(&[])
    }

    /// Starts the operation of [`signal`](Self::signal) without waiting for its end. The task's next
    /// operations on this node find it done, unless the count is at its maximum.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn start_signal(&self) -> Result<Pending, HubError> {
        self.hub.start_put(&[])
    }

    /// Async version of [`signal`](Self::signal).
    ///
    /// # Errors
    /// Same as [`signal`](Self::signal).
    pub async fn signal_async(&self) -> Result<(), HubError> {
        self.hub.start_put(&[])?.wait_async().await.map(drop)
    }

    /// Waits until the count is positive, and decreases it.
    ///
    /// # Errors
    /// Same as [`signal`](Self::signal).
    pub fn wait(&self) -> Result<(), HubError> {
        self.hub.get().map(drop)
    }

    /// Async version of [`wait`](Self::wait).
    ///
    /// # Errors
    /// Same as [`wait`](Self::wait).
    pub async fn wait_async(&self) -> Result<(), HubError> {
        self.hub.start_get()?.wait_async().await.map(drop)
    }

    /// Decreases the count if it is positive.
    ///
    /// # Errors
    /// Same as [`signal`](Self::signal), with [`Fault::WouldBlock`].
    pub fn try_wait(&self) -> Result<(), HubError> {
        self.hub.nonblocking().get().map(drop)
    }

    /// Returns the count. Only a hint: other tasks change it concurrently.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn count(&self) -> Result<u32, HubError> {
        Ok(self.hub.status()?.depth)
    }

    /// Closes the semaphore: signals fail from now on, and waits fail once the count is 0.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        self.hub.close()
    }
}
