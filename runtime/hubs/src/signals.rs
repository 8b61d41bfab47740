//! Hubs without values: events and counting semaphores.

use tombolo_hub::{Fault, Kind};

use crate::HubError;
use crate::hub::{Hub, Pending};
use crate::task::Task;

/// An event: one bit, which a task raises and another awaits and clears.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) hub: Hub,
}

/// A counting semaphore, from 0 to its capacity.
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
    /// The hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Raises it, waiting while it is raised and was not awaited yet.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], [`Fault::Closed`], [`HubError::Lost`].
    pub fn raise(&self) -> Result<(), HubError> {
        self.hub.put(&[])
    }

    /// [`raise`](Self::raise) as a future.
    ///
    /// # Errors
    /// As [`raise`](Self::raise).
    pub async fn raise_async(&self) -> Result<(), HubError> {
        self.hub.start_put(&[])?.wait_async().await.map(drop)
    }

    /// Raises it, if it was not raised already: whether it was not.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`HubError::Lost`].
    pub fn set(&self) -> Result<bool, HubError> {
        match self.hub.trying().put(&[]) {
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
        self.hub.get().map(drop)
    }

    /// [`wait`](Self::wait) as a future.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_async(&self) -> Result<(), HubError> {
        self.hub.start_get()?.wait_async().await.map(drop)
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        self.hub.close()
    }
}

impl Semaphore {
    /// The hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Increases the count by one, waiting while it is as high as it can be.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], [`Fault::Closed`], [`HubError::Lost`].
    pub fn signal(&self) -> Result<(), HubError> {
        self.hub.put(&[])
    }

    /// Begins what [`signal`](Self::signal) does, and does not wait for its end: the task's next operations
    /// on this node find it done, unless the count is as high as it can be.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn start_signal(&self) -> Result<Pending, HubError> {
        self.hub.start_put(&[])
    }

    /// [`signal`](Self::signal) as a future.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub async fn signal_async(&self) -> Result<(), HubError> {
        self.hub.start_put(&[])?.wait_async().await.map(drop)
    }

    /// Waits until the count is positive, and decreases it.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub fn wait(&self) -> Result<(), HubError> {
        self.hub.get().map(drop)
    }

    /// [`wait`](Self::wait) as a future.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_async(&self) -> Result<(), HubError> {
        self.hub.start_get()?.wait_async().await.map(drop)
    }

    /// Decreases the count if it is positive.
    ///
    /// # Errors
    /// As [`signal`](Self::signal), with [`Fault::WouldBlock`].
    pub fn try_wait(&self) -> Result<(), HubError> {
        self.hub.trying().get().map(drop)
    }

    /// The count; a hint, for others change it meanwhile.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn count(&self) -> Result<u32, HubError> {
        Ok(self.hub.status()?.depth)
    }

    /// Closes it: those that wait learn it when the count is 0.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`], [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        self.hub.close()
    }
}
