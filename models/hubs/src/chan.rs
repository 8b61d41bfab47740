//! Channels of values that any number of tasks fill and empty: ports and fifos.

use std::marker::PhantomData;

use tombolo_hub::{Kind, Operation, Outcome, Taken};

use crate::task::{Hub, Task};
use crate::{HubError, Unsent, Value};

/// A port or a fifo. Go's unbuffered channel is a port: a value is sent when a receiver takes it. Go's
/// buffered channel is a fifo: a value is sent when it is in the store.
#[derive(Clone, Debug)]
pub struct Chan<T> {
    pub(crate) task: Task,
    pub(crate) hub: Hub,
    values: PhantomData<fn() -> T>,
}

impl Task {
    /// Opens a port or a fifo, waiting for its name up to the deadline of the task.
    ///
    /// # Errors
    /// [`HubError::Unknown`], [`HubError::OtherKind`], [`HubError::OtherType`].
    pub fn chan<T: Value>(&self, name: &str) -> Result<Chan<T>, HubError> {
        self.chan_of(name, &[Kind::Port, Kind::Fifo])
    }

    /// Opens a port, as [`chan`](Self::chan) does.
    ///
    /// # Errors
    /// As [`chan`](Self::chan).
    pub fn port<T: Value>(&self, name: &str) -> Result<Chan<T>, HubError> {
        self.chan_of(name, &[Kind::Port])
    }

    /// Opens a fifo, as [`chan`](Self::chan) does.
    ///
    /// # Errors
    /// As [`chan`](Self::chan).
    pub fn fifo<T: Value>(&self, name: &str) -> Result<Chan<T>, HubError> {
        self.chan_of(name, &[Kind::Fifo])
    }

    fn chan_of<T: Value>(&self, name: &str, kinds: &'static [Kind]) -> Result<Chan<T>, HubError> {
        let hub = self.open(name, kinds, T::TYPE)?;
        Ok(Chan { task: self.clone(), hub, values: PhantomData })
    }
}

impl<T: Value> Chan<T> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.hub.name
    }

    /// The node that it is on.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.hub.node
    }

    /// How many values it holds; 0 for a port.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.hub.capacity
    }

    /// Sends a value, waiting up to the deadline of the task: for a receiver, or for room.
    ///
    /// # Errors
    /// The value comes back. [`Fault::Closed`](crate::Fault::Closed),
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::TooLong`](crate::Fault::TooLong),
    /// [`HubError::Lost`].
    pub fn send(&self, value: T) -> Result<(), Unsent<T>> {
        self.send_by(&self.task, value)
    }

    /// Sends a value if that is possible at once.
    ///
    /// # Errors
    /// As [`send`](Self::send), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_send(&self, value: T) -> Result<(), Unsent<T>> {
        self.send_by(&self.task.within(std::time::Duration::ZERO), value)
    }

    fn send_by(&self, task: &Task, value: T) -> Result<(), Unsent<T>> {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        match task.operate(&self.hub, Operation::Put { value: &bytes }) {
            Ok(_) => Ok(()),
            Err(error) => Err(Unsent { error, value }),
        }
    }

    /// Receives a value, waiting up to the deadline of the task.
    ///
    /// # Errors
    /// [`Fault::Closed`](crate::Fault::Closed) when it was closed and is empty,
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`HubError::Lost`].
    pub fn recv(&self) -> Result<T, HubError> {
        let taken = self.task.operate(&self.hub, Operation::Get)?;
        self.value(taken)
    }

    /// Receives a value if one is there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_recv(&self) -> Result<T, HubError> {
        let taken = self.task.within(std::time::Duration::ZERO).operate(&self.hub, Operation::Get)?;
        self.value(taken)
    }

    pub(crate) fn value(&self, taken: Taken) -> Result<T, HubError> {
        let bytes = if let Taken::Value(bytes) = taken { bytes } else { Box::default() };
        T::decode(&bytes).ok_or_else(|| HubError::BadValue {
            hub: self.hub.name.clone(),
            node: self.hub.node.clone(),
            wanted: T::TYPE,
            bytes: bytes.len(),
        })
    }

    /// Closes it: sends fail from now on, and receivers learn it when it is empty.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`](crate::Fault::AlreadyClosed), [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        match self.task.ask(&self.hub, Operation::Close)? {
            Outcome::Done(_) => Ok(()),
            _ => wrong_answer(&self.hub),
        }
    }

    /// How many values are in it; a hint, for others send and receive meanwhile.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn len(&self) -> Result<u32, HubError> {
        match self.task.ask(&self.hub, Operation::Status)? {
            Outcome::Status(status) => Ok(status.depth),
            _ => wrong_answer(&self.hub),
        }
    }

    /// Whether it holds no value; a hint.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn is_empty(&self) -> Result<bool, HubError> {
        Ok(self.len()? == 0)
    }

    /// Receives until it is closed and empty.
    #[must_use]
    pub fn iter(&self) -> Values<'_, T> {
        Values { chan: self, ended: false }
    }
}

/// An answer that does not belong to what was asked.
pub(crate) fn wrong_answer<R>(hub: &Hub) -> Result<R, HubError> {
    let violation = tombolo_hub::Violation::Malformed(0);
    Err(HubError::Violation { node: hub.node.clone(), violation })
}

/// The values of a channel until it is closed and empty. An error, a wait that was too long say, is the last
/// item.
#[derive(Debug)]
pub struct Values<'c, T> {
    chan: &'c Chan<T>,
    ended: bool,
}

impl<T: Value> Iterator for Values<'_, T> {
    type Item = Result<T, HubError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let received = self.chan.recv();
        self.ended = received.is_err();
        match received {
            Err(error) if error.is_closed() => None,
            received => Some(received),
        }
    }
}

impl<'c, T: Value> IntoIterator for &'c Chan<T> {
    type Item = Result<T, HubError>;
    type IntoIter = Values<'c, T>;

    fn into_iter(self) -> Values<'c, T> {
        self.iter()
    }
}
