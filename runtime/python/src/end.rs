//! End of a channel, as used by channels, clients and servers.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tombolo::{Channel, Error, Interest, Message, Token, TransportKind, WaitSet, wait_any};

use crate::failure::Failure;
use crate::wait::{Deadline, wait};

/// Number of polls before other Python threads may run: about as long as releasing the interpreter and
/// acquiring it again takes.
const SPIN_POLLS: u32 = 400;

/// One end of a channel.
#[derive(Debug)]
pub(crate) struct End {
    carrier: Carrier,
    /// Whether a poll costs no more than some loads from memory.
    polled: bool,
}

#[derive(Debug)]
enum Carrier {
    /// Alone, as it was opened.
    Alone(Box<Channel>),
    /// In a waitset of its own, which provides a descriptor.
    InSet(Box<WaitSet>, Token),
    /// Closed by this program.
    Closed,
}

impl End {
    pub(crate) fn new(channel: Channel) -> End {
        let polled = channel.transport() != TransportKind::Socket;
        End { carrier: Carrier::Alone(Box::new(channel)), polled }
    }

    /// Returns the channel.
    ///
    /// # Errors
    /// An error if it was closed here.
    #[inline]
    pub(crate) fn channel(&mut self) -> Result<&mut Channel, Failure> {
        let channel = match &mut self.carrier {
            Carrier::Alone(channel) => Some(&mut **channel),
            Carrier::InSet(set, token) => set.get_mut(*token),
            Carrier::Closed => None,
        };
        channel.ok_or_else(closed)
    }

    /// Closes the channel; closing again has no effect.
    pub(crate) fn close(&mut self) {
        self.carrier = Carrier::Closed;
    }

    /// Returns this end for another owner; this object is closed.
    ///
    /// # Errors
    /// An error if it was closed here.
    pub(crate) fn take(&mut self) -> Result<End, Failure> {
        match std::mem::replace(&mut self.carrier, Carrier::Closed) {
            Carrier::Closed => Err(closed()),
            carrier => Ok(End { carrier, polled: self.polled }),
        }
    }

    /// Sends a message, waiting for room.
    pub(crate) fn send(&mut self, py: Python<'_>, message: &[u8], timeout: Duration) -> Result<(), Failure> {
        let channel = self.channel()?;
        match channel.try_send(message) {
            Err(Error::WouldBlock) if !timeout.is_zero() => {
                wait(py, Deadline::new(timeout), |slice| channel.within(slice).send(message))
            }
            result => Ok(result?),
        }
    }

    /// Calls `read` with the next message, if there is one.
    #[inline]
    pub(crate) fn try_receive<R>(
        &mut self,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, Failure> {
        Ok(self.channel()?.try_recv_in_place(read)?)
    }

    /// Number of polls before other Python threads are allowed to run.
    #[inline]
    pub(crate) fn spin_polls(&self) -> u32 {
        if self.polled { SPIN_POLLS } else { 1 }
    }

    /// Waits until there is something to receive, including the end; other threads run meanwhile.
    pub(crate) fn wait_readable(&mut self, py: Python<'_>, until: Deadline) -> Result<(), Failure> {
        let channel = self.channel()?;
        let waited = wait(py, until, |slice| wait_any(&mut [&mut *channel], slice).map(drop));
        waited.map_err(|failure| match failure {
            Failure::Facade(Error::TimedOut { timeout, .. }) => {
                let what = format!("anything from domain {} on {}", channel.peer(), channel.peer_node());
                Error::TimedOut { what, timeout }.into()
            }
            failure => failure,
        })
    }

    /// Waits for the next message and returns it.
    pub(crate) fn receive<'py>(
        &mut self,
        py: Python<'py>,
        timeout: Duration,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let look = |end: &mut End| end.try_receive(|message| to_bytes(py, message))?.transpose();
        if let Some(message) = look(self)? {
            return Ok(message);
        }
        if timeout.is_zero() {
            return Err(Error::WouldBlock.into());
        }
        for _ in 0..self.spin_polls() {
            if let Some(message) = look(self)? {
                return Ok(message);
            }
            std::hint::spin_loop();
        }
        let until = Deadline::new(timeout);
        loop {
            self.wait_readable(py, until)?;
            if let Some(message) = look(self)? {
                return Ok(message);
            }
        }
    }

    /// Moves the channel into a waitset, if it is not in one yet.
    fn set(&mut self) -> Result<(&mut WaitSet, Token), Failure> {
        if matches!(self.carrier, Carrier::Alone(_)) {
            let mut set = Box::new(WaitSet::new()?);
            let Carrier::Alone(channel) = std::mem::replace(&mut self.carrier, Carrier::Closed) else {
                return Err(closed());
            };
            match set.add(*channel) {
                Ok(token) => self.carrier = Carrier::InSet(set, token),
                Err(refused) => {
                    self.carrier = Carrier::Alone(Box::new(refused.kept));
                    return Err(refused.error.into());
                }
            }
        }
        match &mut self.carrier {
            Carrier::InSet(set, token) => Ok((set, *token)),
            _ => Err(closed()),
        }
    }

    /// Descriptor for event loops, which belongs to this end.
    pub(crate) fn descriptor(&mut self) -> Result<i32, Failure> {
        Ok(self.set()?.0.as_fd().as_raw_fd())
    }

    /// Prepares to wait for the descriptor. Returns true if there is something to do now.
    pub(crate) fn arm(&mut self, for_room: bool) -> Result<bool, Failure> {
        let (set, token) = self.set()?;
        set.set_interest(token, if for_room { Interest::ReadWrite } else { Interest::Read });
        match set.wait(Duration::ZERO) {
            Ok(_) => Ok(true),
            Err(Error::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn closed() -> Failure {
    Failure::new(
        "Closed",
        "this end of the channel cannot be used: it was closed, or a client or server has taken it",
    )
}

/// Copies a message once, from the ring to a Python object.
fn to_bytes<'py>(py: Python<'py>, message: &Message<'_>) -> Result<Bound<'py, PyBytes>, Failure> {
    let copy = |target: &mut [u8]| {
        let _length = message.copy_to(target).map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(())
    };
    Ok(PyBytes::new_with(py, message.len(), copy)?)
}
