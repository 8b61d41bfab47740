//! Channels of values that any number of tasks send to and receive from: ports and fifos.

use std::marker::PhantomData;

use tombolo_hub::{Kind, Taken};

use crate::hub::Hub;
use crate::task::Task;
use crate::{HubError, Unsent, Value};

/// Port or fifo. A port corresponds to Go's unbuffered channel: a send completes when a receiver takes the
/// value. A fifo corresponds to Go's buffered channel: a send completes when the value is in the store.
#[derive(Clone, Debug)]
pub struct Chan<T> {
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
    /// Same as [`chan`](Self::chan).
    pub fn port<T: Value>(&self, name: &str) -> Result<Chan<T>, HubError> {
        self.chan_of(name, &[Kind::Port])
    }

    /// Opens a fifo, as [`chan`](Self::chan) does.
    ///
    /// # Errors
    /// Same as [`chan`](Self::chan).
    pub fn fifo<T: Value>(&self, name: &str) -> Result<Chan<T>, HubError> {
        self.chan_of(name, &[Kind::Fifo])
    }

    fn chan_of<T: Value>(&self, name: &str, kinds: &'static [Kind]) -> Result<Chan<T>, HubError> {
        Ok(Chan { hub: self.hub(name, kinds, &T::type_name())?, values: PhantomData })
    }
}

impl<T: Value> Chan<T> {
    /// Returns the hub, for its generic operations.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Name of the hub.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hub.name()
    }

    /// Name of the node that the hub is on.
    #[must_use]
    pub fn node(&self) -> &str {
        self.hub.node()
    }

    /// Maximum number of values in the store; 0 for a port.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.hub.capacity()
    }

    /// Sends a value, waiting up to the deadline of the task for a receiver or for room.
    ///
    /// # Errors
    /// Returns the value with [`Fault::Closed`](crate::Fault::Closed),
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`Fault::TooLong`](crate::Fault::TooLong) or
    /// [`HubError::Lost`].
    pub fn send(&self, value: T) -> Result<(), Unsent<T>> {
        put_value(&self.hub, value)
    }

    /// Sends a value if that is possible immediately.
    ///
    /// # Errors
    /// Same as [`send`](Self::send), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_send(&self, value: T) -> Result<(), Unsent<T>> {
        put_value(&self.hub.nonblocking(), value)
    }

    /// Async [`send`](Self::send). If the future is dropped before it is ready, the value may have been sent.
    ///
    /// # Errors
    /// Same as [`send`](Self::send).
    pub async fn send_async(&self, value: T) -> Result<(), Unsent<T>> {
        let sent = async { self.hub.start_put(&bytes_of(&value))?.wait_async().await };
        match sent.await {
            Ok(_) => Ok(()),
            Err(error) => Err(Unsent { error, value }),
        }
    }

    /// Receives a value, waiting up to the deadline of the task.
    ///
    /// # Errors
    /// [`Fault::Closed`](crate::Fault::Closed) if the channel is closed and empty,
    /// [`Fault::TimedOut`](crate::Fault::TimedOut), [`HubError::Lost`].
    pub fn recv(&self) -> Result<T, HubError> {
        self.value(self.hub.get()?)
    }

    /// Async [`recv`](Self::recv). If the future is dropped, a value that arrives for it goes to the next
    /// receive.
    ///
    /// # Errors
    /// Same as [`recv`](Self::recv).
    pub async fn recv_async(&self) -> Result<T, HubError> {
        self.value(self.hub.start_get()?.wait_async().await?)
    }

    /// Receives a value if there is one.
    ///
    /// # Errors
    /// Same as [`recv`](Self::recv), with [`Fault::WouldBlock`](crate::Fault::WouldBlock).
    pub fn try_recv(&self) -> Result<T, HubError> {
        self.value(self.hub.nonblocking().get()?)
    }

    pub(crate) fn value(&self, taken: Taken) -> Result<T, HubError> {
        let bytes = if let Taken::Value(bytes) = taken { bytes } else { Box::default() };
        self.decode(&bytes)
    }

    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<T, HubError> {
        T::decode(bytes).ok_or_else(|| HubError::BadValue {
            hub: self.hub.name().to_owned(),
            node: self.hub.node().to_owned(),
            wanted: T::type_name(),
            bytes: bytes.len(),
        })
    }

    /// Closes the channel: sends fail from now on, and receives fail once it is empty.
    ///
    /// # Errors
    /// [`Fault::AlreadyClosed`](crate::Fault::AlreadyClosed), [`HubError::Lost`].
    pub fn close(&self) -> Result<(), HubError> {
        self.hub.close()
    }

    /// Returns the number of values in the store. Only a hint: other tasks send and receive concurrently.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn len(&self) -> Result<u32, HubError> {
        Ok(self.hub.status()?.depth)
    }

    /// Whether the store is empty. Only a hint.
    ///
    /// # Errors
    /// [`HubError::Lost`].
    pub fn is_empty(&self) -> Result<bool, HubError> {
        Ok(self.len()? == 0)
    }

    /// Iterates over the values until the channel is closed and empty.
    #[must_use]
    pub fn iter(&self) -> Values<'_, T> {
        Values { chan: self, ended: false }
    }
}

pub(crate) fn bytes_of<T: Value>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

fn put_value<T: Value>(hub: &Hub, value: T) -> Result<(), Unsent<T>> {
    hub.put(&bytes_of(&value)).map_err(|error| Unsent { error, value })
}

/// Iterator over the values of a channel, until it is closed and empty. An error, for example a timeout, is
/// the last item.
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
